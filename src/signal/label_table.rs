//! The counters of every label set, as many as the cap allows.
//!
//! Labels come from strangers, and each set costs series in every Prometheus that scrapes. At the cap
//! the set that was not seen for the longest time goes; what it counted since it was last shown
//! moves to the set `_other`, so that every profile is counted in exactly one series. The newest
//! version of a known service is the last to go: a flood of invented names never hides the release
//! that is being rolled out. A set that was not seen for a day is dropped.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::labels::LabelSet;
use super::observation::Outcome;
use super::recency::Recency;
use crate::metrics::ProfileCounts;

/// How long a label set is kept that is not seen.
const UNSEEN_MILLIS_MAX: u64 = 24 * 3_600_000;

/// A service is known when profiles of it came at least so far apart: floods rarely repeat a name.
const KNOWN_AFTER_MILLIS: u64 = 60_000;

/// A counter starts anew here, as after a restart: behind it a float loses single counts.
const COUNT_MAX: u64 = 1 << 53;

const OUTCOMES: usize = Outcome::ALL.len();

/// What is counted per label set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) profiles: u64,
    pub(super) profiles_unknown: u64,
    frames: [u64; OUTCOMES],
}

/// A label set that has series of its own.
#[derive(Clone, Debug)]
struct Counted {
    counts: Counts,
    shown: Counts,
    last_seen: u64,
}

/// When a label set was seen, in milliseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeenAt {
    /// For the first time, as far as anybody remembers: also before it was dropped here, by replicas
    /// before this one, and elsewhere.
    pub(super) first_seen: u64,
    pub(super) now: u64,
}

/// A service where it is deployed, and its newest version: the one that was seen first the latest.
#[derive(Clone, Debug)]
struct Service {
    newest: LabelSet,
    newest_first_seen: u64,
    versions: usize,
    first_seen: u64,
    is_known: bool,
}

type ServiceKey = (Arc<str>, Arc<str>);

/// The counters of all label sets.
#[derive(Debug)]
pub(super) struct LabelTable {
    sets_max: usize,
    sets: FxHashMap<LabelSet, Counted>,
    services: FxHashMap<ServiceKey, Service>,
    /// Sets that go first.
    usual: Recency<LabelSet>,
    /// The newest versions of known services.
    newest: Recency<LabelSet>,
    other: Counts,
}

impl Counts {
    /// Adds the weight of frames with an outcome.
    pub(super) fn add_frames(&mut self, outcome: Outcome, weight: u64) {
        let place = Outcome::ALL.iter().zip(&mut self.frames);
        for (_, sum) in place.filter(|(one, _)| **one == outcome) {
            *sum = sum.saturating_add(weight).min(COUNT_MAX);
        }
    }

    fn combine(self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self {
        let mut frames = self.frames;
        for (sum, part) in frames.iter_mut().zip(other.frames) {
            *sum = with(*sum, part);
        }
        Self {
            profiles: with(self.profiles, other.profiles),
            profiles_unknown: with(self.profiles_unknown, other.profiles_unknown),
            frames,
        }
    }

    fn plus(self, more: Self) -> Self {
        self.combine(more, |sum, part| {
            let next = sum.saturating_add(part);
            if next >= COUNT_MAX { part } else { next }
        })
    }

    fn since(self, shown: Self) -> Self {
        self.combine(shown, u64::saturating_sub)
    }

    fn shown_as(self, labels: &LabelSet) -> ProfileCounts {
        let frames = Outcome::ALL.iter().zip(self.frames);
        ProfileCounts {
            labels: labels.values().map(str::to_owned),
            profiles: self.profiles,
            profiles_unknown: self.profiles_unknown,
            frames: frames
                .filter(|(_, weight)| *weight > 0)
                .map(|(outcome, weight)| (outcome.as_str(), weight))
                .collect(),
            unknown_build_ids: None,
        }
    }
}

impl LabelTable {
    /// An empty table for at most so many label sets, beside `_other`.
    pub(super) fn new(sets_max: usize) -> Self {
        Self {
            sets_max: sets_max.max(1),
            sets: FxHashMap::default(),
            services: FxHashMap::default(),
            usual: Recency::default(),
            newest: Recency::default(),
            other: Counts::default(),
        }
    }

