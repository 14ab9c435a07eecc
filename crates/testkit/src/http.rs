//! HTTP as it is on the wire: requests with any path and header, sent as they are.
//!
//! A client library would tidy up a path like `/a/../b c` before it sends it, and decode what it
//! gets; a test of a server needs both as they are.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Longest wait for the next byte.
const READ_DEADLINE: Duration = Duration::from_mins(2);

/// A request; the connection is closed after the answer.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Such as `GET`.
    pub method: &'a str,
    /// `http://HOST:PORT/PATH`, sent as it is.
    pub url: &'a str,
    /// More headers than `Host` and `Content-Length`.
    pub headers: &'a [(&'a str, &'a str)],
    /// The body.
    pub body: &'a [u8],
}

/// An answer, complete.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The headers in their order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, without the framing of chunks, not decompressed.
    pub body: Vec<u8>,
}

impl Response {
    /// The first header of that lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// The body as text; bytes that are not UTF-8 are replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// What a GET answers; `None` when the connection fails or ends early.
pub fn get(url: &str) -> Option<Response> {
    send(&Request {
        method: "GET",
        url,
        headers: &[],
        body: &[],
    })
}

/// What a PUT of `body` answers; `None` when the connection fails or ends early.
pub fn put(url: &str, body: &[u8]) -> Option<Response> {
    send(&Request {
        method: "PUT",
        url,
        headers: &[],
        body,
    })
}

/// What a POST of a JSON text answers; `None` when the connection fails or ends early.
pub fn post_json(url: &str, body: &str) -> Option<Response> {
    let headers = [("Content-Type", "application/json")];
    send(&Request {
        method: "POST",
        url,
        headers: &headers,
        body: body.as_bytes(),
    })
}

/// Sends a request and reads the whole answer; `None` when the connection fails or ends early.
///
/// # Panics
/// If the URL is not `http://HOST:PORT/PATH`.
pub fn send(request: &Request<'_>) -> Option<Response> {
    let (host, _) = host_and_path(request.url);
    send_to(host, request)
}

fn host_and_path(url: &str) -> (&str, &str) {
    let rest = url.strip_prefix("http://").expect("an http URL");
    rest.split_once('/').expect("a path")
}

/// The same over a connection to `address`, whatever host the URL names.
pub(crate) fn send_to(address: &str, request: &Request<'_>) -> Option<Response> {
    let (host, path) = host_and_path(request.url);
    let mut head = vec![
        format!("{} /{path} HTTP/1.1", request.method),
        format!("Host: {host}"),
        "Connection: close".to_owned(),
    ];
    let headers = request.headers.iter();
    head.extend(
        headers
            .clone()
            .map(|(name, value)| format!("{name}: {value}")),
    );
    let framed = headers.clone().any(|(name, _)| {
        name.eq_ignore_ascii_case("transfer-encoding")
            || name.eq_ignore_ascii_case("content-length")
    });
    if !framed && (!request.body.is_empty() || matches!(request.method, "PUT" | "POST")) {
        head.push(format!("Content-Length: {}", request.body.len()));
    }
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(READ_DEADLINE)).ok()?;
    stream
        .write_all(format!("{}\r\n\r\n", head.join("\r\n")).as_bytes())
        .ok()?;
    // A server may refuse by the headers alone, and close before it has read the body.
    drop(stream.write_all(request.body));
    let mut bytes = Vec::new();
    let ended = stream.read_to_end(&mut bytes);
    let response = parse(&bytes, request.method);
    if response.is_none() {
        ended.ok()?;
    }
    response
}

fn parse(bytes: &[u8], method: &str) -> Option<Response> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let rest = &bytes[end + 4..];
    let mut lines = head.lines();
    let status: u16 = lines.next()?.split_whitespace().nth(1)?.parse().ok()?;
    if status == 100 {
        return parse(rest, method);
    }
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let mut response = Response {
        status,
        headers,
        body: Vec::new(),
    };
    let length = response
        .header("content-length")
        .and_then(|n| n.parse::<usize>().ok());
    response.body = match length {
        _ if method == "HEAD" || status == 204 || status == 304 => Vec::new(),
        Some(length) => rest.get(..length)?.to_vec(),
        None if response.header("transfer-encoding") == Some("chunked") => unchunked(rest)?,
        None => rest.to_vec(),
    };
    Some(response)
}

/// The body of a chunked answer, RFC 9112 §7.1; `None` when its last chunk is missing.
pub(crate) fn unchunked(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n")?;
        let size = std::str::from_utf8(&rest[..end]).ok()?;
        let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
        rest = &rest[end + 2..];
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_with_a_length_is_read() {
        let bytes = b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\nX-A:  b\r\n\r\nnot found";
        let answer = parse(bytes, "GET").expect("complete");
        assert_eq!((answer.status, answer.text().as_str()), (404, "not found"));
        assert_eq!(answer.header("x-a"), Some("b"));
    }

    #[test]
    fn a_chunked_answer_is_put_together() {
        let bytes =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n";
        assert_eq!(parse(bytes, "GET").expect("complete").body, b"abcd");
    }

    #[test]
    fn an_answer_cut_short_is_none() {
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nnot";
        assert!(parse(bytes, "GET").is_none());
        let bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n";
        assert!(parse(bytes, "GET").is_none());
    }
}
