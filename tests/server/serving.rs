//! Connections: slow clients, too many clients, clients that are refused while they still send.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::operation::described;
use crate::server::{DEADLINE, TestServer};

/// Sends `bytes` and waits until the server closes; the answer, if any.
async fn send_and_wait(server: &TestServer, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(DEADLINE, stream.read_to_end(&mut answer))
        .await
        .expect("the server closes")
        .unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_finish_its_headers_is_let_go() {
    let server = TestServer::start_with(|config| {
        config.limits.header_read_seconds_max = Duration::from_millis(200);
    })
    .await;
    for start in [
        "",
        "P",
        "PRI * HTTP/2.0\r\n",
        "GET /healthz HTTP/1.1\r\nHost: t\r\n",
    ] {
        let answer = send_and_wait(&server, start.as_bytes()).await;
        assert!(
            !answer.starts_with(b"HTTP/1.1 200"),
            "{start:?}: {answer:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_beyond_the_limit_waits_for_a_place_and_is_not_refused() {
    let server = TestServer::start_with(|config| config.limits.connections_max = 1).await;
    let mut first = TcpStream::connect(server.address).await.unwrap();
    first
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n")
        .await
        .unwrap();
    let mut byte = [0];
    first.read_exact(&mut byte).await.unwrap();

    let mut second = TcpStream::connect(server.address).await.unwrap();
    let request = b"GET /healthz HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n";
    second.write_all(request).await.unwrap();
    let early = tokio::time::timeout(Duration::from_millis(200), second.read_u8()).await;
    assert!(early.is_err(), "{early:?}");

    drop(first);
    let mut answer = String::new();
    tokio::time::timeout(DEADLINE, second.read_to_string(&mut answer))
        .await
        .unwrap()
        .unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_refused_while_it_still_sends_can_read_why() {
    let server = TestServer::start().await;
    let length = 4 << 20;
    let mut request =
        format!("POST /healthz HTTP/1.1\r\nHost: t\r\nContent-Length: {length}\r\n\r\n");
    request.push_str(&"x".repeat(length));
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let (mut reader, mut writer) = stream.split();
    // The server may close before it has taken all; what counts is that its answer arrives.
    let send = async { drop(writer.write_all(request.as_bytes()).await) };
    let mut answer = Vec::new();
    let (read, ()) = tokio::time::timeout(DEADLINE, async {
        tokio::join!(reader.read_to_end(&mut answer), send)
    })
    .await
    .expect("the server closes");
    read.expect("FIN, not RST");
    assert!(answer.starts_with(b"HTTP/1.1 405"), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_beyond_their_limit_are_refused() {
    let server = TestServer::start_with(|config| config.limits.header_bytes_max = 8 << 10).await;
    let long = "x".repeat(20_000);
    let answer = server
        .raw(&format!(
            "GET /healthz HTTP/1.1\r\nHost: t\r\nX-Long: {long}\r\n\r\n"
        ))
        .await;
    assert_eq!(answer.status, 431);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_does_not_hold_up_a_stop() {
    let server = TestServer::start().await;
    let mut idle = TcpStream::connect(server.address).await.unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n")
        .await
        .unwrap();
    let mut byte = [0];
    idle.read_exact(&mut byte).await.unwrap();
    server.stop().await;
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_idle_for_too_long_is_closed() {
    let server = TestServer::start_with(|config| {
        config.limits.header_read_seconds_max = Duration::from_millis(200);
    })
    .await;
    let answer = send_and_wait(&server, b"GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n").await;
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_stops_coming_is_let_go_and_leaves_nothing() {
    let server = TestServer::start_with(|config| {
        config.limits.body_stall_seconds_max = Duration::from_millis(300);
    })
    .await;
    let start =
        b"PUT /buildid/ab01/debuginfo HTTP/1.1\r\nHost: t\r\nContent-Length: 1000\r\n\r\n\x7fELF";
    let answer = String::from_utf8(send_and_wait(&server, start).await).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert_eq!(server.get_raw("/buildid/ab01/debuginfo").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_that_writes_refuses_without_the_token_before_the_body_is_read() {
    let token = unhex::config::WriteToken::new("s3cret").unwrap();
    let server = TestServer::start_with(|config| config.write_token = Some(token)).await;
    let mut guarded = 0;
    for (method, path) in described(&server).await {
        // Profilers have no token, and what they send is counted, not stored as it is.
        let is_asked_by_profilers = path.starts_with("/symbolize") || path == "/observe";
        if method == "GET" || is_asked_by_profilers {
            continue;
        }
        guarded += 1;
        let request = format!("{method} {path}");
        // The body never comes: whoever waited for it would hang.
        let head = format!(
            "{request} HTTP/1.1\r\nHost: t\r\nContent-Length: 1000000\r\nConnection: close\r\n\
             Expect: 100-continue\r\n\r\n"
        );
        let answer = server.raw(&head).await;
        assert_eq!(answer.status, 401, "{request}");
        let challenge = answer.header("www-authenticate").unwrap();
        assert!(
            challenge.contains("Bearer") && challenge.contains("Basic"),
            "{challenge}"
        );
    }
    assert!(guarded >= 5, "{guarded}");
    assert_eq!(server.get_raw("/buildid/ab01/debuginfo").await.status, 404);
    assert_eq!(server.get_raw("/build-ids").await.status, 200);
}
