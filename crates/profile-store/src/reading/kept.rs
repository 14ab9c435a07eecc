//! Hours that are long over, kept for some seconds: a page of graphs asks for the same three weeks ten times.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use super::{HOURS_MAX, HourReading};
use crate::table::names::Hour;

/// Seconds that an hour is kept: rows that come so late, and deletions, show so much later.
const KEPT_SECONDS: i64 = 10;

/// Minutes from the end of an hour to when it is kept: until then rows come, and it is compacted.
const SETTLED_MINUTES: i64 = 120;

/// The hours that were read a moment ago.
#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<HashMap<Hour, (Timestamp, Arc<HourReading>)>>);

impl Kept {
    /// What an hour had, if that was a moment before `now`.
    pub(super) fn of(&self, hour: Hour, now: Timestamp) -> Option<Arc<HourReading>> {
        let kept = self.0.lock();
        let (read, reading) = kept.get(&hour)?;
        is_young(*read, now).then(|| Arc::clone(reading))
    }

    /// Keeps what was read by a LIST that began at `began`.
    pub(super) fn keep(&self, reading: &Arc<HourReading>, began: Timestamp) {
        if reading.hour.since_end(began) < SignedDuration::from_mins(SETTLED_MINUTES) {
            return;
        }
        let mut kept = self.0.lock();
        if kept.len() >= HOURS_MAX {
            kept.retain(|_, (read, _)| is_young(*read, began));
        }
        if kept.len() < HOURS_MAX {
            kept.insert(reading.hour, (began, Arc::clone(reading)));
        }
    }
}

fn is_young(read: Timestamp, now: Timestamp) -> bool {
    // A clock that was set back would keep it for ever.
    let age = now.duration_since(read).abs();
    age < SignedDuration::from_secs(KEPT_SECONDS)
}
