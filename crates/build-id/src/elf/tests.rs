//! ELF files made byte by byte, so that each oddity of a note is there alone.

#![expect(
    clippy::cast_possible_truncation,
    reason = "the files made here have a few hundred bytes"
)]

use proptest::prelude::*;

use super::*;

/// A note as linkers write it, padded to `align`.
fn note(owner: &[u8], kind: u32, description: &[u8], align: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [owner.len(), description.len(), kind as usize] {
        bytes.extend((word as u32).to_le_bytes());
    }
    bytes.extend(owner);
    bytes.resize(bytes.len().next_multiple_of(align), 0);
    bytes.extend(description);
    bytes.resize(bytes.len().next_multiple_of(align), 0);
    bytes
}

/// Where the notes are announced.
#[derive(Clone, Copy)]
enum In {
    Section,
    Segment,
}

/// A little-endian ELF64 file with one section or segment of notes.
fn elf(place: In, notes: &[u8], align: u64) -> Vec<u8> {
    let notes_at = 64_u64;
    let table_at = (64 + notes.len()).next_multiple_of(8) as u64;
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    let half = |file: &mut Vec<u8>, value: u16| file.extend(value.to_le_bytes());
    let long = |file: &mut Vec<u8>, value: u64| file.extend(value.to_le_bytes());
    half(&mut file, 3);
    half(&mut file, 62);
    file.extend(1_u32.to_le_bytes());
    long(&mut file, 0);
    let (segments_at, sections_at) = match place {
        In::Section => (0, table_at),
        In::Segment => (table_at, 0),
    };
    long(&mut file, segments_at);
    long(&mut file, sections_at);
    file.extend(0_u32.to_le_bytes());
    for value in [
        64,
        56,
        u16::from(segments_at != 0),
        64,
        2 * u16::from(sections_at != 0),
        0,
    ] {
        half(&mut file, value);
    }
    file.extend(notes);
    file.resize(table_at as usize, 0);
    match place {
        In::Section => {
            file.resize(file.len() + 64, 0);
            file.extend(0_u32.to_le_bytes());
            file.extend(7_u32.to_le_bytes());
            for value in [2, 0, notes_at, notes.len() as u64, 0, align, 0] {
                long(&mut file, value);
            }
        }
        In::Segment => {
            file.extend(4_u32.to_le_bytes());
            file.extend(4_u32.to_le_bytes());
            for value in [
                notes_at,
                0,
                0,
                notes.len() as u64,
                notes.len() as u64,
                align,
            ] {
                long(&mut file, value);
            }
        }
    }
    file
}

fn gnu(file: &[u8]) -> Option<String> {
    ElfIdentities::read(file).gnu.map(|id| id.to_string())
}

#[test]
fn the_build_id_is_found_in_sections_and_in_segments() {
    let notes = note(b"GNU\0", 3, &[0xab; 20], 4);
    assert_eq!(gnu(&elf(In::Section, &notes, 4)), Some("ab".repeat(20)));
    assert_eq!(gnu(&elf(In::Segment, &notes, 4)), Some("ab".repeat(20)));
}

#[test]
fn any_alignment_that_linkers_write_is_read() {
    for written in [4, 8] {
        let mut notes = note(b"GNU\0", 5, &[1; 12], written);
        notes.extend(note(b"GNU\0", 3, &[0xcd; 20], written));
        for declared in [0, 1, 4, 8] {
            let file = elf(In::Section, &notes, declared);
            assert_eq!(gnu(&file), Some("cd".repeat(20)), "{written} as {declared}");
        }
    }
}

#[test]
fn a_last_note_without_its_padding_is_read() {
    let mut notes = note(b"GNU\0", 3, &[7; 5], 4);
    notes.truncate(notes.len() - 3);
    assert_eq!(gnu(&elf(In::Section, &notes, 4)), Some("07".repeat(5)));
}

#[test]
fn notes_of_other_owners_are_no_build_id() {
    let mut notes = note(b"Go\0\0", 3, &[9; 20], 4);
    notes.extend(note(b"stapsdt\0", 3, &[8; 20], 4));
    assert_eq!(gnu(&elf(In::Section, &notes, 4)), None);
    notes.extend(note(b"GNU\0", 3, &[7; 2], 4));
    assert_eq!(gnu(&elf(In::Section, &notes, 4)), Some("0707".to_owned()));
}

#[test]
fn a_go_build_id_is_read_from_its_own_note() {
    let notes = note(b"Go\0\0", 4, b"x1/y2/z3/w4", 4);
    let found = ElfIdentities::read(&elf(In::Segment, &notes, 4));
    assert_eq!(
        found.go.map(|id| id.to_string()),
        Some("x1/y2/z3/w4".to_owned())
    );
    assert_eq!(found.gnu, None);
}

#[test]
fn an_empty_or_endless_build_id_is_none() {
    assert_eq!(gnu(&elf(In::Section, &note(b"GNU\0", 3, &[], 4), 4)), None);
    assert_eq!(
        gnu(&elf(In::Section, &note(b"GNU\0", 3, &[1; 65], 4), 4)),
        None
    );
}

proptest! {
    #[test]
    fn any_damage_to_a_file_ends_without_a_panic(
        at in 0_usize..400, byte in any::<u8>(), cut in 0_usize..400,
    ) {
        let mut notes = note(b"GNU\0", 3, &[0xab; 20], 4);
        notes.extend(note(b"Go\0\0", 4, b"abc", 4));
        for place in [In::Section, In::Segment] {
            let mut file = elf(place, &notes, 4);
            if let Some(target) = file.get_mut(at) {
                *target = byte;
            }
            let _ = ElfIdentities::read(&file);
            file.truncate(cut);
            let _ = ElfIdentities::read(&file);
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = ElfIdentities::read(&bytes);
        let magic = b"\x7fELF\x02\x01\x01";
        bytes.splice(0..bytes.len().min(7), magic.iter().copied());
        let _ = ElfIdentities::read(&bytes);
    }
}
