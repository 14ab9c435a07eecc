//! Tables of programs whose code is known: which rules they have, and that those are gimli's.

use std::path::Path;

use unhex_agent::table::{FramePointer, Rule, UnwindTable};
use unhex_testkit::fixture::{Fixture, Program};
use unhex_testkit::tools;

use crate::gimli_rules::{Parts, compare};

fn table(fixture: &Fixture) -> UnwindTable {
    let parts = Parts::of(&fixture.bytes()).expect("unwind information");
    let table = parts.table();
    let compared = compare(fixture.path(), &parts, &table);
    assert!(compared.addresses > 0, "{compared:?}");
    assert_eq!(compared.unsupported, 0, "{compared:?}");
    table
}

fn rules(table: &UnwindTable) -> Vec<Rule> {
    table.rows().iter().map(|row| row.word.rule()).collect()
}

const CALLS: &str = "
#include <stdio.h>
__attribute__((noinline)) int leaf(int a) { return printf(\"%d\", a); }
__attribute__((noinline)) int large(int a) { volatile char room[3 << 20]; room[a] = 1; return leaf(a) + room[a]; }
int main(int count, char **words) { (void)words; return large(count) + 1; }
";

#[test]
fn stack_pointers_frame_pointers_and_stubs_have_rules() {
    let plain = table(
        &Program::c(CALLS)
            .flags(&["-O2", "-fomit-frame-pointer", "-no-pie"])
            .build(),
    );
    let has = |table: &UnwindTable, wanted: fn(&Rule) -> bool| rules(table).iter().any(wanted);
    assert!(has(&plain, |rule| matches!(
        rule,
        Rule::StackPointer { words: 1, .. }
    )));
    assert!(has(&plain, |rule| matches!(rule, Rule::Plt { .. })));
    assert!(
        has(&plain, |rule| matches!(rule, Rule::End)),
        "_start has no caller"
    );
    let framed = table(
        &Program::c(CALLS)
            .flags(&["-O0", "-fno-omit-frame-pointer"])
            .build(),
    );
    let below = FramePointer::BelowBase(2);
    let framed_rule = Rule::FramePointer {
        words: 2,
        rbp: below,
    };
    assert!(
        rules(&framed).contains(&framed_rule),
        "{:?}",
        rules(&framed)
    );
}

#[test]
fn a_frame_of_megabytes_has_a_rule() {
    let table = table(
        &Program::c(CALLS)
            .flags(&["-O2", "-fomit-frame-pointer"])
            .build(),
    );
    let is_large =
        |rule: &Rule| matches!(rule, Rule::StackPointer { words, .. } if *words > 3 << 17);
    assert!(rules(&table).iter().any(is_large), "{:?}", rules(&table));
}

#[test]
fn an_aligned_frame_has_its_base_in_a_slot() {
    let text = "
#include <stdalign.h>
void use(void *, int);
int take(int a, int b, int c, int d, int e, int f, int g) {
    alignas(64) volatile char room[64 + 0]; volatile char more[a]; room[0] = g; more[0] = 1;
    use((void *)room, more[0]); return b + c + d + e + f + room[0];
}
void use(void *room, int a) { *(char *)room = (char)a; }
int main(int count, char **words) { (void)words; return take(count, 2, 3, 4, 5, 6, 7); }
";
    let fixture = Program::c(text)
        .flags(&["-O1", "-fno-inline", "-no-pie"])
        .build();
    let parts = Parts::of(&fixture.bytes()).expect("unwind information");
    let table = parts.table();
    // The few instructions that have the base in r10 alone are not followed.
    compare(fixture.path(), &parts, &table);
    let is_slot = |rule: &Rule| {
        matches!(
            rule,
            Rule::FrameSlot {
                rbp: FramePointer::AtRbp,
                ..
            }
        )
    };
    assert!(rules(&table).iter().any(is_slot), "{:?}", rules(&table));
}

#[test]
fn the_frame_of_a_signal_handler_has_a_rule() {
    let path = Path::new("/lib/x86_64-linux-gnu/libc.so.6");
    let parts = Parts::of(&unhex_testkit::run::read(path)).expect("unwind information");
    let signal_frames: Vec<Rule> = rules(&parts.table())
        .into_iter()
        .filter(|rule| matches!(rule, Rule::SignalFrame { .. }))
        .collect();
    // uc_mcontext begins 40 bytes into the frame, and rbp is its eleventh register.
    assert_eq!(signal_frames, [Rule::SignalFrame { words: 15 }]);
}

#[test]
fn programs_of_other_compilers_have_the_rules_of_gimli() {
    let cpp = "
#include <stdexcept>
__attribute__((noinline)) int may(int a) { if (a > 3) throw std::runtime_error(\"a\"); return a; }
int main(int count, char **) { try { return may(count); } catch (const std::exception &) { return 2; } }
";
    table(&Program::cpp(cpp).flags(&["-O2"]).build());
    table(&Program::rust("fn main() { println!(\"{:?}\", std::env::args()); }").build());
    if tools::CLANG.find().is_some() {
        table(
            &Program::c(CALLS)
                .compiler(tools::CLANG)
                .flags(&["-O2"])
                .build(),
        );
    }
}

#[test]
fn code_without_unwind_information_is_a_gap() {
    let text = "int bare(int a) { return a * 3; } int main(int count, char **words) { (void)words; return bare(count); }";
    let flags = ["-O0", "-fno-asynchronous-unwind-tables", "-no-pie"];
    let fixture = Program::c(text).flags(&flags).build();
    let table = table(&fixture);
    assert!(rules(&table).contains(&Rule::Gap));
    assert!(table.covered_bytes() < 200, "{}", table.covered_bytes());
}
