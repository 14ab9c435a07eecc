//! Whether each fault is the one that its name says.

use std::time::Duration;

use super::*;
use crate::{http, run};

const BODY: &[u8] = b"0123456789";

fn proxy() -> FaultProxy {
    FaultProxy::serving([("/file", BODY.to_vec())])
}

fn ask(proxy: &FaultProxy) -> Option<http::Response> {
    http::get(&format!("{}/file", proxy.url()))
}

/// The bytes that come until the end, and how it ended.
fn raw(proxy: &FaultProxy) -> (Vec<u8>, std::io::Result<()>) {
    use std::io::{Read as _, Write as _};
    let mut stream = TcpStream::connect(proxy.address).expect("it listens");
    stream
        .write_all(b"GET /file HTTP/1.1\r\nhost: x\r\n\r\n")
        .expect("sent");
    let mut bytes = Vec::new();
    let ended = stream.read_to_end(&mut bytes).map(drop);
    (bytes, ended)
}

#[test]
fn without_a_fault_files_and_servers_are_passed_through() {
    let tree = proxy();
    let before = FaultProxy::before(&tree.url());
    let url = format!("{}/file", before.url());
    let answer = http::get(&url).expect("an answer");
    assert_eq!((answer.status, answer.body.as_slice()), (200, BODY));
    let put = http::put(&url, b"a body").expect("an answer");
    assert_eq!(put.status, 200);
    assert_eq!(tree.seen()[1].header("content-length"), Some("6"));
    let absent = http::get(&format!("{}/else", before.url())).expect("an answer");
    assert_eq!(absent.status, 404);
    assert_eq!((before.requests(), tree.requests()), (3, 3));
}

#[test]
fn queued_faults_come_before_the_standing_one() {
    let proxy = proxy();
    proxy.fail(Fault::status(500));
    proxy.fail_next([Fault::status(503), Fault::None]);
    let statuses = [0; 3].map(|_| ask(&proxy).expect("an answer").status);
    assert_eq!(statuses, [503, 200, 500]);
    proxy.fail(Fault::redirect("/x"));
    assert_eq!(ask(&proxy).expect("one").header("location"), Some("/x"));
    proxy.fail(Fault::html());
    assert!(ask(&proxy).expect("one").text().contains("<html>"));
}

#[test]
fn bodies_are_cut_where_they_should_be() {
    let proxy = proxy();
    proxy.fail(Fault::Truncate);
    let (bytes, ended) = raw(&proxy);
    let text = String::from_utf8(bytes).expect("text");
    assert!(text.contains("content-length: 10\r\n") && text.ends_with("\r\n\r\n01234"));
    ended.expect("closed, not reset");
    assert!(ask(&proxy).is_none());
    proxy.fail(Fault::TruncateChunked);
    assert!(ask(&proxy).is_none());
    proxy.fail(Fault::WrongLength);
    assert_eq!(ask(&proxy).expect("it looks whole").body, b"01234");
    proxy.fail(Fault::Close);
    assert!(raw(&proxy).0.is_empty());
}

#[test]
fn a_reset_is_a_reset() {
    let proxy = proxy();
    for (fault, some) in [(Fault::Reset, false), (Fault::ResetInBody, true)] {
        proxy.fail(fault);
        let (bytes, ended) = raw(&proxy);
        let kind = ended.map_err(|error| error.kind());
        assert_eq!(kind, Err(std::io::ErrorKind::ConnectionReset));
        // What was sent before an RST may be lost with it.
        assert!(some || bytes.is_empty());
    }
}

#[test]
fn what_hangs_or_has_no_end_goes_with_the_client_or_the_proxy() {
    let proxy = proxy();
    for fault in [Fault::Hang, Fault::HangInBody, Fault::Endless] {
        proxy.fail(fault);
        let before = proxy.requests();
        let client = TcpStream::connect(proxy.address).expect("it listens");
        std::io::Write::write_all(&mut &client, b"GET /file HTTP/1.1\r\n\r\n").expect("sent");
        let deadline = Duration::from_secs(20);
        run::poll("the request", deadline, || {
            (proxy.requests() > before).then_some(())
        });
        assert_eq!(proxy.open_connections(), 1);
        drop(client);
        run::poll("the end", deadline, || {
            (proxy.open_connections() == 0).then_some(())
        });
    }
    let _hangs = TcpStream::connect(proxy.address).expect("it listens");
    // Must not wait for it.
    drop(proxy);
}

#[test]
fn chosen_requests_fail_before_the_queue_and_a_lost_answer_was_one() {
    let tree = proxy();
    let before = FaultProxy::before(&tree.url());
    before.fail_next([Fault::status(503)]);
    before.fail_where(1, Fault::LoseAnswer, |seen| seen.path == "/file");
    let get = |path: &str| http::get(&format!("{}{path}", before.url()));
    assert_eq!(get("/else").expect("an answer").status, 503);
    assert!(get("/file").is_none());
    assert_eq!(tree.requests(), 1);
    assert_eq!(get("/file").expect("an answer").body, BODY);
    before.fail(Fault::FlipByte);
    assert_eq!(get("/file").expect("an answer").body, b"01234\xca6789");
}
