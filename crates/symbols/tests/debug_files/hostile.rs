//! Files that were made or damaged to break a converter: each is a model or a typed error.

use unhex_symbols::convert::{ConvertError, ConvertLimits, ConvertSources, convert};
use unhex_symbols::model::{Model, NONE};
use unhex_symbols::quality::Quality;
use unhex_testkit::hostile::{self, Hostile};

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

#[test]
fn endless_and_deep_entries_cost_their_unit_and_symbols_step_in() {
    let Some(sound) = sound("deep-entries") else {
        return;
    };
    let deep = convert_one(
        &hostile::nested_dies(&sound, 100_000),
        &ConvertLimits::default(),
    );
    let deep = deep.unwrap();
    check(&deep);
    assert_eq!(
        (deep.header.units_failed, deep.header.quality),
        (1, Quality::Symtab)
    );
    assert!(deep.functions.iter().any(|f| f.linkage_name == "main"));
    let cyclic = convert_one(
        &hostile::self_referring_dies(&sound),
        &ConvertLimits::default(),
    );
    check(&cyclic.unwrap());
}

#[test]
fn a_declared_size_is_refused_before_memory_is_taken() {
    let Some(sound) = sound("bombs") else { return };
    for size in [1_u64 << 62, 1 << 44, 1 << 33] {
        let mut section = Vec::new();
        for word in [1_u64, size, 1] {
            section.extend(word.to_le_bytes());
        }
        section.extend([0x78, 0x9c, 0, 0]);
        let file = hostile::with_contents(&sound, ".debug_info", &section);
        let file = hostile::with_section(&file, ".debug_info", hostile::SectionField::Flags, 0x800);
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
