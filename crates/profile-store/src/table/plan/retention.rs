//! What has expired: samples after three weeks, of some services earlier or later, totals after three
//! months.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::table::fold::HourState;
use crate::table::names::FileKind;
use crate::table::record::{Deletion, Label, RowSelector};

/// Days that samples are kept by default.
pub const SAMPLES_DAYS: u32 = 21;

/// Days that hourly totals are kept by default: comparisons of releases look back a quarter.
pub const TOTALS_DAYS: u32 = 90;

/// How long rows are kept, in days from the end of their hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Samples.
    pub samples_days: u32,
    /// Samples of services that differ.
    pub samples_days_by_service: BTreeMap<String, u32>,
    /// Totals.
    pub totals_days: u32,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            samples_days: SAMPLES_DAYS,
            samples_days_by_service: BTreeMap::new(),
            totals_days: TOTALS_DAYS,
        }
    }
}

/// The deletions of an hour that are due and that no tombstone has said yet.
///
/// Two replicas may both write them, which is harmless. What a longer retention would have kept does not
/// come back.
pub fn expired(state: &HourState, retention: &Retention, now: Timestamp) -> Vec<Deletion> {
    let age = state.hour().since_end(now);
    let is_over = |days: u32| age >= SignedDuration::from_hours(24 * i64::from(days));
    let mut due = Vec::new();
    if is_over(retention.totals_days) {
        due.push(deletion(FileKind::Totals, RowSelector::Everything));
    }
    let services = &retention.samples_days_by_service;
    if is_over(retention.samples_days) {
        let kept = services.iter().filter(|&(_, &days)| !is_over(days));
        let kept: BTreeSet<String> = kept.map(|(service, _)| service.clone()).collect();
        let rows = if kept.is_empty() {
            RowSelector::Everything
        } else {
            RowSelector::ExceptServices(kept)
        };
        due.push(deletion(FileKind::Samples, rows));
    } else {
        let over = services.iter().filter(|&(_, &days)| is_over(days));
        due.extend(over.map(|(service, _)| {
            let labels = BTreeMap::from([(Label::Service, service.clone())]);
            deletion(FileKind::Samples, RowSelector::Matching(labels))
        }));
    }
    due.retain(|deletion| !is_said(state, deletion));
    due
}

fn deletion(kind: FileKind, rows: RowSelector) -> Deletion {
    Deletion {
        kinds: BTreeSet::from([kind]),
        rows,
    }
}

fn is_said(state: &HourState, due: &Deletion) -> bool {
    let said = state
        .tombstones()
        .iter()
        .map(|tombstone| &tombstone.deletion);
    let mut said = said.filter(|said| said.kinds.is_superset(&due.kinds));
    said.any(|said| said.rows.contains(&due.rows))
}
