//! The same folders under this server and under the reference: the same bytes for the same clients.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use unhex_testkit::fixture::{Fixture, Program};
use unhex_testkit::reference::Reference;
use unhex_testkit::{http, run, tools};

use crate::symbol_server::SymbolServer;

/// How long a scan of a small folder may take on a busy machine.
const DEADLINE: Duration = Duration::from_mins(1);

const TEXT: &str = "int twice(int n) { return 2 * n; }\nint main(int argc, char **argv)\n{\n    return twice(argc);\n}\n";

/// A folder with the program in two files and another one in one.
struct Scanned {
    folder: TempDir,
    programs: [Fixture; 2],
}

impl Scanned {
    fn new() -> Self {
        let program = |name: &str, flags: &[&str]| {
            Program::c(TEXT)
                .name(name)
                .flags(flags)
                .real_source_paths()
                .build()
        };
        let programs = [
            program("apart", &["-g", "-O1"]),
            program("whole", &["-g", "-O0"]),
        ];
        let folder = tempfile::tempdir().expect("a folder");
        let [apart, whole] = &programs;
        for (from, to) in [
            (apart.stripped(), "apart"),
            (apart.debug_only(), "apart.debug"),
            (whole.path().to_owned(), "whole"),
        ] {
            std::fs::copy(from, folder.path().join(to)).expect("copied");
        }
        Self { folder, programs }
    }

    /// This server over the folder and over the sources.
    fn ours(&self) -> SymbolServer {
        let sources = self.programs.each_ref().map(Fixture::sources);
        let paths = [self.folder.path().to_owned()].into_iter().chain(sources);
        let paths: Vec<String> = paths.map(|path| path.display().to_string()).collect();
        let arguments = paths.iter().flat_map(|path| ["--scan", path]);
        let server = SymbolServer::start_with(&arguments.collect::<Vec<&str>>());
        await_line(&server, "thread_work_total{role=\"traverse\"} 1");
        server
    }
}

fn await_line(server: &SymbolServer, line: &str) {
    run::poll(line, DEADLINE, || {
        let metrics = http::get(&server.server.url("/metrics"))?;
        metrics
            .text()
            .lines()
            .any(|found| found == line)
            .then_some(())
    });
}

/// The bytes of the file that the client names.
fn found(command: &mut Command, arguments: &[&str]) -> Option<Vec<u8>> {
    let client = run::finish(command.args(arguments));
    let text = client.text();
    let path = PathBuf::from(text.trim());
    client.status.success().then(|| run::read(path))
}

#[test]
fn debuginfod_find_gets_the_same_bytes_of_scanned_files_as_from_the_reference() {
    if tools::DEBUGINFOD_FIND.find().is_none() {
        return;
    }
    let scanned = Scanned::new();
    let Some(reference) = Reference::start(&[scanned.folder.path()]) else {
        return;
    };
    let ours = scanned.ours();
    for program in &scanned.programs {
        let id = program.build_id();
        let source = program.sources().join("main.c").canonicalize();
        let source = source.expect("a source").display().to_string();
        for question in [
            vec!["debuginfo", &id],
            vec!["executable", &id],
            vec!["section", &id, ".text"],
            vec!["section", &id, ".debug_line"],
            vec!["section", &id, ".bss"],
            vec!["source", &id, &source],
            vec!["source", &id, "/etc/passwd"],
        ] {
            let mut client = ours.client(tools::DEBUGINFOD_FIND).expect("it is there");
            let here = found(&mut client, &question);
            let cache = tempfile::tempdir().expect("a cache");
            let mut client = reference.command(tools::DEBUGINFOD_FIND.path());
            client.env("DEBUGINFOD_CACHE_PATH", cache.path());
            let there = found(&mut client, &question);
            assert!(here == there, "{question:?}\n{}", ours.server.log());
            assert_eq!(
                here.is_none(),
                question.contains(&".bss") || question.contains(&"/etc/passwd")
            );
        }
    }
}

#[test]
fn gdb_shows_lines_and_source_of_a_scanned_program() {
    let scanned = Scanned::new();
    let ours = scanned.ours();
    let Some(mut gdb) = ours.client(tools::GDB) else {
        return;
    };
    let [apart, _] = &scanned.programs;
    gdb.args(["-batch", "-nx", "-iex", "set debuginfod enabled on"])
        .args(["-ex", "info line twice", "-ex", "list twice"])
        .arg(apart.stripped());
    let said = run::finish(&mut gdb).all();
    for text in ["Line 1 of", "return 2 * n;"] {
        assert!(
            said.contains(text),
            "no {text:?} in:\n{said}\n{}",
            ours.server.log()
        );
    }
}

#[test]
fn signals_scan_and_groom_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().display().to_string();
    let ours = SymbolServer::start_with(&["--scan", &path, "--scan-interval", "0"]);
    await_line(&ours, "thread_work_total{role=\"groom\"} 1");
    let program = Program::c(TEXT).flags(&["-g"]).build();
    let late: &Path = &folder.path().join("late");
    std::fs::copy(program.path(), late).expect("copied");
    let tell = |signal| {
        let id = rustix::process::Pid::from_raw(ours.server.id().cast_signed());
        rustix::process::kill_process(id.expect("a process"), signal).expect("told");
    };
    tell(rustix::process::Signal::USR1);
    await_line(&ours, "thread_work_total{role=\"traverse\"} 2");
    let url = ours
        .server
        .url(&format!("/buildid/{}/debuginfo", program.build_id()));
    let answer = http::get(&url).expect("an answer");
    assert_eq!(
        (answer.status, answer.body.len()),
        (200, program.bytes().len())
    );
    std::fs::remove_file(late).expect("removed");
    tell(rustix::process::Signal::USR2);
    await_line(&ours, "groomed_total{decision=\"stale\"} 1");
    assert_eq!(http::get(&url).expect("an answer").status, 404);
}
