//! Files that were made or damaged to break a converter: each is a model or a typed error.

use std::io::Write;

use unhex_symbols::convert::{ConvertError, ConvertLimits, ConvertSources, convert};
use unhex_symbols::elf::{ElfFile, ElfSummary};
use unhex_symbols::model::{Model, NONE};
use unhex_symbols::quality::Quality;
use unhex_testkit::hostile::{self, Cyclic, HeaderField, Hostile, SectionField};

use crate::toolchain::{Workshop, has_all};

fn convert_one(file: &[u8], limits: &ConvertLimits<'_>) -> Result<Model, ConvertError> {
    let sources = ConvertSources {
        debuginfo: Some(file),
        ..ConvertSources::default()
    };
    convert(sources, limits)
}

/// A small program with debug information; `None` without a compiler.
fn sound(name: &str) -> Option<Vec<u8>> {
    if !has_all(&[("g++", "g++")]) {
        return None;
    }
    let workshop = Workshop::new(name);
    workshop.write("small.cpp", include_str!("fixtures/small.cpp"));
    workshop.write("small.h", include_str!("fixtures/small.h"));
    workshop.run("g++", "-g -O2 -o small small.cpp");
    Some(workshop.read("small"))
}

#[test]
fn headers_that_refer_to_what_is_not_there_are_refused_in_words() {
    let Some(sound) = sound("forged-headers") else {
        return;
    };
    let count = hostile::Layout::of(&sound).sections.len();
    let said = |bytes: &[u8]| match ElfSummary::read(bytes) {
        Ok(_) => "nothing".to_owned(),
        Err(error) => error.to_string(),
    };
    let header = |field, value| said(&hostile::with_header(&sound, field, value));
    let symbols = |field, value| said(&hostile::with_section(&sound, ".symtab", field, value));
    assert_eq!(said(&sound), "nothing");
    assert_eq!(
        header(HeaderField::ProgramHeaderCount, 0xffff),
        "the ELF header says that section 0 has the number of program headers, which says 0 there: a \
         number below 65535 stands in the ELF header"
    );
    assert_eq!(
        header(HeaderField::SectionNames, 0xfeff),
        format!("the names of sections are said to be in section 65279, the file has {count}")
    );
    assert_eq!(header(HeaderField::SectionNames, 0), "nothing");
    for size in [0, 23] {
        assert_eq!(
            symbols(SectionField::EntrySize, size),
            format!("section .symtab says that each of its symbols has {size} bytes; they have 24")
        );
    }
    for index in [0, count, 0xffff_ffff] {
        assert_eq!(
            symbols(SectionField::Link, index as u64),
            format!(
                "the names of section .symtab are said to be in section {index}, the file has {count}"
            )
        );
    }
}

