//! Keys of the table's objects: what kind an object is, of which hour, and all of it that the fold needs
//! without reading it.
//!
//! | key | what |
//! |---|---|
//! | `seg/<hour>/<publish>.<content>.<rows>.parquet` | a [segment](SegmentName): rows as they came |
//! | `out/<hour>/<publish>.<kind>.<sha256>.<rows>.parquet` | an [output](OutputName) of the compaction with that ID |
//! | `rec/<hour>/<publish>.<kind>.json` | a [record](RecordName) |
//!
//! An [`Hour`] is `<date>/<hour>`. Each name has one text, and [`ObjectName`] parses what it formats.
//! Keys stand below the root of the table, whatever bucket and prefix or folder that is.

mod content_hash;
mod file;
mod hex;
mod hour;
mod listing;
mod publish_id;
mod record_name;

use std::fmt;
use std::str::FromStr;

pub use content_hash::{ContentHash, ParseContentHashError};
pub(in crate::table) use file::parse_rows;
pub use file::{FileKind, OutputName, RESEND_MINUTES_MAX, ROWS_MAX, SegmentName};
pub use hour::{Hour, HourError};
pub use listing::{FOREIGN_SHOWN_MAX, Foreign, Listing, Output, Segment};
pub use publish_id::{
    PUBLISH_MINUTES_MAX, ParsePublishIdError, PublishId, PublishTooOldError, SWEEP_HOURS_MIN,
};
pub use record_name::{RecordKind, RecordName};

/// The folder of all segments.
pub const SEGMENTS: &str = "seg/";
/// The folder of all outputs of compactions.
pub const OUTPUTS: &str = "out/";
/// The folder of all records.
pub const RECORDS: &str = "rec/";

/// The longest key that is looked at: the longest name has 160 bytes, and S3 allows 1,024.
pub(in crate::table) const KEY_BYTES_MAX: usize = 512;

/// Any object of the table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectName {
    /// Rows as they came.
    Segment(SegmentName),
    /// Rows or totals that a compaction wrote.
    Output(OutputName),
    /// A compaction or a tombstone.
    Record(RecordName),
}

/// A key that is no [`ObjectName`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseNameError {
    /// Longer than any name.
    #[error("a key of {0} bytes, beyond {KEY_BYTES_MAX}")]
    TooLong(usize),
    /// In no folder of the table: an export, a file of somebody else.
    #[error("{0:?} is in no folder of the table")]
    OtherFolder(String),
    /// In a folder of the table, and of another shape than the names there.
    #[error("{key:?} is not like {shape}")]
    Shape {
        /// The key or name.
        key: String,
        /// What it should be like.
        shape: &'static str,
    },
    /// The folder is no hour.
    #[error(transparent)]
    Hour(#[from] HourError),
    /// Not the ID of a publish.
    #[error(transparent)]
    PublishId(#[from] ParsePublishIdError),
    /// Not a hash.
    #[error(transparent)]
    ContentHash(#[from] ParseContentHashError),
    /// Not a number of rows in the one form that it is written in.
    #[error("{0:?} is no number of rows from 1 to {ROWS_MAX}")]
    Rows(String),
    /// Not a kind of file.
    #[error("{0:?} is neither samples nor totals")]
    FileKind(String),
}

impl FromStr for ObjectName {
    type Err = ParseNameError;

    fn from_str(key: &str) -> Result<Self, Self::Err> {
        if key.len() > KEY_BYTES_MAX {
            return Err(ParseNameError::TooLong(key.len()));
        }
        if let Some(rest) = key.strip_prefix(SEGMENTS) {
            let (hour, name) = split(key, rest, file::SEGMENT_SHAPE)?;
            let name = name.strip_suffix(file::SUFFIX);
            let name = name.ok_or_else(|| shape(key, file::SEGMENT_SHAPE))?;
            return Ok(Self::Segment(SegmentName::of_stem(hour, name)?));
        }
        if let Some(rest) = key.strip_prefix(OUTPUTS) {
            let (hour, name) = split(key, rest, file::OUTPUT_SHAPE)?;
            return Ok(Self::Output(OutputName::of_name(hour, name)?));
        }
        if let Some(rest) = key.strip_prefix(RECORDS) {
            let (hour, name) = split(key, rest, record_name::SHAPE)?;
            return Ok(Self::Record(RecordName::of_name(hour, name)?));
        }
        Err(ParseNameError::OtherFolder(key.to_owned()))
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Segment(name) => name.fmt(f),
            Self::Output(name) => name.fmt(f),
            Self::Record(name) => name.fmt(f),
        }
    }
}

/// The hour and what follows it, of a key without its folder.
pub(in crate::table) fn split<'a>(
    key: &str,
    rest: &'a str,
    expected: &'static str,
) -> Result<(Hour, &'a str), ParseNameError> {
    let (hour, name) = rest.rsplit_once('/').ok_or_else(|| shape(key, expected))?;
    Ok((hour.parse()?, name))
}

pub(in crate::table) fn shape(key: &str, shape: &'static str) -> ParseNameError {
    ParseNameError::Shape {
        key: key.to_owned(),
        shape,
    }
}

#[cfg(test)]
mod tests;
