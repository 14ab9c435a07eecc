//! Queues: one client's many requests keep nobody else waiting, and who waits too long is told so.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use unhex::artifacts::ArtifactKind;
use unhex::config::TrustedProxies;
use unhex_testkit::fault_proxy::Fault;

use crate::calls;
use crate::hold::counted;
use crate::server::{DEADLINE, TestServer};
use crate::stored::{PROGRAM, get_with, path, store};
use crate::upstream::{ask, upstream};

/// Waits until a line of the metrics reads so.
pub async fn until_counted(server: &TestServer, line: &str) {
    let end = tokio::time::Instant::now() + DEADLINE;
    while !counted(server, line).await {
        assert!(tokio::time::Instant::now() < end, "never: {line}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_slow_questions_of_one_client_keep_nobody_waiting() {
    let (upstream, patience) = (upstream(), Duration::from_mins(1));
    upstream.fail(Fault::Hang);
    let server = TestServer::start_with(|config| {
        ask(&[&upstream])(config);
        config.limits.upstream_first_byte_seconds_max = patience;
        config.limits.hold_deadline = patience;
        config.limits.debuginfod_fetches_max = 8;
        config.trusted_proxies = TrustedProxies(vec!["127.0.0.1".parse().unwrap()]);
    })
    .await;
    let id = PROGRAM.build_id();
    store(&server, &id, ArtifactKind::Executable, PROGRAM.bytes()).await;
    let client = reqwest::Client::new();
    let ask_as = |who: &str, number: u32| {
        let url = server.url(&format!("/buildid/{number:040x}/debuginfo"));
        let asking = client.get(url).header("X-Forwarded-For", who);
        tokio::spawn(asking.send())
    };
    let many: Vec<_> = (0..200).map(|number| ask_as("192.0.2.1", number)).collect();
    // It has three quarters of the turns, and the rest of it waits.
    while upstream.requests() < 6
        || !counted(&server, r#"unhex_queue_waiting{class="debuginfod"} 194"#).await
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // What is here is served to everybody, and another client's question is asked at once.
    let here = get_with(&server, &path("executable"), "X-Forwarded-For: 192.0.2.1").await;
    assert_eq!(here.status, 200);
    let other = ask_as("192.0.2.2", 1_000);
    while upstream.requests() < 7 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(upstream.requests(), 7);
    // Those who leave wait for nothing any more.
    for one in many.iter().chain([&other]) {
        one.abort();
    }
    until_counted(&server, r#"unhex_queue_waiting{class="debuginfod"} 0"#).await;
}

/// The head of an upload, and the first byte of its body.
pub async fn begin_upload(server: &TestServer, header: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "PUT /buildid/ab01/debuginfo HTTP/1.1\r\nHost: t\r\nContent-Length: 1000\r\n{header}\r\n\x7f"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_waits_too_long_for_its_turn_is_told_when_to_come_again() {
    let server = TestServer::start_with(|config| {
        config.limits.uploads_max = 1;
        config.limits.upload_queue_seconds_max = Duration::from_millis(200);
    })
    .await;
    let first = begin_upload(&server, "").await;
    until_counted(&server, r#"unhex_queue_used_ratio{class="upload"} 1"#).await;
    let mut second = begin_upload(&server, "Connection: close\r\nExpect: 100-continue\r\n").await;
    let mut answer = String::new();
    let read = tokio::time::timeout(DEADLINE, second.read_to_string(&mut answer)).await;
    read.unwrap().unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 503"),
        "nobody asks for its body: {answer}"
    );
    assert!(answer.contains("\r\nretry-after: "), "{answer}");
    assert!(answer.contains("uploads_max"), "{answer}");
    drop(first);
    until_counted(&server, r#"unhex_queue_used_ratio{class="upload"} 0"#).await;
    let put = calls::put(
        &server,
        &path("debuginfo"),
        calls::bytes(PROGRAM.debug_only()),
    );
    assert_eq!(put.send().await.unwrap().status(), 201);
}
