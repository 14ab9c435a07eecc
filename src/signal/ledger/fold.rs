//! The ledger of all replicas: a pure fold of their parts, in any order and with repetitions.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use unhex_build_id::Identity;

use super::entry::Entry;
use super::segment::Part;
use crate::artifacts::UploadId;
use crate::signal::labels::LabelSet;
use crate::signal::lately::Lately;

/// What several replicas saw.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::signal) struct Folded {
    /// Build IDs without symbols.
    pub(in crate::signal) entries: FxHashMap<Identity, Entry>,
    /// What each label set sent lately, with and without symbols.
    pub(in crate::signal) sent: FxHashMap<LabelSet, Lately>,
}

impl Folded {
    /// The fold of a set of parts, with at most `entries_max` build IDs: those that were seen last.
    pub(in crate::signal) fn of<'a>(
        parts: impl IntoIterator<Item = &'a Part>,
        entries_max: usize,
    ) -> Self {
        let mut folded = Self::default();
        // In the order of replicas, since sums of floats depend on theirs.
        for part in latest(parts).into_values() {
            folded.add(part);
        }
        folded.bound(entries_max);
        folded
    }

    /// Adds the part of a replica that is not in it yet.
    pub(in crate::signal) fn with(mut self, part: &Part, entries_max: usize) -> Self {
        self.add(part);
        self.bound(entries_max);
        self
    }

    fn add(&mut self, part: &Part) {
        for listed in &part.entries {
            if let Some(entry) = self.entries.get_mut(&listed.identity) {
                entry.merge(&listed.entry);
            } else {
                let entry = listed.entry.clone();
                self.entries.insert(listed.identity.clone(), entry);
            }
        }
        for (labels, lately) in &part.sent {
            let sum = self.sent.entry(labels.clone()).or_default();
            *sum = sum.merged(*lately);
        }
    }

    fn bound(&mut self, entries_max: usize) {
        self.entries.values_mut().for_each(Entry::keep_latest);
        let excess = self.entries.len().saturating_sub(entries_max);
        if excess == 0 {
            return;
        }
        let mut ranks: Vec<(u64, Identity)> = self
            .entries
            .iter()
            .map(|(identity, entry)| (entry.last_seen, identity.clone()))
            .collect();
        ranks.sort_unstable();
        for (_, identity) in ranks.iter().take(excess) {
            self.entries.remove(identity);
        }
    }
}

/// Of each replica the part with the highest sequence number.
pub(in crate::signal) fn latest<'a>(
    parts: impl IntoIterator<Item = &'a Part>,
) -> BTreeMap<UploadId, &'a Part> {
    let mut latest: BTreeMap<UploadId, &Part> = BTreeMap::new();
    for part in parts {
        let known = latest.entry(part.replica).or_insert(part);
        if known.sequence < part.sequence {
            *known = part;
        }
    }
    latest
}
