//! What this replica itself saw: bounded, and written to the object store when it changed.

use rustc_hash::FxHashMap;
use unhex_build_id::Identity;

use super::entry::{Entry, Sighting, rows_max};
use super::segment::{Listed, Part};
use crate::artifacts::UploadId;
use crate::signal::labels::LabelSet;
use crate::signal::lately::Lately;
use crate::signal::recency::Recency;

/// The build IDs without symbols that this replica saw.
#[derive(Debug)]
pub(in crate::signal) struct OwnLedger {
    replica: UploadId,
    sequence: u64,
    entries_max: usize,
    entries: FxHashMap<Identity, Entry>,
    recency: Recency<Identity>,
    /// Label sets of all entries.
    rows: usize,
    has_changed: bool,
}

impl OwnLedger {
    pub(in crate::signal) fn new(replica: UploadId, entries_max: usize) -> Self {
        Self {
            replica,
            sequence: 0,
            entries_max: entries_max.max(1),
            entries: FxHashMap::default(),
            recency: Recency::default(),
            rows: 0,
            has_changed: false,
        }
    }

    /// Notes a build ID without symbols; at the bounds those that were not seen for the longest time
    /// go, and are answered.
    pub(in crate::signal) fn see(
        &mut self,
        identity: &Identity,
        sighting: &Sighting<'_>,
    ) -> Vec<Identity> {
        self.has_changed = true;
        self.recency.touch(identity, sighting.at);
        let new = || Entry::new(sighting);
        let entry = self.entries.entry(identity.clone()).or_insert_with(new);
        let before = entry.seen_by.len();
        entry.see(sighting);
        let added = entry.seen_by.len().saturating_sub(before);
        self.rows = self.rows.saturating_add(added);
        let mut gone = Vec::new();
        while self.entries.len() > self.entries_max
            || (self.rows > rows_max(self.entries_max) && self.entries.len() > 1)
        {
            let Some((oldest, _)) = self.recency.oldest() else {
                break;
            };
            let oldest = oldest.clone();
            self.remove(&oldest);
            gone.push(oldest);
        }
        gone
    }

    pub(in crate::signal) fn get(&self, identity: &Identity) -> Option<&Entry> {
        self.entries.get(identity)
    }

    pub(in crate::signal) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Forgets a build ID: it has symbols.
    pub(in crate::signal) fn remove(&mut self, identity: &Identity) {
        if let Some(entry) = self.entries.remove(identity) {
            self.rows = self.rows.saturating_sub(entry.seen_by.len());
            self.recency.remove(identity);
            self.has_changed = true;
        }
    }

    /// Forgets what was seen last before `since`.
    pub(in crate::signal) fn forget_before(&mut self, since: u64) {
        while let Some((oldest, seen)) = self.recency.oldest()
            && seen < since
        {
            let oldest = oldest.clone();
            self.remove(&oldest);
        }
    }

    /// All of it, as other replicas read it, under the sequence number that it has now.
    pub(in crate::signal) fn part(&self, sent: Vec<(LabelSet, Lately)>) -> Part {
        let listed = self.entries.iter().map(|(identity, entry)| Listed {
            identity: identity.clone(),
            entry: entry.clone(),
        });
        Part {
            replica: self.replica,
            sequence: self.sequence,
            entries: listed.collect(),
            sent,
        }
    }

    /// Whether anything changed since it was written last.
    pub(in crate::signal) fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// The part to be written, under the next sequence number.
    pub(in crate::signal) fn next_part(&mut self, sent: Vec<(LabelSet, Lately)>) -> Part {
        self.has_changed = false;
        self.sequence = self.sequence.saturating_add(1);
        self.part(sent)
    }

    /// Whether `part` is what was written last.
    pub(in crate::signal) fn is_latest(&self, part: &Part) -> bool {
        part.replica == self.replica && part.sequence == self.sequence
    }

    /// Whether it has to be in the store: it was written, and there is something in it.
    pub(in crate::signal) fn is_wanted(&self) -> bool {
        self.sequence > 0 && !self.entries.is_empty()
    }

    /// What was written is not in the store, or cannot be read there.
    pub(in crate::signal) fn note_unwritten(&mut self) {
        self.has_changed = true;
    }
}
