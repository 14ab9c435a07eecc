//! Names of records: `rec/<hour>/<publish>.<kind>.json`.

use std::fmt;

use super::hour::Hour;
use super::publish_id::PublishId;
use super::{ParseNameError, RECORDS, shape};

pub(super) const SHAPE: &str = "rec/<date>/<hour>/<publish>.<kind>.json";
const SUFFIX: &str = ".json";

/// Bytes of the word of a kind: the longest of today has 10.
const KIND_BYTES_MAX: usize = 24;

/// The name of a record. Ordered by hour, then by ID: the order in which compactions of one
/// generation are considered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordName {
    /// The hour that it speaks of.
    pub hour: Hour,
    /// Its publish.
    pub id: PublishId,
    /// What it says.
    pub kind: RecordKind,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordKind {
    /// Segments were written anew, sorted, with their totals.
    Compaction,
    /// Rows are deleted.
    Tombstone,
    /// A word of a newer version: what it says is not known, so nothing is known of its hour.
    Unknown(Box<str>),
}

impl RecordKind {
    /// The word in names.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Compaction => "compaction",
            Self::Tombstone => "tombstone",
            Self::Unknown(word) => word,
        }
    }

    fn of_word(word: &str) -> Option<Self> {
        let is_legal =
            |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_');
        match word {
            "compaction" => Some(Self::Compaction),
            "tombstone" => Some(Self::Tombstone),
            "" => None,
            _ if word.len() <= KIND_BYTES_MAX && word.bytes().all(is_legal) => {
                Some(Self::Unknown(word.into()))
            }
            _ => None,
        }
    }
}

impl RecordName {
    pub(super) fn of_name(hour: Hour, name: &str) -> Result<Self, ParseNameError> {
        let stem = name.strip_suffix(SUFFIX);
        let parts = stem.and_then(|stem| stem.split_once('.'));
        let (id, word) = parts.ok_or_else(|| shape(name, SHAPE))?;
        let kind = RecordKind::of_word(word).ok_or_else(|| shape(name, SHAPE))?;
        Ok(Self {
            hour,
            id: id.parse()?,
            kind,
        })
    }
}

impl fmt::Display for RecordName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hour, id, kind) = (self.hour, self.id, self.kind.as_str());
        write!(f, "{RECORDS}{hour}/{id}.{kind}{SUFFIX}")
    }
}
