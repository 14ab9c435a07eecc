//! What is missing now: the ledger of all replicas, without what has symbols by now or is ignored.
//!
//! Pure: the gauge that the alert watches and the list that people read are computed from the same
//! view, so that an alert can always be explained.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};
use unhex_build_id::Identity;

use super::checked::{Checked, Checks, Verdict};
use super::ignored::{IgnoreRecord, Ignored};
use super::labels::LabelSet;
use super::ledger::{Entry, Folded, SeenBy};
use super::observation::Missing;
use crate::config::SignalConfig;

/// A build ID is called missing for so long after the last profile with it.
pub(super) const SEEN_WITHIN: Duration = Duration::from_hours(24);

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
    pub(super) checks: Checks,
    pub(super) ignored: Ignored,
    pub(super) rules: Rules,
    pub(super) knowledge: Knowledge,
    pub(super) now: u64,
}

/// How much of the ledger is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Knowledge {
    /// This replica has just started and has not read all that is there: nothing can be said.
    Partial,
    /// It has just started; what the store was not asked about yet may have counted before.
    Fresh,
    /// It has run for longer than an alert remembers.
    Settled,
}

/// How many build IDs of one label set count, or may count.
#[derive(Debug, Default)]
struct Tally<'a> {
    last_seen: u64,
    confirmed: Vec<&'a Identity>,
    is_waiting: bool,
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

    /// Whether what was first seen then is past the grace at a time.
    pub(super) fn is_past_grace(self, first_seen: u64, at: u64) -> bool {
        at.saturating_sub(first_seen) > self.grace
    }
}

