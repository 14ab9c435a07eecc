//! What a deletion says: which rows of an hour are gone.
//!
//! It speaks of rows by their labels and not of files, so that it means the same whatever was compacted
//! into what: a file that was written before it and one that is written after it by somebody who did
//! not see it. So rows of that hour that match and come later are gone, too.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::check::{at_most, distinct};
use super::{ReadRecordError, UnsoundRecordError};
use crate::table::names::{FileKind, Hour, ParseNameError, PublishId};

/// Tombstones of one hour that a compaction applied: retention makes a handful, people some dozens.
pub const TOMBSTONES_APPLIED_MAX: usize = 4_096;

/// Services that one tombstone spares: as many as have a retention of their own.
pub const SERVICES_MAX: usize = 4_096;

/// Bytes of a label in a tombstone: names of services have some tens.
pub const LABEL_BYTES_MAX: usize = 4_096;

/// The record of a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// Its publish.
    pub id: PublishId,
    /// The hour that it speaks of.
    pub hour: Hour,
    /// What is deleted.
    pub deletion: Deletion,
}

/// What is deleted of an hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// Of which kinds of file: totals outlive samples.
    pub kinds: BTreeSet<FileKind>,
    /// Which rows.
    pub rows: RowSelector,
}

/// Which rows of a file, by the labels that both kinds of file have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowSelector {
    /// All: the hour expired.
    Everything,
    /// All but those of these services, which are kept for longer.
    ExceptServices(BTreeSet<String>),
    /// Those that have all of these labels.
    Matching(BTreeMap<Label, String>),
}

/// A label that is a column of samples and of totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Label {
    /// The service.
    Service,
    /// Its version.
    Version,
    /// Its deployment.
    Deployment,
    /// The type of the profile.
    Type,
}

/// The JSON of a tombstone.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    version: u32,
    id: String,
    hour: String,
    kinds: Vec<FileKind>,
    rows: RowSelector,
}

impl RowSelector {
    /// Whether a row is selected, given its labels.
    pub fn matches<'a>(&self, label: impl Fn(Label) -> &'a str) -> bool {
        match self {
            Self::Everything => true,
            Self::ExceptServices(kept) => !kept.contains(label(Label::Service)),
            Self::Matching(labels) => labels.iter().all(|(&name, value)| label(name) == value),
        }
    }

    /// Whether every row that `other` selects is selected by this one, too.
    pub fn contains(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Everything, _) => true,
            (Self::ExceptServices(own), Self::ExceptServices(other)) => own.is_subset(other),
            (Self::ExceptServices(kept), Self::Matching(labels)) => {
                let service = labels.get(&Label::Service);
                service.is_some_and(|service| !kept.contains(service))
            }
            (Self::Matching(own), Self::Matching(other)) => own
                .iter()
                .all(|(name, value)| other.get(name) == Some(value)),
            (Self::ExceptServices(_) | Self::Matching(_), _) => false,
        }
    }
}

impl Tombstone {
    pub(super) fn check(&self) -> Result<(), UnsoundRecordError> {
        if self.deletion.kinds.is_empty() {
            return Err(UnsoundRecordError::None("kinds of file"));
        }
        let long = |texts: &mut dyn Iterator<Item = &String>| {
            let longest = texts.map(String::len).max().unwrap_or(0);
            at_most("bytes of a label", longest, LABEL_BYTES_MAX)
        };
        match &self.deletion.rows {
            RowSelector::Everything => Ok(()),
            RowSelector::ExceptServices(kept) if kept.is_empty() => {
                Err(UnsoundRecordError::None("services that are kept"))
            }
            RowSelector::ExceptServices(kept) => {
                at_most("services", kept.len(), SERVICES_MAX)?;
                long(&mut kept.iter())
            }
            // It would be everything, and that is to be said.
            RowSelector::Matching(labels) if labels.is_empty() => {
                Err(UnsoundRecordError::None("labels that select rows"))
            }
            RowSelector::Matching(labels) => long(&mut labels.values()),
        }
    }
}

impl Written {
    pub(super) fn of(tombstone: &Tombstone) -> Self {
        Self {
            version: super::RECORD_VERSION,
            id: tombstone.id.to_string(),
            hour: tombstone.hour.to_string(),
            kinds: tombstone.deletion.kinds.iter().copied().collect(),
            rows: tombstone.deletion.rows.clone(),
        }
    }

    pub(super) fn into_tombstone(self) -> Result<Tombstone, ReadRecordError> {
        let named = |error| ReadRecordError::Unsound(UnsoundRecordError::Name(error));
        let kinds = self.kinds.iter().map(|kind| kind.as_str());
        distinct(kinds)?;
        let tombstone = Tombstone {
            id: self
                .id
                .parse()
                .map_err(|e| named(ParseNameError::PublishId(e)))?,
            hour: self
                .hour
                .parse()
                .map_err(|e| named(ParseNameError::Hour(e)))?,
            deletion: Deletion {
                kinds: self.kinds.into_iter().collect(),
                rows: self.rows,
            },
        };
        tombstone.check()?;
        Ok(tombstone)
    }
}