type Set = fn(&mut ConvertLimits<'_>);

/// A model holds together: sorted rows, and indexes that lead somewhere.
fn check(model: &Model) {
    assert!(model.rows.is_sorted_by(|a, b| a.address < b.address));
    for row in &model.rows {
        assert!(row.node == NONE || (row.node as usize) < model.nodes.len());
        assert!(row.file == NONE || (row.file as usize) < model.files.len());
    }
    for (number, node) in model.nodes.iter().enumerate() {
        assert!(node.parent == NONE || (node.parent as usize) < number);
        assert!((node.function as usize) < model.functions.len());
    }
}

#[test]
fn truncated_files_are_models_or_typed_errors() {
    let Some(sound) = sound("hostile") else {
        return;
    };
    let files = hostile::truncations(&sound);
    assert!(files.len() > 20);
    for Hostile { what, bytes } in files {
        match convert_one(&bytes, &ConvertLimits::default()) {
            Ok(model) => check(&model),
            Err(error) => assert!(!error.to_string().is_empty(), "{what}"),
        }
    }
}

/// What is found wrong with a file that is malformed.
fn malformed(file: &[u8]) -> String {
    match convert_one(file, &ConvertLimits::default()) {
        Err(error @ ConvertError::Malformed { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn entries_that_no_compiler_writes_are_damage_of_the_whole_file() {
    let Some(sound) = sound("deep-entries") else {
        return;
    };
    let deep = malformed(&hostile::nested_dies(&sound, 100_000));
    assert!(deep.starts_with("section .debug_info: at 0x"), "{deep}");
    assert!(
        deep.ends_with("entries are nested more than 16384 deep"),
        "{deep}"
    );
    let cyclic = |length, kind| hostile::cyclic_dies(&sound, length, kind);
    let cycles = [
        hostile::self_referring_dies(&sound),
        cyclic(1, Cyclic::Named),
        cyclic(2, Cyclic::Named),
        cyclic(1, Cyclic::WithoutCode),
        cyclic(500, Cyclic::WithoutCode),
        cyclic(3, Cyclic::Nameless),
        cyclic(1_000, Cyclic::Nameless),
        cyclic(1_000, Cyclic::Named),
    ];
    for cycle in cycles {
        let found = malformed(&cycle);
        assert!(found.contains("more than 64 times"), "{found}");
    }
}

#[test]
fn nesting_that_is_only_deep_is_read() {
    let Some(sound) = sound("quite-deep-entries") else {
        return;
    };
    let deep = hostile::nested_dies(&sound, 2_000);
    let model = convert_one(&deep, &ConvertLimits::default()).unwrap();
    check(&model);
    assert_eq!(
        (model.header.units_failed, model.header.quality),
        (0, Quality::DwarfInlines)
    );
}

#[test]
fn a_damaged_unit_costs_itself_and_symbols_step_in() {
    let Some(sound) = sound("damaged-unit") else {
        return;
    };
    let layout = hostile::Layout::of(&sound);
    let section = layout.section(".debug_info");
    let end = section.offset + section.size / 2;
    let half = hostile::with_contents(&sound, ".debug_info", &sound[section.offset..end]);
    let model = convert_one(&half, &ConvertLimits::default()).unwrap();
    check(&model);
    assert_eq!(
        (model.header.units_failed, model.header.quality),
        (1, Quality::Symtab)
    );
    assert!(model.functions.iter().any(|f| f.linkage_name == "main"));
}

#[test]
fn a_name_without_end_is_damage_and_its_beginning_is_shown() {
    if !has_all(&[("g++", "g++")]) {
        return;
    }
    for count in [1, 1_000] {
        let found = malformed(&hostile::demangling_bombs(count));
        assert!(found.starts_with("the name _Z2f"), "{found}");
        assert!(
            found.ends_with("bytes demangle to more than 16777216"),
            "{found}"
        );
    }
}

/// The file with a header of a compressed section that says `size`, and `payload` behind it.
fn with_compressed(sound: &[u8], method: u64, size: u64, payload: &[u8]) -> Vec<u8> {
    let mut section = Vec::new();
    for word in [method, size, 1] {
        section.extend(word.to_le_bytes());
    }
    section.extend(payload);
    let file = hostile::with_contents(sound, ".debug_info", &section);
    hostile::with_section(&file, ".debug_info", SectionField::Flags, 0x800)
}

#[test]
fn a_declared_size_that_cannot_be_is_a_lie() {
    let Some(sound) = sound("bombs") else { return };
    for method in [1, 2] {
        for size in [1_u64 << 62, 1 << 44, 1 << 33] {
            let found = malformed(&with_compressed(&sound, method, size, &[0x78, 0x9c, 0, 0]));
            let words =
                format!("section .debug_info: 4 compressed bytes cannot be the declared {size}");
            assert_eq!(found, words);
        }
    }
}

/// Bytes as zlib packs them.
fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_packed_section_is_read_to_its_end_and_no_further_than_it_declares() {
    let Some(sound) = sound("packed-units") else {
        return;
    };
    let elf = ElfFile::parse(&sound).unwrap();
    let info = elf.bytes_of(elf.section(".debug_info").unwrap()).to_vec();
    let size = info.len() as u64;
    let payload = packed(&info);
    let plain = convert_one(&sound, &ConvertLimits::default()).unwrap();
    let whole = with_compressed(&sound, 1, size, &payload);
    let whole = convert_one(&whole, &ConvertLimits::default()).unwrap();
    assert_eq!((whole.rows, whole.nodes), (plain.rows, plain.nodes));

    let cut = &payload[..payload.len() - 10];
    let words = |size| format!("section .debug_info: more or less than the declared {size} bytes");
    for (size, payload) in [
        (size - 1, &payload[..]),
        (size + 1, &payload),
        (size, cut),
        (size, &packed(&[&info[..], &[0; 64]].concat())),
    ] {
        let found = malformed(&with_compressed(&sound, 1, size, payload));
        assert_eq!(found, words(size));
    }
    let mut flipped = payload;
    *flipped.last_mut().unwrap() ^= 1;
    let found = malformed(&with_compressed(&sound, 1, size, &flipped));
    assert!(found.starts_with("section .debug_info: "), "{found}");
}

#[test]
fn a_packed_unit_whose_length_cannot_be_costs_itself_and_those_behind_it() {
    let Some(sound) = sound("packed-length") else {
        return;
    };
    let elf = ElfFile::parse(&sound).unwrap();
    let info = elf.bytes_of(elf.section(".debug_info").unwrap()).to_vec();
    for behind in [&[0x10, 0, 0, 0, 5][..], &[0xf0, 0xff, 0xff, 0xff], &[7]] {
        let longer = [&info[..], behind].concat();
        let file = with_compressed(&sound, 1, longer.len() as u64, &packed(&longer));
        let model = convert_one(&file, &ConvertLimits::default()).unwrap();
        let header = &model.header;
        assert_eq!((header.units, header.units_failed), (1, 1), "{behind:?}");
        assert_eq!(header.quality, Quality::DwarfInlines);
    }
}

#[test]
fn a_declared_size_that_can_be_is_refused_before_memory_is_taken() {
    let Some(sound) = sound("large-sections") else {
        return;
    };
    let payload = vec![0; 1 << 20];
    for (method, size) in [(1, 1_u64 << 30), (2, 1 << 35)] {
        let file = with_compressed(&sound, method, size, &payload);
        let error = convert_one(&file, &ConvertLimits::default()).unwrap_err();
        assert!(
            matches!(error, ConvertError::TooLarge { .. }),
            "{size:#x}: {error}"
        );
    }
}

#[test]
fn every_limit_ends_a_conversion_with_its_name() {
    let Some(sound) = sound("limits") else { return };
    let cases: [(&str, Set); 9] = [
        ("bytes of DWARF sections", |limits| {
            limits.sections_bytes_max = 100;
        }),
        ("bytes of DWARF sections", |limits| {
            limits.section_bytes_max = 100;
        }),
        ("DWARF units", |limits| {
            limits.units_max = 0;
        }),
        ("symbols", |limits| {
            limits.symbols_max = 3;
        }),
        ("rows", |limits| {
            limits.rows_max = 3;
        }),
        ("call nodes", |limits| {
            limits.nodes_max = 3;
        }),
        ("functions", |limits| {
            limits.functions_max = 3;
        }),
        ("source files", |limits| {
            limits.files_max = 0;
        }),
        ("bytes of names", |limits| {
            limits.name_bytes_max = 10;
        }),
    ];
    for (limit, set) in cases {
        let mut limits = ConvertLimits::default();
        set(&mut limits);
        match convert_one(&sound, &limits) {
            Err(ConvertError::TooLarge { what, .. }) => assert_eq!(what, limit),
            other => panic!("{limit}: {other:?}"),
        }
    }
}

#[test]
fn a_deadline_stops_a_long_conversion() {
    let Some(sound) = sound("deadline") else {
        return;
    };
    let stop = || true;
    let limits = ConvertLimits {
        should_stop: Some(&stop),
        ..ConvertLimits::default()
    };
    // A file this small is done before the first question.
    assert!(convert_one(&sound, &limits).is_ok());
    let long = hostile::with_contents(&sound, ".symtab", &sound.repeat(100));
    let stopped = convert_one(&long, &limits);
    assert!(
        matches!(stopped, Err(ConvertError::Stopped { .. })),
        "{stopped:?}"
    );
}

#[test]
fn any_damaged_byte_of_debug_information_is_survived() {
    let Some(sound) = sound("damaged-bytes") else {
        return;
    };
    let layout = hostile::Layout::of(&sound);
    let names = [
        ".debug_info",
        ".debug_abbrev",
        ".debug_line",
        ".debug_rnglists",
        ".symtab",
    ];
    for name in names {
        let section = layout.section(name);
        let start = section.offset;
        let size = section.size;
        for at in (start..start + size).step_by(1 + size / 400) {
            for value in [0, 0x7f, 0xff] {
                let mut damaged = sound.clone();
                damaged[at] = value;
                if let Ok(model) = convert_one(&damaged, &ConvertLimits::default()) {
                    check(&model);
                }
            }
        }
    }
}
