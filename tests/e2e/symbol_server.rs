//! A symbol server with what a test stored in it, and clients that ask it and nobody else.

use std::io::{Cursor, Write as _};
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use unhex_testkit::fixture::{Fixture, build_id_of};
use unhex_testkit::server::{Home, Server};
use unhex_testkit::{http, run, tools::Tool};
use zip::write::SimpleFileOptions;

use crate::stores::Store;

/// The program under test.
pub(crate) const UNHEX: &str = env!("CARGO_BIN_EXE_unhex");

/// A running server, and a folder for what its clients leave behind.
#[derive(Debug)]
pub(crate) struct SymbolServer {
    pub(crate) server: Server,
    folder: TempDir,
}

impl SymbolServer {
    /// A server over an empty store; `None` when what it needs is missing.
    pub(crate) fn start(store: Store) -> Option<Self> {
        store.server().map(Self::with)
    }

    /// A server over an empty folder, with more arguments of `unhex serve`.
    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        Self::with(Server::start_in(Home::new(), UNHEX, arguments))
    }

    fn with(server: Server) -> Self {
        Self {
            server,
            folder: tempfile::tempdir().expect("a temporary folder"),
        }
    }

    /// A folder that nothing else uses and that goes away with the server.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Uploads a file under its own build ID; `kind` is the word of the path.
    pub(crate) fn store(&self, kind: &str, file: &Path) {
        let id = build_id_of(file).expect("a file with a build ID");
        self.put(&format!("/buildid/{id}/{kind}"), &run::read(file));
    }

    /// Uploads the sources of a program under the paths that its debug information has.
    pub(crate) fn store_sources(&self, program: &Fixture, files: &[(&str, &[u8])]) {
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (path, text) in files {
            let key = path.strip_prefix('/').expect("an absolute path");
            zip.start_file(key, SimpleFileOptions::default())
                .expect("a zip in memory");
            zip.write_all(text).expect("a zip in memory");
        }
        let zip = zip.finish().expect("a zip in memory").into_inner();
        self.put(&format!("/buildid/{}/sources", program.build_id()), &zip);
    }

    fn put(&self, path: &str, body: &[u8]) {
        let answer = http::put(&self.server.url(path), body).expect("an answer");
        let stored = matches!(answer.status, 200 | 201);
        assert!(
            stored,
            "PUT {path}: {} {}\n{}",
            answer.status,
            answer.text(),
            self.server.log()
        );
    }

    /// A client with an empty cache of its own, that asks this server alone. `None` when it is missing.
    pub(crate) fn client(&self, tool: Tool) -> Option<Command> {
        let cache = tempfile::tempdir_in(self.folder())
            .expect("a folder for a cache")
            .keep();
        let mut command = Command::new(tool.find()?);
        command
            .current_dir(self.folder())
            .env("DEBUGINFOD_URLS", self.server.url(""))
            .env("DEBUGINFOD_CACHE_PATH", cache.join("cache"))
            .env("DEBUGINFOD_PROGRESS", "0")
            .env("HOME", cache)
            .env("LC_ALL", "C.UTF-8");
        Some(command)
    }
}
