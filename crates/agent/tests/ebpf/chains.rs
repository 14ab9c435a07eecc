//! Programs whose stacks are known by construction: each sampled stack is that stack, from the innermost function to the root.

use std::collections::BTreeMap;
use std::process::Command;

use object::{Object, ObjectSection};
use unhex_agent::sample::Stop;
use unhex_testkit::fixture::{Fixture, Program};
use unhex_testkit::run;

use crate::sampled::{Functions, Running, Stack, engine, fast, real, stacks, stacks_of_children};

/// Stacks of a program that are looked at.
const STACKS: usize = 60;

/// What each program has above `main`.
const OUTERMOST: [&str; 4] = ["main", "[libc]", "[libc]", "_start"];

/// Never returns, in a way that the compiler believes.
const SPIN: &str = "
#define KEEP __attribute__((noinline, noclone))
volatile long turns;
KEEP void spin(void) { while (turns >= 0) turns = (turns + 1) & 0xffff; }
";

fn program(text: &str, flags: &[&str]) -> Fixture {
    Program::c(format!("{SPIN}{text}")).flags(flags).build()
}

/// Stacks of a program that runs without its symbols; `None` where that cannot be tried.
fn sampled(fixture: &Fixture) -> Option<BTreeMap<Stack, usize>> {
    let mut engine = engine(fast())?;
    let path = real(&fixture.stripped());
    let running = Running::start(&mut Command::new(&path));
    let functions = Functions::of(fixture.path(), &path);
    Some(stacks(&mut engine, running.id(), &functions, STACKS))
}

fn chain(inner: &[&str]) -> Vec<String> {
    inner
        .iter()
        .chain(&OUTERMOST)
        .map(|&name| name.to_owned())
        .collect()
}

/// That stacks are as they should be, but for one of twenty: a machine that has no time loses some.
#[track_caller]
fn assert_stacks(stacks: &BTreeMap<Stack, usize>, is_right: impl Fn(&Stack) -> bool) {
    let wrong: Vec<_> = stacks
        .iter()
        .filter(|(stack, _)| !is_right(stack))
        .collect();
    let count: usize = wrong.iter().map(|&(_, count)| count).sum();
    let all: usize = stacks.values().sum();
    assert!(count * 20 <= all, "{count} of {all} are others: {wrong:#?}");
}

#[track_caller]
fn assert_all_are(stacks: &BTreeMap<Stack, usize>, expected: &[String]) {
    assert_stacks(stacks, |stack| {
        stack.stop == Stop::Root && stack.frames == expected
    });
}

const RECURSION: &str = "
KEEP long down(long depth) { if (depth == 0) spin(); else turns += down(depth - 1); return turns; }
KEEP long begin(void) { return down(20) + 1; }
int main(void) { return (int)begin() + 1; }
";

#[test]
fn a_deep_recursion_without_frame_pointers_or_symbols_is_whole() {
    let fixture = program(
        RECURSION,
        &[
            "-O2",
            "-fomit-frame-pointer",
            "-fno-optimize-sibling-calls",
            "-fno-ipa-cp",
        ],
    );
    let Some(stacks) = sampled(&fixture) else {
        return;
    };
    let mut inner = vec!["spin"];
    inner.extend(["down"; 21]);
    inner.push("begin");
    assert_all_are(&stacks, &chain(&inner));
}

#[test]
fn frame_pointers_are_followed_where_there_is_nothing_else() {
    // Not optimized, since leaves are left without a frame then, which hides their callers.
    let flags = [
        "-O0",
        "-fno-asynchronous-unwind-tables",
        "-fno-unwind-tables",
    ];
    let Some(stacks) = sampled(&program(RECURSION, &flags)) else {
        return;
    };
    let mut inner = vec!["spin"];
    inner.extend(["down"; 21]);
    inner.push("begin");
    assert_all_are(&stacks, &chain(&inner));
}

#[test]
fn a_frame_of_three_megabytes_is_crossed() {
    let text = "
KEEP long large(long place) { volatile char room[3 << 20]; room[place] = 1; spin(); return room[place]; }
int main(int count, char **words) { (void)words; return (int)large(count) + 1; }
";
    let Some(stacks) = sampled(&program(text, &["-O2", "-fomit-frame-pointer"])) else {
        return;
    };
    assert_all_are(&stacks, &chain(&["spin", "large"]));
}

#[test]
fn a_signal_handler_is_left_for_what_it_interrupted() {
    let text = "
#include <signal.h>
KEEP void handler(int number) { spin(); turns = number; }
KEEP long faulty(volatile long *nothing) { *nothing = 1; return turns; }
int main(int count, char **words) { (void)words; signal(SIGSEGV, handler); return (int)faulty((long *)(long)(count - 1)) + 1; }
";
    let Some(stacks) = sampled(&program(text, &["-O2", "-fomit-frame-pointer"])) else {
        return;
    };
    assert_all_are(&stacks, &chain(&["spin", "handler", "[libc]", "faulty"]));
}

