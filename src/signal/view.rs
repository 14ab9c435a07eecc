//! What is missing now: the ledger of all replicas, without what has symbols by now or is ignored.
//!
//! Pure: the gauge that the alert watches and the list that people read are computed from the same
//! view, so that an alert can always be explained.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};
use unhex_build_id::Identity;

use super::ignored::{IgnoreRecord, Ignored};
use super::labels::LabelSet;
use super::ledger::{Entry, Folded, SeenBy};
use super::observation::Missing;
use crate::config::SignalConfig;

/// A build ID is called missing for so long after the last profile with it.
pub(super) const SEEN_WITHIN: Duration = Duration::from_hours(24);

/// What the store said of a build ID when it was asked last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Checked {
    /// When, in milliseconds since 1970.
    pub(super) at: u64,
    /// Why it has no symbols; `None` when it has.
    pub(super) missing: Option<Missing>,
}

/// When a build ID counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Milliseconds in which CI may still upload.
    pub(super) grace: u64,
    /// The least share of what a label set sent.
    pub(super) share_min: f64,
}

/// The ledger at one moment.
#[derive(Debug)]
pub(super) struct View {
    pub(super) folded: Folded,
    pub(super) checked: FxHashMap<Identity, Checked>,
    pub(super) ignored: Ignored,
    pub(super) rules: Rules,
    pub(super) now: u64,
}

/// A build ID without symbols, as people see it.
#[derive(Clone, Debug)]
pub struct MissingBuildId {
    /// The build ID or other identity.
    pub identity: Identity,
    /// Why it has no symbols.
    pub missing: Missing,
    /// What profiles said of it.
    pub entry: Entry,
    /// Per label set of the entry, how much of it this build ID is and whether it counts.
    pub standings: Vec<Standing>,
    /// Why it does not count at all.
    pub ignored: Option<IgnoredBecause>,
}

/// What a build ID is to one label set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// Its share of the label set's addresses or samples, whichever is more, from 0 to 1.
    pub share: f64,
    /// Whether the gauge counts it.
    pub counts: bool,
}

/// Why a build ID does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IgnoredBecause {
    /// By its file name.
    Name,
    /// Somebody said so.
    Decision(Box<IgnoreRecord>),
}

impl Rules {
    pub(super) fn new(config: &SignalConfig) -> Self {
        Self {
            grace: millis(config.grace),
            share_min: config.share_min.fraction(),
        }
    }
}

/// The whole milliseconds of a duration.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl View {
    /// Build IDs without symbols that are not ignored, per label set, for the gauge. Sets that are not
    /// among the `shown` ones, which were seen last, count together.
    pub(super) fn counts(&self, shown: &[LabelSet], sets_max: usize) -> FxHashMap<LabelSet, u64> {
        let mut by_set: FxHashMap<&LabelSet, (u64, Vec<&Identity>)> = FxHashMap::default();
        for (identity, entry) in &self.folded.entries {
            if self.missing(identity, entry).is_none()
                || self.ignored_because(identity, entry).is_some()
            {
                continue;
            }
            for by in entry.seen_by.iter().filter(|by| self.counts_for(entry, by)) {
                let (seen, identities) = by_set.entry(&by.labels).or_default();
                *seen = by.last_seen.max(*seen);
                identities.push(identity);
            }
        }
        let mut counts: FxHashMap<LabelSet, u64> =
            shown.iter().map(|labels| (labels.clone(), 0)).collect();
        let mut sets: Vec<_> = by_set.into_iter().collect();
        sets.sort_unstable_by_key(|(labels, (seen, _))| (Reverse(*seen), *labels));
        let mut others: FxHashSet<&Identity> = FxHashSet::default();
        for (labels, (_, identities)) in sets {
            let number = u64::try_from(identities.len()).unwrap_or(u64::MAX);
            if labels.is_other() || (counts.len() >= sets_max && !counts.contains_key(labels)) {
                others.extend(identities);
            } else {
                counts.insert(labels.clone(), number);
            }
        }
        self.add_calm_sets(&mut counts, sets_max);
        if !others.is_empty() {
            let number = u64::try_from(others.len()).unwrap_or(u64::MAX);
            counts.insert(LabelSet::other(), number);
        }
        counts
    }

    /// Adds a zero for the sets that were seen within a day and miss nothing, as far as there is room: an
    /// alert ends by a zero at once, by a series that is gone only some minutes later.
    fn add_calm_sets(&self, counts: &mut FxHashMap<LabelSet, u64>, sets_max: usize) {
        for (labels, lately) in &self.folded.sent {
            if counts.len() >= sets_max {
                return;
            }
            if lately.is_within(millis(SEEN_WITHIN), self.now) && !labels.is_other() {
                counts.entry(labels.clone()).or_default();
            }
        }
    }

    /// The build IDs without symbols, in order.
    pub(super) fn identities(&self) -> BTreeSet<&Identity> {
        let entries = self.folded.entries.iter();
        entries
            .filter(|(identity, entry)| self.missing(identity, entry).is_some())
            .map(|(identity, _)| identity)
            .collect()
    }

    /// What is known of one build ID, unless it has symbols.
    pub(super) fn get(&self, identity: &Identity) -> Option<MissingBuildId> {
        let entry = self.folded.entries.get(identity)?;
        let missing = self.missing(identity, entry)?;
        let ignored = self.ignored_because(identity, entry);
        let standing = |by: &SeenBy| Standing {
            share: self.share(by),
            counts: ignored.is_none() && self.counts_for(entry, by),
        };
        Some(MissingBuildId {
            identity: identity.clone(),
            missing,
            standings: entry.seen_by.iter().map(standing).collect(),
            entry: entry.clone(),
            ignored,
        })
    }

    /// Why it has no symbols; what may pass by itself does so only after the grace.
    fn missing(&self, identity: &Identity, entry: &Entry) -> Option<Missing> {
        let missing = match self.checked.get(identity) {
            Some(checked) if checked.at >= entry.last_seen => checked.missing?,
            _ => entry.missing,
        };
        (missing.is_definite() || self.is_past_grace(entry)).then_some(missing)
    }

    fn is_past_grace(&self, entry: &Entry) -> bool {
        self.now.saturating_sub(entry.first_seen) > self.rules.grace
    }

    fn ignored_because(&self, identity: &Identity, entry: &Entry) -> Option<IgnoredBecause> {
        if let Some(record) = self.ignored.decision(identity) {
            return Some(IgnoredBecause::Decision(Box::new(record.clone())));
        }
        let name = entry.name.as_deref();
        name.is_some_and(|name| self.ignored.is_name_ignored(name))
            .then_some(IgnoredBecause::Name)
    }

    fn counts_for(&self, entry: &Entry, by: &SeenBy) -> bool {
        let unseen = self.now.saturating_sub(by.last_seen);
        self.is_past_grace(entry)
            && unseen <= millis(SEEN_WITHIN)
            && self.share(by) >= self.rules.share_min
    }

    fn share(&self, by: &SeenBy) -> f64 {
        let total = self.folded.sent.get(&by.labels).copied();
        by.lately.share_of(total.unwrap_or_default())
    }
}
