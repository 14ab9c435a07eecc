//! What elfutils' client makes of a server that does not know: it waits, asks again, forgets.

use std::process::Command;
use std::time::Duration;

use unhex_testkit::fault_proxy::{Fault, FaultProxy};
use unhex_testkit::fixture::{Fixture, Program};
use unhex_testkit::{run, tools};

use crate::symbol_server::SymbolServer;

fn program() -> Fixture {
    let text = "int main(void) { return 6; }\n";
    Program::c(text).flags(&["-g"]).build()
}

/// An upstream server that has the debug file and says 500.
fn failing(program: &Fixture) -> FaultProxy {
    let path = format!("/buildid/{}/debuginfo", program.build_id());
    let upstream = FaultProxy::serving([(path, run::read(program.path()))]);
    upstream.fail(Fault::status(500));
    upstream
}

/// The client, with the same cache each time.
fn client(server: &SymbolServer, program: &Fixture) -> Option<impl Fn() -> Command + use<>> {
    let find = tools::DEBUGINFOD_FIND.find()?;
    let (cache, url) = (server.folder().join("cache"), server.server.url(""));
    let id = program.build_id();
    Some(move || {
        let mut client = Command::new(&find);
        client.args(["-v", "debuginfo", &id]);
        client
            .env("DEBUGINFOD_URLS", &url)
            .env("DEBUGINFOD_CACHE_PATH", &cache);
        client
    })
}

/// Requests for the debug file that the server has answered or cut.
fn asked(server: &SymbolServer) -> usize {
    let log = server.server.log();
    let lines = log.lines().filter(|line| line.contains("/debuginfo"));
    lines
        .filter(|line| line.contains("route=\"buildid\""))
        .count()
}

#[test]
fn debuginfod_find_asks_again_and_remembers_nothing_when_it_was_held_in_vain() {
    let program = program();
    let upstream = failing(&program);
    let server = SymbolServer::start_with(&["--upstream", &upstream.url(), "--hold-deadline", "1"]);
    let Some(client) = client(&server, &program) else {
        return;
    };
    let said = run::finish(&mut client());
    assert!(!said.status.success());
    assert!(
        said.all().contains("Connection reset by peer"),
        "{}",
        said.all()
    );
    // Once, and twice more by DEBUGINFOD_RETRY_LIMIT.
    run::poll("three lines", Duration::from_secs(30), || {
        (asked(&server) == 3).then_some(())
    });
    upstream.fail(Fault::None);
    let found = run::finish(&mut client());
    assert!(found.status.success(), "{}", found.all());
    let path = found.text();
    assert!(run::read(path.trim()) == run::read(program.path()));
}

#[test]
fn debuginfod_find_waits_for_a_server_that_will_know_soon() {
    let program = program();
    let upstream = failing(&program);
    let server = SymbolServer::start_with(&["--upstream", &upstream.url()]);
    let Some(client) = client(&server, &program) else {
        return;
    };
    let waiting = std::thread::spawn(move || run::finish(&mut client()));
    run::poll("a second attempt", Duration::from_secs(30), || {
        (upstream.requests() > 3).then_some(())
    });
    upstream.fail(Fault::None);
    let found = waiting.join().expect("it ends");
    assert!(found.status.success(), "{}", found.all());
    // A thread of its own writes the log, after the answer.
    run::poll("a line", Duration::from_secs(30), || {
        (asked(&server) > 0).then_some(())
    });
    assert_eq!(asked(&server), 1, "{}", server.server.log());
}
