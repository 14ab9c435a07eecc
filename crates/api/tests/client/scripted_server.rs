//! A server that answers by a script and remembers what it was asked, for faults that a real one does not have.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// What the server does with one connection.
pub(crate) enum Step {
    /// Reads the request and answers it.
    Answer(String),
    /// Reads the request and hangs up.
    HangUp,
    /// Reads the head of the request and then nothing more, until the client goes away.
    Stall,
}

/// One request as it came.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// The value of a header, by its lower-case name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

/// A response that closes its connection.
pub(crate) fn answer(status: &str, headers: &str, body: &str) -> Step {
    let length = body.len();
    Step::Answer(format!(
        "HTTP/1.1 {status}\r\n{headers}connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    ))
}

/// Serves the steps, a connection each; the URL, and the requests as they come.
pub(crate) fn serve(steps: Vec<Step>) -> (String, Receiver<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for step in steps {
            let Ok((stream, _)) = listener.accept() else {
                return;
            };
            if let Some(request) = take(&stream, &step) {
                drop(sender.send(request));
            }
        }
    });
    (url, requests)
}

fn take(stream: &TcpStream, step: &Step) -> Option<Request> {
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .ok()?;
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let mut request = Request {
        head,
        body: Vec::new(),
    };
    if matches!(step, Step::Stall) {
        let mut byte = [0];
        while stream.peek(&mut byte).is_ok_and(|count| count > 0) {
            std::thread::sleep(Duration::from_millis(20));
        }
        return Some(request);
    }
    request.body = match request.header("content-length") {
        Some(length) => {
            let mut body = vec![0; length.parse().ok()?];
            reader.read_exact(&mut body).ok()?;
            body
        }
        None if request.header("transfer-encoding").is_some() => chunked(&mut reader)?,
        None => Vec::new(),
    };
    if let Step::Answer(text) = step {
        let mut writer = stream;
        writer.write_all(text.as_bytes()).ok()?;
    }
    Some(request)
}

fn chunked(reader: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let length = usize::from_str_radix(line.trim(), 16).ok()?;
        let mut chunk = vec![0; length + 2];
        reader.read_exact(&mut chunk).ok()?;
        if length == 0 {
            return Some(body);
        }
        body.extend_from_slice(&chunk[..length]);
    }
}
