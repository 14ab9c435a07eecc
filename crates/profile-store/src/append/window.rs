//! A window is written: its rows by hour, what others have of them left out, dictionary first, then segments.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use rustc_hash::FxHashSet;
use tokio::time::Instant;
use tracing::error;

use super::known::Promise;
use super::numbers::Numbers;
use super::resends::Resends;
use super::segment::{Part, Shared, encode, split};
use super::{AppendError, Appended, Hold, Message, RequestHash};
use crate::clock::Clock;
use crate::files::FileError;
use crate::metrics::{Metrics, WrittenWindow};
use crate::objects::{Objects, ObjectsError};
use crate::rows::SampleRow;
use crate::table::names::{Hour, PublishId, PublishTooOldError, SegmentName};

/// Hours that are written at once; more than two have only windows of hosts that were away, or whose clocks are wrong.
const HOURS_AT_ONCE: usize = 8;

/// Why a window, or the part of it in one hour, was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The store failed.
    #[error(transparent)]
    Objects(#[from] ObjectsError),
    /// Parquet could not be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The clock moved on under it.
    #[error(transparent)]
    TooOld(#[from] PublishTooOldError),
    /// A row of no hour that can be named.
    #[error("a row of {seconds} s since 1970 is in no hour")]
    NoHour {
        /// Its time.
        seconds: i64,
    },
    /// A mistake of ours.
    #[error("encoding ended in a panic")]
    Panicked,
}

/// The messages of a window.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// Its publish, which begins before its rows are taken.
    pub(super) id: Option<PublishId>,
    began: Option<Instant>,
    rows: usize,
    entries: Vec<Entry>,
}

struct Entry {
    message: Message,
    hold: Hold,
    promise: Promise,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Entry({})", self.message.hash)
    }
}

impl Window {
    pub(super) fn push(&mut self, message: Message, hold: Hold, promise: Promise) {
        self.began.get_or_insert_with(Instant::now);
        self.rows = self.rows.saturating_add(message.batch.rows.len());
        self.entries.push(Entry {
            message,
            hold,
            promise,
        });
    }

