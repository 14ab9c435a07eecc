//! A flame graph as a picture that can be zoomed and searched in a browser, by inferno.

use std::io;

use inferno::flamegraph::{Direction, Options, TextTruncateDirection, from_lines};

use super::folded::{NameStyle, Path};
use super::heading::Heading;
use super::profile_type::ProfileType;
use super::tree::{Label, Tree};

/// Calls from the root that a picture shows, each 16 pixels high; what is deeper belongs to the last one that is shown.
pub const SVG_DEPTH_MAX: u32 = 512;
/// Characters of a name in a picture, where a box has room for 150; with the bounds on depth and nodes a picture cannot outgrow memory.
pub const SVG_NAME_CHARS_MAX: usize = 256;
/// The largest total that is drawn as it is. Above, all values are divided, since inferno adds up 64 bits.
const SVG_TOTAL_MAX: i128 = 1 << 60;

/// The picture.
///
/// # Errors
/// If inferno fails, which it has no reason to.
pub fn svg(tree: &Tree, heading: &Heading) -> io::Result<Vec<u8>> {
    let divisor = tree.total().value / SVG_TOTAL_MAX + 1;
    let mut lines = lines(tree, divisor);
    if lines.is_empty() {
        // inferno makes an error of a picture of nothing.
        lines.push("[no samples] 1".to_owned());
    }
    let mut options = options(tree.profile_type(), heading, divisor);
    let mut picture = Vec::new();
    // Lines of a chart are drawn from the last to the first, and not sorted.
    let texts = lines.iter().rev().map(String::as_str);
    from_lines(&mut options, texts, &mut picture)?;
    Ok(picture)
}

fn options(profile_type: &ProfileType, heading: &Heading, divisor: i128) -> Options<'static> {
    let mut options = Options::default();
    options.title = xml_text(heading.title.clone());
    options.subtitle = Some(xml_text(heading.subtitle.clone()));
    options.direction = Direction::Inverted;
    options.text_truncate_direction = TextTruncateDirection::Right;
    options.flame_chart = true;
    // The same function has the same colour in every picture.
    options.hash = true;
    options.deterministic = true;
    let (factor, unit) = match profile_type.unit() {
        "nanoseconds" => (1e-6, "ms"),
        "" => (1.0, "units"),
        unit => (1.0, unit),
    };
    options.factor = factor * approximately(divisor);
    unit.clone_into(&mut options.count_name);
    options
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a picture shows three digits of it"
)]
fn approximately(number: i128) -> f64 {
    number as f64
}

/// XML cannot have all characters, not even escaped, and a browser shows nothing of a picture that has others.
fn xml_text(text: String) -> String {
    let is_foreign = |c: char| matches!(c, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}');
    if text.contains(is_foreign) {
        return text.replace(is_foreign, "\u{fffd}");
    }
    text
}

/// Folded stacks in the order of the tree.
fn lines(tree: &Tree, divisor: i128) -> Vec<String> {
    let mut lines = Vec::new();
    let chars_max = SVG_NAME_CHARS_MAX;
    let mut path = Path::new(NameStyle::Picture { chars_max });
    for node in tree
        .nodes()
        .iter()
        .filter(|node| node.depth <= SVG_DEPTH_MAX)
    {
        let text = path.walk(tree, *node);
        let is_last = node.depth == SVG_DEPTH_MAX && node.label != Label::Other;
        let value = if is_last { node.total } else { node.own };
        let value = value / divisor;
        if value > 0 {
            lines.push(xml_text(format!("{text} {value}")));
        }
    }
    lines
}
