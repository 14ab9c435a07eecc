//! What is written is what is read, by single look-ups and in a batch.

use proptest::prelude::*;
use unhex_build_id::BuildId;

use super::models::{PlainFrame, addresses, model, path_of, plain_frames};
use crate::CONVERTER_VERSION;
use crate::address::LinkAddress;
use crate::index::{
    Batch, Facts, NAME_BYTES_MAX, NameBuffer, NameSet, ResolveOptions, SymbolIndex, WriteError,
    write,
};
use crate::model::{CallNode, Function, Model, ModelHeader, NONE, Row, SourcePath};
use crate::quality::Quality;
use crate::segments::{LoadSegment, LoadSegments};

pub(super) fn index_of(model: &Model) -> SymbolIndex<Vec<u8>> {
    let mut bytes = Vec::new();
    write(model.clone(), &mut bytes).expect("a sound model");
    let index = SymbolIndex::parse(bytes).expect("an index");
    index.verify().expect("checksums");
    index
}

fn single(index: &SymbolIndex<Vec<u8>>, address: u64) -> Vec<PlainFrame> {
    let mut buffer = NameBuffer::default();
    let frames = index.frames(LinkAddress(address)).expect("a sound index");
    let plain = |frame: crate::index::Frame| {
        let function = index
            .function(frame.function, NameSet::All, &mut buffer)
            .expect("names");
        let names = [
            function.linkage_name,
            function.full_name,
            function.short_name,
        ];
        let names = names.map(str::to_owned);
        let path = frame
            .file
            .map(|file| index.path(file, &mut buffer).expect("a path").to_owned());
        assert_eq!(frame.inlined, frame.entry.is_none());
        PlainFrame {
            names,
            path,
            line: frame.line,
            column: frame.column,
            entry: frame.entry.map(|entry| entry.0),
        }
    };
    frames.into_iter().map(plain).collect()
}

fn batched(batch: &Batch, place: usize) -> Vec<PlainFrame> {
    let plain = |frame: &crate::index::BatchFrame| {
        let function = batch.function(frame.function).expect("a function");
        let names = [
            function.linkage_name,
            function.full_name,
            function.short_name,
        ];
        PlainFrame {
            names: names.map(str::to_owned),
            path: batch.path(frame.file).map(str::to_owned),
            line: frame.line,
            column: frame.column,
            entry: frame.entry().map(|entry| entry.0),
        }
    };
    batch.frames_of(place).iter().map(plain).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn frames_are_those_of_the_model_one_by_one_and_in_a_batch(model in model()) {
        let index = index_of(&model);
        let addresses = addresses(&model);
        let mut batch = Batch::default();
        let linked: Vec<LinkAddress> = addresses.iter().map(|at| LinkAddress(*at)).collect();
        for _ in 0..2 {
            index.resolve(&linked, ResolveOptions::default(), &mut batch).expect("a small batch");
        }
        prop_assert_eq!(batch.damage(), None);
        for (place, &address) in addresses.iter().enumerate() {
            let expected = plain_frames(&model, address);
            prop_assert_eq!(&single(&index, address), &expected, "at {:#x}", address);
            prop_assert_eq!(&batched(&batch, place), &expected, "batch at {:#x}", address);
        }
    }

    #[test]
    fn only_the_names_that_are_asked_for_are_decoded(model in model()) {
        let index = index_of(&model);
        let linked: Vec<LinkAddress> = model.rows.iter().map(|row| LinkAddress(row.address)).collect();
        let mut all = Batch::default();
        index.resolve(&linked, ResolveOptions::default(), &mut all).expect("a small batch");
        for names in [NameSet::None, NameSet::Linkage, NameSet::Full, NameSet::Short] {
            let mut batch = Batch::default();
            index.resolve(&linked, ResolveOptions { names }, &mut batch).expect("a small batch");
            prop_assert_eq!(batch.frames(), all.frames());
            for number in 0..u32::try_from(all.functions().len()).expect("few") {
                let asked = batch.function(number).expect("a function");
                let full = all.function(number).expect("a function");
                let when = |set, name| if names == set { name } else { "" };
                prop_assert_eq!(asked.linkage_name, when(NameSet::Linkage, full.linkage_name));
                prop_assert_eq!(asked.full_name, when(NameSet::Full, full.full_name));
                prop_assert_eq!(asked.short_name, when(NameSet::Short, full.short_name));
            }
        }
    }

    #[test]
    fn declarations_and_attributes_come_back(model in model()) {
        let index = index_of(&model);
        let mut buffer = NameBuffer::default();
        for row in model.rows.iter().filter(|row| row.node != NONE) {
            let function = &model.functions[model.nodes[row.node as usize].function as usize];
            let frames = index.frames(LinkAddress(row.address)).expect("frames");
            let record = index.function(frames[0].function, NameSet::None, &mut buffer).expect("record");
            prop_assert_eq!(record.declaration_line, function.declaration_line);
            prop_assert_eq!(record.language, function.language);
            prop_assert_eq!(record.provenance, function.provenance);
            let file = record.declaration_file;
            let path = file.map(|file| index.path(file, &mut buffer).expect("path").to_owned());
            prop_assert_eq!(path, path_of(&model, function.declaration_file));
        }
    }

    #[test]
    fn the_same_model_gives_the_same_bytes(model in model()) {
        let bytes = || {
            let mut bytes = Vec::new();
            write(model.clone(), &mut bytes).expect("a sound model");
            bytes
        };
        prop_assert_eq!(bytes(), bytes());
    }
}

