//! Which requests a segment has rows of: by that a resend is known after a crash, and by other replicas.

use std::fmt;

use parquet::file::metadata::{KeyValue, ParquetMetaDataReader};

use super::damage::without_panic;
use super::{FileError, RangeReader};
use crate::objects::Objects;
use crate::table::names::ContentHash;

/// The name in the footer of a segment under which its requests stand, as 64 hex digits each, in order, one behind the other.
pub const REQUESTS_KEY: &str = "unhex.requests";

/// Bytes that are read of a segment's end at first: the footer of one with 500 requests.
const FOOTER_BYTES: usize = 40 << 10;

const HASH_DIGITS: usize = 64;

/// A request: the SHA-256 of all of it that makes rows. A resend has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestHash(pub [u8; 32]);

impl fmt::Display for RequestHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ContentHash(self.0).fmt(f)
    }
}

pub(super) fn footer(requests: &[RequestHash]) -> Vec<KeyValue> {
    let mut requests = requests.to_vec();
    requests.sort_unstable();
    requests.dedup();
    let all: Vec<String> = requests.iter().map(ToString::to_string).collect();
    vec![KeyValue::new(REQUESTS_KEY.to_owned(), all.concat())]
}

/// The requests that a segment has rows of. Reads its footer: one request to the store, or two if it is long.
///
/// # Errors
/// If the segment is not there, or is damaged.
pub async fn read_requests(objects: &Objects, key: &str) -> Result<Vec<RequestHash>, FileError> {
    let reader = RangeReader::of_unknown_length(objects, key);
    let metadata = ParquetMetaDataReader::new().with_prefetch_hint(Some(FOOTER_BYTES));
    let metadata = without_panic(metadata.load_via_suffix_and_finish(reader)).await?;
    let entries = metadata.file_metadata().key_value_metadata();
    let entry = entries.and_then(|all| all.iter().find(|entry| entry.key == REQUESTS_KEY));
    let text = entry.and_then(|entry| entry.value.as_deref()).unwrap_or("");
    let unsound = || FileError::Unsound {
        key: key.to_owned(),
        what: format!("{REQUESTS_KEY} has no SHA-256 sums"),
    };
    let hashes = text.as_bytes().chunks(HASH_DIGITS).map(|digits| {
        let digits = std::str::from_utf8(digits).ok()?;
        let hash: ContentHash = digits.parse().ok()?;
        Some(RequestHash(hash.0))
    });
    let hashes: Option<Vec<RequestHash>> = hashes.collect();
    hashes.ok_or_else(unsound)
}
