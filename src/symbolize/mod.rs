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
mod look_up;
mod memory;
mod open_indexes;
mod outcome;
mod pool;

pub use answer::{Answer, JsonWriter};
pub use look_up::Found;
pub use memory::{RequestMemory, ReservedMemory};
pub use outcome::ModuleOutcome;
pub use pool::{Cancelled, CpuPool};

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use unhex_api::symbolize::SymbolizeRequest;

use self::binaries::{Finder, Named};
use self::open_indexes::OpenIndexes;
use crate::artifacts::Artifacts;
use crate::metrics::{Cache, Metrics};

/// The longest that a request may wait for conversions: below the time-outs of proxies.
const WAIT_SECONDS_MAX: u32 = 60;

/// Answers batches of addresses.
#[derive(Debug)]
pub struct Symbolizer {
    artifacts: Arc<Artifacts>,
    indexes: OpenIndexes,
    pool: CpuPool,
}

impl Symbolizer {
    /// A symbolizer over a store, which keeps at most so many bytes of indexes open.
    pub fn new(artifacts: Arc<Artifacts>, open_index_bytes_max: u64, metrics: &Metrics) -> Self {
        Self {
            artifacts,
            indexes: OpenIndexes::new(open_index_bytes_max, metrics.cache(Cache::Indexes)),
            pool: CpuPool::for_this_machine(),
        }
    }

    /// Where the CPU time of requests is spent.
    pub fn pool(&self) -> &CpuPool {
        &self.pool
    }

    /// The indexes of the binaries that `request` names, and why others have none. Waits for
    /// conversions that run, at most as long as the request wants.
    pub async fn find(&self, request: SymbolizeRequest) -> Found {
        let wait_seconds = request.wait_seconds.min(WAIT_SECONDS_MAX);
        let named = Named::by(&request.modules);
        let finder = Finder {
            artifacts: &self.artifacts,
            indexes: &self.indexes,
            deadline: Instant::now() + Duration::from_secs(u64::from(wait_seconds)),
        };
        let binaries = finder.find_all(&named.identities).await;
        Found::new(request, named, binaries)
    }
}

#[cfg(test)]
mod tests;
