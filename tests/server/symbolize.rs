//! `POST /symbolize`: what a request may be, and what it is told when it is not.

use std::io::Write as _;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use unhex_api::symbolize::{COMPACT_MEDIA_TYPE, CompactAnswer, ModuleStatus, SymbolizeAnswer};
use unhex_testkit::http::{self, Request};
use unhex_testkit::server::Server;

use crate::server::{DEADLINE, TestServer};

/// Sends a JSON body and hands back the status and the answer.
pub async fn post(server: &TestServer, body: &Value) -> (u16, Value) {
    let response = send(server, body.to_string().into_bytes(), &[]).await;
    let status = response.status().as_u16();
    (status, response.json().await.unwrap())
}

/// Sends a JSON body that must be answered.
pub async fn symbolize(server: &TestServer, body: &Value) -> SymbolizeAnswer {
    let (status, answer) = post(server, body).await;
    assert_eq!(status, 200, "{answer}");
    serde_json::from_value(answer).unwrap()
}

async fn send(server: &TestServer, body: Vec<u8>, headers: &[(&str, &str)]) -> reqwest::Response {
    let mut request = reqwest::Client::new()
        .post(server.url("/symbolize"))
        .body(body);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.send().await.unwrap()
}

fn unknown(id: &str) -> Value {
    json!({"modules": [{"build_id": id, "addresses": ["0x1", 2]}]})
}

