//! Which runtime a process has, and what becomes of frames that only it could unwind.
//!
//! Code that a just-in-time compiler wrote has no unwind tables, and the loop of an interpreter stands for functions that are data. Such
//! frames become one, named after the runtime: `[java]`, `[python]`. So a missing unwinder reads differently from missing symbols.

mod folding;
mod loops;
mod perf_map;
pub(crate) mod within;

pub use folding::{Folded, Seen, fold};
pub use loops::{InterpreterLoops, LoopCache};
pub use perf_map::{PerfMap, PerfMaps};

/// Something that runs code which is not native.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Runtime {
    /// `HotSpot` and its relatives.
    Java,
    /// `CPython`.
    Python,
    /// V8 in Node.js.
    Node,
    /// Ruby.
    Ruby,
    /// PHP.
    Php,
    /// Perl.
    Perl,
    /// Erlang and Elixir.
    Beam,
    /// .NET.
    DotNet,
    /// Lua with a just-in-time compiler.
    LuaJit,
}

/// How a runtime is told by the names of mapped files, and how it is called.
struct Signs {
    runtime: Runtime,
    /// Starts of names of shared libraries.
    libraries: &'static [&'static str],
    /// Names of programs, with a version behind or none.
    programs: &'static [&'static str],
    /// As its frames are called, within brackets.
    marker: &'static str,
    /// The word of `profile.frame.type`.
    frame_type: &'static str,
    /// Functions whose frames stand for interpreted code.
    interpreter_loops: &'static [&'static str],
}

/// A library decides before a program, since programs embed runtimes.
const SIGNS: [Signs; 9] = [
    Signs {
        runtime: Runtime::Java,
        libraries: &["libjvm.so"],
        programs: &[],
        marker: "[java]",
        frame_type: "jvm",
        interpreter_loops: &[],
    },
    Signs {
        runtime: Runtime::Python,
        libraries: &["libpython3", "libpython2"],
        programs: &["python"],
        marker: "[python]",
        frame_type: "cpython",
        interpreter_loops: &["_PyEval_EvalFrameDefault"],
    },
    Signs {
        runtime: Runtime::Node,
        libraries: &["libnode.so"],
        programs: &["node", "nodejs"],
        marker: "[node]",
        frame_type: "v8js",
        interpreter_loops: &[],
    },
    Signs {
        runtime: Runtime::DotNet,
        libraries: &["libcoreclr.so"],
        programs: &[],
        marker: "[dotnet]",
        frame_type: "dotnet",
        interpreter_loops: &[],
    },
    Signs {
        runtime: Runtime::Beam,
        libraries: &[],
        programs: &["beam.smp", "beam"],
        marker: "[beam]",
        frame_type: "beam",
        interpreter_loops: &[],
    },
    Signs {
        runtime: Runtime::Ruby,
        libraries: &["libruby"],
        programs: &["ruby"],
        marker: "[ruby]",
        frame_type: "ruby",
        interpreter_loops: &["rb_vm_exec"],
    },
    Signs {
        runtime: Runtime::Php,
        libraries: &["libphp"],
        programs: &["php", "php-fpm", "php-cgi"],
        marker: "[php]",
        frame_type: "php",
        interpreter_loops: &["execute_ex"],
    },
    Signs {
        runtime: Runtime::Perl,
        libraries: &["libperl.so"],
        programs: &["perl"],
        marker: "[perl]",
        frame_type: "perl",
        interpreter_loops: &["Perl_runops_standard"],
    },
    Signs {
        runtime: Runtime::LuaJit,
        libraries: &["libluajit"],
        programs: &["luajit"],
        marker: "[luajit]",
        frame_type: "luajit",
        interpreter_loops: &[],
    },
];

impl Runtime {
    /// The runtime of a process, by the names of its mapped files with code and the path of its executable.
    pub fn of(mapped_files: &[String], executable: &str) -> Option<Self> {
        let has = |prefix: &str| mapped_files.iter().any(|name| name.starts_with(prefix));
        let by_library = SIGNS
            .iter()
            .find(|signs| signs.libraries.iter().any(|prefix| has(prefix)));
        let program = file_name(executable);
        let by_program = || {
            SIGNS.iter().find(|signs| {
                signs
                    .programs
                    .iter()
                    .any(|name| is_version_of(program, name))
            })
        };
        by_library.or_else(by_program).map(|signs| signs.runtime)
    }

    /// What its frames are called.
    pub fn marker(self) -> &'static str {
        self.signs().map_or("[jit]", |signs| signs.marker)
    }

    /// The word of `profile.frame.type`.
    pub fn frame_type(self) -> &'static str {
        self.signs().map_or("", |signs| signs.frame_type)
    }

    /// Whether a mapped file may be the one that has its interpreter, by the name of its path.
    fn may_be_in(self, path: &str) -> bool {
        let name = file_name(path);
        self.signs().is_some_and(|signs| {
            let is_library = signs.libraries.iter().any(|start| name.starts_with(start));
            is_library || signs.programs.iter().any(|of| is_version_of(name, of))
        })
    }

    /// The functions whose frames stand for interpreted code.
    pub fn interpreter_loops(self) -> &'static [&'static str] {
        self.signs().map_or(&[], |signs| signs.interpreter_loops)
    }

    fn signs(self) -> Option<&'static Signs> {
        SIGNS.iter().find(|signs| signs.runtime == self)
    }
}

/// The last part of a path, as of a file that is still there.
fn file_name(path: &str) -> &str {
    let path = path.trim_end_matches(" (deleted)");
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether a program has this name, with a version behind or none.
fn is_version_of(program: &str, name: &str) -> bool {
    let version = program.strip_prefix(name);
    version.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[&str], executable: &str) -> Option<Runtime> {
        let files: Vec<String> = files.iter().map(|name| (*name).to_owned()).collect();
        Runtime::of(&files, executable)
    }

    #[test]
    fn a_runtime_is_told_by_its_library_or_its_program() {
        for (files, executable, expected) in [
            (
                &["java", "libjvm.so"][..],
                "/usr/bin/java",
                Some(Runtime::Java),
            ),
            (&["libpython3.11.so.1.0"], "/opt/app", Some(Runtime::Python)),
            (&[], "/usr/bin/python3.11", Some(Runtime::Python)),
            (&[], "/usr/bin/node (deleted)", Some(Runtime::Node)),
            (&[], "/usr/bin/node_exporter", None),
            (
                &[],
                "/usr/lib/erlang/erts-13/bin/beam.smp",
                Some(Runtime::Beam),
            ),
            (&[], "/usr/sbin/php-fpm8.2", Some(Runtime::Php)),
            (&["libcoreclr.so"], "/app/server", Some(Runtime::DotNet)),
            (&["libc.so.6"], "/usr/bin/cat", None),
        ] {
            assert_eq!(of(files, executable), expected, "{files:?} {executable}");
        }
    }

    #[test]
    fn every_runtime_has_a_name_that_reads_as_a_missing_unwinder() {
        for signs in &SIGNS {
            assert_eq!(signs.runtime.marker(), signs.marker);
            assert!(signs.marker.starts_with('[') && signs.marker.ends_with(']'));
            assert!(!signs.frame_type.is_empty());
        }
    }
}
