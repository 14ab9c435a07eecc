//! Where in a binary the functions lie that interpret code: ranges of link addresses, from its symbol tables.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use object::read::ReadCache;
use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSymbol as _};
use unhex_build_id::Identity;
use unhex_symbols::address::LinkAddress;

use super::{Runtime, within};
use crate::processes::Binary;
use crate::sample::ProcessId;

/// Symbols of a table that are looked through: browsers have some hundred thousand.
const SYMBOLS_MAX: usize = 2_000_000;
/// Binaries whose loops are remembered: a host has some versions of some interpreters. Beyond it all are looked up again.
const BINARIES_MAX: usize = 1_024;

/// Ranges of link addresses that stand for interpreted code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterpreterLoops(Vec<Range<u64>>);

/// The loops of all binaries that were asked for.
#[derive(Debug)]
pub struct LoopCache {
    proc: PathBuf,
    known: HashMap<(Identity, Runtime), InterpreterLoops>,
}

impl InterpreterLoops {
    /// The loops of a runtime in the file of its library or program; none in a file that cannot be read, or has no such symbol.
    ///
    /// Parts that the compiler moved away (`.cold`) count, too; only `.symtab` has those. Reads the symbol tables and
    /// nothing else.
    pub fn of(file: File, runtime: Runtime) -> Self {
        let names = runtime.interpreter_loops();
        let cache = ReadCache::new(file);
        let Ok(file) = ElfFile64::<Endianness, _>::parse(&cache) else {
            return Self::default();
        };
        let symbols = file.symbols().chain(file.dynamic_symbols());
        let mut ranges = Vec::new();
        for symbol in symbols.take(SYMBOLS_MAX) {
            let Ok(name) = symbol.name() else { continue };
            let stem = name.split('.').next().unwrap_or(name);
            if symbol.size() > 0 && names.contains(&stem) {
                let end = symbol.address().saturating_add(symbol.size());
                ranges.push(symbol.address()..end);
            }
        }
        Self(ranges)
    }

    /// Whether code at a link address interprets.
    pub fn contains(&self, address: LinkAddress) -> bool {
        self.0.iter().any(|range| range.contains(&address.0))
    }
}

impl LoopCache {
    /// Nothing known yet of the processes under a folder, `/proc` but in tests.
    pub fn new(proc: impl Into<PathBuf>) -> Self {
        Self {
            proc: proc.into(),
            known: HashMap::new(),
        }
    }

    /// Whether code of a binary that a process has mapped interprets for its runtime. Reads the file when a binary is
    /// asked for first.
    pub fn interprets(
        &mut self,
        (process, runtime): (ProcessId, Runtime),
        binary: &Binary,
        address: LinkAddress,
    ) -> bool {
        if runtime.interpreter_loops().is_empty() || !runtime.may_be_in(&binary.name) {
            return false;
        }
        let Some(identity) = &binary.identity else {
            return false;
        };
        let key = (identity.clone(), runtime);
        if let Some(loops) = self.known.get(&key) {
            return loops.contains(address);
        }
        let folder = self.proc.join(process.0.to_string());
        let path = Path::new(binary.name.trim_end_matches(" (deleted)"));
        // A process that is gone says nothing of the binary: the next one that has it is asked.
        let Ok(file) = within::open(&folder, path) else {
            return false;
        };
        if self.known.len() >= BINARIES_MAX {
            self.known.clear();
        }
        let loops = self.known.entry(key).or_default();
        *loops = InterpreterLoops::of(file, runtime);
        loops.contains(address)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use unhex_testkit::fixture::Program;

    use super::*;
    use crate::processes::BinaryKind;

    const SOURCE: &str = "int _PyEval_EvalFrameDefault(int n) { return n ? _PyEval_EvalFrameDefault(n - 1) + 1 : 0; }\n\
                          int other(int n) { return n * 2; }\n\
                          int main(int n, char **a) { return _PyEval_EvalFrameDefault(n) + other(n); }\n";

    fn address_of(file: &Path, name: &str) -> LinkAddress {
        let bytes = fs::read(file).unwrap();
        let parsed = ElfFile64::<Endianness>::parse(&*bytes).unwrap();
        let symbol = parsed.symbols().find(|symbol| symbol.name() == Ok(name));
        LinkAddress(symbol.unwrap().address())
    }

    #[test]
    fn the_loop_is_found_by_its_symbol_also_in_a_stripped_library() {
        let built = Program::c(SOURCE).flags(&["-O0", "-rdynamic"]).build();
        let stripped = built.stripped();
        let inside = address_of(built.path(), "_PyEval_EvalFrameDefault");
        let outside = address_of(built.path(), "other");
        for file in [built.path(), &stripped] {
            let loops = InterpreterLoops::of(File::open(file).unwrap(), Runtime::Python);
            assert!(loops.contains(inside), "{file:?}");
            assert!(!loops.contains(outside), "{file:?}");
            let ruby = InterpreterLoops::of(File::open(file).unwrap(), Runtime::Ruby);
            assert!(!ruby.contains(inside), "{file:?}");
        }
    }

    #[test]
    fn a_binary_is_read_as_its_process_sees_it_and_remembered_by_its_identity() {
        let built = Program::c(SOURCE).flags(&["-O0", "-rdynamic"]).build();
        let proc = tempfile::tempdir().unwrap();
        let container = proc.path().join("container");
        fs::create_dir_all(container.join("usr/bin")).unwrap();
        fs::create_dir(proc.path().join("7")).unwrap();
        symlink(&container, proc.path().join("7/root")).unwrap();
        let program = container.join("usr/bin/python3.11");
        fs::copy(built.path(), &program).unwrap();
        let binary = |name: &str| Binary {
            name: name.to_owned(),
            identity: Some(Identity::Gnu(built.build_id().parse().unwrap())),
            kind: BinaryKind::File,
            ..Binary::anonymous()
        };
        let (python, other) = (binary("/usr/bin/python3.11"), binary("/usr/bin/other"));
        let inside = address_of(built.path(), "_PyEval_EvalFrameDefault");
        let mut cache = LoopCache::new(proc.path());
        let mut interprets =
            |pid, binary| cache.interprets((ProcessId(pid), Runtime::Python), binary, inside);
        // The process is gone already.
        assert!(!interprets(8, &python));
        assert!(interprets(7, &python));
        assert!(interprets(8, &python));
        assert!(!interprets(7, &other));
    }
}
