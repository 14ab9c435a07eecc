//! The signal's objects in the store: segments of the ledger and decisions to ignore, read and written.
//!
//! Each object is read by itself ([`shelf`]): one that is damaged, too large or out of reach costs what
//! is in it and nothing else. It is counted, named once in the log, and left alone: a newer version may
//! have written it, and only its owner knows what should be in it.

mod decisions;
mod segments;
mod shelf;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

pub(super) use decisions::NewDecision;

use self::shelf::Shelf;
use super::ignored::IgnoreRecord;
use super::ledger::{Part, ReadSegmentError, Segment};
use super::view::millis;
use crate::artifacts::Clock;
use crate::artifacts::store::{ObjectKey, ObjectStore, ParseObjectKeyError, StoreError};
use crate::limits::Limits;

/// A build ID that no profile had for so long is forgotten.
pub(super) const FORGOTTEN_AFTER: Duration = Duration::from_hours(7 * 24);

/// Build IDs that are ignored by a decision, at most: each was somebody's work. File names of a family
/// are ignored by a pattern instead.
pub(super) const DECISIONS_MAX: usize = 10_000;

/// Why the ledger was not written or read now.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A segment that cannot be written.
    #[error("the segment cannot be written: {0}")]
    Encoding(String),
    /// The runtime stops.
    #[error("it was cut off: {0}")]
    Cut(String),
    /// Nobody reads so many reasons.
    #[error(
        "{DECISIONS_MAX} build IDs are ignored already; ignore file names by a pattern instead"
    )]
    TooManyIgnored,
}

impl From<ParseObjectKeyError> for LedgerError {
    fn from(error: ParseObjectKeyError) -> Self {
        Self::Store(error.into())
    }
}

impl LedgerError {
    /// What kind of failure it is, in a word: as long as it stays the same it is said once.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Store(StoreError::Full { .. }) => "full",
            Self::Store(_) => "store",
            Self::Encoding(_) => "encoding",
            Self::Cut(_) => "cut",
            Self::TooManyIgnored => "many",
        }
    }
}

/// What was read of the store, and what this replica wrote there.
#[derive(Debug)]
pub(super) struct Objects {
    store: Arc<dyn ObjectStore>,
    clock: Clock,
    segments: Shelf<Segment>,
    decisions: Shelf<IgnoreRecord>,
    own: Option<ObjectKey>,
    /// Older segments of this replica that could not be deleted yet.
    outdated: BTreeSet<ObjectKey>,
    entries_max: usize,
    sent_max: usize,
}

/// All that is in the store and can be read.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) segments: Vec<Arc<Segment>>,
    pub(super) decisions: Vec<IgnoreRecord>,
    /// Whether nothing is missing that may be readable a moment later.
    pub(super) is_whole: bool,
    /// Objects that cannot be read.
    pub(super) unreadable: usize,
}

impl Contents {
    /// The parts of all replicas.
    pub(super) fn parts(&self) -> impl Iterator<Item = &Part> {
        self.segments.iter().flat_map(|segment| &segment.parts)
    }
}

impl Objects {
    pub(super) fn new(store: Arc<dyn ObjectStore>, clock: Clock, limits: &Limits) -> Self {
        Self {
            store,
            clock,
            segments: segments::shelf(),
            decisions: decisions::shelf(),
            own: None,
            outdated: BTreeSet::new(),
            entries_max: limits.ledger_build_ids_max,
            sent_max: limits.ledger_build_ids_max,
        }
    }

    /// Everything that can be read, segments of this replica too.
    ///
    /// # Errors
    /// If the store cannot be listed now.
    pub(super) async fn read(&mut self) -> Result<Contents, LedgerError> {
        let segments = self.read_segments().await?;
        let decisions = self.read_decisions().await?;
        Ok(Contents {
            segments,
            decisions,
            is_whole: self.segments.is_whole() && self.decisions.is_whole(),
            unreadable: self
                .segments
                .unreadable()
                .saturating_add(self.decisions.unreadable()),
        })
    }

    /// Build IDs that were seen last before this are forgotten.
    pub(super) fn forgotten_before(&self) -> u64 {
        self.now().saturating_sub(millis(FORGOTTEN_AFTER))
    }

    fn now(&self) -> u64 {
        let now = self.clock.now().duration_since(std::time::UNIX_EPOCH);
        millis(now.unwrap_or_default())
    }
}

/// Why the bytes of an object are not used.
#[derive(Debug, thiserror::Error)]
enum DecodeError {
    #[error(transparent)]
    Segment(#[from] ReadSegmentError),
    #[error("no decision in JSON: {0}")]
    NotJson(#[from] serde_json::Error),
    #[error("a decision of version {0}")]
    TooNew(u32),
    #[error("the decision number {0} is too high")]
    Number(u64),
}
