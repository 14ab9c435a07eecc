//! elfutils' client gets the same bytes from this server as from the reference server.

use std::path::{Path, PathBuf};
use std::process::Command;

use unhex_testkit::fixture::{Fixture, Program};
use unhex_testkit::reference::Reference;
use unhex_testkit::run::{self, Finished};
use unhex_testkit::tools;

use crate::stores::{Store, on_every_store};
use crate::symbol_server::SymbolServer;

on_every_store!(debuginfod_find_gets_the_same_bytes_as_from_the_reference,);

/// Paths as a compiler is given them: spaces, a plus, dots, characters that URLs escape.
const SPACES: &str = "a b/with spaces.c";
const PLUS: &str = "c++/p+r$#o^^g.c";
const DOTS: &str = "one/../two/./dots.c";

fn program() -> Fixture {
    Program::c(
        "int spaces(void); int plus(void); int dots(void);\nint zeros[999];\n\
        int main(void) { return spaces() + plus() + dots() + zeros[9]; }\n",
    )
    .file(SPACES, "int spaces(void) { return 1; }\n")
    .file(PLUS, "int plus(void) { return 2; }\n")
    .file(DOTS, "int dots(void) { return 3; }\n")
    .flags(&["-g", "-O1"])
    .real_source_paths()
    .name("paths")
    .build()
}

/// This server and the reference with the same files.
struct Servers {
    ours: SymbolServer,
    reference: Reference,
    program: Fixture,
}

impl Servers {
    fn start(store: Store) -> Option<Self> {
        tools::DEBUGINFOD_FIND.find()?;
        let program = program();
        let ours = SymbolServer::start(store)?;
        let folder = ours.folder().join("files");
        std::fs::create_dir(&folder).expect("a folder");
        let copy = |from: PathBuf, to: &str| {
            std::fs::copy(from, folder.join(to)).expect("copied");
        };
        copy(program.stripped(), "paths");
        copy(program.debug_only(), "paths.debug");
        ours.store("executable", &program.stripped());
        ours.store("debuginfo", &program.debug_only());
        let sources = [SPACES, PLUS, DOTS, "main.c"].map(|name| program.sources().join(name));
        let sources = sources.each_ref().map(|path| {
            let name = path.canonicalize().expect("a source");
            (name.display().to_string(), run::read(path))
        });
        let sources = sources
            .each_ref()
            .map(|(path, text)| (path.as_str(), text.as_slice()));
        ours.store_sources(&program, &sources);
        let reference = Reference::start(&[&folder])?;
        Some(Self {
            ours,
            reference,
            program,
        })
    }

    /// What `debuginfod-find ARGUMENTS` finds at the one and at the other.
    fn find(&self, kind: &str, name: Option<&str>) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        let find = |mut command: Command| {
            command.arg(kind).arg(self.program.build_id()).args(name);
            found(&run::finish(&mut command))
        };
        let ours = self
            .ours
            .client(tools::DEBUGINFOD_FIND)
            .expect("it was there at the start");
        let mut reference = self.reference.command(tools::DEBUGINFOD_FIND.path());
        let cache = tempfile::tempdir().expect("a cache");
        reference.env("DEBUGINFOD_CACHE_PATH", cache.path());
        (find(ours), find(reference))
    }

    #[track_caller]
    fn assert_same(&self, kind: &str, name: Option<&str>) {
        let (ours, reference) = self.find(kind, name);
        let log = || self.ours.server.log();
        let reference = reference.unwrap_or_else(|| panic!("the reference has no {kind} {name:?}"));
        let ours = ours.unwrap_or_else(|| panic!("no {kind} {name:?}\n{}", log()));
        assert!(!ours.is_empty());
        assert!(
            ours == reference,
            "{kind} {name:?}: {} and {} bytes",
            ours.len(),
            reference.len()
        );
    }

    #[track_caller]
    fn assert_absent(&self, kind: &str, name: &str) {
        assert_eq!(self.find(kind, Some(name)), (None, None), "{kind} {name}");
    }

    fn source(&self, path: &str) -> String {
        self.program.sources().join(path).display().to_string()
    }
}

/// The bytes of the file that the client names.
fn found(client: &Finished) -> Option<Vec<u8>> {
    let text = client.text();
    let path = Path::new(text.trim());
    client.status.success().then(|| run::read(path))
}

fn debuginfod_find_gets_the_same_bytes_as_from_the_reference(store: Store) {
    let Some(servers) = Servers::start(store) else {
        return;
    };
    servers.assert_same("debuginfo", None);
    servers.assert_same("executable", None);
    for section in [
        ".text",
        ".debug_info",
        ".debug_line",
        ".symtab",
        ".note.gnu.build-id",
    ] {
        servers.assert_same("section", Some(section));
    }
    for source in [
        "main.c",
        SPACES,
        PLUS,
        DOTS,
        "two/dots.c",
        "x/..//two/dots.c",
    ] {
        servers.assert_same("source", Some(&servers.source(source)));
    }
    for section in [".bss", ".no_such_section"] {
        servers.assert_absent("section", section);
    }
    for source in [
        "/etc/passwd",
        "/",
        &servers.source("main.h"),
        &servers.source(""),
    ] {
        servers.assert_absent("source", source);
    }
}
