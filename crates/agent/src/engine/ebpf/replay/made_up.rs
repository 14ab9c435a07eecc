//! One rule at a time, on stacks that are written by hand.

use super::{EXACT, Hit, Snapshot, Unwound};
use crate::engine::ebpf::kernel::{FramePointersInGaps, Way};
use crate::sample::Stop;
use crate::table::{FramePointer, Row, Rule};

/// Code is mapped here, and tables count from here.
const CODE: u64 = 0x40_0000;
const STACK: u64 = 0x7fff_0000;
/// Where the outermost function is, whose rule is the end.
const OUTERMOST: u64 = CODE + 0x1000;

/// A snapshot in the first function, which has this rule; the words of its stack from the stack pointer on.
fn snapshot(rule: Rule, words: &[u64]) -> Snapshot {
    let row = |address: u64, rule: Rule| Row {
        address: u32::try_from(address - CODE).unwrap(),
        word: rule.word(),
    };
    let rows = [
        row(CODE, rule),
        row(CODE + 0x100, Rule::Gap),
        row(OUTERMOST, Rule::End),
    ];
    with_rows(&rows, FramePointersInGaps::No, words)
}

fn with_rows(rows: &[Row], frame_pointers_in_gaps: FramePointersInGaps, words: &[u64]) -> Snapshot {
    let mut snapshot = Snapshot {
        address: CODE + 0x10,
        stack: STACK,
        frame: STACK + 0x40,
        memory: vec![(
            STACK,
            words.iter().flat_map(|word| word.to_le_bytes()).collect(),
        )],
        ..Snapshot::default()
    };
    let table = snapshot.add_rows(rows, |root| Way::Rows {
        root,
        frame_pointers_in_gaps,
    });
    snapshot.mappings.push([CODE, CODE + 0x2000, CODE, table]);
    snapshot
}

fn unwound(stop: Stop, addresses: &[u64]) -> Unwound {
    Unwound {
        stop,
        kernel_frames: 0,
        addresses: addresses.to_vec(),
        is_copied: false,
    }
}

/// What comes out of a snapshot whose first function is called by the outermost one.
fn called_by_outermost() -> Unwound {
    unwound(Stop::Root, &[(CODE + 0x10) | EXACT, OUTERMOST + 5])
}

const KEPT: FramePointer = FramePointer::Kept;

#[test]
fn the_base_may_be_the_stack_pointer_and_some_words() {
    let rule = Rule::StackPointer {
        words: 3,
        rbp: KEPT,
    };
    let snapshot = snapshot(rule, &[1, 2, OUTERMOST + 5]);
    assert_eq!(snapshot.unwound(), called_by_outermost());
}

#[test]
fn a_sample_in_the_kernel_has_the_same_stack_behind_that_of_the_kernel() {
    let rule = Rule::StackPointer {
        words: 3,
        rbp: KEPT,
    };
    let mut snapshot = snapshot(rule, &[1, 2, OUTERMOST + 5]);
    snapshot.hit = Hit::Kernel;
    let expected = Unwound {
        kernel_frames: 127,
        ..called_by_outermost()
    };
    assert_eq!(snapshot.unwound(), expected);
}

#[test]
fn the_base_may_be_in_a_slot_of_the_stack_or_of_the_frame() {
    let base = STACK + 0x28;
    let rule = Rule::StackSlot {
        words: 1,
        add: 1,
        rbp: KEPT,
    };
    let on_stack = snapshot(rule, &[1, base - 8, 3, 4, OUTERMOST + 5]);
    assert_eq!(on_stack.unwound(), called_by_outermost());
    let rbp = FramePointer::AtRbp;
    let rule = Rule::FrameSlot {
        words: -1,
        add: 0,
        rbp,
    };
    let mut in_frame = snapshot(rule, &[1, base, 7, 4, OUTERMOST + 5]);
    in_frame.frame = STACK + 0x10;
    assert_eq!(in_frame.unwound(), called_by_outermost());
}

#[test]
fn a_stub_has_pushed_a_word_or_not() {
    for (within, pushed) in [(0x0a, 0), (0x0b, 1)] {
        let mut words = vec![1; pushed];
        words.push(OUTERMOST + 5);
        let mut snapshot = snapshot(Rule::Plt { pushed_from: 11 }, &words);
        snapshot.address = CODE + within;
        let expected = unwound(Stop::Root, &[snapshot.address | EXACT, OUTERMOST + 5]);
        assert_eq!(snapshot.unwound(), expected);
    }
}