fn function(name: &str) -> Function {
    Function {
        linkage_name: name.to_owned(),
        full_name: name.to_owned(),
        short_name: name.to_owned(),
        declaration_file: NONE,
        ..Function::default()
    }
}

fn root(function: u32, entry: u64) -> CallNode {
    CallNode {
        function,
        parent: NONE,
        call_file: NONE,
        call_line: 0,
        call_column: 0,
        entry,
        size_bytes: 16,
    }
}

fn gap(address: u64) -> Row {
    Row {
        address,
        node: NONE,
        file: NONE,
        line: 0,
        column: 0,
    }
}

#[test]
fn an_empty_model_is_a_sound_index_without_frames() {
    let index = index_of(&Model::default());
    assert_eq!(index.frames(LinkAddress(0)), Ok(vec![]));
    let mut batch = Batch::default();
    let options = ResolveOptions::default();
    index
        .resolve(
            &[LinkAddress(1), LinkAddress(u64::MAX)],
            options,
            &mut batch,
        )
        .expect("a batch");
    assert_eq!((batch.spans().len(), batch.frames().len()), (2, 0));
}

#[test]
fn the_header_comes_back_whole() {
    let header = ModelHeader {
        build_id: Some(BuildId::from_bytes(&[0xab; 20]).expect("a build ID")),
        machine: 62,
        quality: Quality::DwarfInlines,
        units: 7,
        units_failed: 2,
        units_without_dwo: 1,
        needs_supplement: Some([1, 2, 3].into()),
        sources: vec![[7; 32], [9; 32]],
        segments: Some(LoadSegments(vec![LoadSegment {
            address: 0x40_1000,
            file_offset: 0x1000,
            file_size_bytes: 0x1e1,
            memory_size_bytes: 0x1e2,
            align: 0x1000,
            executable: true,
        }])),
    };
    let model = Model {
        header: header.clone(),
        rows: vec![
            Row {
                address: 16,
                node: 0,
                file: 0,
                line: 3,
                column: 0,
            },
            gap(32),
        ],
        nodes: vec![root(0, 16)],
        functions: vec![function("main"), function("unused")],
        files: vec![SourcePath {
            directory: String::new(),
            name: "a.c".to_owned(),
        }],
    };
    let expected = Facts {
        converter_version: CONVERTER_VERSION,
        build_id: header.build_id,
        machine: 62,
        quality: Quality::DwarfInlines,
        units: 7,
        units_failed: 2,
        units_without_dwo: 1,
        needs_supplement: header.needs_supplement,
        sources: header.sources,
        segments: header.segments,
        rows: 1,
        lines: 1,
        nodes: 1,
        functions: 1,
        files: 1,
    };
    assert_eq!(index_of(&model).facts(), Ok(expected));
}

#[test]
fn an_address_outside_every_function_has_no_frames_even_where_a_line_is_known() {
    let model = Model {
        rows: vec![
            Row {
                address: 16,
                node: NONE,
                file: 0,
                line: 3,
                column: 1,
            },
            Row {
                address: 32,
                node: 0,
                file: 0,
                line: 4,
                column: 1,
            },
            Row {
                address: 48,
                node: NONE,
                file: 0,
                line: 5,
                column: 1,
            },
        ],
        nodes: vec![root(0, 32)],
        functions: vec![function("main")],
        files: vec![SourcePath {
            directory: "/".to_owned(),
            name: "a.c".to_owned(),
        }],
        ..Model::default()
    };
    let index = index_of(&model);
    let frames = |at| index.frames(LinkAddress(at)).expect("frames").len();
    assert_eq!([16, 31, 32, 47, 48, 99].map(frames), [0, 0, 1, 1, 0, 0]);
}

