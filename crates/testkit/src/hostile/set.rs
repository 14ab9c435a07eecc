//! A set of hostile files, one of each sort, to run against a server or a parser.

use super::{
    Bomb, Cyclic, HeaderField, Hostile, Packing, SectionField, cyclic_dies, demangling_bombs,
    nested_dies, self_referring_dies, with_bomb, with_header, with_section,
};

/// Near the end of the address space: adding a size to it overflows.
const FORGED: u64 = u64::MAX - 7;

/// Hostile files of every sort save truncations, made from a program with `.debug_info`,
/// `.debug_abbrev`, `.debug_str`, `.debug_line` and `.symtab`, all uncompressed.
///
/// Each says something that is not true or that no compiler writes, so that it has to be refused.
pub fn all(sound: &[u8]) -> Vec<Hostile> {
    let mut files = headers(sound);
    files.extend(sections(sound));
    files.extend(bombs(sound));
    files.extend(endless(sound));
    files
}

/// Files that have less than usual, or more than is accepted, and say so truly: nothing is wrong
/// with them.
pub fn poor_but_sound(sound: &[u8]) -> Vec<Hostile> {
    use HeaderField::{
        ProgramHeaderCount, ProgramHeaderOffset, SectionHeaderCount, SectionHeaderOffset,
        SectionNames,
    };
    let without = |fields: &[HeaderField]| {
        let cleared = |bytes: Vec<u8>, &field: &HeaderField| with_header(&bytes, field, 0);
        fields.iter().fold(sound.to_vec(), cleared)
    };
    let honest = |packing, section| {
        let bomb = Bomb {
            packing,
            claimed_bytes: 160 << 20,
            unpacked_bytes: 160 << 20,
        };
        with_bomb(sound, section, bomb)
    };
    vec![
        hostile(
            "no section headers",
            without(&[SectionHeaderOffset, SectionHeaderCount, SectionNames]),
        ),
        hostile(
            "no program headers",
            without(&[ProgramHeaderOffset, ProgramHeaderCount]),
        ),
        hostile(
            "one program header",
            with_header(sound, ProgramHeaderCount, 1),
        ),
        hostile(
            ".debug_str in Zlib of 160 MiB",
            honest(Packing::Zlib, ".debug_str"),
        ),
        hostile(
            ".debug_info in Zstd of 160 MiB",
            honest(Packing::Zstd, ".debug_info"),
        ),
    ]
}

fn headers(sound: &[u8]) -> Vec<Hostile> {
    use HeaderField::{
        ProgramHeaderCount, ProgramHeaderOffset, SectionHeaderCount, SectionHeaderOffset,
        SectionNames,
    };
    let changes = [
        (
            "no section headers, and names of them",
            SectionHeaderCount,
            0,
        ),
        (
            "one section header, and names of more",
            SectionHeaderCount,
            1,
        ),
        ("65,535 section headers", SectionHeaderCount, 65_535),
        ("65,535 program headers", ProgramHeaderCount, 65_535),
        (
            "section headers at the end of the address space",
            SectionHeaderOffset,
            FORGED,
        ),
        (
            "program headers at the end of the address space",
            ProgramHeaderOffset,
            FORGED,
        ),
        ("section names in no section", SectionNames, 0xfeff),
    ];
    changes
        .into_iter()
        .map(|(what, field, value)| hostile(what, with_header(sound, field, value)))
        .collect()
}

fn sections(sound: &[u8]) -> Vec<Hostile> {
    use SectionField::{EntrySize, Link, Offset, Size};
    let names = [
        ".debug_info",
        ".debug_abbrev",
        ".debug_line",
        ".symtab",
        ".strtab",
    ];
    let forged = [
        ("of 2^63 bytes", Size, 1 << 63),
        ("of 4 GiB", Size, 1 << 32),
        ("beyond the end", Offset, FORGED),
    ];
    let mut files = Vec::new();
    for name in names {
        for (what, field, value) in forged {
            files.push(hostile(
                format!("{name} {what}"),
                with_section(sound, name, field, value),
            ));
        }
    }
    files.push(hostile(
        "symbols of 0 bytes",
        with_section(sound, ".symtab", EntrySize, 0),
    ));
    files.push(hostile(
        "symbols with names in no section",
        with_section(sound, ".symtab", Link, 0xffff_ffff),
    ));
    files
}

fn bombs(sound: &[u8]) -> Vec<Hostile> {
    let mut files = Vec::new();
    for packing in [Packing::Zlib, Packing::Zstd] {
        let sizes = [
            (
                "that says 8 GiB and unpacks to 64 MiB",
                ".debug_info",
                8 << 30,
                64 << 20,
            ),
            (
                "that says 16 bytes and unpacks to 256 MiB",
                ".debug_str",
                16,
                256 << 20,
            ),
            ("that says 2^63 bytes", ".debug_line", 1 << 63, 16),
        ];
        for (what, section, claimed_bytes, unpacked_bytes) in sizes {
            let bomb = Bomb {
                packing,
                claimed_bytes,
                unpacked_bytes,
            };
            files.push(hostile(
                format!("{section} in {packing:?} {what}"),
                with_bomb(sound, section, bomb),
            ));
        }
    }
    files
}

fn endless(sound: &[u8]) -> Vec<Hostile> {
    let cycle = |length, kind| cyclic_dies(sound, length, kind);
    vec![
        hostile("calls nested 100,000 deep", nested_dies(sound, 100_000)),
        hostile(
            "functions that are their own origin",
            self_referring_dies(sound),
        ),
        hostile(
            "1,000 functions in a cycle of origins",
            cycle(1_000, Cyclic::Nameless),
        ),
        hostile(
            "3 functions with names in a cycle of origins",
            cycle(3, Cyclic::Named),
        ),
        hostile(
            "3 functions without code in a cycle of specifications",
            cycle(3, Cyclic::WithoutCode),
        ),
        hostile("a name that demangles to gigabytes", demangling_bombs(1)),
        hostile(
            "1,000 names that demangle to gigabytes",
            demangling_bombs(1_000),
        ),
    ]
}

fn hostile(what: impl Into<String>, bytes: Vec<u8>) -> Hostile {
    Hostile {
        what: what.into(),
        bytes,
    }
}
