//! Reading a bucket without the program under test: what is in it, and an object by ranges.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use sha2::{Digest as _, Sha256};

use super::{S3Server, hex};
use crate::{run, tools};

/// Bytes of one range.
const RANGE_BYTES: u64 = 4 << 20;

impl S3Server {
    /// Keys and sizes of the first thousand objects of a bucket.
    ///
    /// # Panics
    /// If the server does not list it.
    pub fn objects(&self, bucket: &str) -> Vec<(String, u64)> {
        let mut curl = Self::signed();
        curl.arg(format!("{}/{bucket}?list-type=2", self.endpoint));
        let listed = run::succeed(&mut curl).text();
        let objects = listed.split("<Contents>").skip(1).map(|object| {
            let size = element(object, "Size").parse().expect("a size");
            (element(object, "Key"), size)
        });
        objects.collect()
    }

    /// Downloads an object by ranges of 4 MiB, eight at once, each into a file of that folder: what
    /// any program has to wait for that wants all of it.
    ///
    /// # Panics
    /// If a range does not come.
    pub fn download_in_ranges(&self, (bucket, key): (&str, &str), size_bytes: u64, into: &Path) {
        let mut ranges = String::new();
        for number in 0..size_bytes.div_ceil(RANGE_BYTES) {
            let start = number * RANGE_BYTES;
            let last = size_bytes.min(start + RANGE_BYTES) - 1;
            let next = if number == 0 { "" } else { "next\n" };
            let path = into.join(number.to_string());
            let _infallible = writeln!(
                ranges,
                "{next}url = \"{}/{bucket}/{key}\"\nrange = \"{start}-{last}\"\noutput = \"{}\"\n\
                 fail\naws-sigv4 = \"aws:amz:us-east-1:s3\"\nuser = \"{}:{}\"\n\
                 header = \"x-amz-content-sha256: {}\"\nnoproxy = \"*\"\nsilent\nshow-error",
                self.endpoint,
                path.display(),
                Self::ACCESS_KEY,
                Self::SECRET_KEY,
                hex(&Sha256::digest(b"")),
            );
        }
        let config = into.join("ranges");
        std::fs::write(&config, ranges).expect("a configuration of curl");
        let mut curl = Command::new(tools::CURL.path());
        curl.args(["--parallel", "--parallel-max", "8", "--config"]);
        run::succeed(curl.arg(&config));
        std::fs::remove_file(config).expect("it is there");
        let parts = std::fs::read_dir(into).expect("a folder");
        let sizes = parts.map(|part| part.and_then(|part| part.metadata()));
        let total: u64 = sizes.map(|size| size.expect("a part").len()).sum();
        assert_eq!(total, size_bytes, "some of it is missing");
    }

    /// curl, with a signature of a request without a body.
    fn signed() -> Command {
        let mut curl = Command::new(tools::CURL.path());
        curl.args(["--silent", "--show-error", "--fail", "--noproxy", "*"])
            .args(["--aws-sigv4", "aws:amz:us-east-1:s3", "--user"])
            .arg(format!("{}:{}", Self::ACCESS_KEY, Self::SECRET_KEY))
            .arg("--header")
            .arg(format!(
                "x-amz-content-sha256: {}",
                hex(&Sha256::digest(b""))
            ));
        curl
    }
}

/// The text of the first element of that name.
fn element(text: &str, name: &str) -> String {
    let (_, rest) = text
        .split_once(&format!("<{name}>"))
        .unwrap_or_else(|| panic!("no {name} in {text}"));
    let (value, _) = rest.split_once('<').expect("an end");
    value.to_owned()
}
