//! nginx in front, as docs/behind-a-proxy.md has it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use unhex_testkit::fault_proxy::{Fault, FaultProxy};
use unhex_testkit::fixture::{Fixture, Program};
use unhex_testkit::nginx::Nginx;
use unhex_testkit::run::Finished;
use unhex_testkit::{http, repository, run, tools};

use crate::symbol_server::SymbolServer;

/// Beyond every buffer and limit that nginx has by default.
const LARGE_BYTES: u64 = 256 << 20;

fn program(answer: u8) -> Fixture {
    Program::c(format!("int main(void) {{ return {answer}; }}\n"))
        .flags(&["-g"])
        .build()
}

/// The configurations of the document, in their order.
fn documented() -> Vec<String> {
    let document = run::read(repository::root().join("docs/behind-a-proxy.md"));
    let text = String::from_utf8(document).expect("text");
    let blocks = text.split("```nginx\n").skip(1);
    blocks
        .map(|block| block.split("```").next().unwrap_or_default().to_owned())
        .collect()
}

/// The first one, and the second one with what it says of `/` and of the server from the first.
fn with_reset() -> String {
    let blocks = documented();
    let (upstream, server) = blocks[0].split_once("\nserver {").expect("a server");
    let (_, location) = server.split_once("    location / {").expect("a location");
    let location = location.trim_end().strip_suffix('}');
    let beside = blocks[1].trim_end().strip_suffix('}');
    let (location, beside) = location.zip(beside).expect("ends of servers");
    format!("{upstream}\n{beside}\n    location / {{{location}\n}}\n")
}

/// A server behind an upstream, and nginx in front of it.
struct Chain {
    upstream: FaultProxy,
    server: SymbolServer,
    nginx: Nginx,
}

impl Chain {
    fn start(program: &Fixture, configuration: &str) -> Option<Self> {
        tools::DEBUGINFOD_FIND.find()?;
        let path = format!("/buildid/{}/debuginfo", program.build_id());
        let upstream = FaultProxy::serving([(path, run::read(program.path()))]);
        let server = SymbolServer::start_with(&[
            "--upstream",
            &upstream.url(),
            "--trusted-proxy",
            "127.0.0.1",
            "--hold-deadline",
            "2",
            "--upstream-failures-max",
            "10000",
        ]);
        let nginx = Nginx::before(&server.server.url(""), configuration)?;
        Some(Self {
            upstream,
            server,
            nginx,
        })
    }

    /// What elfutils' client says, with a cache of that name.
    fn find(&self, cache: &str, id: &str) -> Finished {
        let mut client = Command::new(tools::DEBUGINFOD_FIND.path());
        client
            .args(["-v", "debuginfo", id])
            .env("DEBUGINFOD_URLS", self.nginx.url(""))
            .env("DEBUGINFOD_CACHE_PATH", self.cache(cache));
        run::finish(&mut client)
    }

    fn cache(&self, name: &str) -> PathBuf {
        self.server.folder().join(name)
    }
}

fn is_the_file(found: &Finished, program: &Fixture) -> bool {
    let text = found.text();
    found.status.success() && run::read(Path::new(text.trim())) == run::read(program.path())
}

#[test]
fn debuginfod_find_gets_through_nginx_what_there_is_and_learns_what_there_is_not() {
    let program = program(1);
    let Some(chain) = Chain::start(&program, &documented()[0]) else {
        return;
    };
    let id = program.build_id();
    // Upstream needs a second attempt: the client waits meanwhile, and so does nginx.
    chain
        .upstream
        .fail_next([Fault::status(500), Fault::status(500)]);
    let found = chain.find("slow", &id);
    assert!(is_the_file(&found, &program), "{}", found.all());
    assert!(is_the_file(&chain.find("here", &id), &program));
    let absent = chain.find("absent", "00112233445566778899");
    assert!(absent.all().contains("No such file"), "{}", absent.all());
    // A client of nginx is the client, and nginx is no hop of the question.
    let seen = chain.upstream.seen();
    assert_eq!(seen[0].header("x-forwarded-for"), Some("127.0.0.1"));
    let answer = http::get(&chain.nginx.url("/buildid/0011223344/debuginfo"));
    let answer = answer.expect("an answer");
    assert_eq!(answer.status, 404);
    assert_eq!(answer.header("cache-control"), Some("no-store"));
}

