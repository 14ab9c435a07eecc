//! What maintenance did and found, as numbers for whoever renders metrics.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::{Compacted, MaintainError};
use crate::engine::EngineError;

/// Counters since the start of the process, and gauges of the last round.
#[derive(Debug, Default)]
pub struct Counters {
    compactions: AtomicU64,
    compaction_micros: AtomicU64,
    rows_in: AtomicU64,
    rows_out: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    deletions: AtomicU64,
    merges: AtomicU64,
    swept: AtomicU64,
    failures: [AtomicU64; FailureReason::ALL.len()],
    rounds: AtomicU64,
    found: Mutex<Found>,
}

/// What the last round found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) hours: u64,
    pub(super) waiting: u64,
    pub(super) foreign: u64,
    pub(super) fresh: Usage,
    pub(super) by_service: BTreeMap<String, Usage>,
}

/// Why something was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureReason {
    /// The store did not answer.
    Store,
    /// A record or a file is damaged, or of a newer version.
    Unreadable,
    /// More memory than there is.
    Memory,
    /// It took too long.
    TooOld,
    /// Sums of a compaction differ: look at the log.
    Sums,
    /// Anything else.
    Other,
}

/// What lies in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Files that have rows of it.
    pub objects: u64,
    /// Rows.
    pub rows: u64,
    /// Bytes, of files of several services by their rows.
    pub bytes: u64,
}

/// All numbers at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountersRead {
    /// Compactions.
    pub compactions: u64,
    /// The time that they took.
    pub compaction_time: Duration,
    /// Rows of samples that went in.
    pub rows_in: u64,
    /// Rows of samples that came out.
    pub rows_out: u64,
    /// Bytes that went in.
    pub bytes_in: u64,
    /// Bytes that came out, with totals.
    pub bytes_out: u64,
    /// Tombstones that were put.
    pub deletions: u64,
    /// Merges of dictionaries.
    pub merges: u64,
    /// Objects that were removed.
    pub swept: u64,
    /// What was not done, by reason.
    pub failures: BTreeMap<FailureReason, u64>,
    /// Rounds through all hours.
    pub rounds: u64,
    /// Hours that there are, at the last round.
    pub hours: u64,
    /// Of them due for a compaction that failed.
    pub hours_waiting: u64,
    /// Keys in the table's folders that are not its.
    pub foreign: u64,
    /// Segments that are not compacted.
    pub fresh: Usage,
    /// Outputs, by service.
    pub by_service: BTreeMap<String, Usage>,
}

impl FailureReason {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Store,
        Self::Unreadable,
        Self::Memory,
        Self::TooOld,
        Self::Sums,
        Self::Other,
    ];

    /// The word in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Unreadable => "unreadable",
            Self::Memory => "memory",
            Self::TooOld => "too_old",
            Self::Sums => "sums",
            Self::Other => "other",
        }
    }

    fn of(error: &MaintainError) -> Self {
        use crate::reading::ReadingError;
        match error {
            MaintainError::Objects(_) | MaintainError::Reading(ReadingError::Objects(_)) => {
                Self::Store
            }
            MaintainError::Hour { .. }
            | MaintainError::Reading(_)
            | MaintainError::Damaged { .. } => Self::Unreadable,
            MaintainError::Engine(EngineError::Memory(_)) => Self::Memory,
            MaintainError::TooOld(_) => Self::TooOld,
            MaintainError::SumsDiffer { .. } => Self::Sums,
            _ => Self::Other,
        }
    }
}

impl Usage {
    pub(super) fn add(&mut self, other: Self) {
        self.objects = self.objects.saturating_add(other.objects);
        self.rows = self.rows.saturating_add(other.rows);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

impl Counters {
    /// The numbers now.
    pub fn read(&self) -> CountersRead {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let failures = FailureReason::ALL.into_iter().zip(&self.failures);
        let found = self.found.lock().clone();
        CountersRead {
            compactions: of(&self.compactions),
            compaction_time: Duration::from_micros(of(&self.compaction_micros)),
            rows_in: of(&self.rows_in),
            rows_out: of(&self.rows_out),
            bytes_in: of(&self.bytes_in),
            bytes_out: of(&self.bytes_out),
            deletions: of(&self.deletions),
            merges: of(&self.merges),
            swept: of(&self.swept),
            failures: failures
                .map(|(reason, count)| (reason, of(count)))
                .collect(),
            rounds: of(&self.rounds),
            hours: found.hours,
            hours_waiting: found.waiting,
            foreign: found.foreign,
            fresh: found.fresh,
            by_service: found.by_service,
        }
    }

    pub(super) fn compacted(&self, done: &Compacted, took: Duration) {
        let [rows_in, rows_out] = done.rows;
        let [bytes_in, bytes_out] = done.bytes;
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        add(&self.compactions, 1);
        add(&self.compaction_micros, micros);
        add(&self.rows_in, rows_in);
        add(&self.rows_out, rows_out);
        add(&self.bytes_in, bytes_in);
        add(&self.bytes_out, bytes_out);
    }

    pub(super) fn deleted(&self) {
        add(&self.deletions, 1);
    }

    pub(super) fn merged(&self) {
        add(&self.merges, 1);
    }

    pub(super) fn swept(&self, objects: u64) {
        add(&self.swept, objects);
    }

    pub(super) fn failed(&self, error: &MaintainError) {
        let reason = FailureReason::of(error);
        let counters = FailureReason::ALL.into_iter().zip(&self.failures);
        for (of, counter) in counters {
            add(counter, u64::from(of == reason));
        }
    }

    pub(super) fn found(&self, found: Found) {
        *self.found.lock() = found;
        add(&self.rounds, 1);
    }
}

fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}
