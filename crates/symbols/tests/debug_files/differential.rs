//! The converter against llvm-symbolizer, at the edges and in the middle of every function.

use std::path::{Path, PathBuf};

use unhex_symbols::elf::ElfFile;
use unhex_symbols::model::{Model, NONE};

use crate::llvm::{Aliases, LLVM_SYMBOLIZER, symbolize};
use crate::lookup::{Frame, frames, model_of};
use crate::toolchain::has_all;

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

/// A difference in which we are right, and why.
struct Explained {
    reason: &'static str,
    applies: fn(&[Frame], &[Frame]) -> bool,
}

const EXPLAINED: [Explained; 1] = [Explained {
    reason: "no line program covers the address; llvm answers the STT_FILE symbol, which is no path",
    applies: |ours, theirs| {
        matches!((ours, theirs), ([a], [b])
            if a.function == b.function && a.file.is_empty() && (a.line, b.line) == (0, 0)
                && !b.file.contains('/'))
    },
}];

/// Compares every function of a file with llvm's answer; panics with what is not explained.
fn compare(file: &Path) {
    let bytes = std::fs::read(file).unwrap();
    let model = model_of(&bytes);
    let aliases = Aliases::of(&bytes);
    let addresses = addresses(&aliases, &model);
    let all_theirs = symbolize(file, &addresses, &[]);
    let mut explained = [0; EXPLAINED.len()];
    let mut unexplained = Vec::new();
    for (&address, theirs) in addresses.iter().zip(&all_theirs) {
        let ours = frames(&model, address);
        if same(&aliases, &ours, theirs) {
            continue;
        }
        match EXPLAINED.iter().position(|e| (e.applies)(&ours, theirs)) {
            Some(number) => explained[number] += 1,
            None => unexplained.push(format!(
                "{address:#x}\n  ours   {ours:?}\n  theirs {theirs:?}\n"
            )),
        }
    }
    println!("{}: {} addresses", file.display(), addresses.len());
    for (explanation, count) in EXPLAINED.iter().zip(explained) {
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
    compare(&file);
}
