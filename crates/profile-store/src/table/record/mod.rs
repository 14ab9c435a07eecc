//! Records: what a compaction or a deletion says, as JSON that is written once.
//!
//! Reading is strict. A record says which files count, so one that is half understood would count rows
//! twice or never: a version, kind or field that is not known is an error that says so, and nothing is
//! said of that hour until a program reads it that knows. docs/profile-table.md has an example of each,
//! which a test reads.

mod check;
mod compaction;
pub(in crate::table) mod seal;
mod tombstone;

use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;

pub(in crate::table) use check::{at_most, distinct};
pub use compaction::{BASE_SEGMENTS_MAX, Compaction, OUTPUTS_MAX, RowTotals};
pub use seal::BrokenSealError;
pub use tombstone::{
    Deletion, LABEL_BYTES_MAX, Label, RowSelector, SERVICES_MAX, TOMBSTONES_APPLIED_MAX, Tombstone,
};

use super::names::{ParseNameError, RecordKind, RecordName};

/// The version of records that is written, and the only one that is read. Raised with any change, also
/// with a field more.
pub const RECORD_VERSION: u32 = 1;

/// The longest record that is written and read: a base of [`BASE_SEGMENTS_MAX`] segments has 47 MB.
pub const RECORD_BYTES_MAX: usize = 64 << 20;

/// A record that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Segments were written anew, sorted, with their totals.
    Compaction(Arc<Compaction>),
    /// Rows are deleted.
    Tombstone(Arc<Tombstone>),
}

/// Why the bytes under a record's key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadRecordError {
    /// Longer than any record.
    #[error("a record of {0} bytes, beyond {RECORD_BYTES_MAX}")]
    TooLong(usize),
    /// Damaged, or with a field that this version does not know.
    #[error("no record in JSON: {0}")]
    NotJson(String),
    /// Written by another version of this program.
    #[error("a record of version {0}; this program reads version {RECORD_VERSION}")]
    UnknownVersion(u32),
    /// Written by a newer version of this program.
    #[error("a record of the unknown kind {0:?}")]
    UnknownKind(String),
    /// Changed since it was written.
    #[error(transparent)]
    Changed(#[from] BrokenSealError),
    /// Damaged, or moved.
    #[error("the record says {field} {found:?}, its key {expected:?}")]
    OtherKey {
        /// Which field of the key.
        field: &'static str,
        /// What the record says.
        found: String,
        /// What the key says.
        expected: String,
    },
    /// It says what cannot be.
    #[error(transparent)]
    Unsound(#[from] UnsoundRecordError),
}

/// What no record may say; also an error of whoever wants to write one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnsoundRecordError {
    /// More of something than there may be.
    #[error("{count} {what}, at most {max} are allowed")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        count: usize,
        /// The limit.
        max: usize,
    },
    /// Nothing where there has to be something.
    #[error("no {0}")]
    None(&'static str),
    /// A name that is none.
    #[error(transparent)]
    Name(#[from] ParseNameError),
    /// Two segments of the base are one, or one is a resend of the other: its rows would count twice.
    #[error("segments {0} and {1} of the base have the same content")]
    SameContent(String, String),
    /// An object that another publish wrote, or of another hour.
    #[error("{0} is not of this record's publish and hour")]
    OtherPublish(String),
    /// The same twice.
    #[error("{0} stands there twice")]
    Repeated(String),
    /// The sums are not those of what is named.
    #[error("{what} {found}, in sum it is {expected}")]
    Totals {
        /// Which sum.
        what: &'static str,
        /// What the record says.
        found: u64,
        /// What it should say.
        expected: u64,
    },
}

/// A record that cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteRecordError {
    /// It says what cannot be.
    #[error(transparent)]
    Unsound(#[from] UnsoundRecordError),
    /// It would not be read.
    #[error("a record of {0} bytes, beyond {RECORD_BYTES_MAX}")]
    TooLong(usize),
    /// The encoder failed.
    #[error("the record cannot be written as JSON")]
    Json(#[from] serde_json::Error),
}

impl Record {
    /// Its name, and so its key.
    pub fn name(&self) -> RecordName {
        let (hour, id, kind) = match self {
            Self::Compaction(body) => (body.hour, body.id, RecordKind::Compaction),
            Self::Tombstone(body) => (body.hour, body.id, RecordKind::Tombstone),
        };
        RecordName { hour, id, kind }
    }

    /// The JSON that is stored.
    ///
    /// # Errors
    /// If [`Self::read`] would refuse it.
    pub fn to_json(&self) -> Result<Vec<u8>, WriteRecordError> {
        let json = match self {
            Self::Compaction(body) => {
                body.check()?;
                serde_json::to_vec(&compaction::Written::of(body))
            }
            Self::Tombstone(body) => {
                body.check()?;
                serde_json::to_vec(&tombstone::Written::of(body))
            }
        };
        let json = seal::seal(json?);
        if json.len() > RECORD_BYTES_MAX {
            return Err(WriteRecordError::TooLong(json.len()));
        }
        Ok(json)
    }

    /// The record in `json`, which has to be the one that its key names.
    ///
    /// # Errors
    /// If it is damaged, of another version or kind, another record, or says what cannot be.
    pub fn read(json: &[u8], name: &RecordName) -> Result<Self, ReadRecordError> {
        // Before the kind and the checksum: a newer version may do those otherwise.
        versioned(json)?;
        let record = match &name.kind {
            RecordKind::Unknown(word) => {
                return Err(ReadRecordError::UnknownKind(word.to_string()));
            }
            RecordKind::Compaction => {
                let written: compaction::Written = parsed(&seal::open(json)?)?;
                Self::Compaction(Arc::new(written.into_compaction()?))
            }
            RecordKind::Tombstone => {
                let written: tombstone::Written = parsed(&seal::open(json)?)?;
                Self::Tombstone(Arc::new(written.into_tombstone()?))
            }
        };
        let found = record.name();
        let other = |field, found: String, expected: String| ReadRecordError::OtherKey {
            field,
            found,
            expected,
        };
        if found.hour != name.hour {
            let (found, expected) = (found.hour.to_string(), name.hour.to_string());
            return Err(other("hour", found, expected));
        }
        if found.id != name.id {
            let (found, expected) = (found.id.to_string(), name.id.to_string());
            return Err(other("ID", found, expected));
        }
        Ok(record)
    }
}

/// Refuses what is too long, and other versions than this program's.
pub(in crate::table) fn versioned(json: &[u8]) -> Result<(), ReadRecordError> {
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    if json.len() > RECORD_BYTES_MAX {
        return Err(ReadRecordError::TooLong(json.len()));
    }
    let Version { version } = parsed(json)?;
    if version != RECORD_VERSION {
        return Err(ReadRecordError::UnknownVersion(version));
    }
    Ok(())
}

pub(in crate::table) fn parsed<T: DeserializeOwned>(json: &[u8]) -> Result<T, ReadRecordError> {
    serde_json::from_slice(json).map_err(|error| ReadRecordError::NotJson(error.to_string()))
}

#[cfg(test)]
mod tests;
