//! Who ignored what and why: over HTTP and from the command line.

use std::process::Command;

use serde_json::{Value, json};
use unhex_testkit::server::Server;
use unhex_testkit::{http, run};

use crate::server::TestServer;

async fn get(server: &TestServer, path: &str) -> (u16, Value) {
    let answer = reqwest::get(server.url(path)).await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

async fn ignore(server: &TestServer, path: &str) {
    let request = reqwest::Client::new().put(server.url(path));
    let request = request.body(r#"{"reason": "vendor"}"#);
    assert_eq!(request.send().await.unwrap().status(), 200, "{path}");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_is_ignored_is_listed_page_by_page() {
    let server = TestServer::start().await;
    for path in [
        "/build-ids/ab03/ignored",
        "/build-ids/some%2Fgo%2Fid/ignored?id_kind=go",
        "/build-ids/ab01/ignored",
        "/build-ids/ab02/ignored",
    ] {
        ignore(&server, path).await;
    }
    let observed = json!({"modules": [{"build_id": "ab02", "name": "libx.so"}]});
    let request = reqwest::Client::new().post(server.url("/observe"));
    request.body(observed.to_string()).send().await.unwrap();
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let path = format!("/build-ids?status=ignored&limit=2{after}");
        let (status, page) = get(&server, &path).await;
        assert_eq!(status, 200, "{page}");
        seen.extend(page["build_ids"].as_array().unwrap().clone());
        match page["next"].as_str() {
            Some(next) => after = format!("&after={}", next.replace('/', "%2F")),
            None => break,
        }
    }
    let of = |name: &str| -> Vec<Value> { seen.iter().map(|one| one[name].clone()).collect() };
    let kinds = of("id_kind");
    assert_eq!(kinds.iter().filter(|kind| **kind == "go").count(), 1);
    let ids = of("build_id");
    let gnu: Vec<&Value> = ids.iter().filter(|id| **id != "some/go/id").collect();
    assert_eq!(gnu, ["ab01", "ab02", "ab03"]);
    let known = seen.iter().find(|one| one["build_id"] == "ab02").unwrap();
    assert_eq!(known["name"], "libx.so");
    assert!(known["last_seen"].is_string(), "{known}");
    assert_eq!(known["ignored"]["reason"], "vendor");
    let (status, problem) = get(&server, "/build-ids?status=ignored&service=x").await;
    assert_eq!(status, 400, "{problem}");
}

#[test]
fn the_command_line_lists_what_is_ignored_with_its_reason() {
    let program = env!("CARGO_BIN_EXE_unhex");
    let server = Server::start(std::path::Path::new(program));
    let status = |arguments: &[&str]| {
        let mut command = Command::new(program);
        command.arg("status").args(arguments);
        run::succeed(command.args(["--server", &server.url("")])).text()
    };
    assert!(status(&["--ignored"]).contains("no build ID is ignored"));
    status(&["ab01", "--ignore", "asked in ticket 4711"]);
    let listed = status(&["--ignored"]);
    assert!(
        listed.contains("ab01") && listed.contains("ticket 4711"),
        "{listed}"
    );
    let listed: Value = serde_json::from_str(&status(&["--ignored", "--json"])).unwrap();
    let one = &listed["build_ids"][0];
    assert_eq!(one["ignored"]["reason"], "asked in ticket 4711", "{listed}");
    status(&["ab01", "--stop-ignoring"]);
    assert!(status(&["--ignored"]).contains("no build ID is ignored"));
    assert!(http::get(&server.url("/build-ids?status=ignored")).is_some());
}