/// The whole milliseconds of a duration.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl View {
    /// Build IDs without symbols that are not ignored, per label set, for the gauge. Sets that are not
    /// among the `shown` ones, which were seen last, count together.
    ///
    /// `None` is for sets of which nothing can be said yet: an alert that remembers the last value
    /// must not end by a zero that only means "not looked at".
    pub(super) fn counts(
        &self,
        shown: &[LabelSet],
        sets_max: usize,
    ) -> FxHashMap<LabelSet, Option<u64>> {
        let mut counts: FxHashMap<LabelSet, Option<u64>> = shown
            .iter()
            .map(|labels| (labels.clone(), self.number(0, false)))
            .collect();
        let mut tallies: Vec<(&LabelSet, Tally<'_>)> = self.tallies().into_iter().collect();
        tallies.sort_unstable_by_key(|(labels, tally)| (Reverse(tally.last_seen), *labels));
        let mut others: FxHashSet<&Identity> = FxHashSet::default();
        let mut others_wait = false;
        for (labels, tally) in tallies {
            if labels.is_other() || (counts.len() >= sets_max && !counts.contains_key(labels)) {
                others_wait |= tally.is_waiting;
                others.extend(tally.confirmed);
            } else {
                let number = self.number(tally.confirmed.len(), tally.is_waiting);
                counts.insert(labels.clone(), number);
            }
        }
        self.add_calm_sets(&mut counts, sets_max);
        if !others.is_empty() || others_wait {
            let number = self.number(others.len(), others_wait);
            counts.insert(LabelSet::other(), number);
        }
        counts
    }

    fn tallies(&self) -> FxHashMap<&LabelSet, Tally<'_>> {
        let mut tallies: FxHashMap<&LabelSet, Tally<'_>> = FxHashMap::default();
        for (identity, entry) in &self.folded.entries {
            let verdict = self.verdict(identity, entry);
            if verdict == Verdict::Mended || self.ignored_because(identity, entry).is_some() {
                continue;
            }
            for by in entry.seen_by.iter().filter(|by| self.weighs(entry, by)) {
                let tally = tallies.entry(&by.labels).or_default();
                tally.last_seen = tally.last_seen.max(by.last_seen);
                match verdict {
                    Verdict::Confirmed(_) => tally.confirmed.push(identity),
                    _ => tally.is_waiting = true,
                }
            }
        }
        tallies
    }

    fn number(&self, confirmed: usize, is_waiting: bool) -> Option<u64> {
        let is_known = match self.knowledge {
            Knowledge::Partial => false,
            Knowledge::Fresh => confirmed > 0 || !is_waiting,
            Knowledge::Settled => true,
        };
        is_known.then(|| u64::try_from(confirmed).unwrap_or(u64::MAX))
    }

    /// Adds a zero for the sets that were seen within a day and miss nothing, as far as there is room, the
    /// latest first: an alert ends by a zero at once, by a series that is gone only some minutes later.
    fn add_calm_sets(&self, counts: &mut FxHashMap<LabelSet, Option<u64>>, sets_max: usize) {
        let is_recent = |last: u64| self.now.saturating_sub(last) <= millis(SEEN_WITHIN);
        let mut calm: Vec<(Reverse<u64>, &LabelSet)> = self
            .folded
            .sent
            .iter()
            .filter(|(labels, lately)| {
                is_recent(lately.last()) && !labels.is_other() && !counts.contains_key(*labels)
            })
            .map(|(labels, lately)| (Reverse(lately.last()), labels))
            .collect();
        calm.sort_unstable();
        let room = sets_max.saturating_sub(counts.len());
        for (_, labels) in calm.into_iter().take(room) {
            counts.insert(labels.clone(), self.number(0, false));
        }
    }

    /// The build IDs to ask the store about: all that would count or do, then `rest_max` others, of both
    /// those first that were not asked about for the longest time.
    pub(super) fn due(&self, rest_max: usize) -> Vec<Identity> {
        let (mut counting, mut rest) = (Vec::new(), Vec::new());
        for (identity, entry) in &self.folded.entries {
            let checked = self.checked(identity);
            let would_count = !checked.is_mended_for(entry)
                && self.ignored_because(identity, entry).is_none()
                && entry.seen_by.iter().any(|by| self.weighs(entry, by));
            let due = (checked.last_asked(), identity);
            if would_count {
                counting.push(due);
            } else {
                rest.push(due);
            }
        }
        counting.sort_unstable();
        rest.sort_unstable();
        rest.truncate(rest_max);
        let due = counting.into_iter().chain(rest);
        due.map(|(_, identity)| identity.clone()).collect()
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
        let may_count =
            ignored.is_none() && matches!(self.verdict(identity, entry), Verdict::Confirmed(_));
        let standing = |by: &SeenBy| Standing {
            share: self.share(by),
            counts: may_count && self.weighs(entry, by),
        };
        Some(MissingBuildId {
            identity: identity.clone(),
            missing,
            standings: entry.seen_by.iter().map(standing).collect(),
            entry: entry.clone(),
            ignored,
        })
    }

    fn checked(&self, identity: &Identity) -> Checked {
        self.checks.get(identity).copied().unwrap_or_default()
    }

    fn verdict(&self, identity: &Identity, entry: &Entry) -> Verdict {
        self.checked(identity).verdict(entry, self.rules, self.now)
    }

    /// Why it has no symbols; what may pass by itself does so only after the grace.
    fn missing(&self, identity: &Identity, entry: &Entry) -> Option<Missing> {
        match self.verdict(identity, entry) {
            Verdict::Mended => None,
            Verdict::Confirmed(missing) => Some(missing),
            Verdict::Noted(missing) => {
                let is_lasting = self.rules.is_past_grace(entry.first_seen, self.now);
                (missing.is_definite() || is_lasting).then_some(missing)
            }
        }
    }

    fn ignored_because(&self, identity: &Identity, entry: &Entry) -> Option<IgnoredBecause> {
        if let Some(record) = self.ignored.decision(identity) {
            return Some(IgnoredBecause::Decision(Box::new(record.clone())));
        }
        let name = entry.name.as_deref();
        name.is_some_and(|name| self.ignored.is_name_ignored(name))
            .then_some(IgnoredBecause::Name)
    }

    /// Whether it is past the grace and, for that label set, recent and large enough to count.
    fn weighs(&self, entry: &Entry, by: &SeenBy) -> bool {
        let unseen = self.now.saturating_sub(by.last_seen);
        self.rules.is_past_grace(entry.first_seen, self.now)
            && unseen <= millis(SEEN_WITHIN)
            && self.share(by) >= self.rules.share_min
    }

    fn share(&self, by: &SeenBy) -> f64 {
        let total = self.folded.sent.get(&by.labels).copied();
        by.lately.share_of(total.unwrap_or_default())
    }
}
