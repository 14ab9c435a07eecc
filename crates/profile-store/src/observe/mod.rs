//! What the symbol server is told of the profiles that arrived, so that it can say whose symbols are missing.
//!
//! Notes wait in a queue that is bounded in number and bytes, and one task delivers them in their order, each until the server has it or it is too
//! old. Nobody who stores profiles ever waits for it: at the bounds the oldest notes go, and a counter says so. They are not kept over a restart: what they say
//! is said again by the next profiles of the same services.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, info, warn};
use unhex_api::client::{Client, ClientError, ClientOptions, RetryPolicy};
use unhex_api::observe::ObserveRequest;

use crate::config::Config;
use crate::metrics::{Metrics, NoteOutcome};

/// How long the symbol server may take to answer one note.
const ANSWER_SECONDS_MAX: u64 = 30;
/// Longest answer to a note, which has a status for each of at most 4,096 modules.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// The first pause after a failure; it doubles.
const PAUSE_FIRST: Duration = Duration::from_millis(500);
/// The longest pause: when the server is back it hears of it soon.
const PAUSE_MAX: Duration = Duration::from_secs(15);
/// Notes that are on their way at once.
const DELIVERIES_AT_ONCE: usize = 4;
/// How long a stop waits for notes that wait.
const LAST_NOTES: Duration = Duration::from_secs(3);
/// Memory of a note, and of each of its modules beside their texts.
const NOTE_BYTES: usize = 256;
const MODULE_BYTES: usize = 96;

/// One thing to tell.
#[derive(Debug)]
pub struct Note {
    request: ObserveRequest,
    since: Instant,
    bytes: usize,
}

impl Note {
    /// A note that was made now.
    pub fn new(request: ObserveRequest) -> Self {
        let texts = request.modules.iter().map(|module| {
            let name = module.name.as_ref().map_or(0, String::len);
            MODULE_BYTES + module.build_id.len() + name
        });
        let bytes = NOTE_BYTES + texts.sum::<usize>();
        Self {
            request,
            since: Instant::now(),
            bytes,
        }
    }
}

/// The address of the symbol server cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("--symbols cannot be used: {0}")]
pub struct SetupError(#[from] ClientError);

/// The queue; clones share it.
#[derive(Clone)]
pub struct Notes(Arc<Shared>);

struct Shared {
    client: Option<Client>,
    waiting: Mutex<Waiting>,
    more: Notify,
    entries_max: usize,
    bytes_max: usize,
    patience: Duration,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct Waiting {
    notes: VecDeque<Note>,
    bytes: usize,
    /// Whether the server was away at the last attempt, to say it once.
    is_away: bool,
}

impl fmt::Debug for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Notes({} wait)", self.0.waiting.lock().notes.len())
    }
}

impl Notes {
    /// An empty queue; without a symbol server notes go nowhere.
    ///
    /// # Errors
    /// If its address is no URL.
    pub fn open(config: &Config, metrics: &Arc<Metrics>) -> Result<Self, SetupError> {
        let client = config.symbols.clone().map(|server| {
            Client::new(ClientOptions {
                server,
                user_agent: concat!("unhex-store/", env!("CARGO_PKG_VERSION")).to_owned(),
                // The queue repeats.
                retries: RetryPolicy {
                    attempts_max: 1,
                    ..RetryPolicy::default()
                },
                answer_timeout: Duration::from_secs(ANSWER_SECONDS_MAX),
                answer_bytes_max: ANSWER_BYTES_MAX,
                ..ClientOptions::default()
            })
        });
        let limits = &config.limits;
        Ok(Self(Arc::new(Shared {
            client: client.transpose()?,
            waiting: Mutex::default(),
            more: Notify::new(),
            entries_max: limits.observe_entries_max,
            bytes_max: usize::try_from(limits.observe_bytes_max).unwrap_or(usize::MAX),
            patience: limits.observe_seconds_max,
            metrics: Arc::clone(metrics),
        })))
    }

    /// Adds notes; the oldest go where there is no room.
    pub fn push(&self, notes: Vec<Note>) {
        if self.0.client.is_none() || notes.is_empty() {
            return;
        }
        let mut waiting = self.0.waiting.lock();
        for note in notes {
            waiting.bytes = waiting.bytes.saturating_add(note.bytes);
            waiting.notes.push_back(note);
        }
        let mut overflowed: u64 = 0;
        while waiting.notes.len() > self.0.entries_max || waiting.bytes > self.0.bytes_max {
            if waiting.take().is_none() {
                break;
            }
            overflowed += 1;
        }
        self.0.shown(&waiting);
        drop(waiting);
        for _ in 0..overflowed {
            self.0.metrics.note(NoteOutcome::Overflowed);
        }
        self.0.more.notify_one();
    }

