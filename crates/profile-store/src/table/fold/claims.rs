//! Which contents count already, and where.

use std::collections::HashMap;

use crate::table::names::{ContentHash, PublishId, SegmentName};
use crate::table::record::Compaction;

/// Where the rows of a segment count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimant {
    /// In the outputs of the accepted compaction with this ID.
    Compaction(PublishId),
    /// In the fresh segment with this ID, which was sent before.
    Segment(PublishId),
}

impl Claimant {
    /// The publish that the rows count in.
    pub fn id(self) -> PublishId {
        match self {
            Self::Compaction(id) | Self::Segment(id) => id,
        }
    }
}

/// The segments that count, of one hour, by content.
#[derive(Debug, Default)]
pub(super) struct Claims(HashMap<ContentHash, Vec<(SegmentName, Claimant)>>);

impl Claims {
    /// Where a content counts, if it does.
    pub(super) fn of(&self, name: &SegmentName) -> Option<Claimant> {
        let sends = self.0.get(&name.content)?;
        let found = sends.iter().find(|(send, _)| send.is_same_content(name));
        found.map(|&(_, claimant)| claimant)
    }

    pub(super) fn add(&mut self, name: &SegmentName, claimant: Claimant) {
        // Nearly all contents were sent once.
        let sends = self.0.entry(name.content);
        let sends = sends.or_insert_with(|| Vec::with_capacity(1));
        sends.push((*name, claimant));
    }

    pub(super) fn add_base(&mut self, compaction: &Compaction) {
        for name in &compaction.base {
            self.add(name, Claimant::Compaction(compaction.id));
        }
    }
}
