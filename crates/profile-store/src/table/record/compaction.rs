//! What a compaction says: which segments its outputs stand for.
//!
//! It names the closure of the *segments*, also of those that an earlier compaction wrote into outputs
//! that this one read, and never those outputs: LIST is no snapshot, so that a reader may see this
//! record and not the earlier one, and must still know which segments not to count.

use serde::{Deserialize, Serialize};

use super::check::{at_most, distinct};
use super::tombstone::TOMBSTONES_APPLIED_MAX;
use super::{ReadRecordError, UnsoundRecordError};
use crate::table::names::{
    FileKind, Hour, ObjectName, Output, OutputName, ParseNameError, PublishId, SegmentName,
};

/// Segments in the base of one compaction: a hundred replicas that write one a second for an hour are 360,000.
pub const BASE_SEGMENTS_MAX: usize = 400_000;

/// Outputs of one compaction: at 128 MB each that is 500 GB an hour.
pub const OUTPUTS_MAX: usize = 4_096;

/// The record of a compaction. Its outputs are live if it is accepted, and in no other way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// Its publish; the outputs have the same.
    pub id: PublishId,
    /// The hour of all that it names.
    pub hour: Hour,
    /// 1, or one more than the highest of the compactions whose outputs it read.
    pub generation: u32,
    /// The segments whose rows its outputs have, no two of the same content.
    pub base: Vec<SegmentName>,
    /// Tombstones whose rows its outputs lack.
    pub applied: Vec<PublishId>,
    /// What it wrote; none when tombstones took every row.
    pub outputs: Vec<Output>,
    /// Sums, by which the next compaction sees that nothing was lost.
    pub totals: RowTotals,
}

/// Sums of a compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowTotals {
    /// Rows of the base as it was sent: more than are written, where rows were merged or deleted.
    pub base_rows: u64,
    /// Rows of the outputs that are [`FileKind::Samples`].
    pub sample_rows: u64,
    /// Rows of the outputs that are [`FileKind::Totals`].
    pub total_rows: u64,
    /// The sum of `count` over the outputs that are [`FileKind::Totals`].
    pub samples: u64,
}

/// The JSON of a compaction.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    version: u32,
    id: String,
    hour: String,
    generation: u32,
    /// [`SegmentName::stem`] each.
    base: Vec<String>,
    applied: Vec<String>,
    outputs: Vec<WrittenOutput>,
    totals: RowTotals,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenOutput {
    key: String,
    bytes: u64,
}

impl Compaction {
    /// Its outputs of a kind.
    pub fn outputs_of(&self, kind: FileKind) -> impl Iterator<Item = Output> {
        let all = self.outputs.iter().copied();
        all.filter(move |output| output.name.kind == kind)
    }

    pub(super) fn check(&self) -> Result<(), UnsoundRecordError> {
        at_most("segments in the base", self.base.len(), BASE_SEGMENTS_MAX)?;
        at_most("outputs", self.outputs.len(), OUTPUTS_MAX)?;
        at_most("tombstones", self.applied.len(), TOMBSTONES_APPLIED_MAX)?;
        if self.base.is_empty() {
            return Err(UnsoundRecordError::None("segments in the base"));
        }
        if self.generation == 0 {
            return Err(UnsoundRecordError::None("generation"));
        }
        let other = |name: String| Err(UnsoundRecordError::OtherPublish(name));
        if let Some(alien) = self.base.iter().find(|name| name.hour != self.hour) {
            return other(alien.to_string());
        }
        let is_own = |name: &OutputName| name.hour == self.hour && name.id == self.id;
        if let Some(alien) = self.outputs.iter().find(|o| !is_own(&o.name)) {
            return other(alien.name.to_string());
        }
        distinct(self.applied.iter().copied())?;
        distinct(self.outputs.iter().map(|output| output.name))?;
        self.check_contents()?;
        self.check_totals()
    }

    /// No rows twice: neighbours in order of content and time are enough to compare.
    fn check_contents(&self) -> Result<(), UnsoundRecordError> {
        let mut base: Vec<&SegmentName> = self.base.iter().collect();
        base.sort_by_key(|name| (name.content, name.id));
        let same = base
            .array_windows()
            .find(|[one, next]| one.is_same_content(next));
        match same {
            None => Ok(()),
            Some([one, next]) => Err(UnsoundRecordError::SameContent(one.stem(), next.stem())),
        }
    }

    fn check_totals(&self) -> Result<(), UnsoundRecordError> {
        // ROWS_MAX times the limits of both lists fits.
        let base_rows = self.base.iter().map(|name| name.rows).sum();
        let rows = |kind| self.outputs_of(kind).map(|output| output.name.rows).sum();
        let sums = [
            ("base_rows", self.totals.base_rows, base_rows),
            (
                "sample_rows",
                self.totals.sample_rows,
                rows(FileKind::Samples),
            ),
            ("total_rows", self.totals.total_rows, rows(FileKind::Totals)),
        ];
        for (what, found, expected) in sums {
            if found != expected {
                return Err(UnsoundRecordError::Totals {
                    what,
                    found,
                    expected,
                });
            }
        }
        Ok(())
    }
}

impl Written {
    pub(super) fn of(compaction: &Compaction) -> Self {
        let outputs = compaction.outputs.iter().map(|output| WrittenOutput {
            key: output.name.to_string(),
            bytes: output.bytes,
        });
        Self {
            version: super::RECORD_VERSION,
            id: compaction.id.to_string(),
            hour: compaction.hour.to_string(),
            generation: compaction.generation,
            base: compaction.base.iter().map(SegmentName::stem).collect(),
            applied: compaction.applied.iter().map(ToString::to_string).collect(),
            outputs: outputs.collect(),
            totals: compaction.totals,
        }
    }

    pub(super) fn into_compaction(self) -> Result<Compaction, ReadRecordError> {
        let named = |error| ReadRecordError::Unsound(UnsoundRecordError::Name(error));
        let hour: Hour = self
            .hour
            .parse()
            .map_err(|e| named(ParseNameError::Hour(e)))?;
        let id = |text: &str| {
            text.parse()
                .map_err(|e| named(ParseNameError::PublishId(e)))
        };
        let base = self
            .base
            .iter()
            .map(|stem| SegmentName::of_stem(hour, stem));
        let compaction = Compaction {
            id: id(&self.id)?,
            hour,
            generation: self.generation,
            base: base.collect::<Result<_, _>>().map_err(named)?,
            applied: self
                .applied
                .iter()
                .map(|text| id(text))
                .collect::<Result<_, _>>()?,
            outputs: outputs(&self.outputs)?,
            totals: self.totals,
        };
        compaction.check()?;
        Ok(compaction)
    }
}

fn outputs(written: &[WrittenOutput]) -> Result<Vec<Output>, UnsoundRecordError> {
    let read = written.iter().map(|output| match output.key.parse()? {
        ObjectName::Output(name) => Ok(Output {
            name,
            bytes: output.bytes,
        }),
        _ => Err(UnsoundRecordError::OtherPublish(output.key.clone())),
    });
    read.collect()
}
