//! docs/symbol-index.md is true: an index read by that text alone says what the crate's reader says.

use std::fs;
use std::path::Path;

use unhex_symbols::address::LinkAddress;
use unhex_symbols::index::{NameBuffer, NameSet, SymbolIndex, write};
use unhex_symbols::model::{
    CallNode, Function, Language, Model, ModelHeader, NONE, Provenance, Row, SourcePath,
};
use unhex_symbols::quality::Quality;
use unhex_symbols::segments::{LoadSegment, LoadSegments};

use crate::plain_index::{PlainIndex, little, size, taken, varint};

/// A model that needs every part of the format: two segments, gaps, dictionaries, exceptions,
/// chains over block borders, names of all kinds.
pub(crate) fn model() -> Model {
    let files = (0..20).map(|number| SourcePath {
        directory: ["", "/", "/usr/src", "/usr/src/inner"][number % 4].to_owned(),
        name: format!("file_{number}.c"),
    });
    let mut rows: Vec<Row> = (0..400).map(row).collect();
    let end = rows.last().map_or(0, |row| row.address) + 9;
    rows.push(Row {
        address: end,
        node: NONE,
        file: NONE,
        line: 0,
        column: 0,
    });
    Model {
        header: header(),
        rows,
        nodes: (0..130).map(node).collect(),
        functions: (0..50).map(function).collect(),
        files: files.collect(),
    }
}

/// `value` in one case out of so many, else the other one.
fn every<T>(number: u32, cases: u32, value: T, other: T) -> T {
    if number.is_multiple_of(cases) {
        value
    } else {
        other
    }
}

fn function(number: u32) -> Function {
    let linkage_name = format!("_ZN4core5part{}17h{:016x}E", number / 3, number * 77);
    let full_name = match number % 4 {
        0 => linkage_name.clone(),
        _ => format!("core::part{}<T>::run(int)", number / 3),
    };
    let short_name = match number % 4 {
        0 | 1 => full_name.clone(),
        2 => format!("core::part{}", number / 3),
        _ => "run \u{e9}".to_owned(),
    };
    Function {
        linkage_name,
        full_name,
        short_name,
        declaration_file: every(number, 5, NONE, number % 4),
        declaration_line: number * 3,
        language: every(number, 7, Language::C, Language::Rust),
        provenance: every(number, 9, Provenance::Symtab, Provenance::Dwarf),
    }
}

fn node(number: u32) -> CallNode {
    let function = number * 7 % 50;
    if number.is_multiple_of(6) {
        return CallNode {
            function,
            parent: NONE,
            call_file: NONE,
            call_line: 0,
            call_column: 0,
            entry: 0x40_1000 + u64::from(number) * 8,
            size_bytes: u64::from(number) + 1,
        };
    }
    CallNode {
        function,
        parent: number - number % 6 + (number % 6) / 2,
        call_file: every(number + 7, 10, NONE, number * 7 % 4),
        call_line: number * 5,
        call_column: number % 11,
        entry: 0,
        size_bytes: 0,
    }
}

fn row(number: u32) -> Row {
    let far = if number >= 200 { 0x12_3456_7890 } else { 0 };
    let repeated = (number / 40 * 40 + number % 5).min(number);
    let node = repeated * 7 / 10 % 130;
    Row {
        address: 0x40_1000 + far + u64::from(number) * 9 + u64::from(number % 3),
        node: if number == 199 {
            NONE
        } else {
            every(number + 6, 13, NONE, node)
        },
        file: every(number, 17, NONE, node * 7 % 4 + number % 11 / 10),
        line: every(number + 18, 23, 0, 100 + repeated),
        column: repeated % 9,
    }
}

fn header() -> ModelHeader {
    ModelHeader {
        machine: 0x3e,
        quality: Quality::DwarfInlines,
        units: 3,
        units_failed: 2,
        units_without_dwo: 1,
        sources: vec![[0xaa; 32]],
        segments: Some(LoadSegments(vec![LoadSegment {
            address: 0x40_1000,
            file_offset: 0x1000,
            file_size_bytes: 0x300,
            memory_size_bytes: 0x400,
            align: 0x1000,
            executable: true,
        }])),
        ..ModelHeader::default()
    }
}

