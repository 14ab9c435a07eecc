//! Real clients get through this server what another one has, and the reference server is on both
//! ends of such a chain.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use unhex_testkit::fault_proxy::{Fault, FaultProxy};
use unhex_testkit::fixture::{Fixture, Program, SOURCE_ROOT};
use unhex_testkit::reference::Reference;
use unhex_testkit::{run, tools};

use crate::symbol_server::{SymbolServer, UNHEX};

const TEXT: &str = "int twice(int n) { return 2 * n; }\nint main(void) { return twice(21); }\n";

fn program() -> Fixture {
    Program::c(TEXT).flags(&["-g", "-O0"]).build()
}

/// An upstream server with all that a debugger asks for of a program.
fn upstream(program: &Fixture) -> FaultProxy {
    let path = |what: &str| format!("/buildid/{}/{what}", program.build_id());
    FaultProxy::serving([
        (path("debuginfo"), run::read(program.debug_only())),
        (path("executable"), run::read(program.stripped())),
        (
            path(&format!("source{SOURCE_ROOT}/main.c")),
            TEXT.as_bytes().to_vec(),
        ),
    ])
}

/// What `debuginfod-find debuginfo` finds, with an empty cache.
fn find(server: &SymbolServer, program: &Fixture) -> Option<Vec<u8>> {
    let client = server.client(tools::DEBUGINFOD_FIND);
    let mut client = client.expect("it was there at the start");
    client.args(["debuginfo", &program.build_id()]);
    let finished = run::finish(&mut client);
    let path = finished.text();
    let found = finished.status.success();
    found.then(|| run::read(Path::new(path.trim())))
}

#[test]
fn debuginfod_find_gets_the_whole_file_or_none() {
    if tools::DEBUGINFOD_FIND.find().is_none() {
        return;
    }
    let program = program();
    for fault in [
        Fault::status(503),
        Fault::Reset,
        Fault::ResetInBody,
        Fault::Truncate,
        Fault::HangInBody,
        Fault::html(),
    ] {
        let upstream = upstream(&program);
        let url = upstream.url();
        let server = SymbolServer::start_with(&[
            "--upstream",
            &url,
            "--upstream-first-byte-seconds-max",
            "2",
            "--hold-deadline",
            "5",
            // Attempts of a client that is held count, too.
            "--upstream-failures-max",
            "10000",
        ]);
        upstream.fail(fault.clone());
        assert_eq!(find(&server, &program), None, "{fault:?}");
        upstream.fail(Fault::None);
        upstream.fail_next([Fault::status(503)]);
        let found = find(&server, &program);
        let right = run::read(program.debug_only());
        assert!(found == Some(right), "{fault:?}\n{}", server.server.log());
    }
}

#[test]
fn gdb_shows_a_program_of_which_only_an_upstream_knows_the_symbols() {
    let program = program();
    let upstream = upstream(&program);
    let server = SymbolServer::start_with(&["--upstream", &upstream.url()]);
    let Some(mut gdb) = server.client(tools::GDB) else {
        return;
    };
    gdb.args(["-batch", "-nx", "-iex", "set debuginfod enabled on"]);
    gdb.args(["-ex", "info line twice", "-ex", "list main"])
        .arg(program.stripped());
    let said = run::finish(&mut gdb).all();
    assert!(
        said.contains("Line 1 of"),
        "{said}\n{}",
        server.server.log()
    );
    assert!(said.contains("return twice(21);"), "{said}");
}

/// Where this server listens in the namespace of the reference server.
const OURS: &str = "127.0.0.1:8003";

/// This server and the reference, each the other's upstream, in one network namespace.
struct Ring {
    reference: Reference,
    ours: Child,
    folder: TempDir,
}

impl Ring {
    fn start(files: &[&Path]) -> Option<Self> {
        let reference = Reference::start_behind(files, &format!("http://{OURS}"))?;
        let folder = tempfile::tempdir().expect("a folder");
        let ours = reference
            .command(UNHEX)
            .args(["serve", "--listen", OURS, "--upstream", &reference.url()])
            .args(["--upstream-first-byte-seconds-max", "2"])
            .args(["--hold-deadline", "5"])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(folder.path().join("log")).expect("a log"))
            .spawn()
            .expect("it starts");
        let ring = Self {
            reference,
            ours,
            folder,
        };
        run::poll("our server", Duration::from_mins(1), || {
            (ring.get_ours("/readyz").0 == 200).then_some(())
        });
        Some(ring)
    }

    /// What our server logged so far.
    fn log(&self) -> String {
        String::from_utf8_lossy(&run::read(self.folder.path().join("log"))).into_owned()
    }

    /// The status and the body of what our server answers.
    fn get_ours(&self, path: &str) -> (u16, Vec<u8>) {
        let mut curl = self.curl();
        // As through a proxy: the connection of a client without one is reset when nothing is known.
        curl.args(["--header", "Via: 1.1 test"]);
        curl.args(["-w", "%{stderr}%{http_code}"]);
        let answer = run::finish(curl.arg(format!("http://{OURS}{path}")));
        (
            answer.stderr.trim().parse().unwrap_or_default(),
            answer.stdout,
        )
    }

    fn put_ours(&self, path: &str, file: &Path) {
        let mut curl = self.curl();
        curl.arg("--fail").arg("--upload-file").arg(file);
        run::succeed(curl.arg(format!("http://{OURS}{path}")));
    }

    fn curl(&self) -> Command {
        let mut curl = self.reference.command(tools::CURL.path());
        curl.args(["--silent", "--noproxy", "*", "--max-time", "60"]);
        curl.current_dir(self.folder.path());
        curl
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        drop(self.ours.kill());
        drop(self.ours.wait());
    }
}

#[test]
fn the_reference_is_asked_and_asks_in_turn_and_no_question_goes_round_for_ever() {
    let theirs = program();
    let ours = Program::c("int main(void) { return 8; }")
        .flags(&["-g"])
        .build();
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::copy(theirs.path(), folder.path().join("theirs")).expect("copied");
    let Some(ring) = Ring::start(&[folder.path()]) else {
        return;
    };
    let path = |id: &str| format!("/buildid/{id}/debuginfo");
    let (status, body) = ring.get_ours(&path(&theirs.build_id()));
    assert!(status == 200 && body == theirs.bytes(), "{status}");
    let section = format!("/buildid/{}/section/.text", theirs.build_id());
    assert_eq!(ring.get_ours(&section), ring.reference.get(&section));
    let id = ours.build_id();
    ring.put_ours(&path(&id), ours.path());
    let (status, body) = ring.reference.get(&path(&id));
    assert!(status == 200 && body == ours.bytes(), "{status}");
    // Nobody has it. Each asks the other, and the reference lets the question that has come round
    // wait for the one that it began as, so that our deadline ends both: it is not known.
    let (status, body) = ring.get_ours(&path("00112233445566778899"));
    let (said, log) = (String::from_utf8_lossy(&body), ring.log());
    assert_eq!(status, 503, "{said}\n{log}");
    assert!(log.contains("no answer within 2 s"), "{log}");
}
