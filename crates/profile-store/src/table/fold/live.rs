//! The files to read for an hour, and which rows of them to leave out.

use std::fmt;
use std::sync::Arc;

use super::HourState;
use crate::table::names::{FileKind, OutputName, SegmentName};
use crate::table::record::{Compaction, RowSelector, Tombstone};

/// The name of a Parquet file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum File {
    /// Rows as they came, of samples.
    Segment(SegmentName),
    /// An output of a compaction.
    Output(OutputName),
}

/// A file that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveFile {
    /// Which one.
    pub file: File,
    /// Its length.
    pub bytes: u64,
    /// Tombstones whose rows are still in it, and have to be left out at reading.
    pub unapplied: Vec<Arc<Tombstone>>,
}

impl fmt::Display for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Segment(name) => name.fmt(f),
            Self::Output(name) => name.fmt(f),
        }
    }
}

impl File {
    /// How many rows it has.
    pub fn rows(&self) -> u64 {
        match self {
            Self::Segment(name) => name.rows,
            Self::Output(name) => name.rows,
        }
    }
}

impl LiveFile {
    /// The rows to leave out: those that any of these select.
    pub fn deleted(&self) -> impl Iterator<Item = &RowSelector> {
        self.unapplied
            .iter()
            .map(|tombstone| &tombstone.deletion.rows)
    }
}

impl HourState {
    /// The files that together have each row once: as samples, or summed up as totals.
    ///
    /// Fresh segments are among both: their rows are in no totals yet, and whoever wants totals sums them
    /// up at reading.
    pub fn live(&self, kind: FileKind) -> Vec<LiveFile> {
        if self.is_expired(kind) {
            return Vec::new();
        }
        let compacted = self.accepted.iter().flat_map(|compaction| {
            let unapplied = self.unapplied(compaction, kind);
            let outputs = compaction.outputs_of(kind);
            outputs.map(move |output| LiveFile {
                file: File::Output(output.name),
                bytes: output.bytes,
                unapplied: unapplied.clone(),
            })
        });
        let of_kind: Vec<_> = self.tombstones_of(kind).cloned().collect();
        let fresh = self.fresh.iter().map(|segment| LiveFile {
            file: File::Segment(segment.name),
            bytes: segment.bytes,
            unapplied: of_kind.clone(),
        });
        compacted.chain(fresh).collect()
    }

    /// Whether every row of a kind is deleted, those to come too.
    pub fn is_expired(&self, kind: FileKind) -> bool {
        let mut of_kind = self.tombstones_of(kind);
        of_kind.any(|tombstone| tombstone.deletion.rows == RowSelector::Everything)
    }

    /// The tombstones whose rows the outputs of a compaction still have.
    pub(crate) fn unapplied(&self, compaction: &Compaction, kind: FileKind) -> Vec<Arc<Tombstone>> {
        self.tombstones_of(kind)
            .filter(|tombstone| !compaction.applied.contains(&tombstone.id))
            .cloned()
            .collect()
    }

    fn tombstones_of(&self, kind: FileKind) -> impl Iterator<Item = &Arc<Tombstone>> {
        let all = self.tombstones.iter();
        all.filter(move |tombstone| tombstone.deletion.kinds.contains(&kind))
    }
}
