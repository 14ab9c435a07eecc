//! Programs, each with the call chain that it has by construction. Each spins where it stays, in `spin`, after it has
//! said that it is there.

use std::process::Command;

use unhex_agent::engine::Engine;
use unhex_agent::sample::Stop;
use unhex_build_id::{FileHash, Identity};
use unhex_testkit::fixture::{Fixture, Program};
use unhex_testkit::{run, tools};

use crate::chains::{Expected, Running, Sight, compare, folder};
use crate::engines::Opened;
use crate::privileges::skip;

/// What each C program begins with.
const SPIN: &str = "
#include <unistd.h>
#define FUNCTION __attribute__((noinline, noclone))
volatile unsigned long sink;
FUNCTION void spin(void) {
    if (write(1, \"ready\\n\", 6) != 6) _exit(1);
    for (;;) sink++;
}
";

fn c(text: &str) -> Program {
    Program::c(format!("{SPIN}{text}")).flags(&["-O2", "-fno-optimize-sibling-calls"])
}

const NESTED: &str = "
FUNCTION void mid(void) { spin(); sink++; }
FUNCTION void outer(void) { mid(); sink++; }
int main(void) { outer(); return 0; }
";

const NESTED_CHAIN: &[&str] = &["spin", "mid", "outer", "main", "_start"];

type Open<'a> = &'a dyn Fn() -> Option<Opened>;

/// Runs a program and compares; `None` where there is no engine.
fn check(open: Open<'_>, command: &mut Command, expected: &Expected) -> Option<Sight> {
    let _running = Running::start(command);
    let mut opened = open()?;
    Some(compare(&mut opened, expected))
}

/// Whether an engine copies stacks, and so has but a part of them.
fn copies(engine: &mut dyn Engine) -> bool {
    engine.name() == "perf_copy"
}

/// As [`check`], of a stack that is too large to be copied.
fn check_large(open: Open<'_>, command: &mut Command, expected: impl Fn() -> Expected) {
    let _running = Running::start(command);
    let Some(mut opened) = open() else {
        return;
    };
    let expected = if copies(opened.parts().0) {
        expected().cut_by(Stop::Truncated)
    } else {
        expected()
    };
    compare(&mut opened, &expected);
}

/// As [`check`], of mappings that are new all the time: an engine in the kernel hears of them when samples of them were
/// taken already, and says so.
fn check_fleeting(open: Open<'_>, command: &mut Command, expected: Expected) {
    let _running = Running::start(command);
    let Some(mut opened) = open() else {
        return;
    };
    let expected = if copies(opened.parts().0) {
        expected
    } else {
        expected.or_cut_by(&[Stop::NoMapping, Stop::NoUnwindInfo])
    };
    compare(&mut opened, &expected);
}

pub(crate) fn deep_recursion_without_frame_pointers(open: Open<'_>) {
    let program = c("
        FUNCTION void down(int depth) { if (depth) down(depth - 1); else spin(); sink++; }
        int main(void) { down(59); return 0; }")
    .flags(&["-fomit-frame-pointer"])
    .build();
    let expected = Expected::chains(program.path(), &[&["spin", "down*60", "main", "_start"]]);
    check(open, &mut Command::new(program.path()), &expected);
}

pub(crate) fn a_frame_pointer_that_is_used_for_something_else(open: Open<'_>) {
    let program = Program::assembler(
        "
        .globl main
        .type main, @function
main:   .cfi_startproc
        sub $8, %rsp
        .cfi_adjust_cfa_offset 8
        call outer
        add $8, %rsp
        .cfi_adjust_cfa_offset -8
        ret
        .cfi_endproc
        .size main, . - main
        .type outer, @function
outer:  .cfi_startproc
        push %rbp
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %rbp, 0
        lea -1(%rsp), %rbp
        call spin
        pop %rbp
        .cfi_adjust_cfa_offset -8
        .cfi_restore %rbp
        ret
        .cfi_endproc
        .size outer, . - outer
        .type spin, @function
spin:   .cfi_startproc
        sub $8, %rsp
        .cfi_adjust_cfa_offset 8
        mov $1, %edi
        lea word(%rip), %rsi
        mov $6, %edx
        call write@PLT
1:      add $1, %rax
        jmp 1b
        .cfi_endproc
        .size spin, . - spin
        .section .rodata
word:   .ascii \"ready\\n\"
        .section .note.GNU-stack, \"\", @progbits
",
    )
    .build();
    let expected = Expected::chains(program.path(), &[&["spin", "outer", "main", "_start"]]);
    check(open, &mut Command::new(program.path()), &expected);
}

/// The signal comes at the first instruction of a function: a byte before it is another function.
pub(crate) fn a_signal_handler_is_called_by_what_it_interrupted(open: Open<'_>) {
    let program = c("
        #include <signal.h>
        FUNCTION void handler(int number) { spin(); sink = number; }
        FUNCTION void faulty(void) { __asm__ volatile(\"ud2\"); sink++; }
        FUNCTION void caller(void) { faulty(); sink++; }
        int main(void) {
            signal(SIGILL, handler);
            caller();
            return 0;
        }")
    .build();
    let chain = ["spin", "handler", "faulty", "caller", "main", "_start"];
    let expected = Expected::chains(program.path(), &[&chain]);
    check(open, &mut Command::new(program.path()), &expected);
}

pub(crate) fn calls_of_the_vdso(open: Open<'_>) {
    let program = c("
        #include <time.h>
        FUNCTION void watch(void) {
            struct timespec now;
            if (write(1, \"ready\\n\", 6) != 6) _exit(1);
            for (;;) { clock_gettime(CLOCK_MONOTONIC, &now); sink += now.tv_nsec; }
        }
        FUNCTION void outer(void) { watch(); sink++; }
        int main(void) { outer(); return 0; }")
    .build();
    let expected = Expected::chains(program.path(), &[&["watch", "outer", "main", "_start"]]);
    let sight = check(open, &mut Command::new(program.path()), &expected);
    if let Some(sight) = sight {
        assert!(sight.in_vdso > 20, "{sight:?}");
    }
}

fn library(name: &str, text: &str) -> Fixture {
    let flags = ["-O2", "-shared", "-fPIC", "-fno-optimize-sibling-calls"];
    Program::c(text).name(name).flags(&flags).build()
}

pub(crate) fn libraries_that_come_and_go(open: Open<'_>) {
    let plugin = |name: &str| {
        let text = format!(
            "void busy_{name}(void) {{ for (volatile long i = 0; i < 3000000; i++); }}
             void plugin(void) {{ busy_{name}(); __asm__ volatile(\"\"); }}"
        );
        library(&format!("lib{name}.so"), &text)
    };
    let (first, second) = (plugin("first"), plugin("second"));
    let program = c("
        #include <dlfcn.h>
        FUNCTION void load(const char *path) {
            void *library = dlopen(path, RTLD_NOW);
            void (*plugin)(void) = (void (*)(void))dlsym(library, \"plugin\");
            plugin();
            dlclose(library);
        }
        int main(int count, char **paths) {
            if (write(1, \"ready\\n\", 6) != 6) _exit(1);
            for (;;) for (int i = 1; i < count; i++) load(paths[i]);
        }")
    .build();
    let chains: [&[&str]; 5] = [
        &["busy_first", "plugin", "load", "main", "_start"],
        &["busy_second", "plugin", "load", "main", "_start"],
        &["plugin", "load", "main", "_start"],
        &["load", "main", "_start"],
        &["main", "_start"],
    ];
    let expected = Expected::chains(program.path(), &chains);
    let expected = expected.file(first.path()).file(second.path());
    let mut command = Command::new(program.path());
    check_fleeting(open, command.args([first.path(), second.path()]), expected);
}

/// Processes that run for some milliseconds each: their first sample has their mappings.
pub(crate) fn a_storm_of_processes(open: Open<'_>) {
    let program = c("
        #include <sys/wait.h>
        FUNCTION void busy(void) { for (volatile long i = 0; i < 10000000; i++); }
        FUNCTION void child(void) { busy(); sink++; }
        FUNCTION void storm(char *self) {
            if (write(1, \"ready\\n\", 6) != 6) _exit(1);
            for (;;) {
                int id = fork();
                if (!id) { execl(self, self, \"child\", (char *)0); _exit(1); }
                waitpid(id, 0, 0);
            }
        }
        int main(int count, char **arguments) {
            if (count > 1) child(); else storm(arguments[0]);
            return 0;
        }")
    .build();
    // The loader's own code is called by nobody; `main` shows in what it calls before.
    let chains: [&[&str]; 4] = [
        &["busy", "child", "main", "_start"],
        &["storm", "main", "_start"],
        &["_start"],
        &[],
    ];
    let expected = Expected::chains(program.path(), &chains).in_user_code();
    check_fleeting(open, &mut Command::new(program.path()), expected);
}

pub(crate) fn calls_through_the_procedure_linkage_table(open: Open<'_>) {
    let library = library("libstep.so", "void step(void) { __asm__ volatile(\"\"); }");
    let folder = library.path().parent().unwrap().to_str().unwrap();
    let program = c("
        extern void step(void);
        FUNCTION void loop(void) {
            if (write(1, \"ready\\n\", 6) != 6) _exit(1);
            for (;;) { step(); step(); step(); step(); step(); step(); step(); step(); }
        }
        int main(void) { loop(); return 0; }")
    .flags(&[
        library.path().to_str().unwrap(),
        &format!("-Wl,-rpath,{folder},-z,lazy"),
        "-fplt",
    ])
    .build();
    let chains: [&[&str]; 2] = [
        &["step", "loop", "main", "_start"],
        &["loop", "main", "_start"],
    ];
    let expected = Expected::chains(program.path(), &chains).file(library.path());
    check(open, &mut Command::new(program.path()), &expected);
}

fn a_large_frame(open: Open<'_>, bytes: usize) {
    let program = c(&format!(
        "
        FUNCTION void large(void) {{
            volatile char room[{bytes}];
            for (long i = 0; i < {bytes}; i += 4096) room[i] = 1;
            spin();
            sink += room[0];
        }}
        int main(void) {{ large(); return 0; }}"
    ))
    .build();
    let chain = ["spin", "large", "main", "_start"];
    let expected = || Expected::chains(program.path(), &[&chain]);
    check_large(open, &mut Command::new(program.path()), expected);
}

pub(crate) fn a_frame_of_400_kib(open: Open<'_>) {
    a_large_frame(open, 400 << 10);
}

pub(crate) fn a_frame_of_800_kib(open: Open<'_>) {
    a_large_frame(open, 800 << 10);
}

pub(crate) fn a_stack_of_100_kib(open: Open<'_>) {
    let program = c("
        FUNCTION void down(int depth) {
            volatile char room[1024];
            for (int i = 0; i < 1024; i++) room[i] = 1;
            if (depth) down(depth - 1); else spin();
            sink += room[0];
        }
        int main(void) { down(99); return 0; }")
    .build();
    let chain = ["spin", "down*100", "main", "_start"];
    let expected = || Expected::chains(program.path(), &[&chain]);
    check_large(open, &mut Command::new(program.path()), expected);
}

pub(crate) fn nothing_but_frame_pointers(open: Open<'_>) {
    let flags = [
        "-fno-omit-frame-pointer",
        "-fno-asynchronous-unwind-tables",
        "-fno-unwind-tables",
    ];
    let program = c(NESTED).flags(&flags).build();
    let expected = Expected::chains(program.path(), &[NESTED_CHAIN]);
    check(open, &mut Command::new(program.path()), &expected);
}

pub(crate) fn a_stripped_program(open: Open<'_>) {
    let program = c(NESTED).build();
    let stripped = program.stripped();
    let name = stripped.to_str().unwrap();
    let expected = Expected::chains(program.path(), &[NESTED_CHAIN]).of_mapped(name);
    check(open, &mut Command::new(&stripped), &expected);
}

pub(crate) fn a_program_without_a_build_id(open: Open<'_>) {
    let program = c(NESTED).without_build_id().build();
    let expected = Expected::chains(program.path(), &[NESTED_CHAIN]);
    let sight = check(open, &mut Command::new(program.path()), &expected);
    if let Some(sight) = sight {
        let hash = FileHash::of(&program.bytes());
        assert_eq!(sight.identities, [Identity::FileHash(hash)]);
    }
}

pub(crate) fn a_program_whose_file_was_deleted(open: Open<'_>) {
    let program = c(NESTED).build();
    let (_folder, path) = folder();
    let copy = path.join("gone soon");
    std::fs::copy(program.path(), &copy).unwrap();
    let expected =
        Expected::chains(program.path(), &[NESTED_CHAIN]).of_mapped(copy.to_str().unwrap());
    let _running = Running::start(&mut Command::new(&copy));
    std::fs::remove_file(&copy).unwrap();
    let Some(mut opened) = open() else {
        return;
    };
    let sight = compare(&mut opened, &expected);
    let build_id = program.build_id().parse().unwrap();
    assert_eq!(sight.identities, [Identity::Gnu(build_id)]);
}

pub(crate) fn a_program_in_memory_alone(open: Open<'_>) {
    let program = c(NESTED).build();
    let launcher = Program::c(
        "
        #define _GNU_SOURCE
        #include <fcntl.h>
        #include <sys/mman.h>
        #include <sys/sendfile.h>
        #include <unistd.h>
        int main(int count, char **words) {
            int file = open(words[1], O_RDONLY), memory = memfd_create(\"inside\", MFD_CLOEXEC);
            while (sendfile(memory, file, 0, 1 << 20) > 0);
            char *none[] = { 0 };
            return fexecve(memory, words + 1, none);
        }",
    )
    .build();
    let mut command = Command::new(launcher.path());
    let expected = Expected::chains(program.path(), &[NESTED_CHAIN]).of_mapped("/memfd:inside");
    let sight = check(open, command.arg(program.path()), &expected);
    if let Some(sight) = sight {
        let build_id = program.build_id().parse().unwrap();
        assert_eq!(sight.identities, [Identity::Gnu(build_id)]);
    }
}

pub(crate) fn a_program_in_namespaces_of_its_own(open: Open<'_>) {
    if !rustix::process::geteuid().is_root() {
        skip("CAP_SYS_ADMIN is missing: no namespaces can be made");
        return;
    }
    let program = c(NESTED).build();
    let Some(unshare) = tools::UNSHARE.find() else {
        return;
    };
    // Nobody else sees the file, and it does not lie on a disk.
    let script = "mount -t tmpfs none /mnt && cp \"$1\" /mnt/inside && exec /mnt/inside";
    let mut command = Command::new(unshare);
    command.args([
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "sh",
        "-c",
        script,
        "sh",
    ]);
    let expected = Expected::chains(program.path(), &[NESTED_CHAIN]).of_mapped("/mnt/inside");
    check(open, command.arg(program.path()), &expected);
}

pub(crate) fn threads_of_a_rust_program(open: Open<'_>) {
    let program = Program::rust(
        "
        use std::io::Write;
        use std::sync::atomic::{AtomicU64, Ordering};
        static SINK: AtomicU64 = AtomicU64::new(0);
        #[inline(never)] #[unsafe(no_mangle)] extern \"C\" fn spin() {
            std::io::stdout().write_all(b\"ready\\n\").unwrap();
            std::io::stdout().flush().unwrap();
            loop { SINK.fetch_add(1, Ordering::Relaxed); }
        }
        #[inline(never)] #[unsafe(no_mangle)] extern \"C\" fn mid() { spin(); SINK.fetch_add(1, Ordering::Relaxed); }
        #[inline(never)] #[unsafe(no_mangle)] extern \"C\" fn outer() { mid(); SINK.fetch_add(1, Ordering::Relaxed); }
        fn main() { std::thread::spawn(|| outer()).join().unwrap(); }",
    )
    .flags(&["-O"])
    .build();
    let expected = Expected::chains(program.path(), &[&["spin", "mid", "outer"]]).and_callers();
    check(open, &mut Command::new(program.path()), &expected);
}

/// A destructor that is called while an exception goes by, after two others were caught.
pub(crate) fn cleanup_and_catch_of_a_cpp_exception(open: Open<'_>) {
    let program = Program::cpp(format!(
        "extern \"C\" {{ {SPIN} }}
        struct Guard {{ FUNCTION ~Guard(); }};
        Guard::~Guard() {{ spin(); sink++; }}
        extern \"C\" FUNCTION void thrower(void) {{ if (sink < 1000) throw 1; }}
        extern \"C\" FUNCTION void guarded(void) {{ Guard guard; thrower(); }}
        extern \"C\" FUNCTION void catcher(void) {{
            try {{ thrower(); }} catch (int) {{ sink++; guarded(); sink++; }}
        }}
        int main() {{
            try {{ thrower(); }} catch (int) {{ catcher(); }}
            return 0;
        }}"
    ))
    .flags(&["-O2", "-fno-optimize-sibling-calls"])
    .build();
    let chain: [&str; 6] = [
        "spin",
        "_ZN5GuardD2Ev",
        "guarded",
        "catcher",
        "main",
        "_start",
    ];
    let expected = Expected::chains(program.path(), &[&chain]);
    check(open, &mut Command::new(program.path()), &expected);
}

pub(crate) fn goroutines(open: Open<'_>) {
    let Some(go) = tools::GO.find() else {
        return;
    };
    let (_folder, path) = folder();
    let source = "package main
import \"os\"
var sink uint64
//go:noinline
func note(i uint64) { sink += i }
//go:noinline
func spin() {
    os.Stdout.WriteString(\"ready\\n\")
    for i := uint64(0); ; i++ {
        if i % 1000000 == 0 { note(i) }
    }
}
//go:noinline
func mid() { spin(); sink++ }
//go:noinline
func outer() { mid(); sink++ }
func main() {
    done := make(chan bool)
    go func() { outer(); done <- true }()
    <-done
}
";
    std::fs::write(path.join("main.go"), source).unwrap();
    let program = path.join("spinner");
    let mut build = Command::new(go);
    build
        .current_dir(&path)
        .env("GO111MODULE", "off")
        .env("CGO_ENABLED", "0");
    run::succeed(build.args(["build", "-o"]).arg(&program).arg("main.go"));
    let chains: [&[&str]; 2] = [
        &[
            "main.spin",
            "main.mid",
            "main.outer",
            "main.main.func1",
            "runtime.goexit.abi0",
        ],
        &[
            "main.note",
            "main.spin",
            "main.mid",
            "main.outer",
            "main.main.func1",
            "runtime.goexit.abi0",
        ],
    ];
    let expected = Expected::chains(&program, &chains).in_functions(&["main.spin", "main.note"]);
    check(open, &mut Command::new(&program), &expected);
}

/// A program that writes a function into memory, which calls `spin`.
fn compiler(function: &str) -> Fixture {
    c(&format!(
        "
        #include <string.h>
        #include <sys/mman.h>
        FUNCTION void call(unsigned char *code) {{ ((void (*)(void))code)(); sink++; }}
        int main(void) {{
            unsigned char function[] = {{ {function} }};
            void (*target)(void) = spin;
            int protection = PROT_READ | PROT_WRITE | PROT_EXEC;
            unsigned char *code = mmap(0, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            memcpy(code, function, sizeof function);
            memcpy(memmem(code, 4096, \"TTTTTTTT\", 8), &target, 8);
            call(code);
            return 0;
        }}"
    ))
    .flags(&["-D_GNU_SOURCE"])
    .build()
}

pub(crate) fn code_made_at_run_time_with_frame_pointers(open: Open<'_>) {
    // push %rbp; mov %rsp, %rbp; movabs $spin, %rax; call *%rax
    let program = compiler(
        "0x55, 0x48, 0x89, 0xe5, 0x48, 0xb8, 'T', 'T', 'T', 'T', 'T', 'T', 'T', 'T', 0xff, 0xd0",
    );
    let expected = Expected::chains(program.path(), &[&["spin", "call", "main", "_start"]]);
    check(open, &mut Command::new(program.path()), &expected);
}

pub(crate) fn code_made_at_run_time_without_frame_pointers(open: Open<'_>) {
    // mov $0x1234, %ebp; push %rax; movabs $spin, %rax; call *%rax
    let program = compiler(
        "0xbd, 0x34, 0x12, 0, 0, 0x50, 0x48, 0xb8, 'T', 'T', 'T', 'T', 'T', 'T', 'T', 'T', 0xff, 0xd0",
    );
    let expected = Expected::chains(program.path(), &[&["spin"]]).cut_by(Stop::Jit);
    check(open, &mut Command::new(program.path()), &expected);
}

pub(crate) fn a_stack_of_more_frames_than_a_sample_has(open: Open<'_>) {
    let program = c("
        FUNCTION void down(int depth) { if (depth) down(depth - 1); else spin(); sink++; }
        int main(void) { down(1999); return 0; }")
    .build();
    let chain = ["spin", "down*2000", "main", "_start"];
    let expected = Expected::chains(program.path(), &[&chain]).cut_by(Stop::Depth);
    check(open, &mut Command::new(program.path()), &expected);
}
