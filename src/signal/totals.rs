//! What each label set sent lately, with symbols and without: what shares are shares of.
//!
//! It outlives the series of a label set. A job that runs once a night has none by the next run, and
//! if what it sent were forgotten by then, what is a thousandth of it would seem to be all of it.

use rustc_hash::FxHashMap;

use super::labels::LabelSet;
use super::lately::{Lately, Sent};
use super::recency::Recency;

/// So many label sets are kept for each that may have series.
const ROWS_PER_SERIES: usize = 4;

/// Sums of what label sets sent, bounded: those that sent nothing for the longest time go.
#[derive(Debug)]
pub(super) struct Totals {
    rows_max: usize,
    rows: FxHashMap<LabelSet, Lately>,
    recency: Recency<LabelSet>,
    has_changed: bool,
}

impl Totals {
    /// No sums yet; `sets_max` label sets may have series.
    pub(super) fn new(sets_max: usize) -> Self {
        Self {
            rows_max: sets_max.max(1).saturating_mul(ROWS_PER_SERIES),
            rows: FxHashMap::default(),
            recency: Recency::default(),
            has_changed: false,
        }
    }

    /// Adds what one request brought.
    pub(super) fn add(&mut self, labels: &LabelSet, sent: Sent, at: u64) {
        self.has_changed = true;
        self.rows.entry(labels.clone()).or_default().add(sent, at);
        self.recency.touch(labels, at);
        while self.rows.len() > self.rows_max && self.drop_oldest_before(u64::MAX) {}
    }

    /// When a label set sent something for the first time, as far as that is remembered.
    pub(super) fn since(&self, labels: &LabelSet) -> Option<u64> {
        self.rows.get(labels)?.since()
    }

    /// Forgets what was sent last before `since`.
    pub(super) fn forget_before(&mut self, since: u64) {
        while self.drop_oldest_before(since) {}
    }

    /// Every label set and what it sent.
    pub(super) fn rows(&self) -> Vec<(LabelSet, Lately)> {
        let rows = self.rows.iter();
        rows.map(|(labels, sent)| (labels.clone(), *sent)).collect()
    }

    /// Whether anything was added since they were written.
    pub(super) fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// They are being written.
    pub(super) fn note_written(&mut self) {
        self.has_changed = false;
    }

    fn drop_oldest_before(&mut self, since: u64) -> bool {
        let oldest = self.recency.oldest().filter(|(_, sent)| *sent < since);
        let Some(labels) = oldest.map(|(labels, _)| labels.clone()) else {
            return false;
        };
        self.rows.remove(&labels);
        self.recency.remove(&labels)
    }
}
