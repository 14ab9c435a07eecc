//! The batch service: group by binary, open the index, look up, keep the order.
//!
//! A request goes through three steps. [`Symbolizer::find`] (async) finds the open index of each
//! distinct binary, and waits for conversions. [`Found::look_up`] (CPU time) turns addresses into
//! link addresses and answers each binary's in one batch, however many modules name it. The
//! [`Answer`] then writes itself in either form, straight from the batches.
//!
//! A module or an address that cannot be answered says why; neither fails the request.

mod addresses;
mod answer;
mod binaries;
mod generation;
mod look_up;
mod memory;
mod open_indexes;
mod outcome;
mod pool;
pub mod words;

pub use answer::{Answer, JsonWriter};
pub use look_up::Found;
pub use memory::{RequestMemory, ReservedMemory};
pub use outcome::ModuleOutcome;
pub use pool::{Busy, Cancelled, CpuPool};

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;
use unhex_api::symbolize::SymbolizeRequest;

use self::binaries::{Finder, Named};
use self::open_indexes::OpenIndexes;
use crate::artifacts::Artifacts;
use crate::limits::Limits;
use crate::metrics::{Cache, Metrics};

/// The longest that a request may wait for conversions: below the time-outs of proxies.
const WAIT_SECONDS_MAX: u32 = 60;

/// Look-ups in the store of all requests at once: each may hold a thread for blocking work, of which
/// the runtime has 512, and a store that hangs must leave some to downloads and uploads.
const TURNS_MAX: usize = 128;

/// Answers batches of addresses.
#[derive(Debug)]
pub struct Symbolizer {
    artifacts: Arc<Artifacts>,
    indexes: OpenIndexes,
    turns: Semaphore,
    pool: CpuPool,
    seconds_max: Duration,
}

impl Symbolizer {
    /// A symbolizer over a store, within the limits.
    pub fn new(artifacts: Arc<Artifacts>, limits: &Limits, metrics: &Metrics) -> Self {
        let cache = metrics.cache(Cache::Indexes);
        Self {
            artifacts,
            indexes: OpenIndexes::new(limits.open_index_bytes_max, cache),
            turns: Semaphore::new(TURNS_MAX),
            pool: CpuPool::for_this_machine(),
            seconds_max: limits.symbolize_seconds_max,
        }
    }

    /// A turn to ask the store whether something has symbols, in the order of asking.
    pub async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.turns.acquire().await.ok()
    }

    /// Where the CPU time of requests is spent.
    pub fn pool(&self) -> &CpuPool {
        &self.pool
    }

    /// The indexes of the binaries that `request` names, and why others have none. Waits for
    /// conversions that run, at most as long as the request wants. Half of the time that it may take
    /// besides is for the store, so that the other half is left to answer what was found.
    pub async fn find(&self, request: SymbolizeRequest) -> Found {
        let wait_seconds = request.wait_seconds.min(WAIT_SECONDS_MAX);
        let named = Named::by(&request.modules);
        let converted_by = Instant::now() + Duration::from_secs(u64::from(wait_seconds));
        let finder = Finder {
            artifacts: &self.artifacts,
            indexes: &self.indexes,
            turns: &self.turns,
            converted_by,
            found_by: converted_by + self.seconds_max / 2,
        };
        let binaries = finder.find_all(&named.identities).await;
        Found::new(request, named, binaries).answered_by(converted_by + self.seconds_max)
    }
}

#[cfg(test)]
mod tests;
