//! How the program is run: refused configurations, health, and a stop that loses nothing.

use std::process::Command;

use unhex_testkit::{http, run};

use crate::message::{Recipe, protobuf};
use crate::stored::cpu;
use crate::{OTLP, PROGRAM, PROTOBUF, post, store, table};

#[test]
fn listening_beyond_loopback_without_a_token_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    for flag in ["--listen", "--grpc-listen"] {
        let mut command = Command::new(PROGRAM);
        command
            .args(["serve", flag, "0.0.0.0:0"])
            .current_dir(folder.path());
        let said = run::finish(&mut command);
        assert_eq!(said.status.code(), Some(2));
        assert!(
            said.stderr.contains("--write-token-file"),
            "{}",
            said.stderr
        );
    }
    assert!(
        std::fs::read_dir(folder.path())
            .expect("a folder")
            .next()
            .is_none()
    );
}

#[test]
fn a_stop_writes_what_was_taken_and_answers_it() {
    let server = store(&["--window-millis-max", "1s"]);
    let url = server.url(OTLP);
    let sending = std::thread::spawn(move || {
        let body = protobuf(&Recipe::default());
        crate::try_post(&url, &[PROTOBUF], &body)
    });
    let waits = "unhex_store_in_flight_bytes{what=\"rows\"}";
    run::poll(
        "rows on their way",
        std::time::Duration::from_secs(30),
        || (crate::metric(&server, waits) > 0.0).then_some(()),
    );
    let home = server.terminate();
    let answer = sending.join().expect("no panic").expect("an answer");
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(cpu(&table(&home), "checkout").count, 100);
}

#[test]
fn operation_is_answered_and_described() {
    let server = store(&[]);
    let get = |path: &str| http::get(&server.url(path)).expect("an answer");
    assert!(get("/").text().starts_with("unhex-store "));
    assert_eq!(get("/healthz").text(), "ok\n");
    assert!(get("/readyz").text().contains("\"ready\":true"));
    let described = get("/openapi.yaml").text();
    for path in ["/profiles:", "/v1development/profiles:", "/metrics:"] {
        assert!(described.contains(path), "{path}");
    }
    assert_eq!(get("/nothing").status, 404);
    assert_eq!(get("/profiles").status, 405);
    assert_eq!(post(&server, "/metrics", &[], b"").status, 405);
}
