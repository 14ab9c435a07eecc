//! The converter against llvm-symbolizer, at the edges and in the middle of every function.

use std::path::{Path, PathBuf};

use unhex_symbols::elf::ElfFile;
use unhex_symbols::model::{Model, NONE};

use crate::llvm::{Aliases, LLVM_SYMBOLIZER, symbolize};
use crate::lookup::{Frame, frames, frames_of_index, index_of, model_of};
use crate::toolchain::{Workshop, has_all};

/// First, middle and last byte of every function that the symbols or the model know.
fn addresses(aliases: &Aliases, model: &Model) -> Vec<u64> {
    let roots = model.nodes.iter().filter(|node| node.parent == NONE);
    let roots = roots.map(|node| (node.entry, node.size_bytes));
    let mut addresses: Vec<u64> = aliases
        .functions
        .iter()
        .copied()
        .chain(roots)
        .flat_map(|(start, size)| [start, start + size / 2, start + size.max(1) - 1])
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// Which addresses of a file are compared.
#[derive(Clone, Copy)]
enum Which {
    /// First, middle and last byte of every function.
    EachFunction,
    /// Every n-th byte of code, between functions too.
    EveryNth(usize),
}

/// Every n-th byte of the sections with code.
fn code(file: &[u8], step: usize) -> Vec<u64> {
    let elf = ElfFile::parse(file).unwrap();
    let code = elf.sections.iter().filter(|section| section.is_code());
    let bytes = code.flat_map(|section| section.address..section.address + section.size);
    bytes.step_by(step).collect()
}

/// One address with both answers.
struct Case<'a> {
    address: u64,
    /// The addr2line crate, as second witness.
    witness: &'a addr2line::Loader,
    ours: &'a [Frame],
    theirs: &'a [Frame],
    aliases: &'a Aliases,
}

