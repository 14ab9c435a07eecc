//! What keeps the table small: compaction, retention, deletion, and the sweeper, in any replica and in several at once.
//!
//! Everything is decided by pure functions over a look at the store (`table::plan`, `HourState::sweepable`), and done in an order in which
//! a crash between any two steps leaves a table that counts the same rows: outputs before the record, records before what they name. Two
//! replicas that do the same cost work and never rows.
//!
//! [`compaction`] makes the outputs of a plan and compares their sums with those of its inputs before it says so; [`rows`] is what a compaction
//! does to rows, [`numbered`] which stacks they have, [`adding`] how equal rows become one, [`sums`] what is compared. [`retention`] writes tombstones, [`sweep`]
//! removes, [`dictionary`] merges what numbers stand for, [`walk`] goes through all hours, [`tasks`] do it all at intervals. [`counters`] are what the metrics show.

mod adding;
mod compaction;
mod counters;
mod dictionary;
mod failure;
mod numbered;
mod outputs;
mod retention;
mod rows;
mod sums;
mod sweep;
mod tasks;
mod usage;
mod walk;

use std::sync::Arc;

use jiff::SignedDuration;

pub use compaction::Compacted;
pub use counters::{Counters, CountersRead, FailureReason, Usage};
pub use retention::Deleted;
pub use sums::TableSums;
pub use walk::Round;

use usage::KnownRows;

use crate::clock::Clock;
use crate::engine::{Engine, EngineError};
use crate::files::{Damage, FileError};
use crate::objects::{Objects, ObjectsError};
use crate::reading::{ReadingError, Records};
use crate::table::fold::FoldError;
use crate::table::names::{Hour, PublishTooOldError};
use crate::table::plan::{CompactionPolicy, Retention};
use crate::table::record::WriteRecordError;

/// Bytes of one output: larger ones make a reader's parts uneven, smaller ones cost requests.
pub const OUTPUT_BYTES_MAX: usize = 128 << 20;

/// What is kept for how long, and when things are done.
#[derive(Clone, Debug)]
pub struct MaintainOptions {
    /// When an hour is compacted.
    pub compaction: CompactionPolicy,
    /// What is kept for how long.
    pub retention: Retention,
    /// Bytes from which on an output is followed by another.
    pub output_bytes_max: usize,
    /// Each replica waits for a part of this before it compacts an hour, of each hour another: mostly one does, and the others find it done.
    pub spread: SignedDuration,
}

impl Default for MaintainOptions {
    fn default() -> Self {
        Self {
            compaction: CompactionPolicy::default(),
            retention: Retention::default(),
            output_bytes_max: OUTPUT_BYTES_MAX,
            spread: SignedDuration::from_mins(5),
        }
    }
}

/// Keeps a table small. One for a process.
#[derive(Debug)]
pub struct Maintenance {
    objects: Objects,
    engine: Engine,
    clock: Clock,
    records: Records,
    options: MaintainOptions,
    counters: Arc<Counters>,
    known: KnownRows,
    /// Tells replicas apart when they share hours among themselves.
    seed: u64,
}

/// Something that was not done, and is tried again at the next round.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MaintainError {
    /// The store did not answer.
    #[error(transparent)]
    Objects(#[from] ObjectsError),
    /// The table cannot be read.
    #[error(transparent)]
    Reading(#[from] ReadingError),
    /// Of this hour it is not known which rows count: it is neither compacted nor swept.
    #[error("hour {hour} is left as it is")]
    Hour {
        /// Which hour.
        hour: Hour,
        /// Why.
        #[source]
        source: FoldError,
    },
    /// The rows cannot be merged.
    #[error("the rows of an hour cannot be merged")]
    Engine(#[from] EngineError),
    /// An output cannot be written.
    #[error("an output of a compaction cannot be written")]
    File(#[from] FileError),
    /// The record cannot be written.
    #[error("a record cannot be written")]
    Record(#[from] WriteRecordError),
    /// It took too long, so that what it is made from may be gone. Nothing was said, and nothing is lost.
    #[error(transparent)]
    TooOld(#[from] PublishTooOldError),
    /// The outputs do not have the sums of the inputs: a fault of this program or of a disk. No record was written, so that the inputs count on.
    #[error("the compaction of hour {hour} would make {made} of {expected}: refused")]
    SumsDiffer {
        /// Which hour.
        hour: Hour,
        /// What the inputs have.
        expected: TableSums,
        /// What the outputs have.
        made: TableSums,
    },
    /// A file of the hour cannot be read, so that it is not compacted; what can be read of it counts on.
    #[error("hour {hour} is not compacted: {} is damaged: {}", damage.key, damage.what)]
    Damaged {
        /// Which hour.
        hour: Hour,
        /// Which file, and what is wrong with it.
        damage: Damage,
        /// How reading failed.
        source: Box<MaintainError>,
    },
    /// So many deletions of one hour that no compaction could name them.
    #[error(
        "hour {0} has {1} deletions already; wait until they are applied, or delete more at once"
    )]
    TooManyDeletions(Hour, usize),
}

impl Maintenance {
    /// Over a table, with an engine of its own, whose memory is not that of queries.
    pub fn new(objects: Objects, engine: Engine, clock: Clock, options: MaintainOptions) -> Self {
        Self {
            objects,
            engine,
            clock,
            records: Records::default(),
            options,
            counters: Arc::default(),
            known: KnownRows::default(),
            seed: rand::random(),
        }
    }

    /// What was done so far.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }
}
