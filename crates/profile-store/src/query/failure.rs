//! Why a query has no answer.

use crate::engine::EngineError;
use crate::files::{Damage, FileError};
use crate::reading::ReadingError;
use crate::table::names::Hour;

/// A query without an answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// What the table has is not known now.
    #[error(transparent)]
    Reading(#[from] ReadingError),
    /// The rows cannot be read, or are too many.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Label sets, stacks or frames cannot be read.
    #[error("the dictionary cannot be read")]
    Dictionary(#[from] FileError),
    /// The store does not give the files now.
    #[error("{key} cannot be had from the store: {why}")]
    StoreAway {
        /// One of those that it does not give.
        key: String,
        /// What the store says.
        why: String,
        /// How reading failed.
        source: Box<QueryError>,
    },
    /// A file cannot be read, by nobody and at no time.
    #[error("{} is damaged: {}", damage.key, damage.what)]
    Damaged {
        /// Which one, and what is wrong with it.
        damage: Damage,
        /// How reading failed.
        source: Box<QueryError>,
    },
    /// Only sums of whole hours by service, version and deployment are left.
    #[error(
        "of hour {hour} only the sums of the whole hour by service, version and deployment are left: ask for whole hours, with no other labels and a step of whole hours"
    )]
    Expired {
        /// The hour.
        hour: Hour,
    },
    /// A reading whose columns are not those of the table.
    #[error("the rows have no column {0} of its type")]
    Column(&'static str),
}
