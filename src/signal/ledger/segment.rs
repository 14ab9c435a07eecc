//! The objects that the ledger is made of: parts of replicas, as compressed JSON.
//!
//! docs/object-layout.md describes them. A part is all that one replica saw, under a sequence number;
//! of two parts of one replica the higher number counts, so that it does not matter how often, by
//! whom or in which order parts are written and read.

use std::io::Read as _;

use serde::{Deserialize, Serialize};
use unhex_build_id::Identity;

use super::entry::Entry;
use crate::artifacts::UploadId;
use crate::artifacts::store::{ObjectKey, ParseObjectKeyError};
use crate::signal::labels::LabelSet;
use crate::signal::lately::Lately;

/// Where segments lie.
pub(in crate::signal) const SEGMENTS: &str = "signal/ledger/";

/// The version of the segments that this program writes, and the last one that it reads.
const SEGMENT_VERSION: u32 = 1;

/// Compresses JSON of entries to a quarter; higher levels cost more than they save.
const ZSTD_LEVEL: i32 = 1;

/// The largest segment as it lies in the store: a full ledger has about 20 MB.
pub(in crate::signal) const SEGMENT_BYTES_MAX: u64 = 128 << 20;

/// The largest segment after decompression.
const JSON_BYTES_MAX: u64 = 1 << 30;

/// One object of the ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::signal) struct Segment {
    pub(in crate::signal) version: u32,
    pub(in crate::signal) parts: Vec<Part>,
}

/// All that one replica saw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// The replica: each start of a server is another one.
    pub replica: UploadId,
    /// Which of its parts this is; the highest counts.
    pub sequence: u64,
    /// Build IDs without symbols.
    pub entries: Vec<Listed>,
    /// What each label set sent lately, with and without symbols.
    pub sent: Vec<(LabelSet, Lately)>,
}

/// One build ID in a part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Listed {
    /// The build ID or other identity.
    pub identity: Identity,
    /// What is known of it.
    pub entry: Entry,
}

/// Why an object is no segment that can be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(in crate::signal) enum ReadSegmentError {
    /// No zstd frame, or one that is too large.
    #[error("it cannot be decompressed: {0}")]
    Compression(#[from] std::io::Error),
    /// Damaged.
    #[error("no segment in JSON: {0}")]
    NotJson(#[from] serde_json::Error),
    /// Written by a newer version of this program.
    #[error("a segment of version {0}; this program reads up to version {SEGMENT_VERSION}")]
    TooNew(u32),
}

impl Segment {
    pub(in crate::signal) fn new(parts: Vec<Part>) -> Self {
        Self {
            version: SEGMENT_VERSION,
            parts,
        }
    }

    /// The bytes that are stored.
    pub(in crate::signal) fn encode(&self) -> Result<Vec<u8>, ReadSegmentError> {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), ZSTD_LEVEL)?;
        serde_json::to_writer(&mut encoder, self)?;
        Ok(encoder.finish()?)
    }

    /// The segment in `bytes`.
    pub(in crate::signal) fn decode(bytes: &[u8]) -> Result<Self, ReadSegmentError> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let mut json = Vec::new();
        zstd::stream::read::Decoder::with_buffer(bytes)?
            .take(JSON_BYTES_MAX)
            .read_to_end(&mut json)?;
        let Version { version } = serde_json::from_slice(&json)?;
        if version > SEGMENT_VERSION {
            return Err(ReadSegmentError::TooNew(version));
        }
        Ok(serde_json::from_slice(&json)?)
    }
}

/// The key of a segment.
pub(in crate::signal) fn key(name: UploadId) -> Result<ObjectKey, ParseObjectKeyError> {
    format!("{SEGMENTS}{name}.json.zst").parse()
}
