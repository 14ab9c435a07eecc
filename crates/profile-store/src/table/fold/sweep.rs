//! What of an hour may be removed: nothing that anybody could still need.
//!
//! Whatever supersedes an object has to be [settled](PublishId::is_settled), and so has the object. Then
//! no publish is at work that began before the superseding record was there, so none can be accepted
//! instead of it that does not build on it; and no reading is at work that missed it.
//!
//! All that as of the beginning of the LIST, since a record may have come behind a page that was listed
//! before: whoever lists for a day and counts from its end takes outputs for abandoned that have one.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::HourState;
use crate::table::names::{FileKind, ObjectName, OutputName, PublishId};
use crate::table::record::{Compaction, Record, RowSelector, Tombstone};

/// What becomes of a compaction.
#[derive(Clone, Copy)]
enum Fate<'a> {
    /// It counts.
    Accepted(&'a Compaction),
    /// It may yet come to count, should the record that won over it lose.
    Rejected,
    /// It is removed.
    Swept,
}

impl HourState {
    /// What may be removed, in the order in which it has to be: records before what they name, and the
    /// tombstones of an hour that expired when nothing else is left of it.
    ///
    /// Nothing if not all three folders of the hour were listed.
    pub fn sweepable(&self) -> Vec<ObjectName> {
        let Some(began) = self.listed_since else {
            return Vec::new();
        };
        let fates = self.fates(began);
        let swept = |fate: &Fate<'_>| matches!(fate, Fate::Swept);
        let records = self.compactions().filter(|compaction| {
            let fate = fates.get(&compaction.id);
            fate.is_some_and(swept)
        });
        let records = records.map(|body| Record::Compaction(body.clone()).name());
        let mut names: Vec<ObjectName> = records.map(ObjectName::Record).collect();
        let outputs = self.outputs.iter().map(|output| output.name);
        let outputs = outputs.filter(|name| self.is_output_sweepable(name, &fates, began));
        names.extend(outputs.map(ObjectName::Output));
        names.extend(self.sweepable_segments(began));
        names.extend(self.sweepable_tombstones(began));
        names
    }

    fn compactions(&self) -> impl Iterator<Item = &Arc<Compaction>> {
        let rejected = self.rejected.iter().map(|rejected| &rejected.compaction);
        self.accepted.iter().chain(rejected)
    }

    /// Whether the hour has expired for so long that nobody can still miss it.
    fn is_gone(&self, began: Timestamp) -> bool {
        FileKind::ALL
            .into_iter()
            .all(|kind| self.has_long_expired(kind, began))
    }

    fn has_long_expired(&self, kind: FileKind, began: Timestamp) -> bool {
        self.tombstones.iter().any(|tombstone| {
            is_expiry(tombstone)
                && tombstone.deletion.kinds.contains(&kind)
                && tombstone.id.is_settled(began)
        })
    }

    fn fates(&self, began: Timestamp) -> BTreeMap<PublishId, Fate<'_>> {
        let is_gone = self.is_gone(began);
        let accepted = self.accepted.iter().map(|compaction| {
            let fate = if is_gone && compaction.id.is_settled(began) {
                Fate::Swept
            } else {
                Fate::Accepted(compaction)
            };
            (compaction.id, fate)
        });
        let rejected = self.rejected.iter().map(|rejected| {
            let id = rejected.compaction.id;
            let is_over = is_gone || rejected.winner.is_settled(began);
            let fate = if is_over && id.is_settled(began) {
                Fate::Swept
            } else {
                Fate::Rejected
            };
            (id, fate)
        });
        accepted.chain(rejected).collect()
    }

    fn is_output_sweepable(
        &self,
        name: &OutputName,
        fates: &BTreeMap<PublishId, Fate<'_>>,
        began: Timestamp,
    ) -> bool {
        let is_dead = match fates.get(&name.id) {
            // Its record never came, and cannot come any more once the publish is too old.
            None | Some(Fate::Swept) => true,
            Some(Fate::Rejected) => false,
            Some(Fate::Accepted(compaction)) => {
                let is_named = compaction.outputs.iter().any(|output| output.name == *name);
                !is_named || self.has_long_expired(name.kind, began)
            }
        };
        is_dead && name.id.is_settled(began)
    }

    fn sweepable_segments(&self, began: Timestamp) -> impl Iterator<Item = ObjectName> {
        let is_gone = self.is_gone(began);
        let fresh = self.fresh.iter().filter(move |_| is_gone);
        let spare = self.spare.iter();
        let spare = spare.filter(move |spare| is_gone || spare.claimant.id().is_settled(began));
        let names = fresh.chain(spare.map(|spare| &spare.segment));
        let names = names.map(|segment| segment.name);
        let names = names.filter(move |name| name.id.is_settled(began));
        names.map(ObjectName::Segment)
    }

    /// The tombstones of an hour that is gone: those of some rows with the rest, those of all rows at last.
    fn sweepable_tombstones(&self, began: Timestamp) -> impl Iterator<Item = ObjectName> {
        let is_gone = self.is_gone(began);
        let is_alone = self.compactions().next().is_none()
            && self.fresh.is_empty()
            && self.spare.is_empty()
            && self.outputs.is_empty()
            && self.tombstones.iter().all(|tombstone| is_expiry(tombstone));
        let tombstones = self.tombstones.iter();
        let tombstones = tombstones.filter(move |tombstone| {
            is_gone && tombstone.id.is_settled(began) && (is_alone || !is_expiry(tombstone))
        });
        let names = tombstones.map(|body| Record::Tombstone(body.clone()).name());
        names.map(ObjectName::Record)
    }
}

fn is_expiry(tombstone: &Tombstone) -> bool {
    tombstone.deletion.rows == RowSelector::Everything
}
