//! Random models, and the answer that a plain walk over a model gives.

use proptest::prelude::*;

use crate::model::{
    CallNode, Function, Language, Model, ModelHeader, NONE, Provenance, Row, SourcePath,
};

/// A frame with its names spelled out: linkage, full, short, path, line, column, entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlainFrame {
    pub(super) names: [String; 3],
    pub(super) path: Option<String>,
    pub(super) line: u32,
    pub(super) column: u32,
    pub(super) entry: Option<u64>,
}

/// The frames at `address` by walking the model.
pub(super) fn plain_frames(model: &Model, address: u64) -> Vec<PlainFrame> {
    let mut frames = Vec::new();
    let behind = model.rows.partition_point(|row| row.address <= address);
    let Some(row) = behind.checked_sub(1).map(|at| model.rows[at]) else {
        return frames;
    };
    if address - row.address >= 1 << 32 {
        return frames; // a row is cut at 4 GiB
    }
    let (mut node, mut file, mut line, mut column) = (row.node, row.file, row.line, row.column);
    while node != NONE && frames.len() < 512 {
        let call = model.nodes[node as usize];
        let function = &model.functions[call.function as usize];
        let root = call.parent == NONE;
        frames.push(PlainFrame {
            names: [
                &function.linkage_name,
                &function.full_name,
                &function.short_name,
            ]
            .map(Clone::clone),
            path: path_of(model, file),
            line,
            column,
            entry: root.then_some(call.entry),
        });
        (file, line, column) = (call.call_file, call.call_line, call.call_column);
        node = call.parent;
    }
    frames
}

/// The joined path of a file of the model.
pub(super) fn path_of(model: &Model, file: u32) -> Option<String> {
    let SourcePath { directory, name } = model.files.get(file as usize)?;
    Some(match directory.as_str() {
        "" => name.clone(),
        directory if directory.ends_with('/') => format!("{directory}{name}"),
        directory => format!("{directory}/{name}"),
    })
}

/// Addresses that matter: around every row, and some others.
pub(super) fn addresses(model: &Model) -> Vec<u64> {
    let around = model.rows.iter().flat_map(|row| {
        [0u64, 1, 7, 0x1234, u64::from(u32::MAX), 1 << 32]
            .into_iter()
            .flat_map(|by| [row.address.wrapping_add(by), row.address.wrapping_sub(by)])
    });
    around.chain([0, 1, u64::MAX, 1 << 63]).collect()
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z_]{0,12}",
        4 => "_ZN4core3fmt[0-9][a-z]{1,20}17h[0-9a-f]{16}E",
        1 => "[^\0]{0,30}",
        1 => ("[a-f\u{e9}\u{4e16}]{2,9}").prop_map(|part| part.repeat(400)),
    ]
}

fn function(files: u32) -> impl Strategy<Value = Function> {
    let names = prop_oneof![
        3 => name().prop_map(|name| [name.clone(), name.clone(), name]),
        2 => (name(), name(), name()).prop_map(|(a, b, c)| {
            [a, format!("{b}<T>::{c}(int)"), format!("{b}::{c}")]
        }),
        2 => (name(), name()).prop_map(|(a, c)| [a, format!("void ns::{c}(char)"), c]),
        1 => [name(), name(), name()],
    ];
    let attributes = prop_oneof![
        3 => Just((Language::Cpp, Provenance::Dwarf)),
        1 => Just((Language::Rust, Provenance::Symtab)),
        1 => Just((Language::Other, Provenance::Minidebuginfo)),
    ];
    (names, file(files), position(), attributes).prop_map(
        |(
            [linkage_name, full_name, short_name],
            declaration_file,
            declaration_line,
            attributes,
        )| {
            Function {
                linkage_name,
                full_name,
                short_name,
                declaration_file,
                declaration_line,
                language: attributes.0,
                provenance: attributes.1,
            }
        },
    )
}

fn file(files: u32) -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0..files.min(4), 2 => 0..files, 1 => Just(NONE)]
}

fn position() -> impl Strategy<Value = u32> {
    prop_oneof![6 => 0u32..300, 2 => 0u32..100_000, 1 => Just(0), 1 => 0u32..(1 << 31) - 1]
}

fn distance() -> impl Strategy<Value = u64> {
    prop_oneof![
        40 => 1u64..16,
        8 => 1u64..5_000,
        1 => 1u64..(1 << 20),
        1 => (1u64 << 31)..(1 << 33),
    ]
}

