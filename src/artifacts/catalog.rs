//! The states of build IDs, read from the store and kept for seconds.
//!
//! A state is at most [`STATE_AGE_MAX`] old, and never older than what this process published
//! itself. Failing to read is never kept: "don't know" is not "doesn't exist".

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio_util::task::TaskTracker;
use unhex_build_id::BuildId;

use super::layout::{self, RecordName};
use super::located::LocateError;
use super::record::{RECORD_BYTES_MAX, Record};
use super::single_flight::SingleFlight;
use super::state::{Known, State, Unreadable};
use super::store::{GetLimit, ObjectStore, StoreError};
use crate::metrics::CacheMeter;

/// How old a state may be: an upload on another replica is seen that fast.
pub(super) const STATE_AGE_MAX: Duration = Duration::from_secs(5);

/// Records are kept this long behind the last look, so that reading again needs a listing only.
const RECORDS_KEPT: Duration = Duration::from_mins(10);

/// Memory for records, by the length of their JSON.
const CACHE_BYTES_MAX: u64 = 64 << 20;

/// Build IDs of which nothing is stored that are remembered; each takes some 400 bytes.
const ABSENT_MAX: u64 = 100_000;

/// Records that are read at once.
const READS_AT_ONCE: usize = 16;

/// The states of build IDs, through a cache.
#[derive(Debug)]
pub(super) struct Catalog {
    store: Arc<dyn ObjectStore>,
    seen: moka::sync::Cache<BuildId, Seen>,
    /// Those of which nothing is stored: apart, so that questions for what does not exist push out
    /// nothing that does.
    absent: moka::sync::Cache<BuildId, Seen>,
    /// When this process last published something about a build ID.
    published: moka::sync::Cache<BuildId, Instant>,
    loads: SingleFlight<BuildId, Result<Seen, LocateError>>,
    meters: CatalogMeters,
}

/// Where the questions to a [`Catalog`] are counted.
#[derive(Clone, Debug)]
pub(super) struct CatalogMeters {
    pub(super) states: CacheMeter,
    pub(super) absent: CacheMeter,
}

/// What was read of one build ID.
#[derive(Clone, Debug)]
struct Seen {
    /// Just before the listing began.
    listed: Instant,
    state: Arc<State>,
    records: Arc<HashMap<RecordName, (Known, u64)>>,
}

impl Seen {
    fn weight(&self) -> u32 {
        let bytes: u64 = self.records.values().map(|(_, bytes)| bytes + 256).sum();
        u32::try_from(bytes + 256).unwrap_or(u32::MAX)
    }
}

impl Catalog {
    pub(super) fn new(
        store: Arc<dyn ObjectStore>,
        tasks: TaskTracker,
        meters: CatalogMeters,
    ) -> Self {
        meters.states.bounded_by(CACHE_BYTES_MAX);
        let (states, absent) = (meters.states.clone(), meters.absent.clone());
        Self {
            store,
            seen: moka::sync::Cache::builder()
                .weigher(|_, seen: &Seen| seen.weight())
                .max_capacity(CACHE_BYTES_MAX)
                .time_to_idle(RECORDS_KEPT)
                .eviction_listener(move |_, _, cause| states.removed(cause))
                .build(),
            absent: moka::sync::Cache::builder()
                .max_capacity(ABSENT_MAX)
                .time_to_live(STATE_AGE_MAX)
                .eviction_listener(move |_, _, cause| absent.removed(cause))
                .build(),
            published: moka::sync::Cache::builder()
                .time_to_live(RECORDS_KEPT)
                .max_capacity(100_000)
                .build(),
            loads: SingleFlight::new(tasks),
            meters,
        }
    }

    /// The state of a build ID, at most [`STATE_AGE_MAX`] old.
    pub(super) async fn state(&self, id: &BuildId) -> Result<Arc<State>, LocateError> {
        let recent = Instant::now().checked_sub(STATE_AGE_MAX);
        self.state_since(id, recent).await
    }

    /// The state of a build ID as it is now.
    pub(super) async fn state_now(&self, id: &BuildId) -> Result<Arc<State>, LocateError> {
        self.state_since(id, Some(Instant::now())).await
    }

    /// A record as it lies in the store; `None` when it is gone or nobody understands it.
    pub(super) async fn record(
        &self,
        id: &BuildId,
        name: &RecordName,
    ) -> Result<Option<Arc<Record>>, LocateError> {
        let read = read(&*self.store, id, *name).await?;
        Ok(match read {
            Some((_, (Known::Record(record), _))) => Some(record),
            _ => None,
        })
    }

    /// Says that this process has just published something about `id`.
    pub(super) fn note_published(&self, id: &BuildId) {
        self.published.insert(id.clone(), Instant::now());
    }

