//! Which hours to compact, and from what: one sorted file and the hourly totals, ten minutes after the
//! hour, and again when segments came late or rows were deleted; before that when there are many segments.

use jiff::{SignedDuration, Timestamp};

use crate::table::fold::{File, HourState, LiveFile};
use crate::table::names::{FileKind, Hour, Output, PublishId, Segment, SegmentName};
use crate::table::record::{BASE_SEGMENTS_MAX, Compaction, RowTotals};

/// Minutes from the end of an hour, and from the first segment that came late, to a compaction: agents
/// send what they have every few seconds to a minute, and an hour is not written anew for each of them.
pub const SETTLE_MINUTES: i64 = 10;

/// Fresh segments that an hour has while it goes on: one replica writes 3,600 an hour, so that it is compacted three times before it is over, and
/// a query of the last hour opens a thousand files rather than four thousand.
pub const FRESH_SEGMENTS_MAX: usize = 1_000;

/// When to compact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactionPolicy {
    /// How long to wait for what comes late.
    pub settle: SignedDuration,
    /// Fresh segments from which on an hour is compacted while it goes on: a query opens each of them.
    pub fresh_segments_max: usize,
    /// Segments in one base; more wait for ever, and are read as they are.
    pub base_segments_max: usize,
}

impl Default for CompactionPolicy {
    fn default() -> Self {
        Self {
            settle: SignedDuration::from_mins(SETTLE_MINUTES),
            fresh_segments_max: FRESH_SEGMENTS_MAX,
            base_segments_max: BASE_SEGMENTS_MAX,
        }
    }
}

/// One compaction to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionPlan {
    /// The hour.
    pub hour: Hour,
    /// What to make the outputs of [`FileKind::Samples`] of: all rows but the deleted, sorted. Empty when
    /// samples have expired; there are no such outputs then.
    pub samples: Vec<LiveFile>,
    /// What to make the outputs of [`FileKind::Totals`] of: the sums of totals and of segments. Never of
    /// compacted samples, of which some may have expired before the totals do.
    pub totals: Vec<LiveFile>,
    generation: u32,
    base: Vec<SegmentName>,
    applied: Vec<PublishId>,
}

/// What to compact of an hour now, if anything.
///
/// The ID of the publish has to be older than the listing that was folded. Nothing is planned for an hour whose
/// compactions cover more segments than one base may have.
pub fn compaction(
    state: &HourState,
    policy: &CompactionPolicy,
    now: Timestamp,
) -> Option<CompactionPlan> {
    let is_expired = FileKind::ALL.into_iter().all(|kind| state.is_expired(kind));
    let is_over = state.hour().since_end(now) >= policy.settle;
    let is_many = state.fresh().len() > policy.fresh_segments_max;
    if is_expired || !(is_over || is_many) {
        return None;
    }
    let mut base: Vec<SegmentName> = covered(state).collect();
    let space = policy.base_segments_max.checked_sub(base.len())?;
    let taken = state.fresh().get(..space).unwrap_or(state.fresh());
    let is_waiting = is_late(taken, policy, now) || state.accepted().len() > 1 || must_erase(state);
    let is_due = is_many && !taken.is_empty() || is_over && is_waiting;
    if !is_due {
        return None;
    }
    base.extend(taken.iter().map(|segment| segment.name));
    let last_taken = taken.last().map(|segment| segment.name);
    let inputs = |kind| {
        let mut files = state.live(kind);
        files.retain(|live| match live.file {
            File::Segment(name) => Some(name) <= last_taken,
            File::Output(_) => true,
        });
        files
    };
    let generations = state.accepted().iter().map(|record| record.generation);
    Some(CompactionPlan {
        hour: state.hour(),
        samples: inputs(FileKind::Samples),
        totals: inputs(FileKind::Totals),
        generation: generations.max().unwrap_or(0).checked_add(1)?,
        base,
        applied: state.tombstones().iter().map(|body| body.id).collect(),
    })
}

/// The segments that are compacted already.
fn covered(state: &HourState) -> impl Iterator<Item = SegmentName> {
    let accepted = state.accepted().iter();
    accepted.flat_map(|compaction| compaction.base.iter().copied())
}

fn is_late(fresh: &[Segment], policy: &CompactionPolicy, now: Timestamp) -> bool {
    let first = fresh.first();
    first.is_some_and(|first| now.duration_since(first.name.id.began()) >= policy.settle)
}

/// Whether compacted files have rows that are deleted one by one; files that are deleted wholly are swept.
fn must_erase(state: &HourState) -> bool {
    FileKind::ALL.into_iter().any(|kind| {
        let mut files = state.live(kind).into_iter();
        files.any(|live| matches!(live.file, File::Output(_)) && live.deleted().next().is_some())
    })
}

impl CompactionPlan {
    /// One more than the highest generation that it builds on.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// The closure: every segment whose rows the outputs have.
    pub fn base(&self) -> &[SegmentName] {
        &self.base
    }

    /// The record of the compaction once its outputs are written; `samples` is the sum of `count` over
    /// those that are totals.
    pub fn record(&self, id: PublishId, outputs: Vec<Output>, samples: u64) -> Compaction {
        let rows = |kind| {
            let of_kind = outputs.iter().filter(|output| output.name.kind == kind);
            of_kind.map(|output| output.name.rows).sum()
        };
        let totals = RowTotals {
            base_rows: self.base.iter().map(|name| name.rows).sum(),
            sample_rows: rows(FileKind::Samples),
            total_rows: rows(FileKind::Totals),
            samples,
        };
        Compaction {
            id,
            hour: self.hour,
            generation: self.generation,
            base: self.base.clone(),
            applied: self.applied.clone(),
            outputs,
            totals,
        }
    }
}
