//! `unhex serve` as a process: what it refuses, what it logs, how it stops.

use std::process::{Command, Output};

use unhex_testkit::http::{self, Request};
use unhex_testkit::server::{Home, Server};

const PROGRAM: &str = env!("CARGO_BIN_EXE_unhex");

/// Runs it with arguments that it must refuse.
fn refused(home: &Home, arguments: &[&str]) -> String {
    let Output { status, stderr, .. } = Command::new(PROGRAM)
        .arg("serve")
        .args(arguments)
        .current_dir(home.path())
        .env_remove("UNHEX_WRITE_TOKEN")
        .output()
        .unwrap();
    assert_eq!(status.code(), Some(2), "{arguments:?}");
    String::from_utf8(stderr).unwrap()
}

#[test]
fn a_configuration_that_cannot_work_is_refused_with_the_reason() {
    let home = Home::new();
    std::fs::write(home.path().join("empty"), "\n").unwrap();
    std::fs::write(home.path().join("wrong.toml"), "lisen = 1\n").unwrap();
    for (arguments, reason) in [
        (&["--listen", "0.0.0.0:0"][..], "--allow-anonymous-writes"),
        (&["--listen", "[::]:0"], "--write-token-file"),
        (&["--write-token-file", "empty"], "the write token is empty"),
        (&["--write-token-file", "absent"], "absent cannot be read"),
        (&["--config", "wrong.toml"], "unknown field `lisen`"),
        (&["--log", "a=b=c"], "--log"),
        (&["--upload-bytes-max", "many"], "no whole number"),
    ] {
        let said = refused(&home, arguments);
        assert!(said.contains(reason), "{arguments:?}: {said}");
    }
    assert!(!home.data().exists());
}

#[test]
fn a_request_is_one_line_of_the_log_and_the_token_is_in_none() {
    let home = Home::new();
    std::fs::write(home.path().join("token"), "open-sesame\n").unwrap();
    std::fs::write(home.path().join("unhex.toml"), "log_format = 'json'\n").unwrap();
    let server = Server::start_in(home, PROGRAM, &["--write-token-file", "token"]);
    let put = |authorization: &str| {
        let request = Request {
            method: "PUT",
            url: &server.url("/buildid/AB01/debuginfo"),
            headers: &[("Authorization", authorization), ("User-Agent", "test/1")],
            body: b"not an ELF file",
        };
        http::send(&request).unwrap().status
    };
    assert_eq!(put("Bearer wrong-open-sesame"), 401);
    assert_eq!(put("Bearer open-sesame"), 422);
    // ci:open-sesame
    assert_eq!(put("Basic Y2k6b3Blbi1zZXNhbWU="), 422);
    assert_eq!(
        http::get(&server.url("/buildid/ab01/debuginfo"))
            .unwrap()
            .status,
        404
    );
    let log = unhex_testkit::run::poll("four lines", std::time::Duration::from_secs(30), || {
        let log = server.log();
        (log.matches("\"route\":\"buildid\"").count() == 1
            && log.matches("\"route\":\"upload\"").count() == 3)
            .then_some(log)
    });
    assert!(!log.contains("sesame") && !log.contains("Y2k6"), "{log}");
    let line = log
        .lines()
        .find(|line| line.contains("\"writer\":\"ci\""))
        .unwrap();
    for field in [
        r#""method":"PUT""#,
        r#""path":"/buildid/AB01/debuginfo""#,
        r#""build_id":"ab01""#,
        r#""status":422"#,
        r#""user_agent":"test/1""#,
        r#""client":"127.0.0.1:"#,
        r#""duration_ms":"#,
        r#""bytes":"#,
    ] {
        assert!(line.contains(field), "{field} in {line}");
    }
    assert!(server.stop().success());
}
