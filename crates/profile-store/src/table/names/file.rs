//! Names of the Parquet files: segments as they came, and outputs of compactions.

use std::fmt;

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use super::content_hash::ContentHash;
use super::hour::Hour;
use super::publish_id::PublishId;
use super::{OUTPUTS, ParseNameError, SEGMENTS, shape};

pub(super) const SUFFIX: &str = ".parquet";
pub(super) const SEGMENT_SHAPE: &str = "seg/<date>/<hour>/<publish>.<content>.<rows>.parquet";
const STEM_SHAPE: &str = "<publish>.<content>.<rows>";
pub(super) const OUTPUT_SHAPE: &str = "out/<date>/<hour>/<publish>.<kind>.<sha256>.<rows>.parquet";

/// Rows of one file: the sums of all files of an hour then fit into 64 bits by far.
pub const ROWS_MAX: u64 = 1 << 32;

/// Minutes between two segments of the same content of which one is a resend of the other: clients
/// give up after five.
pub const RESEND_MINUTES_MAX: i64 = 10;

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// Rows of samples: labels, stack, time, count.
    Samples,
    /// Hourly totals: one row for labels and stack.
    Totals,
}

/// The name of a segment, whose PUT commits its rows: `seg/<hour>/<publish>.<content>.<rows>.parquet`.
///
/// `content` is the same exactly when the same was sent again: the writer makes it of what it was sent,
/// not of the file, since the same rows may be other bytes when another version encodes them. Rows of
/// one request that lie in two hours are in two segments, each with its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentName {
    /// The hour that all its rows are in.
    pub hour: Hour,
    /// Its publish.
    pub id: PublishId,
    /// What it holds, equal for a resend.
    pub content: ContentHash,
    /// Its rows, 1 to [`ROWS_MAX`].
    pub rows: u64,
}

/// The name of an output of a compaction: `out/<hour>/<publish>.<kind>.<sha256>.<rows>.parquet`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutputName {
    /// The hour that all its rows are in.
    pub hour: Hour,
    /// The ID of the compaction, and of its record.
    pub id: PublishId,
    /// What it holds.
    pub kind: FileKind,
    /// The SHA-256 of its bytes.
    pub sha256: ContentHash,
    /// Its rows, 1 to [`ROWS_MAX`].
    pub rows: u64,
}

impl FileKind {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Samples, Self::Totals];

    /// The word in names.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Samples => "samples",
            Self::Totals => "totals",
        }
    }

    fn of_word(word: &str) -> Result<Self, ParseNameError> {
        let found = Self::ALL.into_iter().find(|kind| kind.as_str() == word);
        found.ok_or_else(|| ParseNameError::FileKind(word.to_owned()))
    }
}

impl SegmentName {
    /// Whether both are sends of one content, or one segment: of such, one counts.
    pub fn is_same_content(&self, other: &Self) -> bool {
        self.hour == other.hour && self.content == other.content && self.is_near(other)
    }

    fn is_near(&self, other: &Self) -> bool {
        let apart = self.id.began().duration_since(other.id.began()).abs();
        apart <= SignedDuration::from_mins(RESEND_MINUTES_MAX)
    }

    /// `<publish>.<content>.<rows>`: the name within an hour, as records write it.
    pub fn stem(&self) -> String {
        format!("{}.{}.{}", self.id, self.content, self.rows)
    }

    /// The name that a [`Self::stem`] stands for.
    ///
    /// # Errors
    /// If it is none.
    pub fn of_stem(hour: Hour, stem: &str) -> Result<Self, ParseNameError> {
        let mut parts = stem.splitn(3, '.');
        let (Some(id), Some(content), Some(rows)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(shape(stem, STEM_SHAPE));
        };
        Ok(Self {
            hour,
            id: id.parse()?,
            content: content.parse()?,
            rows: parse_rows(rows)?,
        })
    }
}

impl OutputName {
    pub(super) fn of_name(hour: Hour, name: &str) -> Result<Self, ParseNameError> {
        let stem = name.strip_suffix(SUFFIX);
        let mut parts = stem
            .ok_or_else(|| shape(name, OUTPUT_SHAPE))?
            .splitn(4, '.');
        let (Some(id), Some(kind), Some(sha256), Some(rows)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(shape(name, OUTPUT_SHAPE));
        };
        Ok(Self {
            hour,
            id: id.parse()?,
            kind: FileKind::of_word(kind)?,
            sha256: sha256.parse()?,
            rows: parse_rows(rows)?,
        })
    }
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SEGMENTS}{}/{}{SUFFIX}", self.hour, self.stem())
    }
}

impl fmt::Display for OutputName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hour, id, kind) = (self.hour, self.id, self.kind.as_str());
        let (sha256, rows) = (self.sha256, self.rows);
        write!(f, "{OUTPUTS}{hour}/{id}.{kind}.{sha256}.{rows}{SUFFIX}")
    }
}

pub(in crate::table) fn parse_rows(text: &str) -> Result<u64, ParseNameError> {
    let rows: Option<u64> = text.parse().ok();
    rows.filter(|rows| (1..=ROWS_MAX).contains(rows) && rows.to_string() == text)
        .ok_or_else(|| ParseNameError::Rows(text.to_owned()))
}