/// A difference in which we are right, and why.
struct Explained {
    reason: &'static str,
    applies: fn(&Case<'_>) -> bool,
}

const EXPLAINED: [Explained; 5] = [
    Explained {
        reason: "no line program covers the address; llvm answers the name of an STT_FILE symbol",
        applies: |case| {
            matches!((case.ours, case.theirs), ([a], [b])
                if case.aliases.same(&a.function, &b.function)
                    && a.file.is_empty() && (a.line, b.line) == (0, 0)
                    && case.aliases.is_file(&b.file) && !witness_has_line(case))
        },
    },
    Explained {
        reason: "the address is padding between functions; llvm names no function either, but the \
                 line of the function before",
        applies: |case| matches!((case.ours, case.theirs), ([], [b]) if b.function.is_empty()),
    },
    Explained {
        reason: "the address is in a PLT stub, which we name as objdump does (tested in packaging)",
        applies: |case| {
            let stub = matches!(case.ours, [a] if a.function.ends_with("@plt"));
            let guess = case
                .theirs
                .iter()
                .any(|b| case.aliases.reaches(&b.function, case.address));
            stub && !guess && !witness_has_function(case)
        },
    },
    Explained {
        reason: "the address is beyond the symbol that llvm answers, in another section",
        applies: |case| {
            matches!((case.ours, case.theirs), ([], [b])
                if b.line == 0 && !case.aliases.reaches(&b.function, case.address))
                && !witness_has_function(case)
        },
    },
    Explained {
        reason: "the address is in a function of assembler, by the size of its symbol, and the debug \
                 information has no other there; llvm answers a label within it, without a size",
        applies: |case| {
            matches!((case.ours, case.theirs), ([a], [b])
                if (&a.file, a.line, a.column) == (&b.file, b.line, b.column)
                    && case.aliases.is_label_inside(&b.function, &a.function, case.address)
                    && !witness_has_other_function(case, &a.function))
        },
    },
];

fn witness_has_line(case: &Case<'_>) -> bool {
    let location = case.witness.find_location(case.address).unwrap();
    location.is_some_and(|location| location.line.is_some())
}

/// Whether the debug information has a function there.
fn witness_has_function(case: &Case<'_>) -> bool {
    let mut frames = case.witness.find_frames(case.address).unwrap();
    frames
        .next()
        .unwrap()
        .is_some_and(|frame| frame.function.is_some())
}

/// Whether the debug information has another function there than `name`, or an alias of it.
fn witness_has_other_function(case: &Case<'_>, name: &str) -> bool {
    let mut frames = case.witness.find_frames(case.address).unwrap();
    let frame = frames.next().unwrap();
    let function = frame.and_then(|frame| frame.function);
    function.is_some_and(|function| {
        let found = function.raw_name().unwrap();
        !case.aliases.same(&found, name)
    })
}

/// Compares every function of a file with llvm's answer; panics with what is not explained.
fn compare(file: &Path, which: Which) {
    let bytes = std::fs::read(file).unwrap();
    let model = model_of(&bytes);
    let aliases = Aliases::of(&bytes);
    let witness = addr2line::Loader::new(file).unwrap();
    let addresses = match which {
        Which::EachFunction => addresses(&aliases, &model),
        Which::EveryNth(step) => code(&bytes, step),
    };
    let index = index_of(model.clone());
    let all_theirs = symbolize(file, &addresses, &[]);
    let mut explained = [0; EXPLAINED.len()];
    let mut unexplained = Vec::new();
    for (&address, theirs) in addresses.iter().zip(&all_theirs) {
        let ours = frames_of_index(&index, address);
        assert_eq!(ours, frames(&model, address), "the index at {address:#x}");
        if same(&aliases, &ours, theirs) {
            continue;
        }
        let case = Case {
            address,
            witness: &witness,
            ours: &ours,
            theirs,
            aliases: &aliases,
        };
        match EXPLAINED.iter().position(|e| (e.applies)(&case)) {
            Some(number) => explained[number] += 1,
            None => unexplained.push(format!(
                "{address:#x}\n  ours   {ours:?}\n  theirs {theirs:?}\n"
            )),
        }
    }
    println!("{}: {} addresses", file.display(), addresses.len());
    for (explanation, count) in EXPLAINED.iter().zip(explained).filter(|(_, n)| *n > 0) {
        println!("  {count} differ since {}", explanation.reason);
    }
    let some = unexplained[..unexplained.len().min(40)].concat();
    let count = unexplained.len();
    assert!(
        unexplained.is_empty(),
        "{}: {count} unexplained\n{some}",
        file.display()
    );
}

fn same(aliases: &Aliases, ours: &[Frame], theirs: &[Frame]) -> bool {
    let place = |frame: &Frame| (frame.file.clone(), frame.line, frame.column);
    ours.len() == theirs.len()
        && ours
            .iter()
            .zip(theirs)
            .all(|(a, b)| aliases.same(&a.function, &b.function) && place(a) == place(b))
}

fn libc6_dbg() -> Option<PathBuf> {
    let libc = std::fs::read("/lib/x86_64-linux-gnu/libc.so.6").ok()?;
    ElfFile::parse(&libc).ok()?;
    let id = unhex_build_id::ElfIdentities::read(&libc).gnu?.to_string();
    let (folder, name) = id.split_at(2);
    let path = format!("/usr/lib/debug/.build-id/{folder}/{name}.debug");
    Some(PathBuf::from(path)).filter(|path| path.exists())
}

#[test]
fn libc_has_the_functions_calls_and_lines_that_llvm_finds() {
    let Some(file) = libc6_dbg().filter(|_| has_all(&[(LLVM_SYMBOLIZER, "llvm-19")])) else {
        return;
    };
    compare(&file, Which::EachFunction);
    compare(&file, Which::EveryNth(29));
}

#[test]
fn a_cpp_program_has_the_functions_calls_and_lines_that_llvm_finds() {
    if !has_all(&[
        (LLVM_SYMBOLIZER, "llvm-19"),
        ("g++", "g++"),
        ("clang++-19", "clang-19"),
    ]) {
        return;
    }
    let workshop = Workshop::new("deep-cpp");
    workshop.write("deep.cpp", include_str!("fixtures/deep.cpp"));
    for compiler in ["g++", "clang++-19"] {
        workshop.run(compiler, "-g -O2 -std=c++17 -o deep deep.cpp");
        compare(&workshop.path("deep"), Which::EachFunction);
        compare(&workshop.path("deep"), Which::EveryNth(7));
    }
}

#[test]
fn a_clone_of_a_constructor_has_the_name_that_llvm_finds() {
    if !has_all(&[(LLVM_SYMBOLIZER, "llvm-19"), ("g++", "g++")]) {
        return;
    }
    let workshop = Workshop::new("clones");
    workshop.write("clones.cpp", include_str!("fixtures/clones.cpp"));
    workshop.run("g++", "-g -O2 -fwhole-program -o clones clones.cpp");
    let model = model_of(&workshop.read("clones"));
    let names = model.functions.iter().map(|f| f.linkage_name.as_str());
    let names: Vec<&str> = names.filter(|name| name.contains("constprop")).collect();
    assert_eq!(names, ["_ZN5RangeC2EPKclb.constprop.0"]);
    compare(&workshop.path("clones"), Which::EveryNth(1));
}

#[test]
fn a_rust_program_has_the_functions_calls_and_lines_that_llvm_finds() {
    if !has_all(&[(LLVM_SYMBOLIZER, "llvm-19"), ("rustc", "rustc")]) {
        return;
    }
    let workshop = Workshop::new("rust-program");
    workshop.write("program.rs", include_str!("fixtures/program.rs"));
    workshop.run("rustc", "-g -O --edition 2021 -o program program.rs");
    compare(&workshop.path("program"), Which::EachFunction);
    compare(&workshop.path("program"), Which::EveryNth(13));
}

/// A function with a label in it that the assembler keeps as a symbol, and one that has no type.
const LABELS: &str = "
    .text
    .globl _start, untyped
    .type _start, @function
_start:
    nop
inner_loop:
    nop
    jmp inner_loop
    .size _start, . - _start
untyped:
    nop
inner_end:
    ret
    .size untyped, . - untyped
";

#[test]
fn a_label_in_a_function_of_assembler_is_no_function() {
    if !has_all(&[(LLVM_SYMBOLIZER, "llvm-19"), ("gcc", "gcc")]) {
        return;
    }
    let workshop = Workshop::new("labels");
    workshop.write("labels.s", LABELS);
    workshop.run("gcc", "-g -nostdlib -static -o labels labels.s");
    let file = workshop.path("labels");
    compare(&file, Which::EveryNth(1));
    let bytes = std::fs::read(file).unwrap();
    let index = index_of(model_of(&bytes));
    let mut names: Vec<String> = code(&bytes, 1)
        .into_iter()
        .flat_map(|address| frames_of_index(&index, address))
        .map(|frame| frame.function)
        .collect();
    names.dedup();
    assert_eq!(names, ["_start", "untyped"]);
}

/// Debug files to compare, a list as that of `PATH`: too large, or too slow to make, for every run.
const DEBUG_FILES: &str = "UNHEX_DEBUG_FILES";

#[test]
#[ignore = "compares the files that UNHEX_DEBUG_FILES lists, see CONTRIBUTING.md"]
fn the_listed_files_have_the_functions_calls_and_lines_that_llvm_finds() {
    let listed = std::env::var_os(DEBUG_FILES).expect("UNHEX_DEBUG_FILES lists debug files");
    assert!(has_all(&[(LLVM_SYMBOLIZER, "llvm-19")]));
    for file in std::env::split_paths(&listed) {
        compare(&file, Which::EachFunction);
    }
}

/// How one program is compiled, linked and packed: the first line of each makes `small`.
const VARIANTS: [(&str, &str); 22] = [
    ("g++", "-gdwarf-2 -gno-strict-dwarf"),
    ("g++", "-gdwarf-3"),
    ("g++", "-gdwarf-4"),
    ("g++", "-gdwarf-5"),
    ("g++", "-gdwarf-5 -gdwarf64"),
    ("g++", "-g -O0"),
    ("g++", "-g -O3 -no-pie"),
    ("g++", "-g1"),
    ("g++", "-g -flto"),
    ("g++", "-g -gz=zlib"),
    ("g++", "-g -flto -gz=zlib"),
    ("g++", "-g -ffunction-sections -Wl,--gc-sections"),
    (
        "g++",
        "-g -ffunction-sections -fuse-ld=gold -Wl,--gc-sections -Wl,--icf=all",
    ),
    (
        "g++",
        "-g -freorder-blocks-and-partition -O2 -fdebug-types-section",
    ),
    ("clang++-19", "-gdwarf-4"),
    ("clang++-19", "-gdwarf-5"),
    ("clang++-19", "-gdwarf-5 -gdwarf64"),
    ("clang++-19", "-gline-tables-only"),
    (
        "clang++-19",
        "-g -ffunction-sections -fuse-ld=lld -Wl,--gc-sections",
    ),
    (
        "clang++-19",
        "-g -ffunction-sections -fuse-ld=lld -Wl,--gc-sections -Wl,--icf=all",
    ),
    (
        "clang++-19",
        "-g -O0 -fuse-ld=lld -Wl,--compress-debug-sections=zstd",
    ),
    ("clang++-19", "-g -flto -fuse-ld=lld"),
];

#[test]
fn every_way_of_packing_has_the_functions_calls_and_lines_that_llvm_finds() {
    if !has_all(&[
        (LLVM_SYMBOLIZER, "llvm-19"),
        ("g++", "g++"),
        ("clang++-19", "clang-19"),
        ("ld.lld-19", "lld-19"),
        ("gold", "binutils"),
    ]) {
        return;
    }
    let workshop = Workshop::new("variants");
    workshop.write("small.cpp", include_str!("fixtures/small.cpp"));
    workshop.write("small.h", include_str!("fixtures/small.h"));
    for (compiler, flags) in VARIANTS {
        println!("{compiler} {flags}");
        let linker = if compiler == "g++" { "" } else { "--ld-path=" };
        let flags = if flags.contains("-fuse-ld=lld") && !linker.is_empty() {
            flags.replace("-fuse-ld=lld", "--ld-path=/usr/bin/ld.lld-19")
        } else {
            flags.to_owned()
        };
        workshop.run(compiler, &format!("-O2 {flags} -o small small.cpp"));
        compare(&workshop.path("small"), Which::EveryNth(1));
    }
}