#[test]
fn a_signal_handler_on_a_stack_of_its_own_is_left_too() {
    let text = "
#define _GNU_SOURCE
#include <signal.h>
static char room[1 << 16];
KEEP void handler(int number) { spin(); turns = number; }
KEEP long faulty(volatile long *nothing) { *nothing = 1; return turns; }
int main(int count, char **words) {
    (void)words;
    stack_t stack = { .ss_sp = room, .ss_size = sizeof room };
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_ONSTACK };
    sigaltstack(&stack, 0);
    sigaction(SIGSEGV, &action, 0);
    return (int)faulty((long *)(long)(count - 1)) + 1;
}
";
    // The name of the feature comes before any header.
    let fixture = Program::c(format!(
        "#define _GNU_SOURCE\n{SPIN}{}",
        text.replace("#define _GNU_SOURCE\n", "")
    ));
    let fixture = fixture.flags(&["-O2", "-fomit-frame-pointer"]).build();
    let Some(stacks) = sampled(&fixture) else {
        return;
    };
    assert_all_are(&stacks, &chain(&["spin", "handler", "[libc]", "faulty"]));
}

/// Stacks that end as they should, whatever runs innermost.
#[track_caller]
fn assert_all_end_in(stacks: &BTreeMap<Stack, usize>, expected: &[String]) {
    assert_stacks(stacks, |stack| {
        stack.stop == Stop::Root && stack.frames.ends_with(expected)
    });
}

#[test]
fn the_code_that_the_kernel_gives_is_left_for_its_caller() {
    let text = "
#include <time.h>
KEEP long look(void) { struct timespec now; while (turns >= 0) clock_gettime(CLOCK_MONOTONIC, &now); return now.tv_nsec; }
int main(void) { return (int)look() + 1; }
";
    let Some(stacks) = sampled(&program(text, &["-O2", "-fomit-frame-pointer"])) else {
        return;
    };
    assert_all_end_in(&stacks, &chain(&["look"]));
    let is_inside = |stack: &Stack| stack.frames.first().is_some_and(|name| name == "[vdso]");
    assert!(stacks.keys().any(is_inside), "{stacks:#?}");
}

#[test]
fn stubs_of_the_linker_are_left_for_their_callers() {
    let library = Program::c("__attribute__((noinline)) void nothing(void) {}\n")
        .name("libnothing.so")
        .flags(&["-shared", "-fPIC", "-O2"])
        .build();
    let folder = library
        .path()
        .parent()
        .expect("a folder")
        .to_str()
        .expect("a path");
    let text = "
void nothing(void);
KEEP void calls(void) { while (turns >= 0) { nothing(); nothing(); nothing(); nothing(); } }
int main(void) { calls(); return 1; }
";
    let search = format!("-Wl,-rpath,{folder}");
    let flags = [
        "-O2",
        "-fomit-frame-pointer",
        "-Wl,-z,lazy",
        "-L",
        folder,
        &search,
        "-lnothing",
    ];
    let fixture = program(text, &flags);
    let Some(stacks) = sampled(&fixture) else {
        return;
    };
    assert_all_end_in(&stacks, &chain(&["calls"]));
    let bytes = run::read(fixture.path());
    let file = object::File::parse(&*bytes).expect("an ELF file");
    let stubs: Vec<_> = file
        .sections()
        .filter(|section| section.name().is_ok_and(|name| name.starts_with(".plt")))
        .map(|section| section.address()..section.address() + section.size())
        .collect();
    let is_stub = |stack: &Stack| stubs.iter().any(|stub| stub.contains(&stack.innermost.0));
    assert!(stacks.keys().any(is_stub), "{stubs:x?} {stacks:#?}");
}

#[test]
fn processes_that_end_before_anything_is_told_of_them_have_whole_stacks() {
    let text = "
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
KEEP long work(void) { for (turns = 0; turns < 100000; turns++) ; return turns; }
int main(int count, char **words) {
    if (count > 1) {
        clock_t end = clock() + CLOCKS_PER_SEC / 40;
        long done = 0;
        while (clock() < end) done += work();
        return done == 0;
    }
    for (;;) {
        if (fork() == 0) { execl(\"/proc/self/exe\", words[0], \"child\", (char *)0); _exit(1); }
        wait(0);
    }
}
";
    let fixture = program(text, &["-O2", "-fomit-frame-pointer"]);
    let Some(mut engine) = engine(fast()) else {
        return;
    };
    let path = real(&fixture.stripped());
    let running = Running::start(&mut Command::new(&path));
    let functions = Functions::of(fixture.path(), &path);
    let stacks = stacks_of_children(&mut engine, running.id(), &functions, 200);
    let whole = stacks
        .iter()
        .filter(|stack| stack.stop == Stop::Root)
        .count();
    assert!(
        whole * 100 >= stacks.len() * 85,
        "{whole} of {} are whole, others are {:#?}",
        stacks.len(),
        stacks
            .iter()
            .filter(|stack| stack.stop != Stop::Root)
            .collect::<Vec<_>>()
    );
    let expected = chain(&["work"]);
    assert!(stacks.iter().any(|stack| stack.frames == expected));
}
