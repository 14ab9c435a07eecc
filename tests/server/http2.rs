//! HTTP/2: streams whose answer nobody takes, and connections that nobody uses.

use std::time::Duration;

use reqwest::{Client, Response};
use unhex::artifacts::ArtifactKind;

use crate::server::{DEADLINE, TestServer};
use crate::stored::{LARGE, PROGRAM, store};

/// A client that lets each stream send it so many bytes before it reads them, and keeps its
/// connection.
fn client(window_bytes: u32) -> Client {
    Client::builder()
        .http2_prior_knowledge()
        .http2_initial_stream_window_size(window_bytes)
        .pool_idle_timeout(None)
        .build()
        .unwrap()
}

/// The answer to a GET, whose body is not read.
async fn begin(client: &Client, server: &TestServer, path: &str) -> Response {
    let answer = client.get(server.url(path)).send();
    let answer = tokio::time::timeout(DEADLINE, answer).await;
    answer.expect("headers in time").unwrap()
}

/// Waits until no request runs but the one that asks.
async fn until_nothing_runs(server: &TestServer) {
    let end = tokio::time::Instant::now() + DEADLINE;
    loop {
        let metrics = server.get_raw("/metrics").await;
        let running = "unhex_http_requests_running 1";
        if metrics.text().lines().any(|line| line == running) {
            return;
        }
        assert!(tokio::time::Instant::now() < end, "{}", metrics.text());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_takes_nothing_is_reset_and_its_answer_let_go() {
    let server = TestServer::start_with(|config| {
        config.limits.write_stall_seconds_max = Duration::from_millis(300);
    })
    .await;
    let id = LARGE.build_id();
    store(&server, &id, ArtifactKind::Executable, LARGE.bytes()).await;
    let client = client(1_000);
    // One from a file, one from memory.
    for path in [format!("/buildid/{id}/executable"), "/metrics".to_owned()] {
        let answer = begin(&client, &server, &path).await;
        assert_eq!(answer.status(), 200, "{path}");
        until_nothing_runs(&server).await;
        let read = tokio::time::timeout(DEADLINE, answer.bytes()).await;
        assert!(read.expect("an end in time").is_err(), "{path}");
        let other = begin(&client, &server, "/healthz").await;
        assert_eq!(other.text().await.unwrap(), "ok\n", "the connection lives");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_stream_that_takes_something_gets_all() {
    let server = TestServer::start_with(|config| {
        config.limits.write_stall_seconds_max = Duration::from_secs(2);
    })
    .await;
    let id = PROGRAM.build_id();
    store(&server, &id, ArtifactKind::Executable, PROGRAM.bytes()).await;
    let path = format!("/buildid/{id}/executable");
    let answer = begin(&client(1_000), &server, &path).await;
    assert!(answer.bytes().await.unwrap() == PROGRAM.bytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_without_requests_is_closed_though_it_answers_pings() {
    let server = TestServer::start_with(|config| {
        config.limits.connection_idle_seconds_max = Duration::from_millis(200);
        config.limits.connections_max = 1;
    })
    .await;
    let client = client(1 << 16);
    assert_eq!(
        begin(&client, &server, "/healthz")
            .await
            .text()
            .await
            .unwrap(),
        "ok\n"
    );
    // There is one place, and the client would keep it.
    assert_eq!(server.get_raw("/healthz").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_closed_although_the_end_of_an_answer_was_never_taken() {
    let server = TestServer::start_with(|config| {
        config.limits.connection_idle_seconds_max = Duration::from_millis(200);
        config.limits.connections_max = 1;
    })
    .await;
    let client = client(1);
    let untaken = begin(&client, &server, "/healthz").await;
    assert_eq!(server.get_raw("/healthz").await.status, 200);
    assert!(untaken.bytes().await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_with_a_request_is_not_idle_however_slow_it_is() {
    let server = TestServer::start_with(|config| {
        config.limits.connection_idle_seconds_max = Duration::from_millis(100);
        config.limits.body_stall_seconds_max = Duration::from_secs(1);
    })
    .await;
    let answer = server
        .raw(
            "PUT /buildid/ab01/debuginfo HTTP/1.1\r\nHost: t\r\nContent-Length: 1000\r\n\
             Connection: close\r\n\r\n\x7fELF",
        )
        .await;
    assert_eq!(answer.status, 408);
}
