//! speedscope's file format: one sampled profile whose samples are the paths of a tree.

use serde::Serialize;

use super::heading::Heading;
use super::profile_type::ProfileType;
use super::tree::{Label, Tree};

/// Where the format is described.
const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

/// A file.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Speedscope {
    #[serde(rename = "$schema")]
    schema: &'static str,
    shared: Shared,
    profiles: [Sampled; 1],
    name: String,
    active_profile_index: u32,
    exporter: &'static str,
}

#[derive(Debug, Serialize)]
struct Shared {
    frames: Vec<Frame>,
}

#[derive(Debug, Serialize)]
struct Frame {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
}

/// Samples without times, the root first; so they lie next to each other from 0 to the total.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Sampled {
    #[serde(rename = "type")]
    kind: &'static str,
    name: String,
    unit: &'static str,
    start_value: i128,
    end_value: i128,
    samples: Vec<Vec<u32>>,
    weights: Vec<i128>,
}

/// The file of a tree.
pub fn speedscope(tree: &Tree, heading: &Heading) -> Speedscope {
    let mut frames = Vec::new();
    // By place of the function; the last is what was cut.
    let mut places = vec![None; tree.functions().len() + 1];
    let mut path = Vec::new();
    let (mut samples, mut weights) = (Vec::new(), Vec::new());
    for node in tree.nodes() {
        path.truncate((node.depth as usize).saturating_sub(1));
        if node.label != Label::Root {
            path.push(frame(tree, node.label, &mut places, &mut frames));
        }
        if node.own != 0 {
            samples.push(path.clone());
            weights.push(node.own);
        }
    }
    Speedscope {
        schema: SCHEMA,
        shared: Shared { frames },
        profiles: [Sampled {
            kind: "sampled",
            name: heading.subtitle.clone(),
            unit: unit(tree.profile_type()),
            start_value: 0,
            end_value: tree.total().value,
            samples,
            weights,
        }],
        name: format!("{} {}", heading.title, heading.subtitle),
        active_profile_index: 0,
        exporter: concat!("unhex-store ", env!("CARGO_PKG_VERSION")),
    }
}

fn frame(tree: &Tree, label: Label, places: &mut [Option<u32>], frames: &mut Vec<Frame>) -> u32 {
    let function = match label {
        Label::Function(place) => tree.functions().get(place as usize),
        Label::Root | Label::Other => None,
    };
    let slot = match label {
        Label::Function(place) => places.get_mut(place as usize),
        Label::Root | Label::Other => places.last_mut(),
    };
    if let Some(Some(known)) = slot {
        return *known;
    }
    let place = u32::try_from(frames.len()).unwrap_or(u32::MAX);
    let file = function.map(|function| function.file.to_string());
    frames.push(Frame {
        name: tree.name(label).to_owned(),
        file: file.filter(|file| !file.is_empty()),
    });
    if let Some(slot) = slot {
        *slot = Some(place);
    }
    place
}

/// The words that the format has; everything else has no unit there.
fn unit(profile_type: &ProfileType) -> &'static str {
    match profile_type.unit() {
        "nanoseconds" => "nanoseconds",
        "microseconds" => "microseconds",
        "milliseconds" => "milliseconds",
        "seconds" => "seconds",
        "bytes" => "bytes",
        _ => "none",
    }
}
