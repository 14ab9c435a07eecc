//! What this replica itself saw: bounded, and written to the object store when it changed.

use rustc_hash::FxHashMap;
use unhex_build_id::Identity;

use super::entry::{Entry, Sighting};
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
            has_changed: false,
        }
    }

    /// Notes a build ID without symbols; at the bound the one that was not seen for the longest time
    /// goes.
    pub(in crate::signal) fn see(&mut self, identity: &Identity, sighting: &Sighting<'_>) {
        self.has_changed = true;
        self.recency.touch(identity, sighting.at);
        if let Some(entry) = self.entries.get_mut(identity) {
            entry.see(sighting);
            return;
        }
        while self.entries.len() >= self.entries_max {
            let Some((oldest, _)) = self.recency.oldest() else {
                break;
            };
            let oldest = oldest.clone();
            self.remove(&oldest);
        }
        let mut entry = Entry::new(sighting);
        entry.see(sighting);
        self.entries.insert(identity.clone(), entry);
    }

    pub(in crate::signal) fn get(&self, identity: &Identity) -> Option<&Entry> {
        self.entries.get(identity)
    }

    pub(in crate::signal) fn identities(&self) -> impl Iterator<Item = &Identity> {
        self.entries.keys()
    }

    pub(in crate::signal) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Forgets a build ID: it has symbols.
    pub(in crate::signal) fn remove(&mut self, identity: &Identity) {
        if self.entries.remove(identity).is_some() {
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

    /// The part to be written, under the next sequence number, if anything changed.
    pub(in crate::signal) fn changed_part(
        &mut self,
        sent: impl FnOnce() -> Vec<(LabelSet, Lately)>,
    ) -> Option<Part> {
        if !std::mem::take(&mut self.has_changed) {
            return None;
        }
        self.sequence = self.sequence.saturating_add(1);
        Some(self.part(sent()))
    }

    /// What was to be written was not.
    pub(in crate::signal) fn note_unwritten(&mut self) {
        self.has_changed = true;
    }
}
