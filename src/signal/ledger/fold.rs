//! The ledger of all replicas: a pure fold of their parts, in any order and with repetitions.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use unhex_build_id::Identity;

use super::entry::{Entry, rows_max};
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
        self.entries.values_mut().for_each(Entry::keep_bounded);
        let rows = self.entries.values().map(|entry| entry.seen_by.len());
        let mut rows_left = rows_max(entries_max);
        if self.entries.len() <= entries_max && rows.sum::<usize>() <= rows_left {
            return;
        }
        let ranks = self.entries.iter().map(|(identity, entry)| {
            let rank = (Reverse(entry.last_seen), identity.clone());
            (rank, entry.seen_by.len())
        });
        let mut ranks: Vec<_> = ranks.collect();
        ranks.sort_unstable();
        let fitting = ranks.iter().take(entries_max).take_while(|(_, rows)| {
            let rest = rows_left.checked_sub(*rows);
            rest.inspect(|rest| rows_left = *rest).is_some()
        });
        let fitting = fitting.count();
        for ((_, identity), _) in ranks.iter().skip(fitting) {
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
        // Of the same part as it was written and as others took it together, the fuller one.
        let rank = |part: &Part| (part.sequence, part.entries.len(), part.sent.len());
        if rank(known) < rank(part) {
            *known = part;
        }
    }
    latest
}