    /// Delivers notes until the stop, and then what waits for a moment.
    pub fn run(&self, tasks: &TaskTracker, stopping: &CancellationToken) {
        let Some(client) = self.0.client.clone() else {
            return;
        };
        for _ in 0..DELIVERIES_AT_ONCE {
            let (shared, client) = (Arc::clone(&self.0), client.clone());
            let stopping = stopping.clone();
            tasks.spawn(async move {
                tokio::select! {
                    () = shared.deliver_all(&client, &stopping) => {}
                    () = async { stopping.cancelled().await; tokio::time::sleep(LAST_NOTES).await } => {}
                }
            });
        }
    }
}

impl Waiting {
    fn take(&mut self) -> Option<Note> {
        let note = self.notes.pop_front()?;
        self.bytes = self.bytes.saturating_sub(note.bytes);
        Some(note)
    }
}

impl Shared {
    /// Until it stops and nothing waits.
    async fn deliver_all(&self, client: &Client, stopping: &CancellationToken) {
        loop {
            let more = self.more.notified();
            let note = self.take();
            let Some(note) = note else {
                tokio::select! {
                    () = more => {}
                    () = stopping.cancelled() => return,
                }
                continue;
            };
            // Another delivery may have slept through the one note of several.
            self.more.notify_one();
            self.deliver(client, note).await;
        }
    }

    fn take(&self) -> Option<Note> {
        let mut waiting = self.waiting.lock();
        let note = waiting.take();
        self.shown(&waiting);
        note
    }

    fn shown(&self, waiting: &Waiting) {
        self.metrics
            .notes_waiting(waiting.notes.len(), waiting.bytes);
    }

    async fn deliver(&self, client: &Client, note: Note) {
        let mut pause = PAUSE_FIRST;
        loop {
            let refused = match client.observe(&note.request).await {
                Ok(_) => {
                    self.is_back(client);
                    return self.metrics.note(NoteOutcome::Delivered);
                }
                Err(error @ ClientError::Refused { .. }) => Some(error),
                // Also an answer that is none: a proxy stands between, or it was cut. What is told twice counts once.
                Err(error) => {
                    self.is_away(client, &error);
                    None
                }
            };
            if let Some(error) = refused {
                warn!(%error, "the symbol server refuses a note of what arrived: {error}");
                return self.metrics.note(NoteOutcome::Refused);
            }
            if note.since.elapsed().saturating_add(pause) > self.patience {
                return self.metrics.note(NoteOutcome::Expired);
            }
            self.metrics.note(NoteOutcome::Retried);
            let jittered = pause.mul_f64(rand::random_range(0.5..1.0));
            tokio::time::sleep(jittered).await;
            pause = pause.saturating_mul(2).min(PAUSE_MAX);
        }
    }

    fn is_away(&self, client: &Client, error: &ClientError) {
        let was_away = std::mem::replace(&mut self.waiting.lock().is_away, true);
        if was_away {
            debug!(%error, "the symbol server is still away: {error}");
        } else {
            let server = client.server();
            warn!(server, %error, "the symbol server at {server} hears of what arrives later: {error}");
        }
    }

    fn is_back(&self, client: &Client) {
        let was_away = std::mem::replace(&mut self.waiting.lock().is_away, false);
        if was_away {
            let server = client.server();
            info!(server, "the symbol server at {server} is there again");
        }
    }
}

#[cfg(test)]
mod tests {
    use unhex_api::symbolize::Labels;

    use super::*;
    use crate::metrics::Scraped;

    fn note(number: usize) -> Note {
        Note::new(ObserveRequest {
            labels: Labels::default(),
            profile_id: Some(number.to_string()),
            observe: true,
            modules: Vec::new(),
        })
    }

    #[test]
    fn at_the_bounds_the_oldest_notes_go_and_are_counted() {
        let mut config = Config::default();
        config.limits.observe_entries_max = 3;
        let metrics = Arc::new(Metrics::new(1));
        let notes = Notes::open(&config, &metrics).unwrap();
        notes.push((0..5).map(note).collect());
        let kept = std::iter::from_fn(|| notes.0.take());
        let kept: Vec<String> = kept.filter_map(|note| note.request.profile_id).collect();
        assert_eq!(kept, ["2", "3", "4"]);
        let text = String::from_utf8(metrics.render(&Scraped::default()).unwrap()).unwrap();
        let overflowed = "unhex_store_observe_notes_total{outcome=\"overflowed\"} 2";
        assert!(text.contains(overflowed), "{text}");

        config.limits.observe_bytes_max = 2 * NOTE_BYTES as u64;
        let notes = Notes::open(&config, &metrics).unwrap();
        notes.push((0..5).map(note).collect());
        assert_eq!(notes.0.waiting.lock().notes.len(), 2);

        config.symbols = None;
        let notes = Notes::open(&config, &metrics).unwrap();
        notes.push(vec![note(0)]);
        assert_eq!(notes.0.waiting.lock().notes.len(), 0);
    }
}