#[test]
fn who_is_held_in_vain_behind_nginx_gets_503_that_nobody_may_store() {
    let program = program(2);
    let Some(chain) = Chain::start(&program, &documented()[0]) else {
        return;
    };
    chain.upstream.fail(Fault::status(500));
    let path = format!("/buildid/{}/debuginfo", program.build_id());
    let answer = http::get(&chain.nginx.url(&path)).expect("an answer");
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert!(answer.header("retry-after").is_some());
    chain.upstream.fail(Fault::None);
    assert_eq!(
        http::get(&chain.nginx.url(&path)).map(|a| a.status),
        Some(200)
    );
}

#[test]
fn nginx_can_reset_as_the_server_does_and_clients_remember_nothing() {
    let program = program(3);
    let Some(chain) = Chain::start(&program, &with_reset()) else {
        return;
    };
    chain.upstream.fail(Fault::status(500));
    let id = program.build_id();
    let held = chain.find("cache", &id);
    assert!(
        held.all().contains("Connection reset by peer"),
        "{}",
        held.all()
    );
    // Uploads are told what happened all the same.
    let path = format!("/buildid/{id}/executable");
    let put = http::put(&chain.nginx.url(&path), b"no ELF file").expect("an answer");
    assert_eq!(put.status, 422, "{}", put.text());
    chain.upstream.fail(Fault::None);
    let found = chain.find("cache", &id);
    assert!(is_the_file(&found, &program), "{}", found.all());
    let Chain { server, nginx, .. } = chain;
    server.server.stop();
    let mut client = Command::new(tools::DEBUGINFOD_FIND.path());
    client
        .args(["-v", "debuginfo", "99887766554433221100"])
        .env("DEBUGINFOD_URLS", nginx.url(""))
        .env(
            "DEBUGINFOD_CACHE_PATH",
            program.path().with_extension("none"),
        );
    let down = run::finish(&mut client);
    assert!(
        down.all().contains("Connection reset by peer"),
        "{}",
        down.all()
    );
    let put = http::put(&nginx.url(&path), b"no ELF file").expect("an answer");
    assert_eq!((put.status, put.header("retry-after")), (503, Some("5")));
}

#[test]
fn a_large_upload_and_download_go_through_nginx_as_they_come() {
    let program = program(4);
    let Some(chain) = Chain::start(&program, &documented()[0]) else {
        return;
    };
    // What stands behind the last section is of no concern to anybody, and has to come all the same.
    let file = chain.server.folder().join("large");
    std::fs::copy(program.path(), &file).expect("copied");
    let large = std::fs::File::options().write(true).open(&file);
    large.expect("a file").set_len(LARGE_BYTES).expect("room");
    let url = chain
        .nginx
        .url(&format!("/buildid/{}/executable", program.build_id()));
    let mut put = Command::new(tools::CURL.path());
    put.args(["--silent", "--fail", "--noproxy", "*", "--upload-file"]);
    let mut put = put.arg(&file).arg(&url).spawn().expect("curl starts");
    let mut stored_bytes = 0;
    let status = run::poll("the upload", Duration::from_mins(5), || {
        stored_bytes = stored_bytes.max(chain.nginx.stored_bytes());
        put.try_wait().expect("a child")
    });
    assert!(status.success(), "{}", chain.server.server.log());
    let mut get = Command::new(tools::CURL.path());
    get.args(["--silent", "--fail", "--noproxy", "*", "--output"]);
    run::succeed(get.arg(chain.server.folder().join("got")).arg(&url));
    stored_bytes = stored_bytes.max(chain.nginx.stored_bytes());
    let mut compare = Command::new("cmp");
    run::succeed(compare.arg(&file).arg(chain.server.folder().join("got")));
    assert_eq!(stored_bytes, 0, "nginx wrote bodies to its disk");
}