#[derive(Clone, Debug)]
struct Shape {
    functions: Vec<Function>,
    files: Vec<SourcePath>,
}

fn shape() -> impl Strategy<Value = Shape> {
    let path = ("(/|/usr/[a-d]{1,3}|)", "[a-z]{0,8}\\.[ch]");
    let path = path.prop_map(|(directory, name)| SourcePath { directory, name });
    let files = prop_oneof![
        60 => prop::collection::vec(path, 1..60),
        1 => (65_520usize..65_600).prop_map(|count| {
            let name = |n| SourcePath { directory: format!("/d{}", n % 97), name: format!("{n}.c") };
            (0..count).map(name).collect()
        }),
    ];
    files.prop_flat_map(|files| {
        let count = u32::try_from(files.len()).expect("few files");
        let functions = prop::collection::vec(function(count), 1..60);
        (functions, Just(files)).prop_map(|(functions, files)| Shape { functions, files })
    })
}

fn nodes(shape: &Shape) -> impl Strategy<Value = Vec<CallNode>> + use<> {
    let functions = u32::try_from(shape.functions.len()).expect("few functions");
    let files = u32::try_from(shape.files.len()).expect("few files");
    let call = (file(files), position(), position());
    let root = (
        prop_oneof![any::<u64>(), 0..1u64 << 32],
        prop_oneof![any::<u64>(), 0..9_999u64],
    );
    let node = (
        0..functions,
        any::<prop::sample::Index>(),
        0..4u8,
        call,
        root,
    );
    prop::collection::vec(node, 1..150).prop_map(|drawn| {
        let node = |(number, (function, parent, kind, call, root)): (usize, _)| {
            let parent: prop::sample::Index = parent;
            let (call_file, call_line, call_column) = call;
            let (entry, size_bytes) = root;
            if kind == 0 || number == 0 {
                let call = CallNode {
                    function,
                    parent: NONE,
                    call_file: NONE,
                    call_line: 0,
                    call_column: 0,
                    entry,
                    size_bytes,
                };
                return call;
            }
            let back = parent.index(number.min(40));
            let parent = u32::try_from(number - 1 - back).expect("few nodes");
            CallNode {
                function,
                parent,
                call_file,
                call_line,
                call_column,
                entry: 0,
                size_bytes: 0,
            }
        };
        drawn.into_iter().enumerate().map(node).collect()
    })
}

fn rows(shape: &Shape, nodes: &[CallNode]) -> impl Strategy<Value = Vec<Row>> + use<> {
    let files = u32::try_from(shape.files.len()).expect("few files");
    let nodes = u32::try_from(nodes.len()).expect("few nodes");
    let node = prop_oneof![8 => 0..nodes, 1 => Just(NONE)];
    let row = (
        distance(),
        node,
        file(files),
        position(),
        position(),
        0..3u8,
    );
    let base = prop_oneof![
        Just(0x1000u64),
        Just(0xffff_ffff_8100_0000),
        any::<u32>().prop_map(u64::from)
    ];
    (base, prop::collection::vec(row, 0..400)).prop_map(|(base, drawn)| {
        let mut rows: Vec<Row> = Vec::new();
        let mut address = Some(base);
        for (distance, node, file, line, column, repeat) in drawn {
            let Some(at) = address else { break };
            let mut row = Row {
                address: at,
                node,
                file,
                line,
                column,
            };
            if let (1, Some(back)) = (repeat, rows.len().checked_sub(3)) {
                row = Row {
                    address: at,
                    ..rows[back]
                };
            }
            rows.push(row);
            address = at.checked_add(distance);
        }
        if let Some(at) = address {
            rows.push(Row {
                address: at,
                node: NONE,
                file: NONE,
                line: 0,
                column: 0,
            });
        }
        rows
    })
}

/// Models of all kinds.
pub(super) fn model() -> impl Strategy<Value = Model> {
    shape()
        .prop_flat_map(|shape| {
            let nodes = nodes(&shape);
            (Just(shape), nodes)
        })
        .prop_flat_map(|(shape, nodes)| {
            let rows = rows(&shape, &nodes);
            (Just(shape), Just(nodes), rows)
        })
        .prop_map(|(shape, nodes, rows)| Model {
            header: ModelHeader::default(),
            rows,
            nodes,
            functions: shape.functions,
            files: shape.files,
        })
}
