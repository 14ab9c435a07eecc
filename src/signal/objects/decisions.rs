//! Decisions to ignore: a record each, and what is left of them when others beat them.
//!
//! A decision has one number more than every decision on the same build ID that its writer knew, so
//! that it beats them whatever the clocks said; of two that did not know of each other the later one
//! counts. What is beaten is deleted by whoever notices, and so is a day later what only takes back.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use bytes::Bytes;
use unhex_build_id::Identity;

use super::shelf::Shelf;
use super::{DECISIONS_MAX, DecodeError, LedgerError, Objects};
use crate::artifacts::store::{ObjectEntry, ObjectKey, ParseObjectKeyError, StoreError};
use crate::artifacts::{ContentHash, UploadId};
use crate::signal::ignored::{IgnoreRecord, RECORD_VERSION};

/// Where decisions to ignore lie.
const IGNORED: &str = "signal/ignored/";

/// The largest decision: a reason and a name.
const IGNORED_BYTES_MAX: u64 = 64 << 10;

/// Nobody decides so often on one build ID; a higher number would leave none to beat it.
const NUMBER_MAX: u64 = 1 << 40;

/// What takes an earlier decision back is kept so long: until then everybody has read it, and whatever
/// was on its way when it was made has arrived.
const TAKEN_BACK_KEPT: Duration = Duration::from_hours(24);

/// A decision that is to be written.
#[derive(Debug)]
pub(in crate::signal) struct NewDecision {
    pub(in crate::signal) identity: Identity,
    pub(in crate::signal) decision: UploadId,
    pub(in crate::signal) reason: Option<String>,
    pub(in crate::signal) who: Option<String>,
}

pub(super) fn shelf() -> Shelf<IgnoreRecord> {
    Shelf::new(IGNORED, IGNORED_BYTES_MAX, decode)
}

fn decode(json: &[u8], _now: u64) -> Result<IgnoreRecord, DecodeError> {
    let record: IgnoreRecord = serde_json::from_slice(json)?;
    if record.version > RECORD_VERSION {
        return Err(DecodeError::TooNew(record.version));
    }
    if record.number > NUMBER_MAX {
        return Err(DecodeError::Number(record.number));
    }
    Ok(record)
}

fn folder(identity: &Identity) -> String {
    let hash = ContentHash::of(identity.to_string().as_bytes());
    format!("{IGNORED}{}/{hash}/", identity.kind())
}

fn key(record: &IgnoreRecord) -> Result<ObjectKey, ParseObjectKeyError> {
    format!("{}{}.json", folder(&record.identity), record.decision).parse()
}

fn folder_of(key: &ObjectKey) -> &str {
    key.as_str()
        .rsplit_once('/')
        .map_or("", |(folder, _)| folder)
}

impl Objects {
    /// Writes a decision that beats all that are there; durable when it answers. `None` when there was
    /// nothing to take back, and nothing is written.
    ///
    /// # Errors
    /// If those that are there cannot be read now, or it cannot be written; or if it ignores one build
    /// ID too many.
    pub(in crate::signal) async fn decide(
        &mut self,
        new: NewDecision,
    ) -> Result<Option<IgnoreRecord>, LedgerError> {
        self.decisions.read(&*self.store, self.now()).await?;
        let folder = folder(&new.identity);
        if self.decisions.has_failed(&folder) {
            // One that was not read may have any number.
            let unread = std::io::Error::other("an earlier decision cannot be read now");
            return Err(StoreError::from_io("reading", &folder, unread).into());
        }
        let latest = self.latest();
        let before = latest.get(&new.identity).map(|(_, record)| *record);
        let is_ignored = |record: &IgnoreRecord| record.reason.is_some();
        if new.reason.is_none() && !before.is_some_and(is_ignored) {
            return Ok(None);
        }
        let ignored = latest.values().filter(|(_, record)| is_ignored(record));
        if new.reason.is_some()
            && !before.is_some_and(is_ignored)
            && ignored.count() >= DECISIONS_MAX
        {
            return Err(LedgerError::TooManyIgnored);
        }
        let highest = before.map_or(0, |record| record.number);
        let record = IgnoreRecord {
            version: RECORD_VERSION,
            identity: new.identity,
            number: highest.saturating_add(1).min(NUMBER_MAX),
            decision: new.decision,
            reason: new.reason,
            who: new.who,
        };
        let key = key(&record)?;
        let json = serde_json::to_vec_pretty(&record)
            .map_err(|error| LedgerError::Encoding(error.to_string()))?;
        self.store.put(key.clone(), Bytes::from(json)).await?;
        self.decisions.put(key, record.clone());
        self.delete_beaten().await;
        Ok(Some(record))
    }

    pub(super) async fn read_decisions(&mut self) -> Result<Vec<IgnoreRecord>, LedgerError> {
        let entries = self.decisions.read(&*self.store, self.now()).await?;
        self.delete_beaten().await;
        self.delete_taken_back(&entries).await;
        let decisions = self.decisions.objects();
        Ok(decisions.map(|(_, record)| (**record).clone()).collect())
    }

    /// Of each build ID the decision that counts.
    fn latest(&self) -> BTreeMap<&Identity, (&ObjectKey, &IgnoreRecord)> {
        let mut latest: BTreeMap<&Identity, (&ObjectKey, &IgnoreRecord)> = BTreeMap::new();
        for (key, record) in self.decisions.objects() {
            let known = latest.entry(&record.identity).or_insert((key, record));
            if known.1.rank() < record.rank() {
                *known = (key, record);
            }
        }
        latest
    }

    async fn delete_beaten(&mut self) {
        let latest = self.latest();
        let beaten = self.decisions.objects().filter(|(key, record)| {
            let counts = latest.get(&record.identity);
            counts.is_some_and(|(latest, _)| latest != key)
        });
        let beaten: Vec<ObjectKey> = beaten.map(|(key, _)| key.clone()).collect();
        self.delete(beaten).await;
    }

    /// Deletes decisions that only take back what is gone.
    async fn delete_taken_back(&mut self, entries: &[ObjectEntry]) {
        let now = self.clock.now();
        let is_old = |entry: &&ObjectEntry| {
            let age = now.duration_since(entry.modified).unwrap_or_default();
            age > TAKEN_BACK_KEPT
        };
        let mut beside: HashMap<&str, usize> = HashMap::new();
        for entry in entries {
            let number = beside.entry(folder_of(&entry.key)).or_default();
            *number = number.saturating_add(1);
        }
        let old = entries.iter().filter(is_old).filter(|entry| {
            let record = self.decisions.object(&entry.key);
            // Beside one that cannot be read it stays: that one may be what it takes back.
            record.is_some_and(|record| record.reason.is_none())
                && beside.get(folder_of(&entry.key)) == Some(&1)
        });
        let old: Vec<ObjectKey> = old.map(|entry| entry.key.clone()).collect();
        self.delete(old).await;
    }

    async fn delete(&mut self, keys: Vec<ObjectKey>) {
        for key in keys {
            match self.store.delete(key.clone()).await {
                Ok(()) => self.decisions.forget(&key),
                // It counts no more, and whoever reads next tries again.
                Err(error) => tracing::debug!(%key, %error, "{key} stays for now: {error}"),
            }
        }
    }
}
