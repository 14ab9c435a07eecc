//! Segments of the ledger: this replica's own, those of others, and those of replicas that are gone.
//!
//! A newer segment goes up first, then the older one of the same replica goes away. Segments of
//! replicas that are gone are taken together into one, and what was not seen for a week is dropped
//! then.

use std::sync::Arc;
use std::time::Duration;

use super::shelf::Shelf;
use super::{LedgerError, Objects};
use crate::artifacts::store::{ObjectEntry, ObjectKey};
use crate::signal::ledger::{
    self, KeptBounds, Part, ReadSegmentError, SEGMENT_BYTES_MAX, SEGMENT_JSON_BYTES_MAX, SEGMENTS,
    Segment,
};

/// A segment that was put longer ago belongs to a replica that is gone, or that has nothing to say.
const GONE_AFTER: Duration = Duration::from_mins(10);

/// So many segments of replicas that are gone are taken together.
const GONE_SEGMENTS_MAX: usize = 16;

pub(super) fn shelf() -> Shelf<Segment> {
    Shelf::new(SEGMENTS, SEGMENT_BYTES_MAX, |bytes, now| {
        let mut segment = Segment::decode(bytes)?;
        segment.keep_before(now);
        Ok(segment)
    })
}

impl Objects {
    /// Puts the part of this replica; its older segment goes once the newer one is durable.
    ///
    /// # Errors
    /// If it is not durable.
    pub(in crate::signal) async fn write(&mut self, part: Part) -> Result<(), LedgerError> {
        let key = self.put(vec![part]).await?;
        self.outdated.extend(self.own.replace(key));
        for key in self.outdated.clone() {
            match self.store.delete(key.clone()).await {
                Ok(()) => drop(self.outdated.remove(&key)),
                // What stays is of a lower sequence number, and harmless.
                Err(error) => tracing::debug!(%key, %error, "{key} stays for now: {error}"),
            }
        }
        Ok(())
    }

    pub(super) async fn read_segments(&mut self) -> Result<Vec<Arc<Segment>>, LedgerError> {
        let entries = self.segments.read(&*self.store, self.now()).await?;
        if let Err(error) = self.take_together(&entries).await {
            tracing::warn!(%error, "old segments of the ledger stay apart: {error}");
        }
        let segments = self.segments.objects();
        Ok(segments.map(|(_, segment)| Arc::clone(segment)).collect())
    }

    /// Puts parts, each cut down to what a segment can hold.
    async fn put(&self, parts: Vec<Part>) -> Result<ObjectKey, LedgerError> {
        let encoding = tokio::task::spawn_blocking(move || {
            let parts = parts.into_iter();
            let parts = parts.map(|part| part.within(SEGMENT_JSON_BYTES_MAX));
            Segment::new(parts.collect()).encode()
        });
        let bytes = encoding
            .await
            .map_err(|error| LedgerError::Cut(error.to_string()))?
            .map_err(|error: ReadSegmentError| LedgerError::Encoding(error.to_string()))?;
        let key = ledger::key(self.clock.upload_id())?;
        self.store.put(key.clone(), bytes.into()).await?;
        Ok(key)
    }

    /// Takes segments of replicas that are gone together, when they are many or have run out.
    async fn take_together(&mut self, entries: &[ObjectEntry]) -> Result<(), LedgerError> {
        let now = self.clock.now();
        let is_gone = |entry: &&ObjectEntry| {
            let age = now.duration_since(entry.modified).unwrap_or_default();
            self.own.as_ref() != Some(&entry.key) && age > GONE_AFTER
        };
        let gone: Vec<(ObjectKey, Arc<Segment>)> = entries
            .iter()
            .filter(is_gone)
            .filter_map(|entry| {
                let segment = self.segments.object(&entry.key)?;
                Some((entry.key.clone(), Arc::clone(segment)))
            })
            .collect();
        let bounds = KeptBounds {
            forgotten_before: self.forgotten_before(),
            entries_max: self.entries_max,
            sent_max: self.sent_max,
        };
        let mut segments = gone.iter().map(|(_, segment)| segment);
        let has_run_out =
            segments.any(|segment| ledger::has_run_out(segment, bounds.forgotten_before));
        if gone.is_empty() || (gone.len() < GONE_SEGMENTS_MAX && !has_run_out) {
            return Ok(());
        }
        let all = self.segments.objects();
        let latest = ledger::latest(all.flat_map(|(_, segment)| &segment.parts));
        let is_latest = |part: &&Part| {
            let known = latest.get(&part.replica);
            known.is_some_and(|known| known.sequence == part.sequence)
        };
        let parts = gone.iter().flat_map(|(_, segment)| &segment.parts);
        let kept = ledger::kept(parts.filter(is_latest), &bounds);
        let groups = ledger::packed(kept, SEGMENT_JSON_BYTES_MAX);
        if groups.len() >= gone.len() && !has_run_out {
            return Ok(());
        }
        for group in groups {
            self.put(group).await?;
        }
        for (key, _) in gone {
            self.store.delete(key).await?;
        }
        Ok(())
    }
}
