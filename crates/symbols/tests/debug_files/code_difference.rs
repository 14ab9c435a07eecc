//! Which files count as other code under a known build ID, on files that real tools made.

use std::path::{Path, PathBuf};

use unhex_symbols::elf::{
    CodeDifference, ElfError, ElfRole, ElfSummary, FileFormat, difference, section_range,
};
use unhex_symbols::quality::Quality;

use crate::toolchain::{Workshop, has_all};

const PROGRAM: &str = r#"
    #include <stdio.h>
    static int zeros[1000];
    int twice(int n) { return (n ^ 0x1234567) + zeros[n & 7]; }
    int main(int argc, char **argv) { printf("%d %s\n", twice(argc), argv[0]); return 0; }
"#;

const TOOLS: [(&str, &str); 6] = [
    ("gcc", "gcc"),
    ("objcopy", "binutils"),
    ("strip", "binutils"),
    ("eu-strip", "elfutils"),
    ("dwz", "dwz"),
    ("llvm-objcopy-19", "llvm-19"),
];

fn summary(workshop: &Workshop, name: &str) -> ElfSummary {
    ElfSummary::read(&workshop.read(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The files that tools make of one program; all are the same code.
fn same_code(workshop: &Workshop, flags: &str) -> Vec<&'static str> {
    workshop.write("p.c", PROGRAM);
    workshop.run(
        "gcc",
        &format!("-g -O1 {flags} -Wl,--build-id=sha1 -o p p.c"),
    );
    workshop.run("strip", "-o stripped p");
    workshop.run("strip", "--strip-debug -o symbols p");
    workshop.run("objcopy", "--only-keep-debug p debug");
    workshop.run(
        "objcopy",
        "--only-keep-debug --compress-debug-sections=zlib p compressed",
    );
    workshop.run("objcopy", "--add-gnu-debuglink=debug stripped linked");
    workshop.run("eu-strip", "-f eu-debug -o eu-stripped p");
    workshop.run("dwz", "-o dwz p");
    let mut headless = workshop.read("stripped");
    headless[0x28..0x30].fill(0);
    headless[0x3a..0x40].fill(0);
    workshop.write("headless", headless);
    let mut names = vec![
        "p",
        "stripped",
        "symbols",
        "debug",
        "compressed",
        "linked",
        "eu-debug",
        "eu-stripped",
        "dwz",
        "headless",
    ];
    // llvm-objcopy refuses the relocations of glibc's static programs.
    if !flags.contains("-static") {
        workshop.run("llvm-objcopy-19", "--only-keep-debug p llvm-debug");
        workshop.run("llvm-strip-19", "-o llvm-stripped p");
        names.extend(["llvm-debug", "llvm-stripped"]);
    }
    names
}

#[test]
fn what_stripping_and_splitting_make_of_a_program_is_the_same_code() {
    if !has_all(&TOOLS) {
        return;
    }
    let workshop = Workshop::new("same-code");
    for flags in [
        "-pie",
        "-no-pie",
        "-no-pie -static",
        "-shared -fPIC",
        "-Wl,-z,noseparate-code",
    ] {
        let names = same_code(&workshop, flags);
        for this in &names {
            for other in &names {
                let found = difference(&summary(&workshop, this), &summary(&workshop, other));
                assert_eq!(found, None, "{flags}: {this} and {other}");
            }
        }
    }
}

#[test]
fn each_file_has_its_role_and_its_rating() {
    if !has_all(&TOOLS) {
        return;
    }
    let workshop = Workshop::new("roles");
    same_code(&workshop, "-pie");
    let rated = |name: &str| {
        let summary = summary(&workshop, name);
        (summary.role, summary.quality_estimate)
    };
    assert_eq!(rated("p"), (ElfRole::Both, Quality::DwarfInlines));
    assert_eq!(rated("dwz"), (ElfRole::Both, Quality::DwarfInlines));
    assert_eq!(rated("debug"), (ElfRole::Debuginfo, Quality::DwarfInlines));
    assert_eq!(
        rated("compressed"),
        (ElfRole::Debuginfo, Quality::DwarfInlines)
    );
    assert_eq!(
        rated("eu-debug"),
        (ElfRole::Debuginfo, Quality::DwarfInlines)
    );
    assert_eq!(
        rated("llvm-debug"),
        (ElfRole::Debuginfo, Quality::DwarfInlines)
    );
    assert_eq!(rated("symbols"), (ElfRole::Executable, Quality::Symtab));
    assert_eq!(rated("stripped"), (ElfRole::Executable, Quality::Dynsym));
    assert_eq!(rated("headless"), (ElfRole::Executable, Quality::None));
    let ids: Vec<_> = ["p", "debug", "eu-debug", "headless"]
        .map(|name| summary(&workshop, name).build_id.unwrap().to_string())
        .into();
    assert!(
        ids.iter().all(|id| *id == ids[0] && id.len() == 40),
        "{ids:?}"
    );
    let link = summary(&workshop, "linked").debug_link.unwrap();
    assert_eq!(link.name, "debug");
}

#[test]
fn other_code_is_told_with_what_differs() {
    if !has_all(&TOOLS) {
        return;
    }
    let workshop = Workshop::new("other-code");
    workshop.write("p.c", PROGRAM);
    let build = |name: &str, flags: &str| {
        workshop.run("gcc", &format!("-g {flags} -o {name} p.c"));
        summary(&workshop, name)
    };
    let this = build("a", "-O1");
    let found = difference(&this, &build("b", "-O0"));
    assert!(
        matches!(
            found,
            Some(
                CodeDifference::Entry { .. }
                    | CodeDifference::Segment { .. }
                    | CodeDifference::Section { .. }
            )
        ),
        "{found:?}"
    );
    workshop.write("p.c", PROGRAM.replace("0x1234567", "0x7654321"));
    assert_eq!(
        difference(&this, &build("c", "-O1")),
        Some(CodeDifference::Text)
    );
    let mut other = this.clone();
    other.entry += 1;
    assert_eq!(
        difference(&this, &other).unwrap().to_string(),
        format!(
            "the entry point is {:#x} in one file and {:#x} in the other",
            this.entry,
            this.entry + 1
        )
    );
}

/// Pairs of debug file and executable of installed Debian packages.
fn installed_pairs() -> Vec<(PathBuf, PathBuf)> {
    let of_id = |debug: &Path| {
        let id = ElfSummary::read(&std::fs::read(debug).ok()?)
            .ok()?
            .build_id?;
        Some((debug.to_owned(), id))
    };
    let folders = std::fs::read_dir("/usr/lib/debug/.build-id")
        .into_iter()
        .flatten()
        .flatten();
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.path()).into_iter().flatten());
    let debug: Vec<_> = files
        .flatten()
        .filter_map(|file| of_id(&file.path()))
        .collect();
    let candidates = [
        "/lib/x86_64-linux-gnu",
        "/usr/lib/x86_64-linux-gnu/gconv",
        "/usr/bin",
    ];
    let mut pairs = Vec::new();
    for folder in candidates {
        for file in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let small = file
                .metadata()
                .is_ok_and(|m| m.is_file() && m.len() < 8 << 20);
            let Some((_, id)) = small.then(|| of_id(&file.path())).flatten() else {
                continue;
            };
            if let Some((found, _)) = debug.iter().find(|(_, other)| *other == id) {
                pairs.push((found.clone(), file.path()));
            }
        }
    }
    pairs
}