    pub(super) fn began(&self) -> Option<Instant> {
        self.began
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// What was done of a part.
struct WrittenPart {
    segment: SegmentName,
    bytes: u64,
}

/// Writes windows.
#[derive(Debug)]
pub(super) struct WindowWriter {
    objects: Objects,
    clock: Clock,
    metrics: Arc<Metrics>,
    resends: Resends,
    numbers: Numbers,
}

type Outcomes = (Vec<Promise>, Vec<(Promise, AppendError)>);

impl WindowWriter {
    pub(super) fn new(objects: Objects, clock: Clock, metrics: Arc<Metrics>) -> Self {
        Self {
            objects,
            clock,
            metrics,
            resends: Resends::default(),
            numbers: Numbers::default(),
        }
    }

    /// Writes a window; the requests that are durable, and the others.
    pub(super) async fn write(&self, window: Window) -> Outcomes {
        let id = window.id.unwrap_or_else(|| self.clock.publish_id());
        let (mut holds, mut promises, mut hashes, mut batches) = (vec![], vec![], vec![], vec![]);
        for Entry {
            message,
            hold,
            promise,
        } in window.entries
        {
            holds.push(hold);
            promises.push(promise);
            hashes.push(message.hash);
            batches.push(message.batch);
        }
        let shared = Shared {
            id,
            hashes,
            batches,
        };
        let began = Instant::now();
        let written = self.write_hours(shared).await;
        drop(holds);
        let hours = match written {
            Ok(hours) => hours,
            Err(error) => {
                error!(%error, "a window of {} requests was not written: {error}", promises.len());
                self.metrics.window_failed();
                let failed = promises.into_iter();
                return (Vec::new(), failed.map(|p| (p, error.clone())).collect());
            }
        };
        self.count(&hours, began.elapsed());
        outcomes(promises, &hours)
    }

    fn count(&self, hours: &[HourOutcome], took: Duration) {
        let segments = hours.iter().filter_map(|hour| hour.segment.as_ref().ok());
        let segments: Vec<&WrittenPart> = segments.flatten().collect();
        self.metrics.window_written(&WrittenWindow {
            segments: segments.len() as u64,
            rows: segments.iter().map(|written| written.segment.rows).sum(),
            took,
        });
        for written in segments {
            self.metrics.wrote_bytes("segment", written.bytes);
        }
        if hours.iter().any(|hour| hour.segment.is_err()) {
            self.metrics.window_failed();
        }
    }

    async fn write_hours(&self, mut shared: Shared) -> Result<Vec<HourOutcome>, AppendError> {
        let splitting = tokio::task::spawn_blocking(move || {
            let parts = split(&mut shared.batches);
            (parts, shared)
        });
        let (parts, shared) = splitting.await.map_err(|_panic| AppendError::Panicked)?;
        let parts = parts.map_err(Arc::new)?;
        let shared = Arc::new(shared);
        let writing = parts.into_iter().map(|part| self.write_part(part, &shared));
        let written = stream::iter(writing).buffer_unordered(HOURS_AT_ONCE);
        Ok(written.collect().await)
    }

    /// Writes what an hour gets of a window.
    async fn write_part(&self, part: Part, shared: &Arc<Shared>) -> HourOutcome {
        let all: Vec<usize> = part.rows.iter().map(|(message, _)| *message).collect();
        let mut outcome = HourOutcome {
            messages: all,
            resent: FxHashSet::default(),
            segment: Ok(None),
        };
        let hour = part.hour;
        let now = self.clock.now();
        let found = match self.resends.found(&self.objects, hour, now).await {
            Ok(found) => found,
            Err(error) => {
                outcome.segment = Err(Arc::new(error.into()));
                return outcome;
            }
        };
        let (mut requests, mut rows) = (Vec::new(), Vec::new());
        for (message, of_message) in part.rows {
            match shared.hashes.get(message) {
                Some(hash) if !found.contains(hash) => {
                    requests.push((message, *hash));
                    rows.push((message, of_message));
                }
                _ => {
                    outcome.resent.insert(message);
                }
            }
        }
        if !rows.is_empty() {
            let written = self.write_rows(hour, requests, rows, shared).await;
            outcome.segment = written.map(Some).map_err(Arc::new);
        }
        outcome
    }

    async fn write_rows(
        &self,
        hour: Hour,
        requests: Vec<(usize, RequestHash)>,
        rows: Vec<(usize, Vec<SampleRow>)>,
        shared: &Arc<Shared>,
    ) -> Result<WrittenPart, WriteError> {
        let durable = self.numbers.take(hour);
        let encoding = {
            let shared = Arc::clone(shared);
            tokio::task::spawn_blocking(move || encode(hour, &requests, rows, durable, &shared))
        };
        let encoded = encoding.await.map_err(|_panic| WriteError::Panicked)??;
        shared.id.check_publish(self.clock.now())?;
        let putting = encoded.dictionary.into_iter().map(async |(name, bytes)| {
            let length = bytes.len() as u64;
            self.objects.put(&name.to_string(), bytes).await?;
            self.metrics.wrote_bytes(name.table.as_str(), length);
            Ok::<(), ObjectsError>(())
        });
        // Each before the segment that refers to it; in which order they come does not matter.
        futures_util::future::try_join_all(putting).await?;
        self.numbers.put_back(hour, encoded.durable);
        shared.id.check_publish(self.clock.now())?;
        let (segment, bytes) = (encoded.segment, encoded.rows);
        let written = WrittenPart {
            segment,
            bytes: bytes.len() as u64,
        };
        self.objects.put(&segment.to_string(), bytes).await?;
        self.resends.note_own(segment);
        Ok(written)
    }
}

/// What became of the part of a window in one hour.
struct HourOutcome {
    /// The messages with rows in it.
    messages: Vec<usize>,
    /// Those of them that were there.
    resent: FxHashSet<usize>,
    /// The segment with the others, if there are others.
    segment: Result<Option<WrittenPart>, Arc<WriteError>>,
}

/// A message is durable when all its hours are, and was sent before when it was found in all of them.
fn outcomes(promises: Vec<Promise>, hours: &[HourOutcome]) -> Outcomes {
    let (mut durable, mut failed) = (Vec::new(), Vec::new());
    for (message, mut promise) in promises.into_iter().enumerate() {
        let mut of_message = hours.iter().filter(|hour| hour.messages.contains(&message));
        let errors = of_message
            .clone()
            .filter(|hour| !hour.resent.contains(&message));
        let mut errors = errors.filter_map(|hour| hour.segment.as_ref().err());
        if let Some(error) = errors.next() {
            failed.push((promise, AppendError::Write(Arc::clone(error))));
            continue;
        }
        if of_message.all(|hour| hour.resent.contains(&message)) {
            promise.appended = Appended::Resent;
        }
        durable.push(promise);
    }
    (durable, failed)
}
