//! One request and what becomes of it.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use socket2::SockRef;

use super::fault::Fault;
use super::{Behind, Shared, lock};
use crate::http::{self, Request, Response};

/// How often a connection that hangs looks whether anybody is still interested.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The largest head of a request: no client sends more than a few kilobytes.
const HEAD_BYTES_MAX: usize = 1 << 20;

/// What an endless body consists of.
static ENDLESS: [u8; 64 << 10] = [0x5a; 64 << 10];

/// Headers of one connection, which are not passed on, and those that are written anew.
const NOT_PASSED_ON: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "transfer-encoding",
];

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Such as `GET`.
    pub method: String,
    /// The path and the query, as sent.
    pub path: String,
    /// The headers in their order, names in lower case.
    pub headers: Vec<(String, String)>,
}

impl Seen {
    /// The first header of that lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }
}

/// Takes one request from `stream` and answers it, or fails at it as the script says.
pub(super) fn run(stream: &TcpStream, shared: &Shared) {
    let Some((seen, behind_head)) = read_head(stream, shared) else {
        return;
    };
    lock(&shared.seen).push(seen.clone());
    let fault = shared.next_fault(&seen);
    match &fault {
        Fault::Hang => return hang(stream, shared),
        Fault::Reset => return reset(stream),
        Fault::Close => return,
        _ => {}
    }
    let Some(body) = read_body(stream, shared, &seen, behind_head) else {
        return;
    };
    let Some(answer) = answer(&fault, shared, &seen, &body) else {
        // What stands behind has failed by itself: so does this.
        return;
    };
    if fault == Fault::LoseAnswer {
        return reset(stream);
    }
    // A client that leaves in the middle is its own business.
    drop(send(stream, shared, &fault, &seen, &answer));
}

fn answer(fault: &Fault, shared: &Shared, seen: &Seen, body: &[u8]) -> Option<Response> {
    if let Fault::Answer(answer) = fault {
        return Some(answer.clone().into());
    }
    match &shared.behind {
        Behind::Tree(files) => Some(file(files.get(&seen.path))),
        Behind::Server(host) => pass_on(host, seen, body),
    }
}

fn file(found: Option<&Vec<u8>>) -> Response {
    let (status, body) = match found {
        Some(body) => (200, body.clone()),
        None => (404, b"not found".to_vec()),
    };
    let mut headers = vec![(
        "content-type".to_owned(),
        "application/octet-stream".to_owned(),
    )];
    if status == 200 {
        // As servers of debug files have it.
        headers.push(("x-debuginfod-size".to_owned(), body.len().to_string()));
    }
    Response {
        status,
        headers,
        body,
    }
}

fn pass_on(host: &str, seen: &Seen, body: &[u8]) -> Option<Response> {
    // The host name stays that of the client's request: it is part of signatures.
    let mut headers: Vec<(&str, &str)> = seen
        .headers
        .iter()
        .filter(|(name, _)| !NOT_PASSED_ON.contains(&name.as_str()))
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let length = body.len().to_string();
    let has_body = seen.header("content-length").is_some() || !body.is_empty();
    if has_body {
        headers.push(("content-length", &length));
    }
    http::send_to(
        host,
        &Request {
            method: &seen.method,
            url: &format!(
                "http://{}{}",
                seen.header("host").unwrap_or(host),
                seen.path
            ),
            headers: &headers,
            body,
        },
    )
}

