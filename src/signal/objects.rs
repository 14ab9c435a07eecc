//! The signal's objects in the store: segments of the ledger and decisions to ignore, read and written.
//!
//! Objects are immutable: a newer segment goes up first, then the older one of the same replica goes
//! away. Segments of replicas that are gone are taken together into one, part by part as they are,
//! and their parts are dropped when nothing in them was seen for a week. What cannot be read is left
//! alone: a newer version may have written it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::ignored::{IgnoreRecord, RECORD_VERSION};
use super::ledger::{self, Part, ReadSegmentError, SEGMENT_BYTES_MAX, SEGMENTS, Segment};
use super::view::millis;
use crate::artifacts::store::{
    GetLimit, ObjectEntry, ObjectKey, ObjectStore, ParseObjectKeyError, StoreError,
};
use crate::artifacts::{Clock, ContentHash};

/// Where decisions to ignore lie.
const IGNORED: &str = "signal/ignored/";

/// The largest decision: a reason and a name.
const IGNORED_BYTES_MAX: u64 = 64 << 10;

/// A segment that was put longer ago belongs to a replica that is gone, or that has nothing to say.
const GONE_AFTER: Duration = Duration::from_mins(10);

/// So many segments of replicas that are gone are taken together.
const GONE_SEGMENTS_MAX: usize = 16;

/// A build ID that no profile had for so long is forgotten.
pub(super) const FORGOTTEN_AFTER: Duration = Duration::from_hours(7 * 24);

/// Why the ledger was not written or read now.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A segment that cannot be written.
    #[error("the segment cannot be written: {0}")]
    Encoding(String),
    /// The runtime stops.
    #[error("it was cut off: {0}")]
    Cut(String),
}

impl From<ParseObjectKeyError> for LedgerError {
    fn from(error: ParseObjectKeyError) -> Self {
        Self::Store(error.into())
    }
}

/// What was read of the store, and what this replica wrote there.
#[derive(Debug)]
pub(super) struct Objects {
    store: Arc<dyn ObjectStore>,
    clock: Clock,
    /// Segments by key; `None` for those that cannot be read.
    segments: HashMap<ObjectKey, Option<Arc<Segment>>>,
    decisions: HashMap<ObjectKey, Option<IgnoreRecord>>,
    own: Option<ObjectKey>,
}

impl Objects {
    pub(super) fn new(store: Arc<dyn ObjectStore>, clock: Clock) -> Self {
        Self {
            store,
            clock,
            segments: HashMap::new(),
            decisions: HashMap::new(),
            own: None,
        }
    }

    /// Puts the part of this replica; its older segment goes once the newer one is durable.
    pub(super) async fn write(&mut self, part: Part) -> Result<(), LedgerError> {
        let key = self.put(vec![part]).await?;
        if let Some(before) = self.own.replace(key) {
            // What stays is of a lower sequence number, and harmless.
            self.store.delete(before).await?;
        }
        Ok(())
    }

    /// The parts in the store, those of this replica too.
    pub(super) async fn read(&mut self) -> Result<Vec<Arc<Segment>>, LedgerError> {
        let entries = self.list(SEGMENTS).await?;
        let mut segments = HashMap::new();
        for entry in &entries {
            let segment = match self.segments.remove(&entry.key) {
                Some(known) => known,
                None => match self.fetch(&entry.key).await? {
                    Some(read) => read,
                    // Gone since it was listed: what replaces it is read the next time.
                    None => continue,
                },
            };
            segments.insert(entry.key.clone(), segment);
        }
        self.segments = segments;
        if let Err(error) = self.take_together(&entries).await {
            tracing::warn!(%error, "old segments of the ledger stay apart: {error}");
        }
        Ok(self.segments.values().flatten().cloned().collect())
    }

    /// Every decision in the store, the latest of each build ID among them.
    pub(super) async fn read_decisions(&mut self) -> Result<Vec<IgnoreRecord>, LedgerError> {
        let mut decisions = HashMap::new();
        for entry in self.list(IGNORED).await? {
            let decision = match self.decisions.remove(&entry.key) {
                Some(known) => known,
                None => self.fetch_decision(&entry.key).await?,
            };
            decisions.insert(entry.key, decision);
        }
        self.decisions = decisions;
        Ok(self.decisions.values().flatten().cloned().collect())
    }