/// Two functions: the first saves rbp so far below its base, the second has its base by rbp.
fn two_functions(rbp: FramePointer, words: &[u64]) -> Snapshot {
    let rows = [
        Row {
            address: 0,
            word: Rule::StackPointer { words: 1, rbp }.word(),
        },
        Row {
            address: 0x100,
            word: Rule::FramePointer {
                words: 2,
                rbp: KEPT,
            }
            .word(),
        },
        Row {
            address: 0x1000,
            word: Rule::End.word(),
        },
    ];
    with_rows(&rows, FramePointersInGaps::No, words)
}

#[test]
fn a_saved_rbp_below_the_stack_pointer_is_gone_and_back_in_its_register() {
    // After pop %rbp compilers keep the rule that it lies two words below the base.
    let words = [CODE + 0x110, 2, 3, 4, 5, 6, 7, 8, 9, OUTERMOST + 5];
    let snapshot = two_functions(FramePointer::BelowBase(2), &words);
    let expected = [(CODE + 0x10) | EXACT, CODE + 0x110, OUTERMOST + 5];
    assert_eq!(snapshot.unwound(), unwound(Stop::Root, &expected));
}

#[test]
fn an_rbp_that_is_lost_ends_the_stack_where_it_is_needed() {
    let snapshot = two_functions(FramePointer::Unknown, &[CODE + 0x110]);
    let expected = [(CODE + 0x10) | EXACT, CODE + 0x110];
    assert_eq!(
        snapshot.unwound(),
        unwound(Stop::UnsupportedRule, &expected)
    );
}

/// The words from `rbp` on, as the kernel saves them for a signal handler.
fn saved() -> Vec<u64> {
    let mut words = vec![0; 15];
    words.extend([STACK + 0x40, 0, 0, 0, 0, STACK + 0xb8, OUTERMOST]);
    words
}

#[test]
fn what_a_signal_interrupted_is_looked_up_where_it_was() {
    let snapshot = snapshot(Rule::SignalFrame { words: 15 }, &saved());
    // At its very start: a byte before is another function.
    let expected = [(CODE + 0x10) | EXACT, OUTERMOST | EXACT];
    assert_eq!(snapshot.unwound(), unwound(Stop::Root, &expected));
}

#[test]
fn a_return_from_a_signal_is_known_by_its_code_where_nothing_is_written_down() {
    for frame_pointers_in_gaps in [FramePointersInGaps::No, FramePointersInGaps::Yes] {
        let end = Row {
            address: 0x1000,
            word: Rule::End.word(),
        };
        let mut snapshot = with_rows(&[end], frame_pointers_in_gaps, &saved());
        let code = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
        snapshot.memory.push((CODE + 0x10, code.to_vec()));
        let expected = [(CODE + 0x10) | EXACT, OUTERMOST | EXACT];
        assert_eq!(snapshot.unwound(), unwound(Stop::Root, &expected));
    }
}

#[test]
fn code_at_its_first_instructions_has_no_frame_yet() {
    let push: &[u8] = &[0x55, 0x48, 0x89, 0xe5, 0x53, 0x51, 0x52, 0x50];
    let endbr_push: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5];
    let mov: &[u8] = &[0x48, 0x89, 0xe5, 0x53, 0x51, 0x52, 0x50, 0x90];
    let other: &[u8] = &[0x90; 8];
    let end = Row {
        address: 0x1000,
        word: Rule::End.word(),
    };
    for (code, words) in [
        (push, [OUTERMOST + 5, 1, 2, 3]),
        (endbr_push, [OUTERMOST + 5, 1, 2, 3]),
        (mov, [0, OUTERMOST + 5, 2, 3]),
        (other, [1, 2, 0, OUTERMOST + 5]),
    ] {
        let mut snapshot = with_rows(&[end], FramePointersInGaps::Yes, &words);
        snapshot.frame = STACK + 0x10;
        snapshot.memory.push((CODE + 0x10, code.to_vec()));
        assert_eq!(snapshot.unwound(), called_by_outermost(), "{code:x?}");
    }
}

