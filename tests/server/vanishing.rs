//! Clients that vanish in every way leave nothing behind: no open file, no request, no temporary file.

use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use unhex_testkit::fault_proxy::Fault;
use unhex_testkit::server::{Home, Server};
use unhex_testkit::{http, run};

use crate::stored::LARGE;
use crate::upstream::upstream;

/// How long the server may take to find out.
const DEADLINE: Duration = Duration::from_mins(1);
/// The start of HTTP/2 (RFC 9113 §3.4) with empty settings.
const HTTP2_START: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Something that a client has begun.
#[derive(Clone, Debug)]
struct Begun {
    sent: Vec<u8>,
    /// Of the answer, before it leaves.
    read_bytes: usize,
}

/// A GET on the first stream of an HTTP/2 connection (RFC 7541 §6, nothing indexed).
fn http2_get(path: &str) -> Vec<u8> {
    let mut fields = vec![0x82, 0x86, 0x01, 1, b't', 0x04];
    fields.push(u8::try_from(path.len()).unwrap());
    fields.extend(path.as_bytes());
    let length = u8::try_from(fields.len()).unwrap();
    let head = [0, 0, length, 1, 5, 0, 0, 0, 1];
    [HTTP2_START, &head, &fields].concat()
}

/// Everything that a client may be in the middle of.
fn begun(large: &str) -> Vec<Begun> {
    let half = vec![0x7f; 1 << 20];
    let with_body = |head: &str| [head.as_bytes(), &half].concat();
    let length = "Content-Length: 4000000";
    let absent = "/buildid/00112233/debuginfo";
    [
        (Vec::new(), 0),
        (b"GET /buildid/ab01/debuginfo HTTP/1.1\r\nHos".to_vec(), 0),
        (
            with_body(&format!(
                "PUT /buildid/ab01/debuginfo HTTP/1.1\r\nHost: t\r\n{length}\r\n\r\n"
            )),
            0,
        ),
        (
            with_body(&format!(
                "POST /symbolize HTTP/1.1\r\nHost: t\r\n{length}\r\n\r\n"
            )),
            0,
        ),
        (
            format!("GET {large} HTTP/1.1\r\nHost: t\r\n\r\n").into_bytes(),
            64 << 10,
        ),
        // Nobody knows, so it is held.
        (
            format!("GET {absent} HTTP/1.1\r\nHost: t\r\n\r\n").into_bytes(),
            0,
        ),
        (HTTP2_START[..9].to_vec(), 0),
        (http2_get(large), 32 << 10),
        (http2_get(absent), 9),
    ]
    .map(|(sent, read_bytes)| Begun { sent, read_bytes })
    .to_vec()
}

impl Begun {
    /// Begins it over a small window, and leaves with FIN, or with RST.
    async fn and_left(self, address: std::net::SocketAddr, number: usize) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(16 << 10).unwrap();
        let mut stream: TcpStream = socket.connect(address).await.unwrap();
        stream.write_all(&self.sent).await.unwrap();
        let mut answer = vec![0; self.read_bytes];
        let read = tokio::time::timeout(DEADLINE, stream.read_exact(&mut answer)).await;
        read.expect("an answer in time").unwrap();
        if number.is_multiple_of(2) {
            stream.set_zero_linger().unwrap();
        }
    }
}

/// What a server holds on to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    connections_and_requests: Vec<String>,
    staged_files: usize,
    open_files: usize,
}

fn held(server: &Server) -> Held {
    let metrics = http::get(&server.url("/metrics")).unwrap().text();
    let of_interest = |line: &&str| {
        [
            "unhex_http_connections_open ",
            "unhex_http_requests_running ",
            "unhex_queue_",
        ]
        .iter()
        .any(|name| line.starts_with(name))
            && !line.contains("_total")
            && !line.contains("_duration_")
    };
    let lines = metrics.lines().filter(of_interest).map(str::to_owned);
    Held {
        connections_and_requests: lines.collect(),
        staged_files: files_in(&server.home().data().join("staging")),
        open_files: std::fs::read_dir(format!("/proc/{}/fd", server.id()))
            .unwrap()
            .count(),
    }
}

fn files_in(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap())
        .map(|entry| {
            if entry.file_type().unwrap().is_dir() {
                files_in(&entry.path())
            } else {
                1
            }
        })
        .sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_vanish_in_every_way_leave_nothing_behind() {
    let upstream = upstream();
    upstream.fail(Fault::status(500));
    let arguments = ["--upstream", &upstream.url()];
    let server = Server::start_in(Home::new(), env!("CARGO_BIN_EXE_unhex"), &arguments);
    let large = format!("/buildid/{}/executable", LARGE.build_id());
    let put = http::put(&server.url(&large), &LARGE.bytes()).unwrap();
    assert_eq!(put.status, 201, "{}", put.text());
    let address = server.url("").replace("http://", "").parse().unwrap();
    let all = async |clients: usize| {
        let begun = begun(&large);
        let clients = (0..clients).map(|number| {
            let one = begun[number % begun.len()].clone();
            one.and_left(address, number / begun.len())
        });
        join_all(clients).await;
    };
    // Whatever is opened once is open now.
    all(18).await;
    let settle = |what: &str, is_settled: &dyn Fn(&Held) -> bool| {
        run::poll(what, DEADLINE, || {
            Some(held(&server)).filter(|held| is_settled(held))
        })
    };
    let idle = |held: &Held| {
        let counts = held.connections_and_requests.iter();
        let counts = counts.filter(|line| !line.ends_with(" 0"));
        // The request that asks.
        counts.count() == 2
    };
    let before = settle("the first ones to be forgotten", &idle);
    all(100).await;
    settle("all of them to be forgotten", &|held| *held <= before);
    assert_eq!(http::get(&server.url("/healthz")).unwrap().status, 200);
}