    async fn put(&self, parts: Vec<Part>) -> Result<ObjectKey, LedgerError> {
        let encoding = tokio::task::spawn_blocking(move || Segment::new(parts).encode());
        let bytes = encoding
            .await
            .map_err(|error| LedgerError::Cut(error.to_string()))?
            .map_err(|error: ReadSegmentError| LedgerError::Encoding(error.to_string()))?;
        let key = ledger::key(self.clock.upload_id())?;
        self.store.put(key.clone(), bytes.into()).await?;
        Ok(key)
    }

    /// A segment, `Some(None)` when it cannot be read, `None` when it is gone.
    async fn fetch(&self, key: &ObjectKey) -> Result<Option<Option<Arc<Segment>>>, LedgerError> {
        let bytes_max = SEGMENT_BYTES_MAX;
        let Some(bytes) = self.store.get(key.clone(), GetLimit { bytes_max }).await? else {
            return Ok(None);
        };
        let decoding = tokio::task::spawn_blocking(move || Segment::decode(&bytes));
        let decoded = decoding
            .await
            .map_err(|error| LedgerError::Cut(error.to_string()))?;
        let segment = decoded.inspect_err(
            |error| tracing::error!(%key, %error, "the ledger segment {key} is left alone: {error}"),
        );
        Ok(Some(segment.ok().map(Arc::new)))
    }

    async fn fetch_decision(&self, key: &ObjectKey) -> Result<Option<IgnoreRecord>, LedgerError> {
        let bytes_max = IGNORED_BYTES_MAX;
        let json = self.store.get(key.clone(), GetLimit { bytes_max }).await?;
        let Some(json) = json else {
            return Ok(None);
        };
        let record = serde_json::from_slice::<IgnoreRecord>(&json)
            .inspect_err(|error| tracing::error!(%key, %error, "{key} cannot be read: {error}"));
        Ok(record
            .ok()
            .filter(|record| record.version <= RECORD_VERSION))
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
                let segment = self.segments.get(&entry.key)?.clone()?;
                Some((entry.key.clone(), segment))
            })
            .collect();
        let forgotten = self.forgotten_before();
        let has_run_out = |segment: &Segment| {
            let mut entries = segment.parts.iter().flat_map(|part| &part.entries);
            entries.all(|listed| listed.entry.last_seen < forgotten)
        };
        let run_out = gone.iter().any(|(_, segment)| has_run_out(segment));
        if gone.is_empty() || (gone.len() < GONE_SEGMENTS_MAX && !run_out) {
            return Ok(());
        }
        let all = self.segments.values().flatten();
        let latest = ledger::latest(all.flat_map(|segment| &segment.parts));
        let is_latest = |part: &&Part| {
            let known = latest.get(&part.replica);
            known.is_some_and(|known| known.sequence == part.sequence)
        };
        let parts = gone.iter().flat_map(|(_, segment)| &segment.parts);
        let kept = ledger::latest(parts.filter(is_latest)).into_values();
        let kept: Vec<Part> = kept
            .map(|part| without_forgotten(part, forgotten))
            .filter(|part| !part.entries.is_empty())
            .collect();
        if !kept.is_empty() {
            self.put(kept).await?;
        }
        for (key, _) in gone {
            self.store.delete(key).await?;
        }
        Ok(())
    }

    /// Build IDs that were seen last before this are forgotten.
    pub(super) fn forgotten_before(&self) -> u64 {
        let now = self.clock.now().duration_since(std::time::UNIX_EPOCH);
        millis(now.unwrap_or_default()).saturating_sub(millis(FORGOTTEN_AFTER))
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ObjectEntry>, StoreError> {
        self.store.list_all(prefix.to_owned()).await
    }
}

fn without_forgotten(part: &Part, forgotten_before: u64) -> Part {
    let entries = part.entries.iter();
    Part {
        entries: entries
            .filter(|listed| listed.entry.last_seen >= forgotten_before)
            .cloned()
            .collect(),
        ..part.clone()
    }
}

/// Puts a decision; those before it about the same build ID go once it is durable.
pub(super) async fn write_decision(
    store: &dyn ObjectStore,
    record: &IgnoreRecord,
) -> Result<(), LedgerError> {
    let identity = &record.identity;
    let hash = ContentHash::of(identity.to_string().as_bytes());
    let folder = format!("{IGNORED}{}/{hash}/", identity.kind());
    let key: ObjectKey = format!("{folder}{}.json", record.decision).parse()?;
    let json = serde_json::to_vec_pretty(record)
        .map_err(|error| LedgerError::Encoding(error.to_string()))?;
    store.put(key.clone(), Bytes::from(json)).await?;
    for entry in store.list_all(folder).await? {
        if entry.key < key {
            store.delete(entry.key).await?;
        }
    }
    Ok(())
}
