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
    /// After a question that failed, nobody asks for so long, so that queries do not wait one after another for a server that is away.
    pub rest: Duration,
}

/// Asks the symbol server for names, and remembers them.
#[derive(Debug)]
pub struct Symbols {
    client: Option<Client>,
    memory: Memory,
    turns: Semaphore,
    away: Mutex<Option<Away>>,
    wait: Duration,
    rest: Duration,
}

/// The server could not be asked.
#[derive(Clone, Debug)]
struct Away {
    until: Instant,
    detail: Arc<str>,
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

    async fn ask_all(&self, resolving: &mut Resolving<'_>, chunks: Vec<Chunk>, deadline: Instant) {
        let asking = chunks.into_iter().map(|chunk| async move {
            let answer = timeout_at(deadline, self.ask(&chunk)).await;
            let late = |_elapsed| Err(Arc::from("the symbol server takes too long"));
            (chunk, answer.unwrap_or_else(late))
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

    async fn ask(&self, chunk: &Chunk) -> Result<CompactAnswer, Arc<str>> {
        let Some(client) = &self.client else {
            return Err("no symbol server is configured (--symbols)".into());
        };
        // The turns are never closed.
        let Ok(_turn) = self.turns.acquire().await else {
            return Err("the store stops".into());
        };
        if let Some(away) = self.away() {
            return Err(away.detail);
        }
        let answer = client.symbolize_compact(&chunk.request()).await;
        answer.map_err(|error| {
            let detail: Arc<str> = format!("the symbol server gave no names: {error}").into();
            tracing::warn!("{detail}");
            *self.away.lock() = Some(Away {
                until: Instant::now() + self.rest,
                detail: Arc::clone(&detail),
            });
            detail
        })
    }

    fn away(&self) -> Option<Away> {
        let mut away = self.away.lock();
        if away
            .as_ref()
            .is_some_and(|away| away.until <= Instant::now())
        {
            *away = None;
        }
        away.clone()
    }
}
