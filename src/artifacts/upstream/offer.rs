//! What a server sends: believed only as far as it can be checked.
//!
//! The head is looked at before the body is read; the body has a deadline for each silence and a
//! bound on its length, and ends in a staged file. What is in the file is compared later, when it is
//! taken into the store.

use std::time::Duration;

use reqwest::header::{self, HeaderMap};
use reqwest::{Response, Url, Version};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::super::ingested::IngestError;
use super::super::receive::{ContentEncoding, Received, Receiver};
use super::client::authority;
use super::failure::{Failure, whole};
use crate::metrics::UpstreamMeter;

/// A file that a server has begun to send.
#[derive(Debug)]
pub(super) struct Offer {
    response: Response,
    encoding: ContentEncoding,
    silence: Duration,
    /// Its turn, which ends with the body.
    pub(super) turn: Option<OwnedSemaphorePermit>,
}

/// A file that has come whole, as far as HTTP can tell.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) received: Received,
    /// Where it came from, without user name and password.
    pub(super) url: String,
    /// The base name that the server gives it.
    pub(super) file_name: Option<String>,
}

/// Bounds on one body.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyBounds<'a> {
    /// Its length, encoded and decoded.
    pub(super) bytes_max: u64,
    /// Where its bytes are counted.
    pub(super) meter: &'a UpstreamMeter,
}

impl Offer {
    /// Looks at the head of a 200: what is no file is refused before its body is read.
    pub(super) fn read(response: Response, silence: Duration) -> Result<Self, Failure> {
        let headers = response.headers();
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let lie = |detail: String| Err(Failure::Lie(detail));
        let encoding = match text(header::CONTENT_ENCODING).map(str::trim) {
            None | Some("" | "identity") => ContentEncoding::Identity,
            Some("gzip" | "x-gzip") => ContentEncoding::Gzip,
            Some("zstd") => ContentEncoding::Zstd,
            Some(other) => return lie(format!("it sends Content-Encoding {other}, unasked")),
        };
        // Servers of this protocol send octets; pages are of captive portals and sign-ins.
        if text(header::CONTENT_TYPE).is_some_and(|is| is.trim_start().starts_with("text/html")) {
            return lie("it sends a page of HTML instead of a file".to_owned());
        }
        if !has_an_end(&response) {
            return lie("the length of what it sends cannot be told".to_owned());
        }
        Ok(Self {
            response,
            encoding,
            silence,
            turn: None,
        })
    }

    /// How its body is encoded.
    pub(super) fn encoding(&self) -> ContentEncoding {
        self.encoding
    }

    /// Reads the whole body, decoded, into `receiver`.
    pub(super) async fn receive(
        self,
        mut receiver: Receiver,
        bounds: BodyBounds<'_>,
    ) -> Result<Delivery, Failure> {
        let Self {
            mut response,
            silence,
            turn,
            ..
        } = self;
        let mut left = bounds.bytes_max;
        loop {
            let chunk = timeout(silence, response.chunk()).await;
            let chunk = chunk.map_err(|_elapsed| Failure::Timeout {
                what: "more of the body",
                within: silence,
            })?;
            let chunk = chunk.map_err(|error| Failure::Connection(whole(&error.without_url())))?;
            let Some(chunk) = chunk else { break };
            let length = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
            bounds.meter.received(length);
            left = left.checked_sub(length).ok_or_else(|| {
                Failure::Lie(format!("it sends more than {} bytes", bounds.bytes_max))
            })?;
            receiver.write(chunk).await.map_err(not_taken)?;
        }
        let received = receiver.finish().await.map_err(not_taken)?;
        drop(turn);
        let headers = response.headers();
        if let Some(said) = number(headers, "x-debuginfod-size")
            && said != received.size_bytes
        {
            let detail = format!("it sends {} bytes of {said}", received.size_bytes);
            return Err(Failure::Lie(detail));
        }
        let file_name = headers.get("x-debuginfod-file");
        Ok(Delivery {
            url: shown(response.url()),
            file_name: file_name.and_then(|name| base_name(name.as_bytes())),
            received,
        })
    }
}

fn not_taken(error: IngestError) -> Failure {
    match error {
        IngestError::Encoding { .. } | IngestError::TooLarge { .. } => {
            Failure::Lie(error.to_string())
        }
        error => Failure::NotStored(Box::new(error)),
    }
}

/// Whether a body that is cut short can be told from a whole one.
fn has_an_end(response: &Response) -> bool {
    let headers = response.headers();
    response.version() >= Version::HTTP_2
        || response.content_length().is_some()
        || headers.contains_key(header::CONTENT_LENGTH)
        || headers.contains_key(header::TRANSFER_ENCODING)
        || number(headers, "x-debuginfod-size").is_some()
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    let text = headers.get(name)?.to_str().ok()?;
    text.trim().parse().ok()
}

/// A URL without user name, password and query: that of a redirect may be signed.
fn shown(url: &Url) -> String {
    format!("{}://{}{}", url.scheme(), authority(url), url.path())
}

/// The last part of a path that a server gives: its folders are nobody's business.
fn base_name(path: &[u8]) -> Option<String> {
    let path = std::str::from_utf8(path).ok()?;
    let name = path.rsplit('/').next().filter(|name| !name.is_empty())?;
    Some(name.to_owned())
}