#[test]
fn code_that_was_made_meanwhile_ends_a_stack_when_it_has_no_frame_pointers() {
    let mut snapshot = Snapshot {
        address: CODE + 0x10,
        stack: STACK,
        // No frame pointer, but some value.
        frame: 12,
        memory: vec![(STACK, vec![0; 64])],
        ..Snapshot::default()
    };
    let table = snapshot.add_table(Way::Jit);
    snapshot.mappings.push([CODE, CODE + 0x2000, 0, table]);
    let expected = unwound(Stop::Jit, &[(CODE + 0x10) | EXACT]);
    assert_eq!(snapshot.unwound(), expected);
    snapshot.tables = vec![Way::Absent];
    let expected = unwound(Stop::NoUnwindInfo, &[(CODE + 0x10) | EXACT]);
    assert_eq!(snapshot.unwound(), expected);
}

#[test]
fn every_other_end_has_its_reason() {
    let first = (CODE + 0x10) | EXACT;
    let rule = |words| Rule::StackPointer { words, rbp: KEPT };
    let cases = [
        (
            rule(2),
            vec![1, CODE + 0x3000],
            Stop::NoMapping,
            vec![first, CODE + 0x3000],
        ),
        (
            rule(2),
            vec![1, CODE + 0x801],
            Stop::NoUnwindInfo,
            vec![first, CODE + 0x801],
        ),
        (rule(2), vec![1], Stop::ReadFault, vec![first]),
        (
            rule(0),
            vec![1, OUTERMOST + 5],
            Stop::ReadFault,
            vec![first],
        ),
        (
            rule(-4),
            vec![1, OUTERMOST + 5],
            Stop::ReadFault,
            vec![first],
        ),
        (
            Rule::Unsupported,
            vec![1],
            Stop::UnsupportedRule,
            vec![first],
        ),
        (rule(1), vec![1 << 63], Stop::NoMapping, vec![first]),
    ];
    for (rule, words, stop, addresses) in cases {
        let snapshot = snapshot(rule, &words);
        assert_eq!(
            snapshot.unwound(),
            unwound(stop, &addresses),
            "{rule:?} {words:x?}"
        );
    }
}

#[test]
fn a_stack_that_meets_what_the_engine_may_know_soon_is_copied() {
    let mut absent = Snapshot {
        address: CODE + 0x10,
        stack: STACK + 0x100,
        memory: vec![(STACK, vec![0; 0x2000])],
        // The first table is that of what nothing will be known of.
        tables: vec![Way::Absent, Way::Absent],
        mappings: vec![[CODE, CODE + 0x2000, CODE, 1]],
        ..Snapshot::default()
    };
    assert!(absent.unwound().is_copied);
    absent.mappings[0][3] = 0;
    assert!(!absent.unwound().is_copied);
    absent.mappings.clear();
    assert!(absent.unwound().is_copied);
    absent.stack = 0x100;
    assert!(!absent.unwound().is_copied);
}

#[test]
fn an_address_of_nothing_is_the_root_only_where_the_frame_pointer_says_so() {
    let rule = Rule::StackPointer {
        words: 1,
        rbp: KEPT,
    };
    let mut snapshot = snapshot(rule, &[0]);
    assert_eq!(snapshot.unwound().stop, Stop::NoMapping);
    snapshot.frame = 0;
    assert_eq!(snapshot.unwound().stop, Stop::Root);
}

#[test]
fn a_stack_deeper_than_a_sample_says_so() {
    let rule = Rule::StackPointer {
        words: 1,
        rbp: KEPT,
    };
    let unwound = snapshot(rule, &[CODE + 0x20; 1000]).unwound();
    assert_eq!((unwound.stop, unwound.addresses.len()), (Stop::Depth, 512));
}

#[test]
fn a_mapping_is_found_among_many() {
    let rule = Rule::StackPointer {
        words: 1,
        rbp: KEPT,
    };
    for count in [1, 2, 7, 8, 9, 100, 4095] {
        let mut snapshot = snapshot(rule, &[OUTERMOST + 5]);
        let other = snapshot.add_table(Way::Absent);
        let end = CODE + 0x2000;
        snapshot.mappings.extend((0..count).map(|place| {
            let start = end + place * 0x2000;
            [start, start + 0x1000, 0, other]
        }));
        assert_eq!(snapshot.unwound(), called_by_outermost(), "{count}");
        snapshot.address = end + (count - 1) * 0x2000 + 0xfff;
        assert_eq!(snapshot.unwound().stop, Stop::NoUnwindInfo, "{count}");
        snapshot.address += 1;
        assert_eq!(snapshot.unwound().stop, Stop::NoMapping, "{count}");
    }
}
