//! Bundles of sources that were read lately: their directories in memory, their files open.

use std::time::Duration;

use super::content_hash::ContentHash;
use super::sources::Bundle;
use crate::metrics::CacheMeter;

/// Memory for the directories of source bundles that were read lately.
const BUNDLES_BYTES_MAX: u64 = 64 << 20;

/// How long a bundle stays open that nobody reads: an open file takes room on the disk also when it
/// was given up there.
const BUNDLE_KEPT: Duration = Duration::from_mins(10);

/// The open bundles. The key is the hash of a bundle, so that an entry never goes stale.
#[derive(Debug)]
pub(super) struct Bundles {
    cache: moka::sync::Cache<ContentHash, Bundle>,
    meter: CacheMeter,
}

impl Bundles {
    pub(super) fn new(meter: CacheMeter) -> Self {
        meter.bounded_by(BUNDLES_BYTES_MAX);
        let removals = meter.clone();
        let cache = moka::sync::Cache::builder()
            .weigher(|_, bundle: &Bundle| bundle.weight_bytes())
            .max_capacity(BUNDLES_BYTES_MAX)
            .time_to_idle(BUNDLE_KEPT)
            .eviction_listener(move |_, _, cause| removals.removed(cause))
            .build();
        Self { cache, meter }
    }

    pub(super) fn find(&self, sha256: &ContentHash) -> Option<Bundle> {
        let found = self.cache.get(sha256);
        if found.is_some() {
            self.meter.hit();
        }
        found
    }

    /// Keeps what had to be opened.
    pub(super) fn keep(&self, sha256: ContentHash, bundle: Bundle) {
        self.meter.miss();
        self.cache.insert(sha256, bundle);
        // Counts lag behind inserts until the cache's own upkeep has run.
        self.cache.run_pending_tasks();
        self.meter
            .holds(self.cache.entry_count(), self.cache.weighted_size());
    }
}
