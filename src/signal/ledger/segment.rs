//! The objects that the ledger is made of: parts of replicas, as compressed JSON.
//!
//! docs/object-layout.md describes them. A part is all that one replica saw, under a sequence number;
//! of two parts of one replica the higher number counts, so that it does not matter how often, by
//! whom or in which order parts are written and read.

use std::cmp::Reverse;
use std::io::{self, Read as _};

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

/// The largest segment that is read, as it lies in the store: a full ledger has about 20 MB.
pub(in crate::signal) const SEGMENT_BYTES_MAX: u64 = 128 << 20;

/// The most JSON that is written into a segment. zstd adds a 256th at most to what it cannot
/// compress, so that no writer makes a segment that readers refuse.
pub(in crate::signal) const SEGMENT_JSON_BYTES_MAX: usize = 120 << 20;

/// The largest segment after decompression that is read: writers of other versions may have been
/// more generous.
const JSON_BYTES_MAX: u64 = 1 << 30;

/// What a part and its segment have around their rows.
const FRAME_BYTES: usize = 256;

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
    Compression(#[from] io::Error),
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

    /// Makes all times in it no later than `latest`, when it was there already: a clock that runs ahead
    /// would keep its build IDs from ever being old.
    pub(in crate::signal) fn keep_before(&mut self, latest: u64) {
        for part in &mut self.parts {
            let entries = part.entries.iter_mut();
            entries.for_each(|listed| listed.entry.keep_before(latest));
            for (_, lately) in &mut part.sent {
                *lately = lately.no_later_than(latest);
            }
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

impl Part {
    /// The part with as much as fits into so much JSON: at most a quarter of it for what was sent, and
    /// of both what was seen last.
    pub(in crate::signal) fn within(mut self, json_bytes_max: usize) -> Self {
        let room = json_bytes_max.saturating_sub(FRAME_BYTES);
        self.sent
            .sort_unstable_by(|(one, _), (two, _)| one.cmp(two));
        self.sent.sort_by_key(|(_, lately)| Reverse(lately.last()));
        let rest = keep_fitting(&mut self.sent, room / 4, room);
        self.entries.sort_unstable_by(|one, two| {
            let seen = two.entry.last_seen.cmp(&one.entry.last_seen);
            seen.then_with(|| one.identity.cmp(&two.identity))
        });
        keep_fitting(&mut self.entries, rest, rest);
        self
    }
}

/// Drops what is behind the rows that fit into `room`, and says what is left of `all`.
fn keep_fitting<T: Serialize>(rows: &mut Vec<T>, mut room: usize, all: usize) -> usize {
    let before = room;
    let fitting = rows.iter().take_while(|row| {
        let rest = json_bytes(row).and_then(|bytes| room.checked_sub(bytes.saturating_add(1)));
        rest.inspect(|rest| room = *rest).is_some()
    });
    let fitting = fitting.count();
    rows.truncate(fitting);
    all.saturating_sub(before.saturating_sub(room))
}

/// Parts in as few groups as go into segments of so much JSON, in their order.
pub(in crate::signal) fn packed(parts: Vec<Part>, json_bytes_max: usize) -> Vec<Vec<Part>> {
    let mut groups: Vec<Vec<Part>> = Vec::new();
    let mut room = 0;
    for part in parts {
        let bytes = json_bytes(&part).unwrap_or(json_bytes_max);
        match groups.last_mut() {
            Some(group) if bytes <= room => group.push(part),
            _ => {
                groups.push(vec![part]);
                room = json_bytes_max;
            }
        }
        room = room.saturating_sub(bytes.saturating_add(1));
    }
    groups
}

/// How long a value is in JSON; `None` when it cannot be written.
fn json_bytes(value: &impl Serialize) -> Option<usize> {
    struct Length(usize);
    impl io::Write for Length {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.saturating_add(bytes.len());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut length = Length(0);
    serde_json::to_writer(&mut length, value).ok()?;
    Some(length.0)
}

/// The key of a segment.
pub(in crate::signal) fn key(name: UploadId) -> Result<ObjectKey, ParseObjectKeyError> {
    format!("{SEGMENTS}{name}.json.zst").parse()
}
