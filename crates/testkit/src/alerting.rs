//! Prometheus and Alertmanager as processes on free loopback ports, and a receiver of their webhooks.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::{http, run};

/// Longest time until one of the two answers; it takes a third of a second on an idle machine.
const START_DEADLINE: Duration = Duration::from_mins(1);

/// Longest wait for the rest of a request.
const READ_DEADLINE: Duration = Duration::from_secs(30);

/// One of the two programs; it is killed when this is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    url: String,
    /// Goes away with it.
    home: tempfile::TempDir,
}

impl Running {
    /// Starts Prometheus with a configuration. Relative rule files are looked for in `rules`.
    ///
    /// # Panics
    /// If it does not become ready; the message has its log.
    pub fn prometheus(program: &Path, configuration: &str) -> Self {
        Self::start(program, "prometheus.yml", configuration, |home, port| {
            vec![
                format!("--config.file={home}/prometheus.yml"),
                format!("--storage.tsdb.path={home}/data"),
                "--storage.tsdb.retention.time=1h".to_owned(),
                format!("--web.listen-address=127.0.0.1:{port}"),
            ]
        })
    }

    /// Starts Alertmanager with a configuration, without gossip.
    ///
    /// # Panics
    /// If it does not become ready; the message has its log.
    pub fn alertmanager(program: &Path, configuration: &str) -> Self {
        Self::start(program, "alertmanager.yml", configuration, |home, port| {
            vec![
                format!("--config.file={home}/alertmanager.yml"),
                format!("--storage.path={home}/data"),
                "--cluster.listen-address=".to_owned(),
                format!("--web.listen-address=127.0.0.1:{port}"),
            ]
        })
    }

    fn start(
        program: &Path,
        file: &str,
        configuration: &str,
        arguments: impl Fn(&str, u16) -> Vec<String>,
    ) -> Self {
        let home = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(home.path().join(file), configuration).expect("a file can be written");
        let log = std::fs::File::create(home.path().join("log")).expect("a log can be written");
        let port = free_port();
        let folder = home.path().to_str().expect("a temporary folder in UTF-8");
        let child = Command::new(program)
            .args(arguments(folder, port))
            .current_dir(home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", program.display()));
        let mut running = Self {
            child,
            url: format!("http://127.0.0.1:{port}"),
            home,
        };
        let log = running.home.path().join("log");
        run::poll(
            "Prometheus or Alertmanager to be ready",
            START_DEADLINE,
            || {
                if let Ok(Some(status)) = running.child.try_wait() {
                    let said = String::from_utf8_lossy(&run::read(&log)).into_owned();
                    panic!("{} ended, {status}: {said}", program.display());
                }
                http::get(&running.url("/-/ready")).filter(|answer| answer.status == 200)
            },
        );
        running
    }

    /// `http://127.0.0.1:PORT` and the path.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A port that is free now. Neither program can take port 0 and say which it got.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

/// Receives webhooks and keeps their bodies.
#[derive(Debug)]
pub struct WebhookReceiver {
    address: String,
    bodies: Arc<Mutex<Vec<String>>>,
}

impl WebhookReceiver {
    /// Listens on a free loopback port, until the test ends.
    ///
    /// # Panics
    /// If there is no free port.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        let bodies: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = Arc::clone(&bodies);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if let Some(body) = receive(stream) {
                    kept.lock().expect("no reader panics").push(body);
                }
            }
        });
        Self { address, bodies }
    }

    /// Where webhooks are to be sent.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// The bodies that came, in their order.
    ///
    /// # Panics
    /// If the thread that receives has panicked.
    pub fn bodies(&self) -> Vec<String> {
        self.bodies.lock().expect("the receiver runs").clone()
    }
}

/// The body of one request, which is answered with 200; `None` when it breaks off.
fn receive(mut stream: TcpStream) -> Option<String> {
    stream.set_read_timeout(Some(READ_DEADLINE)).ok()?;
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    stream.write_all(answer).ok()?;
    String::from_utf8(body).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_is_received_and_answered() {
        let receiver = WebhookReceiver::start();
        let answer = http::post_json(&receiver.url(), "{\"a\":1}").expect("an answer");
        assert_eq!(answer.status, 200);
        let bodies = run::poll("the body", Duration::from_secs(30), || {
            Some(receiver.bodies()).filter(|bodies| !bodies.is_empty())
        });
        assert_eq!(bodies, ["{\"a\":1}"]);
    }
}
