//! Clients are held while nothing is known, and learn it in the way that they forget.

use std::io::ErrorKind;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use unhex::artifacts::ArtifactKind;
use unhex_testkit::fault_proxy::{Fault, FaultProxy};

use crate::calls;
use crate::server::{DEADLINE, TestServer};
use crate::stored::{PROGRAM, path, store};
use crate::upstream::{ask, upstream};

/// A server that holds its clients for so long, behind an upstream that says nothing but 500.
async fn holding(time: Duration) -> (TestServer, FaultProxy) {
    let upstream = upstream();
    upstream.fail(Fault::status(500));
    let server = TestServer::start_with(|config| {
        ask(&[&upstream])(config);
        config.limits.hold_deadline = time;
    })
    .await;
    (server, upstream)
}

/// What comes back for a GET of the debug file over a connection of its own, and how it ends.
async fn exchange(server: &TestServer, header: &str) -> (String, std::io::Result<usize>) {
    let path = path("debuginfo");
    let request = format!("GET {path} HTTP/1.1\r\nHost: t\r\n{header}\r\n");
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let ended = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut answer)).await;
    let ended = ended.expect("an end in time");
    (String::from_utf8_lossy(&answer).into_owned(), ended)
}

/// Whether a line of the metrics reads so.
pub async fn counted(server: &TestServer, line: &str) -> bool {
    let metrics = server.get_raw("/metrics").await;
    metrics.text().lines().any(|found| found == line)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_passes_while_a_client_is_held_is_not_noticed() {
    let (server, upstream) = holding(DEADLINE).await;
    let url = server.url(&path("debuginfo"));
    let asking = tokio::spawn(async move { reqwest::get(url).await.unwrap().status() });
    while upstream.requests() < 4 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!asking.is_finished());
    upstream.fail(Fault::None);
    assert_eq!(asking.await.unwrap(), 200);
    let answered = r#"unhex_debuginfod_held_total{outcome="answered"} 1"#;
    assert!(counted(&server, answered).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_of_the_clients_own_is_reset_before_the_first_byte() {
    let (server, _upstream) = holding(Duration::from_secs(1)).await;
    let (answer, ended) = exchange(&server, "").await;
    assert_eq!(answer, "");
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::ConnectionReset);
    let reset = r#"unhex_debuginfod_held_total{outcome="reset"} 1"#;
    assert!(counted(&server, reset).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_comes_through_a_proxy_gets_a_status_that_nobody_may_store() {
    let (server, _upstream) = holding(Duration::from_millis(500)).await;
    for header in [
        "Via: 1.1 cache\r\n",
        "Forwarded: for=192.0.2.1\r\n",
        "X-Forwarded-For: 192.0.2.1\r\n",
    ] {
        let header = format!("{header}Connection: close\r\n");
        let (answer, ended) = exchange(&server, &header).await;
        ended.unwrap();
        assert!(answer.starts_with("HTTP/1.1 503"), "{header}: {answer}");
        assert!(
            answer.contains("\r\ncache-control: no-store\r\n"),
            "{answer}"
        );
        assert!(answer.contains("\r\nretry-after: "), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn over_http_2_one_stream_fails_and_the_others_go_on() {
    let (server, _upstream) = holding(Duration::from_secs(1)).await;
    let client = reqwest::Client::builder().http2_prior_knowledge();
    let client = client.build().unwrap();
    let get = async |path: &str| client.get(server.url(path)).send().await.unwrap().status();
    let held = path("debuginfo");
    let (held, other) = tokio::join!(get(&held), get("/healthz"));
    assert_eq!((held.as_u16(), other.as_u16()), (503, 200));
    assert_eq!(get("/healthz").await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_held_that_is_known() {
    let (server, upstream) = holding(Duration::from_hours(1)).await;
    let id = PROGRAM.build_id();
    let file = calls::bytes(PROGRAM.debug_only());
    store(&server, &id, ArtifactKind::Debuginfo, file).await;
    assert_eq!(server.get_raw(&path("debuginfo")).await.status, 200);
    upstream.fail(Fault::status(404));
    assert_eq!(server.get_raw(&path("executable")).await.status, 404);
    assert_eq!(server.get_raw("/buildid/nonsense").await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_asks_with_head_is_told_at_once() {
    let (server, upstream) = holding(Duration::from_hours(1)).await;
    let path = path("debuginfo");
    let head = format!("HEAD {path} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
    assert_eq!(server.raw(&head).await.status, 503);
    assert!(upstream.requests() <= 3, "{}", upstream.requests());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_lets_go_of_those_who_are_held() {
    let (server, upstream) = holding(Duration::from_hours(1)).await;
    let path = path("debuginfo");
    let request = format!("GET {path} HTTP/1.1\r\nHost: t\r\n\r\n");
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    while upstream.requests() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.stop().await;
    let ended = stream.read_u8().await.unwrap_err();
    assert_eq!(ended.kind(), ErrorKind::ConnectionReset);
}
