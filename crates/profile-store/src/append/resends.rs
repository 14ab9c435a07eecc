//! Which requests others have put lately, by the footers of their segments: other replicas, and this one before it crashed.
//!
//! One LIST for each window and hour, from the newest segment that was seen less a minute of skew between clocks; then the footer of each new segment that is not
//! this replica's own. After a start that is all segments of ten minutes, once.

use std::collections::BTreeSet;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use tracing::warn;

use crate::files::{FileError, RequestHash, read_requests};
use crate::objects::{Objects, ObjectsError};
use crate::table::names::{Hour, ObjectName, PublishId, RESEND_MINUTES_MAX, SEGMENTS, SegmentName};

/// Footers that are read at once: after a start there may be a thousand.
const FOOTERS_AT_ONCE: usize = 32;
/// How far the clocks of replicas may differ for a segment to be seen at once.
const SKEW: SignedDuration = SignedDuration::from_mins(1);
/// Hours of which something is remembered: windows mostly have one or two, those of hosts that were away a day.
const HOURS_MAX: usize = 64;

/// What is known of segments of others.
#[derive(Debug, Default)]
pub(super) struct Resends {
    hours: Mutex<FxHashMap<Hour, Seen>>,
}

/// The segments of an hour that were seen, of the last ten minutes.
#[derive(Debug, Default)]
struct Seen {
    segments: BTreeSet<SegmentName>,
    /// The requests of those that others put, and when that was.
    requests: FxHashMap<RequestHash, PublishId>,
}

impl Resends {
    /// Which of these requests are durable already in an hour.
    ///
    /// # Errors
    /// If the store does not say: then nothing may be written.
    pub(super) async fn found(
        &self,
        objects: &Objects,
        hour: Hour,
        now: Timestamp,
    ) -> Result<FxHashSet<RequestHash>, ObjectsError> {
        let mut seen = self.hours.lock().remove(&hour).unwrap_or_default();
        let found = seen.look(objects, hour, now).await;
        let requests = seen.requests.keys().copied().collect();
        let mut hours = self.hours.lock();
        if hours.len() >= HOURS_MAX {
            // The oldest is the least likely to be sent again, and is only looked for anew.
            let oldest = hours.keys().min().copied();
            oldest.and_then(|hour| hours.remove(&hour));
        }
        hours.insert(hour, seen);
        found.map(|()| requests)
    }

    /// A segment of this replica's own, whose requests it knows.
    pub(super) fn note_own(&self, segment: SegmentName) {
        let mut hours = self.hours.lock();
        if let Some(seen) = hours.get_mut(&segment.hour) {
            seen.segments.insert(segment);
        }
    }
}

impl Seen {
    async fn look(
        &mut self,
        objects: &Objects,
        hour: Hour,
        now: Timestamp,
    ) -> Result<(), ObjectsError> {
        let oldest = now - SignedDuration::from_mins(RESEND_MINUTES_MAX) - SKEW;
        self.segments.retain(|segment| segment.id.began() >= oldest);
        self.requests.retain(|_, id| id.began() >= oldest);
        let newest = self
            .segments
            .last()
            .map(|segment| segment.id.began() - SKEW);
        let from = PublishId::new(newest.map_or(oldest, |newest| newest.max(oldest)), [0; 10]);
        let folder = format!("{SEGMENTS}{hour}/");
        let after = format!("{folder}{from}");
        let mut listed = objects.list(&folder, Some(&after));
        let mut new = Vec::new();
        while let Some(object) = listed.next().await {
            if let Ok(ObjectName::Segment(segment)) = object?.key.parse()
                && !self.segments.contains(&segment)
                && segment.id.began() >= oldest
            {
                new.push(segment);
            }
        }
        drop(listed);
        let reading = new.into_iter().map(async |segment: SegmentName| {
            requests_of(objects, &segment)
                .await
                .map(|requests| (segment, requests))
        });
        let mut read = stream::iter(reading).buffer_unordered(FOOTERS_AT_ONCE);
        while let Some((segment, requests)) = read.try_next().await? {
            self.segments.insert(segment);
            let of_segment = requests.into_iter().map(|hash| (hash, segment.id));
            self.requests.extend(of_segment);
        }
        Ok(())
    }
}

/// The requests in the footer of a segment. One that is damaged has none: it must not keep others from storing profiles.
async fn requests_of(
    objects: &Objects,
    segment: &SegmentName,
) -> Result<Vec<RequestHash>, ObjectsError> {
    let key = segment.to_string();
    match read_requests(objects, &key).await {
        Ok(requests) => Ok(requests),
        Err(FileError::Objects(error)) => Err(error),
        Err(error) => {
            warn!(key, %error, "the footer of {key} cannot be read, a resend of it would count twice: {error}");
            Ok(Vec::new())
        }
    }
}