#[tokio::test]
async fn an_unknown_build_id_says_what_to_do() {
    let server = TestServer::start().await;
    let answer = symbolize(&server, &unknown("AB01")).await;
    insta::assert_json_snapshot!(answer, @r#"
    {
      "modules": [
        {
          "build_id": "ab01",
          "status": "unknown_build_id",
          "detail": "nothing with build ID ab01 is in the store; upload its debug file with `unhex upload PATH`"
        }
      ]
    }
    "#);
}

#[tokio::test]
async fn what_is_no_build_id_fails_its_module_alone() {
    let server = TestServer::start().await;
    let body = json!({"modules": [
        {"build_id": "xyz", "addresses": ["0x1"]},
        {"build_id": "abc", "addresses": []},
        {"build_id": "", "addresses": []},
        {"build_id": "ab", "id_kind": "htlhash", "addresses": []},
        {"build_id": "some/go/id", "id_kind": "go", "addresses": [1]},
        {"build_id": "ab01", "addresses": [1]},
    ]});
    let answer = symbolize(&server, &body).await;
    let statuses: Vec<_> = answer.modules.iter().map(|module| module.status).collect();
    let expected = [
        ModuleStatus::Malformed,
        ModuleStatus::Malformed,
        ModuleStatus::Malformed,
        ModuleStatus::Malformed,
        ModuleStatus::UnknownBuildId,
        ModuleStatus::UnknownBuildId,
    ];
    assert_eq!(statuses, expected, "{answer:#?}");
    assert!(answer.modules.iter().all(|module| module.detail.is_some()));
}

#[tokio::test]
async fn a_body_that_is_not_understood_is_400_and_names_the_fault() {
    let server = TestServer::start().await;
    for (body, words) in [
        ("", "EOF while parsing"),
        ("{", "EOF while parsing"),
        ("[]", "invalid length"),
        ("{}", "missing field `modules`"),
        (
            r#"{"modules":[{"addresses":[]}]}"#,
            "missing field `build_id`",
        ),
        (
            r#"{"modules":[{"build_id":"ab"}]}"#,
            "missing field `addresses`",
        ),
        (
            r#"{"modules":[],"demangel":"full"}"#,
            "unknown field `demangel`",
        ),
        (
            r#"{"modules":[],"demangle":"ful"}"#,
            "unknown variant `ful`",
        ),
        (
            r#"{"modules":[],"labels":{"team":"a"}}"#,
            "unknown field `team`",
        ),
        (
            r#"{"modules":[{"build_id":"ab","addresses":[],"address_kind":"rva"}]}"#,
            "unknown variant `rva`",
        ),
        (
            r#"{"modules":[{"build_id":"ab","addresses":[[]]}]}"#,
            "an address: a hex string",
        ),
        (r#"{"modules":[],"wait_seconds":-1}"#, "expected u32"),
        (
            r#"{"modules":[],"modules":[]}"#,
            "duplicate field `modules`",
        ),
    ] {
        let response = send(&server, body.as_bytes().to_vec(), &[]).await;
        assert_eq!(response.status(), 400, "{body}");
        let kind = response.headers()["content-type"].clone();
        assert_eq!(kind, "application/problem+json", "{body}");
        let problem: Value = response.json().await.unwrap();
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(words), "{body}: {detail}");
    }
}

#[tokio::test]
async fn each_limit_is_413_and_named() {
    let server = TestServer::start_with(|config| {
        config.limits.symbolize_addresses_max = 3;
        config.limits.symbolize_modules_max = 2;
        config.limits.symbolize_body_bytes_max = 2_000;
    })
    .await;
    let module = json!({"build_id": "ab", "addresses": []});
    let four = json!({"modules": [
        {"build_id": "ab", "addresses": [1, 2]}, {"build_id": "cd", "addresses": [1, 2]},
    ]});
    let long = json!({"modules": [], "profile_id": "x".repeat(2_000)});
    for (body, limit) in [
        (
            json!({"modules": [module, module, module]}),
            "symbolize_modules_max, 2",
        ),
        (four, "symbolize_addresses_max, 3"),
        (long, "symbolize_body_bytes_max, 2000"),
    ] {
        let (status, problem) = post(&server, &body).await;
        assert_eq!(status, 413, "{problem}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(limit), "{detail}");
    }
    let three = json!({"modules": [
        {"build_id": "ab", "addresses": [1, 2]}, {"build_id": "cd", "addresses": [1]},
    ]});
    assert_eq!(symbolize(&server, &three).await.modules.len(), 2);
}

#[test]
fn a_list_that_would_unfold_to_gigabytes_is_refused_before_it_is_parsed() {
    // A process of its own: what other tests have in memory is none of its business.
    let server = Server::start(env!("CARGO_BIN_EXE_unhex"));
    let before = server.peak_memory_bytes();
    let addresses = "0,".repeat(30_000_000);
    let body = format!(r#"{{"modules":[{{"build_id":"ab","addresses":[{addresses}0]}}]}}"#);
    let answer = http::send(&Request {
        method: "POST",
        url: &server.url("/symbolize"),
        headers: &[("content-encoding", "zstd")],
        body: &zstd(body.as_bytes()),
    });
    let answer = answer.unwrap();
    assert_eq!(answer.status, 413, "{}", answer.text());
    assert!(answer.text().contains("symbolize_addresses_max"));
    let grown = server.peak_memory_bytes() - before;
    assert!(grown < 300 << 20, "{} MiB were resident", grown >> 20);
}

#[tokio::test]
async fn a_bomb_in_the_body_is_413() {
    let server = TestServer::start().await;
    let zeros = vec![b' '; 65 << 20];
    for (encoding, body) in [("zstd", zstd(&zeros)), ("gzip", gzip(&zeros))] {
        let response = send(&server, body, &[("content-encoding", encoding)]).await;
        assert_eq!(response.status(), 413, "{encoding}");
    }
}

#[tokio::test]
async fn bodies_come_compressed_in_every_way_that_is_named() {
    let server = TestServer::start().await;
    let body = unknown("ab01").to_string().into_bytes();
    let sent = [
        ("identity", body.clone()),
        ("gzip", gzip(&body)),
        ("X-GZIP", gzip(&body)),
        ("zstd", zstd(&body)),
    ];
    for (encoding, body) in sent {
        let response = send(&server, body, &[("content-encoding", encoding)]).await;
        assert_eq!(response.status(), 200, "{encoding}");
    }
    let response = send(&server, body.clone(), &[("content-encoding", "br")]).await;
    assert_eq!(response.status(), 415);
    let response = send(&server, body, &[("content-encoding", "gzip")]).await;
    assert_eq!(response.status(), 400);
}

#[tokio::test]
async fn answers_are_compressed_when_they_are_long_enough_and_it_is_asked_for() {
    let server = TestServer::start().await;
    let modules: Vec<Value> = (0..100)
        .map(|_| json!({"build_id": "ab01", "addresses": []}))
        .collect();
    let body = json!({"modules": modules}).to_string().into_bytes();
    let plain = send(&server, body.clone(), &[]).await;
    assert!(plain.headers().contains_key("content-length"));
    let plain = plain.bytes().await.unwrap();
    for encoding in ["gzip", "zstd"] {
        let asked = [("accept-encoding", encoding)];
        let response = send(&server, body.clone(), &asked).await;
        assert_eq!(response.headers()["content-encoding"], encoding);
        assert_eq!(response.headers()["vary"], "accept, accept-encoding");
        let packed = response.bytes().await.unwrap();
        assert!(packed.len() * 5 < plain.len(), "{} bytes", packed.len());
        assert_eq!(unpack(encoding, &packed), plain);
        let short = unknown("ab01").to_string().into_bytes();
        let response = send(&server, short, &asked).await;
        assert!(!response.headers().contains_key("content-encoding"));
    }
}

#[tokio::test]
async fn the_compact_form_is_answered_when_it_is_asked_for() {
    let server = TestServer::start().await;
    let body = unknown("ab01");
    let asked = [("accept", COMPACT_MEDIA_TYPE)];
    let response = send(&server, body.to_string().into_bytes(), &asked).await;
    assert_eq!(response.headers()["content-type"], COMPACT_MEDIA_TYPE);
    let compact: CompactAnswer = response.json().await.unwrap();
    assert_eq!(compact.expand().unwrap(), symbolize(&server, &body).await);
}

#[tokio::test]
async fn other_methods_are_405() {
    let server = TestServer::start().await;
    let answer = server.get_raw("/symbolize").await;
    assert_eq!(answer.status, 405);
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

fn unpack(encoding: &str, bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    match encoding {
        "gzip" => std::io::copy(&mut flate2::read::GzDecoder::new(bytes), &mut plain),
        _ => std::io::copy(&mut zstd::Decoder::new(bytes).unwrap(), &mut plain),
    }
    .unwrap();
    plain
}

#[tokio::test]
async fn a_request_waits_for_memory_before_its_body_is_read_and_is_told_to_come_again() {
    let server = TestServer::start_with(|config| {
        config.limits.symbolize_memory_bytes_total_max = 1 << 20;
        config.limits.symbolize_queue_seconds_max = std::time::Duration::from_millis(200);
    })
    .await;
    // All of the memory is held by a body that does not come.
    let mut slow = tokio::net::TcpStream::connect(server.address)
        .await
        .unwrap();
    let head = "POST /symbolize HTTP/1.1\r\nHost: t\r\nContent-Length: 9\r\n\r\n";
    slow.write_all(head.as_bytes()).await.unwrap();
    let body = unknown("ab01").to_string().into_bytes();
    let started = std::time::Instant::now();
    let refused = loop {
        let response = send(&server, body.clone(), &[]).await;
        if response.status() == 503 {
            break response;
        }
        assert!(started.elapsed() < DEADLINE, "the memory is never taken");
    };
    assert_eq!(refused.headers()["retry-after"], "5");
    let problem: Value = refused.json().await.unwrap();
    let detail = problem["detail"].as_str().unwrap();
    assert!(
        detail.contains("symbolize_memory_bytes_total_max"),
        "{detail}"
    );
    // What it held is given back.
    drop(slow);
    while send(&server, body.clone(), &[]).await.status() != 200 {
        assert!(
            started.elapsed() < DEADLINE,
            "the memory is never given back"
        );
    }
}
