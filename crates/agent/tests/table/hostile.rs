//! Damaged unwind information makes a smaller table, never a panic, and no work without bounds.

use proptest::prelude::*;
use unhex_agent::table::{EhFrameSection, FramePointer, Rule, UnwindTable};
use unhex_symbols::address::LinkAddress;
use unhex_testkit::fixture::Program;

use crate::gimli_rules::Parts;

fn parts() -> Parts {
    let text = "#include <stdio.h>\nint f(int a) { return printf(\"%d\", a) + a; } int main(void) { return f(1); }";
    let fixture = Program::c(text).flags(&["-O2", "-fno-inline"]).build();
    Parts::of(&fixture.bytes()).expect("unwind information")
}

/// A section with one CIE of so many more bytes of instructions, and one function of 16 bytes.
fn with_instructions(bytes: usize, of_function: &[u8]) -> Vec<u8> {
    let entry = |content: &[u8]| {
        let length = u32::try_from(content.len()).expect("a short entry");
        [&length.to_le_bytes(), content].concat()
    };
    // Version 1, augmentation "", code alignment 1, data alignment -8, return address 16, CFA rsp+8, RA at CFA-8, then nothing.
    let mut cie = vec![0, 0, 0, 0, 1, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1];
    cie.resize(cie.len() + bytes, 0);
    let cie = entry(&cie);
    let pointer = u32::try_from(cie.len() + 4).expect("a short entry");
    let mut fde = [
        &pointer.to_le_bytes()[..],
        &0x1000_u64.to_le_bytes(),
        &16_u64.to_le_bytes(),
    ]
    .concat();
    fde.extend(of_function);
    [cie, entry(&fde), vec![0; 4]].concat()
}

fn build(bytes: &[u8]) -> UnwindTable {
    let code = 0x1000..0x2000;
    let section = EhFrameSection {
        bytes,
        address: 0x3000,
        header_address: 0,
        code: vec![code],
        base: 0,
    };
    UnwindTable::build(&section).expect("a table")
}

#[test]
fn endless_instructions_that_functions_share_are_not_run() {
    let table = build(&with_instructions(100, &[]));
    assert_eq!((table.rows().len(), table.skipped()), (2, 0), "{table:?}");
    let table = build(&with_instructions(1 << 20, &[]));
    assert_eq!((table.rows().len(), table.skipped()), (0, 1), "{table:?}");
}

#[test]
fn a_function_is_followed_up_to_the_instruction_that_makes_no_sense() {
    // DW_CFA_advance_loc 4; DW_CFA_def_cfa_expression of no bytes; DW_CFA_advance_loc 4; DW_CFA_def_cfa_register 7.
    let table = build(&with_instructions(0, &[0x44, 0x0f, 0, 0x44, 0x0d, 7]));
    let rules = table
        .rows()
        .iter()
        .map(|row| (row.address, row.word.rule()));
    let at_start = Rule::StackPointer {
        words: 1,
        rbp: FramePointer::Kept,
    };
    let expected = [
        (0x1000, at_start),
        (0x1004, Rule::Unsupported),
        (0x1010, Rule::Gap),
    ];
    assert_eq!(rules.collect::<Vec<_>>(), expected);
    assert_eq!(table.damaged(), 1);
}

#[test]
fn functions_outside_of_all_code_are_left_out() {
    let parts = parts();
    let whole = parts.table();
    let nowhere = 0..1;
    let section = EhFrameSection {
        code: vec![nowhere],
        ..parts.section()
    };
    let table = UnwindTable::build(&section).expect("a table");
    assert_eq!(table.rows(), []);
    assert!(table.skipped() > 3, "{table:?}");
    assert_eq!(whole.skipped(), 0);
}

#[test]
fn a_section_that_is_cut_short_keeps_the_functions_before() {
    let parts = parts();
    let section = parts.section();
    let whole = parts.table();
    for length in 0..section.bytes.len() {
        let cut = EhFrameSection {
            bytes: &section.bytes[..length],
            ..section.clone()
        };
        let table = UnwindTable::build(&cut).expect("a table");
        for row in table.rows() {
            let address = LinkAddress(section.base + u64::from(row.address));
            let rule = row.word.rule();
            assert!(
                rule == Rule::Gap || rule == whole.rule_at(address),
                "{length}"
            );
        }
    }
}

proptest! {
    #[test]
    fn damaged_sections_make_sorted_tables_within_code(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
    ) {
        let parts = parts();
        let mut bytes = parts.section().bytes.to_vec();
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let section = EhFrameSection { bytes: &bytes, ..parts.section() };
        let table = UnwindTable::build(&section).expect("a table");
        for pair in table.rows().windows(2) {
            prop_assert!(pair[0].address < pair[1].address);
            prop_assert!(pair[0].word != pair[1].word);
        }
        let end = section.code.iter().map(|code| code.end).max().unwrap_or(0) - section.base;
        prop_assert!(table.rows().last().is_none_or(|row| u64::from(row.address) <= end));
    }
}
