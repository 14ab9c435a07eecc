//! Names of native frames, asked of the symbol server when somebody looks.
//!
//! [`Symbols::resolve`] takes the distinct places of a query and gives their names. What was named is remembered by binary, generation and address: the
//! generation changes exactly when names could, so that nothing remembered is ever wrong. Which generation a binary has is asked again after some
//! seconds, for which a question without addresses is enough; so an upload gives old profiles names, and a better upload better ones, within a minute.
//!
//! That nobody knows a binary is remembered for those seconds, too, and never longer; that the server is away or busy is not remembered of any
//! binary. Then names that are remembered still stand, places without one stay places, and the answer says that names are lacking and why.

mod asking;
mod memory;
mod names;
mod resolving;
mod wanted;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use unhex_api::client::{Client, ClientError, ClientOptions};
use unhex_api::symbolize::CompactAnswer;

pub use names::{NameOutcome, Names};
pub use wanted::Wanted;

use asking::Chunk;
use memory::Memory;
use resolving::Resolving;

/// Requests to the symbol server at once, of all queries: more would only wait there.
const REQUESTS_AT_ONCE: usize = 4;
/// Rounds of questions for one query: one, another when a generation changed meanwhile, and again.
const ROUNDS_MAX: usize = 4;
/// Longest rest of a server that fails each time: an upload is to show within a minute of its coming back.
pub const REST_MAX: Duration = Duration::from_secs(30);
/// Which part of its wait a question must have had before its silence says something of the server: the last ones of a long list are asked
/// just before the deadline.
const SILENCE_PART: u32 = 4;

/// How names are asked for and remembered.
#[derive(Clone, Debug)]
pub struct SymbolsOptions {
    /// How the server is reached, if there is one.
    pub client: Option<ClientOptions>,
    /// Memory for names.
    pub bytes_max: u64,
    /// After so long a binary is asked for again.
    pub recheck: Duration,
    /// How long a query waits for names in all; what is not there by then is lacking.
    pub wait: Duration,
    /// After a question that failed, nobody asks for so long, and for twice as long after each further one up to [`REST_MAX`], so that queries do
    /// not wait one after another for a server that is away.
    pub rest: Duration,
}

/// Asks the symbol server for names, and remembers them.
#[derive(Debug)]
pub struct Symbols {
    client: Option<Client>,
    memory: Memory,
    turns: Semaphore,
    away: Mutex<Option<Away>>,
    counters: NameCounters,
    wait: Duration,
    rest: Duration,
}

/// Requests to the symbol server by how they ended.
#[derive(Debug, Default)]
pub struct NameCounters {
    /// With names.
    pub answered: AtomicU64,
    /// With an error.
    pub failed: AtomicU64,
    /// With nothing in the time that a query waits.
    pub late: AtomicU64,
    /// Not made, since the server failed a moment ago.
    pub spared: AtomicU64,
    /// Not made, since those of other queries took all the time.
    pub queued_too_long: AtomicU64,
}

/// The server could not be asked.
#[derive(Clone, Debug)]
struct Away {
    until: Instant,
    detail: Arc<str>,
    /// Failures without an answer between them.
    failures: u32,
}

impl Symbols {
    /// Asks nobody yet.
    ///
    /// # Errors
    /// If the address of the server is no http or https URL.
    pub fn new(options: SymbolsOptions) -> Result<Self, ClientError> {
        Ok(Self {
            client: options.client.map(Client::new).transpose()?,
            memory: Memory::new(options.bytes_max, options.recheck),
            turns: Semaphore::new(REQUESTS_AT_ONCE),
            away: Mutex::new(None),
            counters: NameCounters::default(),
            wait: options.wait,
            rest: options.rest,
        })
    }

    /// The names of all that is wanted, as far as they are known now. It never fails: what is not known is left a place, and
    /// [`Names::lacking`] says whether that may be otherwise in a moment.
    pub async fn resolve(&self, wanted: &Wanted) -> Names {
        let deadline = Instant::now() + self.wait;
        let mut resolving = Resolving::new(wanted, &self.memory);
        for _ in 0..ROUNDS_MAX {
            let chunks = asking::chunks(resolving.questions());
            if chunks.is_empty() {
                break;
            }
            self.ask_all(&mut resolving, chunks, deadline).await;
        }
        resolving.finish()
    }

    /// Bytes of names that are remembered, about.
    pub fn remembered_bytes(&self) -> u64 {
        self.memory.bytes()
    }

    /// What was asked since the start.
    pub fn counters(&self) -> &NameCounters {
        &self.counters
    }

    async fn ask_all(&self, resolving: &mut Resolving<'_>, chunks: Vec<Chunk>, deadline: Instant) {
        let asking = chunks.into_iter().map(|chunk| async move {
            let answer = self.ask(&chunk, deadline).await;
            (chunk, answer)
        });
        let asking: Vec<_> = asking.collect();
        let mut answers = stream::iter(asking).buffer_unordered(REQUESTS_AT_ONCE);
        while let Some((chunk, answer)) = answers.next().await {
            match answer {
                Ok(answer) => resolving.note(&chunk, &answer),
                Err(detail) => resolving.note_failure(&chunk, &detail),
            }
        }
    }

    async fn ask(&self, chunk: &Chunk, deadline: Instant) -> Result<CompactAnswer, Arc<str>> {
        let Some(client) = &self.client else {
            return Err("no symbol server is configured (--symbols)".into());
        };
        // The turns are never closed.
        let turn = timeout_at(deadline, self.turns.acquire()).await;
        let Ok(Ok(_turn)) = turn else {
            self.counters.queued_too_long.fetch_add(1, Relaxed);
            return Err("other queries ask the symbol server for names; look again".into());
        };
        if let Some(detail) = self.away() {
            self.counters.spared.fetch_add(1, Relaxed);
            return Err(detail);
        }
        let asked_at = Instant::now();
        let answer = timeout_at(deadline, client.symbolize_compact(&chunk.request())).await;
        match answer {
            Ok(Ok(answer)) => {
                self.counters.answered.fetch_add(1, Relaxed);
                *self.away.lock() = None;
                Ok(answer)
            }
            Ok(Err(error)) => {
                self.counters.failed.fetch_add(1, Relaxed);
                Err(self.rests(format!("the symbol server gave no names: {error}").into()))
            }
            Err(_elapsed) => {
                self.counters.late.fetch_add(1, Relaxed);
                let silence = asked_at.elapsed();
                let detail = "the symbol server takes too long".into();
                if silence < self.wait / SILENCE_PART {
                    return Err(detail);
                }
                Err(self.rests(detail))
            }
        }
    }

    /// Nobody asks for a while.
    fn rests(&self, detail: Arc<str>) -> Arc<str> {
        let mut away = self.away.lock();
        let now = Instant::now();
        // Questions that were on their way together fail together, and count once.
        if away.as_ref().is_none_or(|away| away.until <= now) {
            let failures = away.as_ref().map_or(0, |away| away.failures);
            let rest = self.rest.saturating_mul(1 << failures.min(8)).min(REST_MAX);
            tracing::warn!(rest_seconds = rest.as_secs_f64(), "{detail}");
            *away = Some(Away {
                until: now + rest,
                detail: Arc::clone(&detail),
                failures: failures.saturating_add(1),
            });
        }
        detail
    }

    /// Why nobody asks now.
    fn away(&self) -> Option<Arc<str>> {
        let away = self.away.lock();
        let away = away.as_ref().filter(|away| away.until > Instant::now());
        away.map(|away| Arc::clone(&away.detail))
    }
}