    /// Counts what one request brought.
    pub(super) fn count(&mut self, labels: &LabelSet, counts: Counts, seen: SeenAt) {
        let now = seen.now;
        if labels.is_other() {
            self.other = self.other.plus(counts);
            return;
        }
        if !self.sets.contains_key(labels) {
            while self.sets.len() >= self.sets_max && self.drop_oldest() {}
            self.note_version(labels, seen);
        }
        let counted = self.sets.entry(labels.clone()).or_insert_with(|| Counted {
            counts: Counts::default(),
            shown: Counts::default(),
            last_seen: now,
        });
        counted.counts = counted.counts.plus(counts);
        counted.last_seen = counted.last_seen.max(now);
        self.touch(labels, now);
    }

    /// Every series, that of `_other` only when it counted anything. What is in it was shown.
    pub(super) fn show(&mut self, now: u64) -> Vec<(LabelSet, ProfileCounts)> {
        self.drop_unseen(now);
        let mut shown = Vec::with_capacity(self.sets.len().saturating_add(1));
        for (labels, counted) in &mut self.sets {
            counted.shown = counted.counts;
            shown.push((labels.clone(), counted.counts.shown_as(labels)));
        }
        if self.other != Counts::default() {
            let other = LabelSet::other();
            let counts = self.other.shown_as(&other);
            shown.push((other, counts));
        }
        shown
    }

    /// Notes a label set that is new here: the newest version of its service, unless it was here before
    /// the others and is back.
    fn note_version(&mut self, labels: &LabelSet, SeenAt { first_seen, now }: SeenAt) {
        let new = || Service {
            newest: labels.clone(),
            newest_first_seen: first_seen,
            versions: 0,
            first_seen,
            is_known: false,
        };
        let service = self.services.entry(service_key(labels));
        let service = service.or_insert_with(new);
        service.versions = service.versions.saturating_add(1);
        service.first_seen = service.first_seen.min(first_seen);
        if first_seen < service.newest_first_seen {
            return;
        }
        service.newest_first_seen = first_seen;
        let before = std::mem::replace(&mut service.newest, labels.clone());
        if before != *labels && self.newest.remove(&before) {
            let seen = self.sets.get(&before).map_or(now, |set| set.last_seen);
            self.usual.touch(&before, seen);
        }
    }

    fn touch(&mut self, labels: &LabelSet, now: u64) {
        let service = self.services.get_mut(&service_key(labels));
        let is_protected = service.is_some_and(|service| {
            service.is_known |= now.saturating_sub(service.first_seen) >= KNOWN_AFTER_MILLIS;
            service.is_known && service.newest == *labels
        });
        if is_protected {
            self.usual.remove(labels);
            self.newest.touch(labels, now);
        } else {
            self.usual.touch(labels, now);
        }
    }

    fn drop_unseen(&mut self, now: u64) {
        let is_unseen = |oldest: Option<(&LabelSet, u64)>| {
            let (labels, seen) = oldest?;
            (now.saturating_sub(seen) > UNSEEN_MILLIS_MAX).then(|| labels.clone())
        };
        while let Some(labels) =
            is_unseen(self.usual.oldest()).or_else(|| is_unseen(self.newest.oldest()))
        {
            self.drop_set(&labels);
        }
    }

    /// Drops the set that is to go first, and says whether there was any.
    fn drop_oldest(&mut self) -> bool {
        let oldest = self.usual.oldest().or_else(|| self.newest.oldest());
        let oldest = oldest.map(|(labels, _)| labels.clone());
        oldest.is_some_and(|labels| {
            self.drop_set(&labels);
            true
        })
    }

    fn drop_set(&mut self, labels: &LabelSet) {
        self.usual.remove(labels);
        self.newest.remove(labels);
        let Some(counted) = self.sets.remove(labels) else {
            return;
        };
        self.other = self.other.plus(counted.counts.since(counted.shown));
        let key = service_key(labels);
        if let Some(service) = self.services.get_mut(&key) {
            service.versions = service.versions.saturating_sub(1);
            if service.versions == 0 {
                self.services.remove(&key);
            }
        }
    }
}

fn service_key(labels: &LabelSet) -> ServiceKey {
    (Arc::clone(&labels.service), Arc::clone(&labels.deployment))
}

#[cfg(test)]
mod tests {
    use super::*;
    use unhex_api::symbolize::Labels;