#[test]
fn an_index_read_by_the_documented_offsets_says_what_the_reader_says() {
    let model = model();
    let mut bytes = Vec::new();
    write(model.clone(), &mut bytes).expect("a sound model");
    let index = SymbolIndex::parse(&bytes[..]).expect("an index");
    index.verify().expect("checksums");
    let plain = PlainIndex {
        bytes: bytes.clone(),
    };
    let mut buffer = NameBuffer::default();
    let mut depth = 0;
    for row in &model.rows {
        for address in [row.address, row.address + 4] {
            let expected = plain.frames(address);
            let frames = index.frames(LinkAddress(address)).expect("frames");
            depth = depth.max(frames.len());
            let mut found = Vec::new();
            for frame in frames {
                let mut path = |file: Option<_>| {
                    let path = file.map(|file| index.path(file, &mut buffer).expect("a path"));
                    path.unwrap_or_default().to_owned()
                };
                let at = path(frame.file);
                let mut buffer = NameBuffer::default();
                let function = index
                    .function(frame.function, NameSet::All, &mut buffer)
                    .expect("a function");
                let names = [
                    function.linkage_name,
                    function.full_name,
                    function.short_name,
                ];
                found.push((
                    names.map(str::to_owned),
                    at,
                    frame.line,
                    frame.column,
                    frame.entry.map(|entry| (entry.0, frame.size_bytes)),
                    (path(function.declaration_file), function.declaration_line),
                    (function.language as u8, function.provenance as u8),
                ));
            }
            assert_eq!(found, expected, "at {address:#x}");
        }
    }
    assert!(depth > 3, "the model has chains");
    assert_eq!(plain.section(2).len() / 16, 2, "the model has two segments");
}

#[test]
fn the_facts_lie_at_the_documented_offsets() {
    let mut bytes = Vec::new();
    let facts = write(model(), &mut bytes).expect("a sound model");
    assert_eq!(&bytes[..8], b"UNHEXSYM");
    assert_eq!(little(&bytes, 8, 4), 1);
    assert_eq!(little(&bytes, 12, 4), u64::from(facts.converter_version));
    assert_eq!(little(&bytes, 24, 8), bytes.len() as u64);
    let plain = PlainIndex { bytes };
    let section = plain.section(1);
    let numbers = [
        (12, 2),
        (14, 1),
        (16, 8),
        (24, 8),
        (32, 4),
        (36, 4),
        (40, 4),
    ];
    let numbers = numbers.map(|(offset, bytes)| little(section, offset, bytes));
    assert_eq!(numbers, [0x3e, 5, facts.rows, facts.lines, 3, 2, 1]);
    let mut at = 44;
    assert_eq!(taken(section, &mut at), b"", "no build ID");
    assert_eq!(taken(section, &mut at), b"", "no supplement");
    assert_eq!(varint(section, &mut at), 1);
    assert_eq!(section[at..at + 32], [0xaa; 32]);
    at += 32;
    assert_eq!(varint(section, &mut at), 2, "one segment, and one");
    let numbers = [0, 8, 16, 24, 32].map(|offset| little(section, at + offset, 8));
    assert_eq!(numbers, [0x40_1000, 0x1000, 0x300, 0x400, 0x1000]);
    assert_eq!(section[at + 40..], [1]);
}

#[test]
fn the_document_lists_the_sections_that_are_written() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/symbol-index.md");
    let document = fs::read_to_string(document).expect("the document");
    let rows = document.lines().filter_map(|line| {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let kind: u64 = cells.next()?.parse().ok()?;
        let name = cells.next()?;
        name.starts_with(char::is_alphabetic)
            .then_some((kind, name.to_owned()))
    });
    let documented: Vec<(u64, String)> = rows.collect();
    let mut bytes = Vec::new();
    write(model(), &mut bytes).expect("a sound model");
    let written = (0..size(little(&bytes, 16, 4))).map(|entry| little(&bytes, 32 + 24 * entry, 4));
    let kinds: Vec<u64> = documented.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, written.collect::<Vec<u64>>(), "{documented:?}");
}