fn send(
    stream: &TcpStream,
    shared: &Shared,
    fault: &Fault,
    seen: &Seen,
    answer: &Response,
) -> io::Result<()> {
    let mut to = stream;
    let half = answer.body.len().div_ceil(2);
    let framing = match fault {
        Fault::Endless => String::new(),
        Fault::TruncateChunked => "transfer-encoding: chunked\r\n".to_owned(),
        Fault::WrongLength => format!("content-length: {half}\r\n"),
        // Of a HEAD the length is what the server behind says, though there is no body.
        _ if seen.method == "HEAD" && answer.header("content-length").is_some() => String::new(),
        _ => format!("content-length: {}\r\n", answer.body.len()),
    };
    let mut head = format!("HTTP/1.1 {} As Told\r\n{framing}", answer.status);
    for (name, value) in &answer.headers {
        let (name, value) = (name.as_str(), value.as_str());
        let lower = name.to_ascii_lowercase();
        let is_length = lower == "content-length" && seen.method == "HEAD";
        if is_length || !NOT_PASSED_ON.contains(&lower.as_str()) {
            head.extend([name, ": ", value, "\r\n"]);
        }
    }
    to.write_all(format!("{head}connection: close\r\n\r\n").as_bytes())?;
    if seen.method == "HEAD" {
        return Ok(());
    }
    let first_half = &answer.body[..half];
    match fault {
        Fault::HangInBody => {
            to.write_all(first_half)?;
            hang(stream, shared);
        }
        Fault::ResetInBody => {
            to.write_all(first_half)?;
            reset(stream);
        }
        Fault::Truncate | Fault::WrongLength => to.write_all(first_half)?,
        Fault::TruncateChunked => {
            to.write_all(format!("{half:x}\r\n").as_bytes())?;
            to.write_all(first_half)?;
            to.write_all(b"\r\n")?;
        }
        Fault::Endless => {
            to.write_all(&answer.body)?;
            // A client that takes nothing must not hold this thread for ever.
            stream.set_write_timeout(Some(LOOK_EVERY))?;
            while !shared.stopped() {
                match to.write(&ENDLESS) {
                    Err(error) if would_block(&error) => {}
                    written => drop(written?),
                }
            }
        }
        Fault::FlipByte => {
            let mut body = answer.body.clone();
            body.iter_mut()
                .skip(half)
                .take(1)
                .for_each(|byte| *byte = !*byte);
            to.write_all(&body)?;
        }
        _ => to.write_all(&answer.body)?,
    }
    Ok(())
}

/// Holds the connection until the client or the proxy goes.
fn hang(stream: &TcpStream, shared: &Shared) {
    while let Some(read) = read_some(stream, shared, &mut [0; 4096]) {
        if read == 0 {
            return;
        }
    }
}

/// Makes the coming close an RST.
fn reset(stream: &TcpStream) {
    SockRef::from(stream)
        .set_linger(Some(Duration::ZERO))
        .expect("a socket can be told to reset");
}

/// Reads until something comes; `None` when the connection failed or the proxy stops.
fn read_some(mut stream: &TcpStream, shared: &Shared, buffer: &mut [u8]) -> Option<usize> {
    stream.set_read_timeout(Some(LOOK_EVERY)).ok()?;
    while !shared.stopped() {
        match stream.read(buffer) {
            Err(error) if would_block(&error) => {}
            read => return read.ok(),
        }
    }
    None
}

fn would_block(error: &io::Error) -> bool {
    let kinds = [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut];
    kinds.contains(&error.kind())
}

/// The head of a request, and what came behind it.
fn read_head(stream: &TcpStream, shared: &Shared) -> Option<(Seen, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 8 << 10];
    let end = loop {
        let read = read_some(stream, shared, &mut buffer)?;
        if read == 0 || bytes.len() > HEAD_BYTES_MAX {
            return None;
        }
        bytes.extend_from_slice(&buffer[..read]);
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
    };
    let behind_head = bytes.split_off(end + 4);
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.lines();
    let mut words = lines.next()?.split(' ').map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let seen = Seen {
        method,
        path,
        headers,
    };
    Some((seen, behind_head))
}

fn read_body(
    mut stream: &TcpStream,
    shared: &Shared,
    seen: &Seen,
    mut body: Vec<u8>,
) -> Option<Vec<u8>> {
    if seen.header("expect").is_some() {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok()?;
    }
    let chunked = seen.header("transfer-encoding").is_some();
    let length = seen
        .header("content-length")
        .map_or(Some(0), |n| n.parse().ok())?;
    let mut buffer = vec![0; 64 << 10];
    loop {
        if chunked && let Some(whole) = http::unchunked(&body) {
            return Some(whole);
        }
        if !chunked && body.len() >= length {
            return Some(body);
        }
        let read = read_some(stream, shared, &mut buffer)?;
        if read == 0 {
            return None;
        }
        body.extend_from_slice(&buffer[..read]);
    }
}