#[test]
fn names_are_cut_at_the_limit_at_a_character() {
    let long = format!("a{}", "\u{4e16}".repeat(NAME_BYTES_MAX / 3 + 9));
    let mut named = function(&long);
    named.short_name = "\u{e9}".repeat(NAME_BYTES_MAX);
    let model = Model {
        rows: vec![
            Row {
                address: 16,
                node: 0,
                file: NONE,
                line: 3,
                column: 0,
            },
            gap(32),
        ],
        nodes: vec![root(0, 16)],
        functions: vec![named],
        ..Model::default()
    };
    let frames = single(&index_of(&model), 16);
    let [linkage, _, short] = &frames[0].names;
    assert!(
        long.starts_with(linkage.as_str())
            && (NAME_BYTES_MAX - 2..=NAME_BYTES_MAX).contains(&linkage.len())
    );
    assert_eq!(short.len(), NAME_BYTES_MAX);
}

#[test]
fn a_chain_ends_after_512_frames_in_a_batch_too() {
    let inlined = |parent: u32| CallNode {
        parent,
        call_file: NONE,
        call_line: parent,
        call_column: 0,
        entry: 0,
        size_bytes: 0,
        function: 0,
    };
    let mut nodes = vec![root(0, 16)];
    nodes.extend((0..2_000).map(inlined));
    let row = |(address, node)| Row {
        address,
        node,
        file: NONE,
        line: 1,
        column: 0,
    };
    let rows = [
        (16, 2_000),
        (17, 600),
        (18, 1_999),
        (19, 100),
        (20, 511),
        (21, 512),
    ]
    .map(row);
    let model = Model {
        rows: rows.into_iter().chain([gap(22)]).collect(),
        nodes,
        functions: vec![function("deep")],
        ..Model::default()
    };
    let index = index_of(&model);
    let addresses: Vec<LinkAddress> = (16..22).map(LinkAddress).collect();
    let mut batch = Batch::default();
    index
        .resolve(&addresses, ResolveOptions::default(), &mut batch)
        .expect("a batch");
    let lengths: Vec<u32> = batch.spans().iter().map(|span| span.length).collect();
    assert_eq!(lengths, [512, 512, 512, 101, 512, 512]);
    for (place, address) in addresses.iter().enumerate() {
        assert_eq!(batched(&batch, place), single(&index, address.0));
    }
}

#[test]
fn a_model_that_refers_to_nothing_is_refused() {
    let written = |model: Model| write(model, &mut Vec::new());
    let row = Row {
        address: 16,
        node: 5,
        file: NONE,
        line: 3,
        column: 0,
    };
    let model = Model {
        rows: vec![row],
        ..Model::default()
    };
    assert!(matches!(
        written(model),
        Err(WriteError::Model {
            what: "row",
            index: 0,
            ..
        })
    ));
    let model = Model {
        nodes: vec![root(3, 0)],
        ..Model::default()
    };
    assert!(matches!(
        written(model),
        Err(WriteError::Model {
            what: "node",
            index: 0,
            ..
        })
    ));
    let model = Model {
        rows: vec![gap(8), gap(8)],
        ..Model::default()
    };
    assert!(matches!(
        written(model),
        Err(WriteError::Model {
            what: "row",
            index: 1,
            ..
        })
    ));
}

#[test]
fn one_batch_serves_several_indexes_after_each_other() {
    let model = |name: &str| Model {
        rows: vec![
            Row {
                address: 16,
                node: 0,
                file: 0,
                line: 3,
                column: 0,
            },
            gap(32),
        ],
        nodes: vec![root(0, 16)],
        functions: vec![function(name)],
        files: vec![SourcePath {
            directory: "/src".to_owned(),
            name: format!("{name}.c"),
        }],
        ..Model::default()
    };
    let mut batch = Batch::default();
    for name in ["first", "second"] {
        let index = index_of(&model(name));
        index
            .resolve(&[LinkAddress(20)], ResolveOptions::default(), &mut batch)
            .expect("a batch");
        let frame = batch.frames_of(0)[0];
        assert_eq!(
            batch
                .function(frame.function)
                .expect("a function")
                .linkage_name,
            name
        );
        assert_eq!(
            batch.path(frame.file),
            Some(format!("/src/{name}.c").as_str())
        );
        assert_eq!(frame.offset_of(LinkAddress(20)), Some(4));
    }
}
