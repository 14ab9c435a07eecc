//! Immutable objects under one prefix: each is read once, and what became of it is kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::{DecodeError, LedgerError};
use crate::artifacts::store::{GetLimit, ObjectEntry, ObjectKey, ObjectStore, StoreError};

/// Objects under one prefix that are looked at, in order of their keys: twice as many as writers leave
/// there.
const OBJECTS_MAX: usize = 20_000;

/// What is known of the objects under a prefix.
#[derive(Debug)]
pub(super) struct Shelf<T> {
    prefix: &'static str,
    bytes_max: u64,
    decode: Decode<T>,
    held: BTreeMap<ObjectKey, Held<T>>,
}

/// Makes of the bytes of an object what they say; the time at which they are read bounds the times in
/// them.
pub(super) type Decode<T> = fn(&[u8], u64) -> Result<T, DecodeError>;

/// What became of reading one object.
#[derive(Debug)]
enum Held<T> {
    Read(Arc<T>),
    /// It will never be readable: objects do not change.
    Damaged,
    /// The store failed; it is tried again.
    Failed,
}

impl<T: Send + Sync + 'static> Shelf<T> {
    pub(super) fn new(prefix: &'static str, bytes_max: u64, decode: Decode<T>) -> Self {
        Self {
            prefix,
            bytes_max,
            decode,
            held: BTreeMap::new(),
        }
    }

    /// Reads at `now` what is there and was not read yet, and answers all that is there.
    ///
    /// # Errors
    /// If the store cannot be listed now; what was read before is kept.
    pub(super) async fn read(
        &mut self,
        store: &dyn ObjectStore,
        now: u64,
    ) -> Result<Vec<ObjectEntry>, LedgerError> {
        let mut entries = store.list_all(self.prefix.to_owned()).await?;
        entries.truncate(OBJECTS_MAX);
        let mut held = BTreeMap::new();
        for entry in &entries {
            let key = &entry.key;
            let known = self.held.remove(key);
            let found = match known {
                Some(known @ (Held::Read(_) | Held::Damaged)) => Some(known),
                failed => self.fetch(store, (key, now), failed.is_some()).await?,
            };
            // What is gone since it was listed is replaced by what the next listing has.
            held.extend(found.map(|found| (key.clone(), found)));
        }
        self.held = held;
        Ok(entries)
    }

    /// The objects that were read, in order of their keys.
    pub(super) fn objects(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<T>)> {
        self.held.iter().filter_map(|(key, held)| match held {
            Held::Read(object) => Some((key, object)),
            Held::Damaged | Held::Failed => None,
        })
    }

    pub(super) fn object(&self, key: &ObjectKey) -> Option<&Arc<T>> {
        match self.held.get(key)? {
            Held::Read(object) => Some(object),
            Held::Damaged | Held::Failed => None,
        }
    }

    /// Takes in what was just written.
    pub(super) fn put(&mut self, key: ObjectKey, object: T) {
        self.held.insert(key, Held::Read(Arc::new(object)));
    }

    /// Forgets what was just deleted.
    pub(super) fn forget(&mut self, key: &ObjectKey) {
        self.held.remove(key);
    }

    /// Objects that are there and cannot be read.
    pub(super) fn unreadable(&self) -> usize {
        let unreadable = |held: &&Held<T>| !matches!(held, Held::Read(_));
        self.held.values().filter(unreadable).count()
    }

    /// Whether no object is left that may be readable a moment later.
    pub(super) fn is_whole(&self) -> bool {
        !self.held.values().any(|held| matches!(held, Held::Failed))
    }

    /// Whether an object under that prefix may be readable a moment later.
    pub(super) fn has_failed(&self, prefix: &str) -> bool {
        let mut held = self.held.iter();
        held.any(|(key, held)| key.as_str().starts_with(prefix) && matches!(held, Held::Failed))
    }

    /// `None` when it is gone.
    async fn fetch(
        &self,
        store: &dyn ObjectStore,
        (key, now): (&ObjectKey, u64),
        was_said: bool,
    ) -> Result<Option<Held<T>>, LedgerError> {
        let bytes_max = self.bytes_max;
        let error = match store.get(key.clone(), GetLimit { bytes_max }).await {
            Ok(None) => return Ok(None),
            Ok(Some(bytes)) => return self.decoded((key, now), bytes).await.map(Some),
            Err(error) => error,
        };
        if !was_said {
            tracing::error!(%key, %error, "{key} cannot be read: {error}");
        }
        Ok(Some(match error {
            StoreError::TooLarge { .. } => Held::Damaged,
            _ => Held::Failed,
        }))
    }

    async fn decoded(
        &self,
        (key, now): (&ObjectKey, u64),
        bytes: Bytes,
    ) -> Result<Held<T>, LedgerError> {
        let decode = self.decode;
        let decoding = tokio::task::spawn_blocking(move || decode(&bytes, now));
        let decoded = decoding
            .await
            .map_err(|error| LedgerError::Cut(error.to_string()))?;
        Ok(match decoded {
            Ok(object) => Held::Read(Arc::new(object)),
            Err(error) => {
                tracing::error!(%key, %error, "{key} is left alone: {error}");
                Held::Damaged
            }
        })
    }
}