    const ONE: Counts = Counts {
        profiles: 1,
        profiles_unknown: 0,
        frames: [1, 0, 0, 0, 0, 0],
    };

    fn labels(service: &str, version: &str) -> LabelSet {
        LabelSet::new(&Labels {
            service: Some(service.to_owned()),
            version: Some(version.to_owned()),
            deployment: None,
        })
    }

    fn at(now: u64) -> SeenAt {
        let first_seen = now;
        SeenAt { first_seen, now }
    }

    fn count(table: &mut LabelTable, service: &str, version: &str, now: u64) {
        table.count(&labels(service, version), ONE, at(now));
    }

    fn shown(table: &mut LabelTable, now: u64) -> FxHashMap<LabelSet, ProfileCounts> {
        table.show(now).into_iter().collect()
    }

    #[test]
    fn the_newest_version_of_a_known_service_outlives_a_flood() {
        let mut table = LabelTable::new(8);
        for (version, now) in [("2.3", 0), ("2.3", 60_000), ("2.4", 60_001)] {
            count(&mut table, "checkout", version, now);
        }
        for number in 0..1_000 {
            count(&mut table, &format!("s{number}"), "1", 60_002);
        }
        count(&mut table, "checkout", "2.5", 60_003);
        for number in 0..1_000 {
            count(&mut table, &format!("t{number}"), "1", 60_004);
        }
        let shown = shown(&mut table, 60_005);
        assert_eq!(shown.len(), 9);
        assert_eq!(shown[&labels("checkout", "2.5")].profiles, 1);
        let profiles: u64 = shown.values().map(|counts| counts.profiles).sum();
        assert_eq!(profiles, 2_004, "each profile is in exactly one series");
    }

    #[test]
    fn an_older_version_that_comes_back_does_not_expose_the_newest_one() {
        let mut table = LabelTable::new(8);
        let mut send = |version: &str, first_seen: u64, now: u64| {
            let seen = SeenAt { first_seen, now };
            table.count(&labels("checkout", version), ONE, seen);
        };
        // A replica that has just started: both are older than it, and the older one comes last.
        send("2.4", 200_000, 300_000);
        send("2.3", 100_000, 300_001);
        for number in 0..100 {
            count(&mut table, &format!("s{number}"), "1", 300_002);
        }
        let shown = shown(&mut table, 300_003);
        assert!(shown.contains_key(&labels("checkout", "2.4")));
        assert!(!shown.contains_key(&labels("checkout", "2.3")));
    }

    #[test]
    fn what_was_shown_already_does_not_count_again_in_other() {
        let mut table = LabelTable::new(1);
        count(&mut table, "a", "1", 0);
        table.show(0);
        count(&mut table, "a", "1", 1);
        count(&mut table, "b", "1", 2);
        let shown = shown(&mut table, 3);
        assert_eq!(shown[&LabelSet::other()].profiles, 1);
        assert_eq!(shown[&labels("b", "1")].profiles, 1);
        assert_eq!(shown.len(), 2);
    }

    #[test]
    fn a_set_that_was_not_seen_for_a_day_is_dropped() {
        let mut table = LabelTable::new(8);
        count(&mut table, "a", "1", 0);
        count(&mut table, "a", "1", KNOWN_AFTER_MILLIS);
        count(&mut table, "b", "1", UNSEEN_MILLIS_MAX);
        table.show(UNSEEN_MILLIS_MAX);
        let shown = shown(&mut table, KNOWN_AFTER_MILLIS + UNSEEN_MILLIS_MAX + 1);
        assert_eq!(shown.len(), 1);
        assert!(table.services.len() == 1 && table.sets.len() == 1);
    }

    #[test]
    fn who_calls_itself_other_is_counted_there() {
        let mut table = LabelTable::new(8);
        table.count(&LabelSet::other(), ONE, at(0));
        assert_eq!(table.show(0).len(), 1);
    }
}