    /// The state by a listing that began at `since` or later, and behind all that was published here.
    async fn state_since(
        &self,
        id: &BuildId,
        since: Option<Instant>,
    ) -> Result<Arc<State>, LocateError> {
        let since = since.max(self.published.get(id));
        let is_fresh = |seen: &Seen| since.is_none_or(|since| seen.listed >= since);
        if let Some(seen) = self.seen.get(id).filter(is_fresh) {
            self.meters.states.hit();
            return Ok(seen.state);
        }
        if let Some(seen) = self.absent.get(id).filter(is_fresh) {
            self.meters.absent.hit();
            return Ok(seen.state);
        }
        loop {
            let landing = self.loads.join(id.clone(), || self.load(id.clone()));
            let seen = landing.await.ok_or_else(|| LocateError::Store {
                detail: format!("reading the records of {id} was cut off"),
            })??;
            // A load that somebody else began earlier may have missed what is asked for.
            if is_fresh(&seen) {
                self.count_miss(&seen);
                return Ok(seen.state);
            }
        }
    }

    /// Counts what was not in memory. Counts of a cache lag behind inserts until its own upkeep has run.
    fn count_miss(&self, seen: &Seen) {
        if seen.records.is_empty() {
            self.meters.absent.miss();
            self.absent.run_pending_tasks();
            self.meters.absent.holds(self.absent.entry_count(), 0);
        } else {
            self.meters.states.miss();
            self.seen.run_pending_tasks();
            let size_bytes = self.seen.weighted_size();
            self.meters
                .states
                .holds(self.seen.entry_count(), size_bytes);
        }
    }

    fn load(&self, id: BuildId) -> impl Future<Output = Result<Seen, LocateError>> + Send + use<> {
        let store = Arc::clone(&self.store);
        let (cache, absent) = (self.seen.clone(), self.absent.clone());
        async move {
            let listed = Instant::now();
            let before = cache.get(&id).map(|seen| seen.records).unwrap_or_default();
            let names = record_names(&*store, &id).await?;
            let reads = names.into_iter().map(|name| {
                let (store, id, known) = (&store, &id, before.get(&name).cloned());
                async move {
                    match known {
                        // Somebody may have mended one that could not be read.
                        Some((Known::Record(record), bytes)) => {
                            Ok(Some((name, (Known::Record(record), bytes))))
                        }
                        _ => read(&**store, id, name).await,
                    }
                }
            });
            let records: HashMap<_, _> = stream::iter(reads)
                .buffer_unordered(READS_AT_ONCE)
                .try_filter_map(|found| std::future::ready(Ok(found)))
                .try_collect()
                .await?;
            let state = State::fold(records.values().map(|(known, _)| known.clone()));
            let seen = Seen {
                listed,
                state: Arc::new(state),
                records: Arc::new(records),
            };
            // What there is in the other one is older, and a state that is too old is read anew.
            if seen.records.is_empty() {
                cache.invalidate(&id);
                absent.insert(id, seen.clone());
            } else {
                cache.insert(id, seen.clone());
            }
            Ok::<_, LocateError>(seen)
        }
    }
}

/// The names of all records of a build ID.
async fn record_names(
    store: &dyn ObjectStore,
    id: &BuildId,
) -> Result<Vec<RecordName>, StoreError> {
    let prefix = layout::records(id);
    let entries = store.list_all(prefix.clone()).await?;
    // Kinds of newer versions are names too; a name that is none was written by no version.
    let names = entries.iter().filter_map(|entry| {
        let name = entry.key.as_str().strip_prefix(&prefix)?;
        name.parse::<RecordName>().ok()
    });
    Ok(names.collect())
}

/// A record with its length, or `None` when it was swept away since it was listed.
async fn read(
    store: &dyn ObjectStore,
    id: &BuildId,
    name: RecordName,
) -> Result<Option<(RecordName, (Known, u64))>, LocateError> {
    let key = layout::record(id, &name).map_err(StoreError::from)?;
    let limit = GetLimit {
        bytes_max: RECORD_BYTES_MAX,
    };
    let got: Result<Option<Bytes>, StoreError> = store.get(key.clone(), limit).await;
    let (read, bytes) = match got {
        Ok(Some(json)) => {
            let read = Record::read(&json, id, &name).map_err(|error| error.to_string());
            (read, json.len().try_into().unwrap_or(u64::MAX))
        }
        Ok(None) => return Ok(None),
        // That is about this record; the others of the build ID are known all the same.
        Err(error @ (StoreError::TooLarge { .. } | StoreError::Damaged { .. })) => {
            (Err(error.to_string()), 0)
        }
        Err(error) => return Err(error.into()),
    };
    let known = match read {
        Ok(record) => Known::Record(Arc::new(record)),
        Err(detail) => {
            tracing::error!(%key, %detail, "the record {key} cannot be read");
            Known::Unreadable(Unreadable { name, detail })
        }
    };
    Ok(Some((name, (known, bytes))))
}
