//! One compaction of one hour: a look, a plan, outputs, and then the record that makes them count.
//!
//! The ID is made before the look, so that the look is never older than the ID says; each PUT asks whether it is still young enough. Without
//! the record the outputs count for nothing, whatever happened to whoever made them.

use std::time::{Duration, Instant};

use tracing::info;

use super::numbered::by_stack;
use super::outputs::{Made, Outputs, table};
use super::sums::{self, TableSums};
use super::{MaintainError, Maintenance};
use crate::engine::live_rows;
use crate::files::{Looked, look_through};
use crate::reading::{Place, READ, look};
use crate::table::fold::{HourState, LiveFile};
use crate::table::names::{FileKind, Hour, PublishId};
use crate::table::plan::{self, CompactionPlan, CompactionPolicy};
use crate::table::record::Record;

/// How long files are looked through for one that is damaged: an hour of a large fleet is read in that time.
const LOOKING_MAX: Duration = Duration::from_mins(1);

/// What a compaction did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// Which hour.
    pub hour: Hour,
    /// Its ID, and that of its record.
    pub id: PublishId,
    /// Segments that its outputs stand for.
    pub segments: usize,
    /// Rows of its inputs, and of its outputs that are samples.
    pub rows: [u64; 2],
    /// Bytes of its inputs, and of all its outputs.
    pub bytes: [u64; 2],
    /// The sums of the totals.
    pub sums: TableSums,
}

impl Maintenance {
    /// Compacts an hour, if it is due.
    ///
    /// # Errors
    /// If it is and cannot be. Then nothing has changed.
    pub async fn compact(&self, hour: Hour) -> Result<Option<Compacted>, MaintainError> {
        let id = self.clock.publish_id();
        let places = [Place::of_hour(hour)];
        let mut seen = look(&self.objects, &self.records, &self.clock, &places, READ).await?;
        let Some(state) = seen.states.remove(&hour) else {
            return Ok(None);
        };
        let state = state.map_err(|source| MaintainError::Hour { hour, source })?;
        let Some(plan) = self.plan(&state) else {
            return Ok(None);
        };
        let begun = Instant::now();
        let compacted = match self.carry_out(&plan, id).await {
            Ok(compacted) => compacted,
            Err(error) => return Err(self.explained(&plan, error).await),
        };
        self.counters.compacted(&compacted, begun.elapsed());
        let Compacted {
            segments,
            rows: [rows_in, rows_out],
            bytes: [bytes_in, bytes_out],
            ..
        } = compacted;
        info!(
            %hour, %id, segments, rows_in, rows_out, bytes_in, bytes_out,
            "compacted {segments} segments of {hour}: {rows_in} rows to {rows_out}"
        );
        Ok(Some(compacted))
    }

    /// What is to be done about an hour now.
    pub(super) fn plan(&self, state: &HourState) -> Option<CompactionPlan> {
        let own = &self.options.compaction;
        let delay = self.own_delay(state.hour());
        // Of many segments, too, each replica waits for some more than the first.
        let part = delay
            .as_secs()
            .checked_div(2)
            .and_then(|part| usize::try_from(part).ok());
        let policy = CompactionPolicy {
            settle: own.settle + delay,
            fresh_segments_max: own.fresh_segments_max.saturating_add(part.unwrap_or(0)),
            ..*own
        };
        plan::compaction(state, &policy, self.clock.now())
    }

    /// The failure; the damaged file, if that is the reason and is found in time.
    async fn explained(&self, plan: &CompactionPlan, error: MaintainError) -> MaintainError {
        let (MaintainError::Engine(_) | MaintainError::File(_)) = &error else {
            return error;
        };
        let files = plan.samples.iter().chain(&plan.totals);
        let mut files: Vec<(String, u64)> = files
            .map(|live| (live.file.to_string(), live.bytes))
            .collect();
        files.sort();
        files.dedup();
        let objects = self.objects.clone();
        let looking = async move { look_through(&objects, files).await };
        match tokio::time::timeout(LOOKING_MAX, self.engine.run(looking)).await {
            Ok(Ok(Looked::Damaged(damage))) => MaintainError::Damaged {
                hour: plan.hour,
                damage,
                source: Box::new(error),
            },
            _ => error,
        }
    }

    async fn carry_out(
        &self,
        plan: &CompactionPlan,
        id: PublishId,
    ) -> Result<Compacted, MaintainError> {
        let hour = plan.hour;
        let mut outputs = Vec::new();
        let mut sums = TableSums::default();
        for (kind, inputs) in [
            (FileKind::Samples, &plan.samples),
            (FileKind::Totals, &plan.totals),
        ] {
            let (expected, made) = self.make(plan.hour, id, kind, inputs).await?;
            if expected != made.sums {
                let made = made.sums;
                return Err(MaintainError::SumsDiffer {
                    hour,
                    expected,
                    made,
                });
            }
            outputs.extend(made.outputs);
            sums = made.sums;
        }
        let rows_of = |kind| {
            let of_kind = outputs
                .iter()
                .filter(move |output| output.name.kind == kind);
            of_kind.map(|output| output.name.rows).sum::<u64>()
        };
        let inputs = || plan.samples.iter();
        let rows = [
            inputs().map(|live| live.file.rows()).sum(),
            rows_of(FileKind::Samples),
        ];
        let bytes_out = outputs.iter().map(|output| output.bytes).sum();
        let bytes = [inputs().map(|live| live.bytes).sum(), bytes_out];
        // The record has 64 bits for it: more than there are is said as the most.
        let samples = u64::try_from(sums.count).unwrap_or(u64::MAX);
        let record = Record::Compaction(plan.record(id, outputs, samples).into());
        let (key, json) = (record.name().to_string(), record.to_json()?);
        id.check_publish(self.clock.now())?;
        self.objects.put(&key, json.into()).await?;
        Ok(Compacted {
            hour,
            id,
            segments: plan.base().len(),
            rows,
            bytes,
            sums,
        })
    }

    /// The outputs of one kind, and what their inputs add up to.
    async fn make(
        &self,
        hour: Hour,
        id: PublishId,
        kind: FileKind,
        inputs: &[LiveFile],
    ) -> Result<(TableSums, Made), MaintainError> {
        if inputs.is_empty() {
            return Ok((TableSums::default(), Made::default()));
        }
        let outputs = Outputs {
            objects: self.objects.clone(),
            clock: self.clock.clone(),
            hour,
            id,
            kind,
            bytes_max: self.options.output_bytes_max,
        };
        let numbers = self.numbers(hour, inputs).await?;
        let mut frame = live_rows(&self.engine, kind, inputs.iter().map(|live| (hour, live)))?;
        if let Some(numbers) = numbers {
            frame = by_stack(frame, numbers)?;
        }
        let work = async move {
            let expected = sums::of_frame(frame.clone(), table(kind)).await?;
            let made = outputs.of(frame, expected).await?;
            Ok((expected, made))
        };
        self.engine.run(work).await?
    }
}