#[test]
fn debian_debug_files_are_the_same_code_as_their_executables() {
    let pairs = installed_pairs();
    if pairs.is_empty() {
        assert!(
            std::env::var_os("CI").is_none(),
            "missing: Debian package libc6-dbg"
        );
        println!("skipped, missing: Debian package libc6-dbg");
    }
    for (debug, executable) in &pairs {
        let read = |path: &Path| ElfSummary::read(&std::fs::read(path).unwrap()).unwrap();
        let (debug_summary, summary) = (read(debug), read(executable));
        assert_eq!(
            difference(&debug_summary, &summary),
            None,
            "{debug:?} and {executable:?}"
        );
        assert_eq!(debug_summary.role, ElfRole::Debuginfo, "{debug:?}");
        assert!(summary.role.is_executable(), "{executable:?}");
    }
    println!("compared {} pairs", pairs.len());
}

#[test]
fn refusals_say_what_the_file_is() {
    let refused = |file: &[u8]| ElfSummary::read(file).unwrap_err();
    let cases: [(&[u8], FileFormat); 8] = [
        (b"", FileFormat::Empty),
        (&[0; 10_000], FileFormat::ZeroFilled),
        (b"\n<!DOCTYPE html><html>", FileFormat::Html),
        (b"%PDF-1.7", FileFormat::Pdf),
        (b"\x1f\x8b\x08rest", FileFormat::Gzip),
        (b"MZ\x90\0", FileFormat::Pe),
        (b"\xcf\xfa\xed\xfe\x07", FileFormat::MachO),
        (b"error: not found\n", FileFormat::Text),
    ];
    for (file, format) in cases {
        assert_eq!(refused(file), ElfError::NotElf(format));
    }
    assert_eq!(
        refused(b"<html>").to_string(),
        "the file is an HTML page; an ELF file is needed"
    );
}

#[test]
fn a_truncated_file_says_what_lies_beyond_its_end() {
    if !has_all(&TOOLS) {
        return;
    }
    let workshop = Workshop::new("truncated");
    same_code(&workshop, "-pie");
    for name in ["p", "debug", "stripped", "headless"] {
        let file = workshop.read(name);
        let end = if name == "headless" {
            0x1000
        } else {
            file.len() - 1
        };
        for length in [5, 63, 100, end / 2, end] {
            let error = ElfSummary::read(&file[..length]).unwrap_err();
            assert!(
                matches!(error, ElfError::Truncated { .. }),
                "{name} to {length}: {error}"
            );
        }
    }
}

#[test]
fn a_section_is_found_where_readelf_shows_it() {
    if !has_all(&TOOLS) {
        return;
    }
    let workshop = Workshop::new("sections");
    same_code(&workshop, "-pie");
    let (program, debug) = (workshop.read("p"), workshop.read("debug"));
    workshop.run("objcopy", "-O binary --only-section=.text p text");
    let range = section_range(&program, ".text").unwrap().unwrap();
    let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
    assert_eq!(program[range], workshop.read("text"));
    assert_eq!(section_range(&debug, ".text"), Ok(None));
    assert_eq!(section_range(&program, ".bss"), Ok(None));
    assert_eq!(section_range(&program, ".nowhere"), Ok(None));
    assert!(section_range(&debug, ".debug_info").unwrap().is_some());
}

#[test]
fn any_damage_to_the_headers_is_an_answer_or_an_error() {
    if !has_all(&TOOLS) {
        return;
    }
    let workshop = Workshop::new("damaged-headers");
    same_code(&workshop, "-pie");
    let file = workshop.read("p");
    let tables_at = usize::from_le_bytes(file[0x28..0x30].try_into().unwrap());
    let places = (0..0x400).chain(tables_at..file.len());
    for at in places {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut damaged = file.clone();
            damaged[at] = value;
            let _ = ElfSummary::read(&damaged);
            let _ = section_range(&damaged, ".text");
        }
    }
}
