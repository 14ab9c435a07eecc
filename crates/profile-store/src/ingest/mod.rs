//! From the body of a request to rows that are durable: unpacked, read and counted within bounds of memory and time, each message once.
//!
//! The way of a message, and what bounds each step:
//!
//! 1. Its body is received into [`Room`] of all bodies; none left: [`IngestError::Busy`].
//! 2. It waits for one of a few decoders; these unpack it up to its limit and read it, off the async threads ([`decode`]).
//! 3. Still holding the decoder, it waits for room among the rows, so that what was read is bounded, too.
//! 4. [`Appender`] makes the rows durable, or finds that they are.
//! 5. Then, and whether or not the sender still waits, it is counted ([`counting`]) and the symbol server is told.

mod counting;
mod decode;
mod room;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::task::TaskTracker;
use unhex_pprof::DecodeError;

use crate::append::{AppendError, Appended, Appender, Message};
use crate::clock::Clock;
use crate::config::Config;
use crate::metrics::{InFlight, MessageOutcome, Metrics, Protocol};
use crate::observe::Notes;
use crate::rows::Rejected;

pub use decode::ContentEncoding;
pub use room::{Body, NoRoom, Room};

use decode::{Decoder, Prepared};

/// A message as it came.
#[derive(Debug)]
pub struct Incoming {
    /// By which protocol.
    pub protocol: Protocol,
    /// How the body is encoded.
    pub encoding: ContentEncoding,
    /// The body, and the room that it takes.
    pub body: Body,
    /// Labels beside it.
    pub labels: Vec<(String, String)>,
}

/// What became of a message whose rows are durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ingested {
    /// Whether it was stored before.
    pub appended: Appended,
    /// Rows that it has.
    pub rows: usize,
    /// Profiles of which nothing was kept.
    pub rejected: u64,
    /// Which, and why; None if there are none.
    pub rejections: Option<String>,
}

/// Why a message was not stored.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IngestError {
    /// It is longer than the limit.
    #[error("the message has more than message_bytes_max, {max} bytes, after decompression")]
    TooLarge {
        /// The limit.
        max: u64,
    },
    /// It cannot be unpacked.
    #[error("the body cannot be decompressed: {0}")]
    Encoding(Arc<io::Error>),
    /// It is no message of profiles, or has more of something than is read.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// There is no room for it at the moment.
    #[error("{what} at the moment; come again")]
    Busy {
        /// Of what there is none.
        what: &'static str,
    },
    /// Its rows are not durable, or not known to be.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// It is being written, and takes longer than anybody waits.
    #[error("the rows were not written within {seconds} s")]
    TooLong {
        /// The limit.
        seconds: u64,
    },
    /// A mistake of ours.
    #[error("reading the message ended in a panic")]
    Panicked,
}

/// What an [`Ingest`] is made of.
#[derive(Debug)]
pub struct IngestParts<'c> {
    /// Makes rows durable.
    pub appender: Appender,
    /// What the symbol server is told.
    pub notes: Notes,
    /// What time it is.
    pub clock: Clock,
    /// Where it is counted.
    pub metrics: Arc<Metrics>,
    /// Owns what goes on although the sender left.
    pub tasks: TaskTracker,
    /// The limits and the retention.
    pub config: &'c Config,
}

/// Takes messages; clones share everything.
#[derive(Clone)]
pub struct Ingest(Arc<Shared>);

struct Shared {
    bodies: Room,
    rows: Room,
    decoders: Arc<Semaphore>,
    patience: Duration,
    append_patience: Duration,
    decoder: Decoder,
    appender: Appender,
    notes: Notes,
    metrics: Arc<Metrics>,
    tasks: TaskTracker,
}

impl fmt::Debug for Ingest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ingest").finish_non_exhaustive()
    }
}

impl Ingest {
    /// One that has taken nothing yet.
    pub fn new(parts: IngestParts<'_>) -> Self {
        let (limits, metrics) = (&parts.config.limits, parts.metrics);
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        let decoders = match limits.decoders_max {
            0 => processors(),
            set => set,
        };
        let room = |bytes, what| Room::new(bytes, metrics.in_flight(what));
        Self(Arc::new(Shared {
            bodies: room(limits.body_bytes_total_max, InFlight::Bodies),
            rows: room(limits.row_bytes_total_max, InFlight::Rows),
            decoders: Arc::new(Semaphore::new(decoders.clamp(1, Semaphore::MAX_PERMITS))),
            patience: limits.ingest_queue_seconds_max,
            append_patience: limits.append_seconds_max,
            decoder: Decoder::new(parts.config, parts.clock),
            appender: parts.appender,
            notes: parts.notes,
            metrics,
            tasks: parts.tasks,
        }))
    }

    /// A body to receive a message into.
    pub fn body(&self) -> Body {
        Body::new(self.0.bodies.clone())
    }

