//! Why no symbol index can be made of a file: a fact about the file, kept until it or the converter
//! changes.

use serde::{Deserialize, Serialize};

/// Why there is no symbol index of a debug file that is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexFailure {
    /// For programs.
    pub kind: IndexFailureKind,
    /// For people: what was found, and where.
    pub detail: String,
}

/// The kinds of failed conversions; the words are the statuses of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IndexFailureKind {
    /// The file is damaged or hostile.
    Malformed,
    /// The file is sound but not supported.
    Unsupported,
    /// It exceeds a limit.
    TooLarge,
    /// It took longer than the limit.
    Timeout,
}
