//! A real S3 server on loopback: Ceph's gateway over one monitor and one OSD in memory; or two over
//! three of each, [`S3Cluster`], of which some may be killed.
//!
//! It takes seconds to start, so that the tests of one process share it and each makes a bucket of
//! its own. It ends with the process, however that ends: it watches a pipe that the process holds.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Command;
use std::sync::{Arc, OnceLock};

use sha2::{Digest as _, Sha256};

use crate::{run, tools};

use self::ceph::{Ceph, Shape};

mod ceph;
mod cluster;
mod reading;

pub use self::ceph::Daemon;
pub use self::cluster::S3Cluster;

/// What one server consists of.
const SHAPE: Shape = Shape {
    monitors: 1,
    osds: 1,
    gateways: 1,
};

/// A running S3 server; it is killed when this is dropped, or when this process ends.
#[derive(Debug)]
pub struct S3Server {
    ceph: Arc<Ceph>,
    endpoint: String,
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
        Some(Self::through(&Arc::new(Ceph::start(SHAPE)?), 0))
    }

    /// A gateway of a running Ceph by its number.
    fn through(ceph: &Arc<Ceph>, gateway: usize) -> Self {
        Self {
            ceph: Arc::clone(ceph),
            endpoint: ceph.endpoints()[gateway].clone(),
        }
    }

    /// What its processes said so far, for the message of a test that failed.
    pub fn log(&self) -> String {
        self.ceph.log()
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
        let name = format!("test-{}", self.ceph.bucket_number());
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
        let (address, folder) = (server.address().to_owned(), server.ceph.folder().to_owned());
        drop(server);
        assert!(std::net::TcpStream::connect(address).is_err());
        assert!(!folder.exists());
    }
}
