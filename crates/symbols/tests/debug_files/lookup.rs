//! Look-ups in a model, as plain as can be, and in the index that is written from it.

use unhex_symbols::address::LinkAddress;
use unhex_symbols::convert::{ConvertLimits, ConvertSources, convert};
use unhex_symbols::index::{NameBuffer, NameSet, SymbolIndex, write};
use unhex_symbols::model::{Model, NONE};

/// One frame, innermost first.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Frame {
    pub(crate) function: String,
    pub(crate) file: String,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// Converts one debug file.
pub(crate) fn model_of(debuginfo: &[u8]) -> Model {
    let sources = ConvertSources {
        debuginfo: Some(debuginfo),
        ..ConvertSources::default()
    };
    convert(sources, &ConvertLimits::default()).unwrap()
}

/// The frames at an address; none where no function is.
pub(crate) fn frames(model: &Model, address: u64) -> Vec<Frame> {
    let after = model.rows.partition_point(|row| row.address <= address);
    let Some(row) = after.checked_sub(1).map(|at| model.rows[at]) else {
        return Vec::new();
    };
    let path = |file: u32| match model.files.get(file as usize) {
        Some(path) if path.directory.is_empty() => path.name.clone(),
        Some(path) if path.directory == "/" => format!("/{}", path.name),
        Some(path) => format!("{}/{}", path.directory, path.name),
        None => String::new(),
    };
    let mut frames = Vec::new();
    let (mut node, mut place) = (row.node, (row.file, row.line, row.column));
    while node != NONE {
        let call = model.nodes[node as usize];
        frames.push(Frame {
            function: model.functions[call.function as usize].linkage_name.clone(),
            file: path(place.0),
            line: place.1,
            column: place.2,
        });
        place = (call.call_file, call.call_line, call.call_column);
        node = call.parent;
    }
    frames
}

/// The index that is written from a model.
pub(crate) fn index_of(model: Model) -> SymbolIndex<Vec<u8>> {
    let mut bytes = Vec::new();
    write(model, &mut bytes).unwrap();
    let index = SymbolIndex::parse(bytes).unwrap();
    index.verify().unwrap();
    index
}

/// The frames at an address by the index.
pub(crate) fn frames_of_index(index: &SymbolIndex<Vec<u8>>, address: u64) -> Vec<Frame> {
    let mut buffer = NameBuffer::default();
    let frames = index.frames(LinkAddress(address)).unwrap();
    let frames = frames.iter().map(|frame| {
        let function = index
            .function(frame.function, NameSet::All, &mut buffer)
            .unwrap();
        let function = function.linkage_name.to_owned();
        let file = frame
            .file
            .map(|file| index.path(file, &mut buffer).unwrap().to_owned());
        Frame {
            function,
            file: file.unwrap_or_default(),
            line: frame.line,
            column: frame.column,
        }
    });
    frames.collect()
}
