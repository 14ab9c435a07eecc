//! Downloads that something comes in the way of: a stop, a disk that fails, a client that sleeps.

use std::path::Path;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use unhex::artifacts::ArtifactKind;

use crate::server::{DEADLINE, TestServer};
use crate::stored::{LARGE, store};

/// Begins a download over a small window and reads its headers.
async fn begin_large(server: &TestServer) -> (TcpStream, usize) {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 << 10).unwrap();
    let mut stream = socket.connect(server.address).await.unwrap();
    let path = format!("/buildid/{}/executable", LARGE.build_id());
    let request = format!("GET {path} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    (stream, length.unwrap().parse().unwrap())
}

async fn read_rest(mut stream: TcpStream) -> std::io::Result<usize> {
    let mut rest = Vec::new();
    tokio::time::timeout(DEADLINE, stream.read_to_end(&mut rest))
        .await
        .expect("the body ends")?;
    Ok(rest.len())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_waits_for_a_download_that_runs() {
    let server = TestServer::start().await;
    store(
        &server,
        &LARGE.build_id(),
        ArtifactKind::Executable,
        LARGE.bytes(),
    )
    .await;
    let (stream, length) = begin_large(&server).await;
    let stopping = tokio::spawn(server.stop());
    assert_eq!(read_rest(stream).await.unwrap(), length);
    stopping.await.unwrap();
}

/// The only large file below a folder.
fn blob(folder: &Path) -> Option<std::path::PathBuf> {
    std::fs::read_dir(folder).unwrap().find_map(|entry| {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            return blob(&entry.path());
        }
        (entry.metadata().unwrap().len() > 20 << 20).then(|| entry.path())
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_fails_within_a_body_ends_it_short_with_fin_not_rst() {
    let server = TestServer::start().await;
    store(
        &server,
        &LARGE.build_id(),
        ArtifactKind::Executable,
        LARGE.bytes(),
    )
    .await;
    let (stream, length) = begin_large(&server).await;
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(blob(server.data()).unwrap());
    file.unwrap().set_len(1 << 20).unwrap();
    let got = read_rest(stream).await.expect("FIN, not RST");
    assert!(got < length, "{got} of {length}");
    let metrics = server.get_raw("/metrics").await;
    let cut = r#"unhex_http_responses_cut_total{route="buildid"} 1"#;
    assert!(metrics.text().contains(cut), "{}", metrics.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_takes_no_bytes_is_let_go() {
    let server = TestServer::start_with(|config| {
        config.limits.write_stall_seconds_max = std::time::Duration::from_millis(300);
    })
    .await;
    store(
        &server,
        &LARGE.build_id(),
        ArtifactKind::Executable,
        LARGE.bytes(),
    )
    .await;
    let (stream, length) = begin_large(&server).await;
    let open = async || {
        let metrics = server.get_raw("/metrics").await;
        let line = r#"unhex_http_responses_cut_total{route="buildid"} 1"#;
        !metrics.text().contains(line)
    };
    let until = tokio::time::Instant::now() + DEADLINE;
    while open().await {
        assert!(
            tokio::time::Instant::now() < until,
            "the client still holds its connection"
        );
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert!(!read_rest(stream).await.is_ok_and(|got| got >= length));
}
