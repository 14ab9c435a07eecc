//! Frames as addr2line and llvm-symbolizer print them, and the reasons of those that are missing.

use std::collections::BTreeMap;
use std::io::{self, Write};

use unhex_api::symbolize::{Frame, ModuleAnswer, ModuleStatus};

use super::input::HexAddress;

/// Whose output it looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Style {
    /// llvm-symbolizer: function, then `file:line:column`.
    Llvm,
    /// `addr2line -f -i`: function, then `file:line`, no empty lines.
    Gnu,
}

/// How answers are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout<'a> {
    /// Whose output it looks like.
    pub(super) style: Style,
    /// How many addresses were asked for.
    pub(super) count: usize,
    /// The addresses, where each is written before its frames.
    pub(super) addresses: Option<&'a [HexAddress]>,
}

/// Two answers on one module, one after the other.
pub(super) fn merge(mut before: ModuleAnswer, after: ModuleAnswer) -> ModuleAnswer {
    match (&mut before.frames, after.frames) {
        (Some(frames), Some(more)) => frames.extend(more),
        _ => return after_loss(before, after.status),
    }
    if let (Some(reasons), Some(more)) = (&mut before.reasons, after.reasons) {
        reasons.extend(more);
    }
    before
}

/// The symbols went away or came between two requests: nothing is said rather than half.
fn after_loss(before: ModuleAnswer, status: ModuleStatus) -> ModuleAnswer {
    ModuleAnswer {
        status: if before.status == ModuleStatus::Found {
            status
        } else {
            before.status
        },
        frames: None,
        reasons: None,
        ..before
    }
}

/// Writes the frames of each address, in their order.
///
/// # Errors
/// If `out` is closed.
pub(super) fn write_answers(
    out: &mut impl Write,
    answer: &ModuleAnswer,
    layout: Layout<'_>,
) -> io::Result<()> {
    let style = layout.style;
    for index in 0..layout.count {
        if let Some(address) = layout.addresses.and_then(|addresses| addresses.get(index)) {
            writeln!(out, "{address}")?;
        }
        let frames = answer.frames.as_ref().and_then(|frames| frames.get(index));
        match frames.map(Vec::as_slice).unwrap_or_default() {
            [] => write_frame(out, &Frame::default(), style)?,
            frames => {
                for frame in frames {
                    write_frame(out, frame, style)?;
                }
            }
        }
        if style == Style::Llvm {
            writeln!(out)?;
        }
    }
    Ok(())
}

fn write_frame(out: &mut impl Write, frame: &Frame, style: Style) -> io::Result<()> {
    let unknown = "??";
    writeln!(out, "{}", frame.function.as_deref().unwrap_or(unknown))?;
    let file = frame.file.as_deref().unwrap_or(unknown);
    match style {
        Style::Llvm => writeln!(out, "{file}:{}:{}", frame.line, frame.column),
        Style::Gnu if frame.line == 0 && frame.file.is_some() => writeln!(out, "{file}:?"),
        Style::Gnu => writeln!(out, "{file}:{}", frame.line),
    }
}

/// Why there are no frames: of the module, and of its addresses counted by reason.
pub(super) fn reasons(answer: &ModuleAnswer) -> Vec<String> {
    let mut words = Vec::new();
    if answer.status != ModuleStatus::Found {
        let detail = answer
            .detail
            .as_deref()
            .unwrap_or("the server does not say why");
        words.push(format!(
            "{} is {}: {detail}",
            answer.build_id,
            answer.status.as_str()
        ));
    }
    let mut counts = BTreeMap::new();
    for reason in answer.reasons.iter().flatten().flatten() {
        *counts.entry(reason.as_str()).or_insert(0_u64) += 1;
    }
    words.extend(counts.iter().map(|(reason, count)| match count {
        1 => format!("1 address: {reason}"),
        _ => format!("{count} addresses: {reason}"),
    }));
    words
}

#[cfg(test)]
mod tests {
    use unhex_api::symbolize::Reason;

    use super::*;

    fn answer() -> ModuleAnswer {
        serde_json::from_value(serde_json::json!({
            "build_id": "9a0f", "status": "found", "quality": "dwarf_inlines", "origin": "upload",
            "frames": [
                [{"function": "inner", "file": "/src/in.c", "line": 3, "column": 7, "inlined": true},
                 {"function": "outer", "file": "/src/in.c", "line": 8, "offset": 21}],
                [],
            ],
            "reasons": [null, "no_function"],
        }))
        .unwrap()
    }

    fn written(style: Style, addresses: Option<&[HexAddress]>) -> String {
        let mut out = Vec::new();
        let layout = Layout {
            style,
            count: 2,
            addresses,
        };
        write_answers(&mut out, &answer(), layout).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn llvm_style_has_columns_and_an_empty_line_after_each_address() {
        let expected = "inner\n/src/in.c:3:7\nouter\n/src/in.c:8:0\n\n??\n??:0:0\n\n";
        assert_eq!(written(Style::Llvm, None), expected);
    }

    #[test]
    fn gnu_style_has_lines_and_addresses_where_asked_for() {
        let addresses = [HexAddress(0x1139), HexAddress(0x10)];
        let expected = "0x1139\ninner\n/src/in.c:3\nouter\n/src/in.c:8\n0x10\n??\n??:0\n";
        assert_eq!(written(Style::Gnu, Some(&addresses)), expected);
    }

    #[test]
    fn reasons_are_counted() {
        assert_eq!(reasons(&answer()), ["1 address: no_function"]);
        let mut unknown = answer();
        unknown.status = ModuleStatus::UnknownBuildId;
        unknown.detail = Some("upload its debug file".to_owned());
        unknown.reasons = Some(vec![Some(Reason::OutsideModule); 2]);
        let expected = [
            "9a0f is unknown_build_id: upload its debug file",
            "2 addresses: outside_module",
        ];
        assert_eq!(reasons(&unknown), expected);
    }

    #[test]
    fn parts_are_put_together_in_order() {
        let whole = merge(answer(), answer());
        assert_eq!(whole.frames.unwrap().len(), 4);
        assert_eq!(whole.reasons.unwrap().len(), 4);
        let mut lost = answer();
        lost.frames = None;
        lost.status = ModuleStatus::Unavailable;
        let whole = merge(answer(), lost);
        assert_eq!(
            (whole.status, whole.frames),
            (ModuleStatus::Unavailable, None)
        );
    }
}
