//! What a dictionary's attributes say of mappings and locations: identities, kinds of frame, and why stacks end.

use std::borrow::Cow;
use std::collections::HashMap;

use unhex_build_id::{IdKind, Identity};

use super::values::Values;
use crate::error::DecodeError;
use crate::limits::within;
use crate::model::{
    Binary, Frame, FrameKind, Function, FunctionId, Line, Profiles, Span, StringId, Value,
};
use crate::normalize::{self, ABORT_MARKER, Convention, IDENTITY_BYTES_MAX, Seen};

/// Attributes of a mapping that identify its file, best first: only a GNU build ID is asked for upstream, and a file hash
/// is made of any file, while Go's linker can be told to leave its ID out. `profiling` is the old name of `htlhash`.
pub(super) const IDENTITIES: [(&str, IdKind); 4] = [
    ("process.executable.build_id.gnu", IdKind::Gnu),
    ("process.executable.build_id.htlhash", IdKind::FileHash),
    ("process.executable.build_id.profiling", IdKind::FileHash),
    ("process.executable.build_id.go", IdKind::Go),
];

/// The attribute of a location that says what kind of code it is.
pub(super) const FRAME_TYPE: &str = "profile.frame.type";

/// Fills in what the attributes and the name of a mapping say. An ID that is none is passed over for the next best.
pub(super) fn identify(model: &Profiles<'_>, binary: &mut Binary) {
    let text = |key: &str| match model.find_attribute(binary.attributes, key) {
        Some(Value::Text(id)) if model.text(*id).len() <= IDENTITY_BYTES_MAX => model.text(*id),
        _ => "",
    };
    let mut found = IDENTITIES
        .iter()
        .filter_map(|(key, kind)| Identity::parse(*kind, text(key)).ok());
    binary.identity = found.next();
    binary.role = normalize::role(model.text(binary.file_name), binary.identity.is_some());
}

/// Gives frames their kind, and names to those whose kind says it all.
#[derive(Debug, Default)]
pub(super) struct Classifier {
    /// The functions `[cpython]` and the like, by the word.
    markers: HashMap<StringId, FunctionId>,
}

impl Classifier {
    /// The frame with its kind and language.
    pub(super) fn classified(
        &mut self,
        (model, values): (&mut Profiles<'_>, &Values),
        frame: Frame,
    ) -> Result<Frame, DecodeError> {
        let language = match model.find_attribute(frame.attributes, FRAME_TYPE) {
            Some(Value::Text(id)) => *id,
            _ => StringId::EMPTY,
        };
        let mapping = frame.binary.and_then(|id| model.binary(id));
        let last = model.lines(&frame).last();
        let function = last.and_then(|line| model.function(line.function));
        let word = model.text(language);
        let kind = normalize::frame_kind(Seen {
            convention: Convention::Linked,
            mapping: mapping.map(|binary| (binary.role, binary.extent)),
            address: frame.address,
            language: word,
            name: function.map(|function| model.text(function.name)),
        });
        let frame = Frame {
            kind,
            language,
            ..frame
        };
        if !frame.lines.is_empty() {
            return Ok(frame);
        }
        let marker = match kind {
            FrameKind::Truncated if word == ABORT_MARKER => {
                let name = format!(
                    "{}: unwinding error {}]",
                    normalize::TRUNCATED_PREFIX,
                    frame.address
                );
                marker((model, values), name)?
            }
            FrameKind::MissingUnwinder => {
                if let Some(function) = self.markers.get(&language) {
                    *function
                } else {
                    let name = format!("[{word}]");
                    let function = marker((model, values), name)?;
                    self.markers.insert(language, function);
                    function
                }
            }
            _ => return Ok(frame),
        };
        let start = model.lines.len();
        model.lines.push(Line {
            function: marker,
            ..Line::default()
        });
        Ok(Frame {
            lines: Span::since(start, &model.lines),
            ..frame
        })
    }
}

/// A function that is no function but says something.
fn marker(
    (model, values): (&mut Profiles<'_>, &Values),
    name: String,
) -> Result<FunctionId, DecodeError> {
    let name = values.text(model, Cow::Owned(name))?;
    model.functions.push(Function {
        name,
        ..Function::default()
    });
    within("functions", model.functions.len(), values.limits.functions)?;
    Ok(FunctionId::at(model.functions.len() - 1))
}
