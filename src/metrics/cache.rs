//! How the caches are counted: questions, what is in them, and what had to go.

use std::time::{SystemTime, UNIX_EPOCH};

use super::Metrics;

/// The caches that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// Folded states of build IDs of which something is stored.
    States,
    /// Build IDs of which nothing is stored.
    Absent,
    /// Open symbol indexes.
    Indexes,
    /// Directories of source bundles.
    SourceBundles,
    /// Files on this disk that were fetched from the bucket.
    Files,
    /// What no upstream server has.
    UpstreamAbsent,
    /// Source files that were fetched from upstream.
    UpstreamSources,
    /// Members of scanned archives, unpacked.
    ScannedMembers,
    /// Symbol indexes of scanned files.
    ScannedIndexes,
}

impl Cache {
    fn as_str(self) -> &'static str {
        match self {
            Self::States => "states",
            Self::Absent => "absent",
            Self::Indexes => "indexes",
            Self::SourceBundles => "source_bundles",
            Self::Files => "files",
            Self::UpstreamAbsent => "upstream_absent",
            Self::UpstreamSources => "upstream_sources",
            Self::ScannedMembers => "scanned_members",
            Self::ScannedIndexes => "scanned_indexes",
        }
    }
}

/// Counts the questions to one cache and how much is in it; cheap to clone and to use.
#[derive(Clone, Debug)]
pub struct CacheMeter {
    hits: prometheus::IntCounter,
    misses: prometheus::IntCounter,
    evictions: prometheus::IntCounter,
    entries: prometheus::IntGauge,
    bytes: prometheus::IntGauge,
    bytes_max: prometheus::IntGauge,
    oldest_use: prometheus::Gauge,
}

impl CacheMeter {
    /// The cache had it.
    pub fn hit(&self) {
        self.hits.inc();
    }

    /// It had to be fetched.
    pub fn miss(&self) {
        self.misses.inc();
    }

    /// So many had to go for lack of room.
    pub fn evicted(&self, entries: usize) {
        self.evictions
            .inc_by(u64::try_from(entries).unwrap_or(u64::MAX));
    }

    /// What a cache of moka tells when an entry goes: it counts when that was for lack of room.
    pub fn removed(&self, cause: moka::notification::RemovalCause) {
        if cause == moka::notification::RemovalCause::Size {
            self.evictions.inc();
        }
    }

    /// So much is in it now.
    pub fn holds(&self, entries: u64, size_bytes: u64) {
        self.entries.set(number(entries));
        self.bytes.set(number(size_bytes));
    }

    /// So much may be in it.
    pub fn bounded_by(&self, bytes_max: u64) {
        self.bytes_max.set(number(bytes_max));
    }

    /// When the entry that goes next was last used, if there is one.
    pub fn oldest_use(&self, used: Option<SystemTime>) {
        let since = used.and_then(|used| used.duration_since(UNIX_EPOCH).ok());
        self.oldest_use.set(since.unwrap_or_default().as_secs_f64());
    }
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl Metrics {
    /// The meter of a cache.
    pub fn cache(&self, cache: Cache) -> CacheMeter {
        let families = &self.families;
        let name = cache.as_str();
        CacheMeter {
            hits: families.cache_requests.with_label_values(&[name, "hit"]),
            misses: families.cache_requests.with_label_values(&[name, "miss"]),
            evictions: families.cache_evictions.with_label_values(&[name]),
            entries: families.cache_entries.with_label_values(&[name]),
            bytes: families.cache_bytes.with_label_values(&[name]),
            bytes_max: families.cache_bytes_max.with_label_values(&[name]),
            oldest_use: families.cache_oldest_use.with_label_values(&[name]),
        }
    }
}
