//! A real S3 server on loopback: Ceph's gateway over one monitor and one OSD in memory.
//!
//! It takes seconds to start, so that the tests of one process share it and each makes a bucket of
//! its own. It ends with the process, however that ends: it watches a pipe that the process holds.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpListener;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use crate::{http, run, tools};

mod reading;

/// The start of all its processes, see there.
const START: &str = include_str!("start.sh");

/// Longest time until it answers; six seconds on an idle machine.
const START_DEADLINE: Duration = Duration::from_mins(3);

/// Longest time until all its processes are gone.
const STOP_DEADLINE: Duration = Duration::from_secs(20);

/// A running S3 server; it is killed when this is dropped, or when this process ends.
#[derive(Debug)]
pub struct S3Server {
    child: Child,
    held: Option<ChildStdin>,
    endpoint: String,
    buckets: AtomicU32,
    folder: tempfile::TempDir,
}

impl S3Server {
    /// Who may do everything here.
    pub const ACCESS_KEY: &str = "AKTEST";
    /// The secret that goes with it.
    pub const SECRET_KEY: &str = "SKTESTSKTEST";

    /// The server that the tests of this process share. `None`, after saying so, when a program that
    /// it needs is missing and this is no build machine.
    ///
    /// # Panics
    /// If it does not become ready, or a program is missing and `CI` is `true`.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<S3Server>> = OnceLock::new();
        SHARED.get_or_init(Self::start).as_ref()
    }

    /// A server of its own, for tests that stop it.
    ///
    /// # Panics
    /// As [`Self::shared`].
    pub fn start() -> Option<Self> {
        let bash = tools::BASH.find()?;
        for tool in [
            tools::CEPH_MON,
            tools::CEPH_OSD,
            tools::RADOSGW,
            tools::MONMAPTOOL,
            tools::OSDMAPTOOL,
            tools::RADOSGW_ADMIN,
            tools::CURL,
        ] {
            tool.find()?;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = folder.path().join("ceph");
        let log = folder.path().join("log");
        let [monitor_port, gateway_port] = free_ports();
        let mut child = Command::new(bash)
            .args(["-c", START, "s3-server"])
            .arg(&place)
            .args([monitor_port, gateway_port].map(|port| port.to_string()))
            .args([Self::ACCESS_KEY, Self::SECRET_KEY])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).expect("a log file can be created"))
            .spawn()
            .expect("bash starts");
        let held = child.stdin.take();
        let stdout = child.stdout.take().expect("a pipe");
        let server = Self {
            child,
            held,
            endpoint: format!("http://127.0.0.1:{gateway_port}"),
            buckets: AtomicU32::new(0),
            folder,
        };
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let said = BufReader::new(stdout).lines().next();
            drop(sender.send(said.and_then(Result::ok)));
        });
        let said = receiver.recv_timeout(START_DEADLINE);
        assert!(
            matches!(said, Ok(Some(line)) if line == "started"),
            "the S3 server does not start:\n{}",
            server.log()
        );
        run::poll("the S3 server to answer", START_DEADLINE, || {
            http::get(&format!("{}/", server.endpoint)).filter(|answer| answer.status < 500)
        });
        Some(server)
    }

    /// What its processes said so far, for the message of a test that failed.
    pub fn log(&self) -> String {
        let names = ["log", "ceph/log/started"];
        let texts = names.map(|name| std::fs::read(self.folder.path().join(name)));
        let texts = texts.map(Result::unwrap_or_default);
        String::from_utf8_lossy(&texts.concat()).into_owned()
    }

    /// `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The host and port of [`Self::endpoint`].
    pub fn address(&self) -> &str {
        self.endpoint.trim_start_matches("http://")
    }

    /// The name of a new, empty bucket.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn bucket(&self) -> String {
        let number = self.buckets.fetch_add(1, Ordering::Relaxed);
        let name = format!("test-{number}");
        let status = self.request("PUT", &name);
        assert_eq!(status, 200, "making the bucket {name}");
        name
    }

    /// The status of a signed request without a body; `path` is a bucket, or a bucket and a key.
    ///
    /// # Panics
    /// If the server does not answer.
    pub fn request(&self, method: &str, path: &str) -> u16 {
        self.send(&["--request", method], path, b"")
    }

    /// Puts an object as any program might, whatever was there before.
    ///
    /// # Panics
    /// If the server does not take it.
    pub fn put(&self, bucket: &str, key: &str, bytes: &[u8]) {
        let mut body = tempfile::NamedTempFile::new().expect("a temporary file");
        body.write_all(bytes).expect("a temporary file is written");
        let body = body.path().to_str().expect("a path of ASCII").to_owned();
        let status = self.send(&["--upload-file", &body], &format!("{bucket}/{key}"), bytes);
        assert_eq!(status, 200, "putting {key} into {bucket}");
    }

    fn send(&self, arguments: &[&str], path: &str, body: &[u8]) -> u16 {
        let sha256 = hex(&Sha256::digest(body));
        let mut curl = Command::new(tools::CURL.path());
        curl.args(["--silent", "--show-error", "--noproxy", "*"])
            .args(["--output", "/dev/null", "--write-out", "%{http_code}"])
            .args(["--aws-sigv4", "aws:amz:us-east-1:s3", "--user"])
            .arg(format!("{}:{}", Self::ACCESS_KEY, Self::SECRET_KEY))
            .arg("--header")
            .arg(format!("x-amz-content-sha256: {sha256}"))
            .args(arguments)
            .arg(format!("{}/{path}", self.endpoint));
        let said = run::succeed(&mut curl).text();
        said.trim().parse().expect("a status code")
    }

    /// The variables by which programs find their way to it; the region and credentials too.
    pub fn environment(&self) -> [(&'static str, String); 4] {
        [
            ("AWS_ENDPOINT_URL", self.endpoint.clone()),
            ("AWS_ACCESS_KEY_ID", Self::ACCESS_KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", Self::SECRET_KEY.to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
        ]
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        // The script kills what it started once its standard input ends.
        drop(self.held.take());
        let _ended = run::wait(&mut self.child, STOP_DEADLINE);
    }
}

/// Ports that were free an instant ago; none of these programs can pick one itself and say which.
fn free_ports() -> [u16; 2] {
    let listeners = [0, 0].map(|port| TcpListener::bind(("127.0.0.1", port)).expect("a free port"));
    listeners.map(|listener| listener.local_addr().expect("an address").port())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_made_and_nothing_is_left_of_the_server() {
        let Some(server) = S3Server::start() else {
            return;
        };
        let (one, two) = (server.bucket(), server.bucket());
        assert_ne!(one, two);
        assert_eq!(server.request("GET", &one), 200);
        server.put(&one, "a/b", b"bytes");
        assert_eq!(server.request("GET", &format!("{one}/a/b")), 200);
        assert_eq!(server.request("GET", &format!("{two}/a/b")), 404);
        assert_eq!(server.request("GET", "no-such-bucket"), 404);
        let (address, folder) = (server.address().to_owned(), server.folder.path().to_owned());
        drop(server);
        assert!(std::net::TcpStream::connect(address).is_err());
        assert!(!folder.exists());
    }
}
