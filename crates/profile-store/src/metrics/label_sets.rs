//! The counters of every label set, as many as the cap allows.
//!
//! Labels come from strangers, and each set costs series in every Prometheus that scrapes. At the cap the set that
//! was not seen for the longest time goes; what it counted since it was last shown moves to `_other`, so that
//! every sample is counted in one series.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// Service, version and deployment.
pub type LabelSet = [Arc<str>; 3];

/// What reads `_other` in all three labels.
const OTHER: &str = "_other";

/// What is counted of the profiles of one label set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SetCounts {
    /// Samples.
    pub samples: u64,
    /// CPU time in nanoseconds.
    pub cpu_nanos: u128,
    /// Frames by outcome, a word of the metric's description.
    pub frames: BTreeMap<&'static str, u64>,
}

#[derive(Debug, Default)]
struct Counted {
    all: SetCounts,
    shown: SetCounts,
    /// Greater the later it was.
    seen: u64,
}

#[derive(Debug, Default)]
struct Sets {
    by_labels: FxHashMap<LabelSet, Counted>,
    other: SetCounts,
    clock: u64,
}

/// The counters of all label sets.
#[derive(Debug)]
pub(super) struct LabelSets {
    sets_max: usize,
    sets: Mutex<Sets>,
}

impl SetCounts {
    /// Adds what more was counted.
    pub fn add(&mut self, more: &Self) {
        self.samples = self.samples.saturating_add(more.samples);
        self.cpu_nanos = self.cpu_nanos.saturating_add(more.cpu_nanos);
        for (outcome, count) in &more.frames {
            let sum = self.frames.entry(outcome).or_default();
            *sum = sum.saturating_add(*count);
        }
    }

    fn since(&self, shown: &Self) -> Self {
        let frames = self.frames.iter().map(|(outcome, count)| {
            let shown = shown.frames.get(outcome).copied().unwrap_or_default();
            (*outcome, count.saturating_sub(shown))
        });
        Self {
            samples: self.samples.saturating_sub(shown.samples),
            cpu_nanos: self.cpu_nanos.saturating_sub(shown.cpu_nanos),
            frames: frames.collect(),
        }
    }
}

impl LabelSets {
    pub(super) fn new(sets_max: usize) -> Self {
        Self {
            sets_max: sets_max.max(1),
            sets: Mutex::default(),
        }
    }

    pub(super) fn count(&self, labels: &LabelSet, counts: &SetCounts) {
        let mut sets = self.sets.lock();
        sets.clock = sets.clock.saturating_add(1);
        let clock = sets.clock;
        if !sets.by_labels.contains_key(labels) {
            while sets.by_labels.len() >= self.sets_max {
                sets.drop_oldest();
            }
        }
        let counted = sets.by_labels.entry(labels.clone()).or_default();
        counted.seen = clock;
        counted.all.add(counts);
    }

    /// All sets, `_other` last where it has something.
    pub(super) fn shown(&self) -> Vec<(LabelSet, SetCounts)> {
        let mut sets = self.sets.lock();
        let mut shown: Vec<(LabelSet, SetCounts)> = Vec::with_capacity(sets.by_labels.len());
        for (labels, counted) in &mut sets.by_labels {
            counted.shown = counted.all.clone();
            shown.push((labels.clone(), counted.all.clone()));
        }
        if sets.other != SetCounts::default() {
            shown.push(([OTHER; 3].map(Arc::from), sets.other.clone()));
        }
        shown
    }
}

impl Sets {
    fn drop_oldest(&mut self) {
        let oldest = self
            .by_labels
            .iter()
            .min_by_key(|(_, counted)| counted.seen);
        let Some(labels) = oldest.map(|(labels, _)| labels.clone()) else {
            return;
        };
        if let Some(counted) = self.by_labels.remove(&labels) {
            self.other.add(&counted.all.since(&counted.shown));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(service: &str) -> LabelSet {
        [service.into(), "1".into(), "prod".into()]
    }

    fn samples(samples: u64) -> SetCounts {
        SetCounts {
            samples,
            ..SetCounts::default()
        }
    }

    #[test]
    fn what_a_set_that_goes_was_not_yet_shown_with_is_counted_as_other() {
        let sets = LabelSets::new(2);
        sets.count(&set("a"), &samples(3));
        sets.count(&set("b"), &samples(1));
        assert_eq!(sets.shown().len(), 2);
        sets.count(&set("a"), &samples(4));
        // The one that was not seen for longest goes, and was shown whole.
        sets.count(&set("c"), &samples(1));
        sets.count(&set("d"), &samples(1));
        let shown: BTreeMap<String, u64> = sets
            .shown()
            .into_iter()
            .map(|(labels, counts)| (labels[0].to_string(), counts.samples))
            .collect();
        let expected = [("_other", 4), ("c", 1), ("d", 1)];
        assert_eq!(shown, expected.map(|(k, v)| (k.to_owned(), v)).into());
    }
}
