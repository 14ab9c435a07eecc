//! `GET /query/segments`: what lies in the store, by hour.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The hours of a window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SegmentsAnswer {
    /// The first moment, RFC 3339.
    pub from: String,
    /// The first moment after it, RFC 3339.
    pub to: String,
    /// In their order; hours without files are left out.
    pub hours: Vec<SegmentHour>,
}

/// One hour.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SegmentHour {
    /// As `2026-12-01/13`, in UTC.
    pub hour: String,
    /// Segments as they came, which count.
    pub fresh: FilesOfHour,
    /// Compacted samples.
    pub samples: FilesOfHour,
    /// Compacted sums of the hour by stack.
    pub totals: FilesOfHour,
    /// Label sets, stacks and frames.
    pub dictionary: FilesOfHour,
    /// The keys of the files that together have each row of samples once, without the rows that `deletions` leave out.
    pub sample_files: Vec<String>,
    /// The keys of those that together have each total once; those below `seg/` have rows of samples, each a total of its own.
    pub total_files: Vec<String>,
    /// Deletions that are not worked into the files yet.
    pub deletions: u64,
    /// Why the hour cannot be read, if it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Files of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FilesOfHour {
    /// How many.
    pub files: u64,
    /// Their rows.
    pub rows: u64,
    /// Their bytes in the store.
    pub bytes: u64,
}
