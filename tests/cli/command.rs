//! Runs `unhex` in a folder of its own, and the server that it talks to.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use unhex_testkit::fixture::{Fixture, Program};
use unhex_testkit::run::{Finished, finish};
use unhex_testkit::server::Server;

/// The program under test.
pub const UNHEX: &str = env!("CARGO_BIN_EXE_unhex");

/// The build ID of [`program`].
pub const BUILD_ID: &str = "c11c11c11c11c11c11c11c11c11c11c11c11c11c";

/// A folder to work in, and perhaps a server.
pub struct Workplace {
    folder: TempDir,
    server: Option<Server>,
}

impl Workplace {
    /// Without a server: the address is one where nobody listens.
    pub fn alone() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            server: None,
        }
    }

    /// With a server on a free port and an empty store.
    pub fn with_server() -> Self {
        Self {
            server: Some(Server::start(UNHEX)),
            ..Self::alone()
        }
    }

    /// With a server that was started with these arguments.
    pub fn with_server_of(arguments: &[&str]) -> Self {
        Self {
            server: Some(Server::start_in(
                unhex_testkit::server::Home::new(),
                UNHEX,
                arguments,
            )),
            ..Self::alone()
        }
    }

    /// The server.
    pub fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Copies a file into the folder.
    pub fn put(&self, name: &str, from: impl AsRef<Path>) -> PathBuf {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::copy(from, &path).unwrap();
        path
    }

    /// `unhex` with arguments, in the folder, without the variables of whoever runs the tests.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(UNHEX);
        command.args(arguments).current_dir(self.path());
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"UNHEX_") {
                command.env_remove(name);
            }
        }
        let nobody = "http://127.0.0.1:1".to_owned();
        let url = self.server.as_ref().map_or(nobody, |server| server.url(""));
        command.env("UNHEX_SERVER", url);
        command
    }

    /// Runs `unhex` to its end.
    pub fn unhex(&self, arguments: &[&str]) -> Finished {
        finish(&mut self.command(arguments))
    }

    /// Runs `unhex ... --json` and reads what it prints.
    pub fn json(&self, arguments: &[&str]) -> (i32, Value) {
        let finished = self.unhex(&[arguments, &["--json"]].concat());
        let value = serde_json::from_slice(&finished.stdout)
            .unwrap_or_else(|error| panic!("{error}\n{}", finished.all()));
        (code(&finished), value)
    }
}

/// The exit status.
pub fn code(finished: &Finished) -> i32 {
    finished.status.code().unwrap()
}

/// A C program with inlined calls and a pinned build ID.
pub fn program() -> Fixture {
    let text = "\
static volatile int seen;
static inline int twice(int n) {
  seen = n;
  return seen * 2;
}
__attribute__((noinline)) int thrice(int n) { return n + twice(n); }
int main(int argc, char **argv) { return thrice(argc); }
";
    Program::c(text)
        .flags(&["-g", "-O1"])
        .build_id(BUILD_ID)
        .build()
}

/// The same program, named by its real source paths.
pub fn program_with_sources() -> Fixture {
    Program::c("int main(void) { return 7; }")
        .file("part two.c", "int two(void) { return 2; }")
        .flags(&["-g"])
        .real_source_paths()
        .build()
}
