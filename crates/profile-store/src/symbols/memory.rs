//! Names by binary, generation and address, bounded by their bytes; and what is known of each binary, for some seconds.

use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use tokio::time::Instant;
use unhex_build_id::Identity;
use unhex_pprof::CodeAddress;

use super::names::ModuleStanding;
use crate::view::Call;

/// Binaries of which it is remembered what the server said: some 200 bytes each, and a fleet has thousands.
const STANDINGS_MAX: u64 = 100_000;
/// What an entry costs beside its texts: key, hash table, lists by which it is evicted.
const ENTRY_BYTES: usize = 160;

/// Symbols of one binary: names of one generation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Edition {
    pub(super) identity: Identity,
    pub(super) generation: Arc<str>,
}

/// What the server said of a binary.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) standing: ModuleStanding,
    /// There when it has any symbols.
    pub(super) edition: Option<Arc<Edition>>,
    /// Until when it is not asked again.
    pub(super) good_until: Instant,
}

/// All that is remembered.
#[derive(Debug)]
pub(super) struct Memory {
    names: Cache<(Arc<Edition>, CodeAddress), Arc<[Call]>>,
    known: Cache<Identity, Known>,
    recheck: Duration,
}

impl Memory {
    pub(super) fn new(bytes_max: u64, recheck: Duration) -> Self {
        Self {
            names: Cache::builder()
                .max_capacity(bytes_max)
                .weigher(|_, calls| bytes_of(calls))
                .build(),
            known: Cache::new(STANDINGS_MAX),
            recheck,
        }
    }

    pub(super) fn known(&self, identity: &Identity) -> Option<Known> {
        self.known.get(identity)
    }

    /// Remembers what the server said of a binary: for so long, if it said how long, and never longer than is usual.
    pub(super) fn know(
        &self,
        identity: &Identity,
        (standing, edition): (ModuleStanding, Option<Arc<Edition>>),
        no_longer: Option<Duration>,
    ) -> Known {
        let good_for = no_longer.map_or(self.recheck, |wait| wait.min(self.recheck));
        let known = Known {
            standing,
            edition,
            good_until: Instant::now() + good_for,
        };
        self.known.insert(identity.clone(), known.clone());
        known
    }

    pub(super) fn names(
        &self,
        edition: &Arc<Edition>,
        address: CodeAddress,
    ) -> Option<Arc<[Call]>> {
        self.names.get(&(Arc::clone(edition), address))
    }

    pub(super) fn name(&self, edition: &Arc<Edition>, address: CodeAddress, calls: &Arc<[Call]>) {
        self.names
            .insert((Arc::clone(edition), address), Arc::clone(calls));
    }

    pub(super) fn bytes(&self) -> u64 {
        // Counts lag behind inserts until the cache's own upkeep has run.
        self.names.run_pending_tasks();
        self.names.weighted_size()
    }
}

/// As if no text were shared: many are, so that it is rather less.
fn bytes_of(calls: &Arc<[Call]>) -> u32 {
    let texts = calls
        .iter()
        .map(|call| call.function.len() + call.file.len());
    let bytes = ENTRY_BYTES + size_of_val(&**calls) + texts.sum::<usize>();
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