    /// Takes a message; when this returns its rows are durable.
    ///
    /// # Errors
    /// If it cannot be read, or not be stored now.
    pub async fn take(&self, incoming: Incoming) -> Result<Ingested, IngestError> {
        let protocol = incoming.protocol;
        let taken = self.read_and_append(incoming).await;
        let outcome = match &taken {
            Ok(ingested) if ingested.appended == Appended::Resent => MessageOutcome::Resent,
            Ok(_) => MessageOutcome::Stored,
            Err(error) => error.outcome(),
        };
        self.0.metrics.message(protocol, outcome);
        taken
    }

    /// Counts a message whose body did not come, or not all of it.
    pub fn not_received(&self, protocol: Protocol, outcome: MessageOutcome) {
        self.0.metrics.message(protocol, outcome);
    }

    async fn read_and_append(&self, incoming: Incoming) -> Result<Ingested, IngestError> {
        let deadline = Instant::now() + self.0.patience;
        let shared = Arc::clone(&self.0);
        let decoders = Arc::clone(&shared.decoders);
        let turn = timeout_at(deadline, decoders.acquire_owned()).await;
        let busy = |what| IngestError::Busy { what };
        let Ok(Ok(turn)) = turn else {
            return Err(busy("all decoders have work"));
        };
        let reading = {
            let shared = Arc::clone(&shared);
            tokio::task::spawn_blocking(move || {
                let _running = shared.metrics.decoding();
                // The turn ends with the work, also when nobody waits for it any more.
                shared.decoder.prepare(incoming).map(|read| (read, turn))
            })
        };
        let read = reading.await.map_err(|_panic| IngestError::Panicked)?;
        let (prepared, turn) = read?;
        let room = shared.rows.take(prepared.memory_bytes());
        let Ok(room) = timeout_at(deadline, room).await else {
            return Err(busy("too many rows wait to be written"));
        };
        drop(turn);
        let appending = shared.tasks.spawn({
            let shared = Arc::clone(&shared);
            async move { shared.append(prepared, room).await }
        });
        match timeout(self.0.append_patience, appending).await {
            Ok(ended) => ended.map_err(|_panic| IngestError::Panicked)?,
            Err(_elapsed) => Err(IngestError::TooLong {
                seconds: self.0.append_patience.as_secs(),
            }),
        }
    }
}

impl Shared {
    async fn append(&self, prepared: Prepared, room: room::Held) -> Result<Ingested, IngestError> {
        let Prepared {
            hash,
            batch,
            malformed,
            counts,
            notes,
            sent_bytes,
            unpacked_bytes,
        } = prepared;
        let rejected = malformed.len().saturating_add(batch.rejected.len());
        let rejections = decode::rejections(&malformed, &batch);
        let reasons: Vec<&'static str> = batch.rejected.iter().map(reason).collect();
        let (rows, left_out) = (batch.rows.len(), batch.left_out);
        let began = Instant::now();
        let appended = if rows == 0 {
            // Nothing to be made durable.
            Appended::Stored
        } else {
            let message = Message { hash, batch };
            self.appender.append(message, Box::new(room)).await?
        };
        let metrics = &self.metrics;
        metrics.appended(began.elapsed());
        if appended == Appended::Stored {
            metrics.message_bytes(sent_bytes, unpacked_bytes);
            for (labels, counted) in &counts {
                metrics.stored(labels, counted);
            }
            metrics.rejected("malformed", malformed.len() as u64);
            for reason in reasons {
                metrics.rejected(reason, 1);
            }
            metrics.labels_left_out("labels", left_out.labels);
            metrics.labels_left_out("values", left_out.values_cut);
            metrics.labels_left_out("samples", left_out.samples);
            self.notes.push(notes);
        }
        Ok(Ingested {
            appended,
            rows,
            rejected: rejected as u64,
            rejections,
        })
    }
}

impl IngestError {
    fn outcome(&self) -> MessageOutcome {
        match self {
            Self::TooLarge { .. } => MessageOutcome::TooLarge,
            Self::Malformed(error) if is_limit(error) => MessageOutcome::TooLarge,
            Self::Encoding(_) | Self::Malformed(_) => MessageOutcome::Malformed,
            Self::Busy { .. } | Self::Append(AppendError::Busy) => MessageOutcome::Busy,
            Self::Append(_) | Self::TooLong { .. } | Self::Panicked => MessageOutcome::Unavailable,
        }
    }
}

/// Whether a message was refused for what it has too much of.
pub fn is_limit(error: &DecodeError) -> bool {
    matches!(error, DecodeError::TooLarge { .. })
}

/// A word of the metric's description.
fn reason(rejected: &Rejected) -> &'static str {
    use crate::rows::{RefusedError as Why, TimeError};
    match &rejected.reason {
        Why::Negative { .. } => "negative",
        Why::TooLarge { .. } => "too_large",
        Why::TooManyRows { .. } => "too_many_rows",
        Why::Time(TimeError::TooOld { .. }) => "too_old",
        Why::Time(TimeError::Ahead { .. }) => "ahead",
    }
}
