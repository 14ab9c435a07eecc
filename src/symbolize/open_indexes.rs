//! Symbol indexes that are open: mapped, verified once, kept by their bytes.
//!
//! The key is the SHA-256 of an index, so that an entry never goes stale: a better debug file leads
//! to another index. Mapped pages belong to the page cache; the limit is on what may be mapped.

use std::fs::File;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;
use moka::future::Cache;
use unhex_symbols::index::{Facts, IndexError, SymbolIndex};

use crate::artifacts::IndexFile;
use crate::artifacts::store::Lease;
use crate::metrics::CacheMeter;

/// Weights are counted in this unit, since moka's are 32 bits.
const WEIGHT_BYTES: u64 = 1 << 10;
/// What an entry costs beside its mapping: the symbol tables and the facts.
const ENTRY_OVERHEAD_BYTES: u64 = 16 << 10;

/// An index that is mapped and was verified.
#[derive(Debug)]
pub(super) struct OpenIndex {
    /// For look-ups.
    pub(super) index: SymbolIndex<Mapped>,
    /// What it says of its binary.
    pub(super) facts: Facts,
    size_bytes: u64,
    /// A file that is mapped takes room on the disk, at its path or not: so it counts as in use.
    _in_use: Lease,
}

/// The bytes of a mapped file.
#[derive(Debug)]
pub(super) struct Mapped(Mmap);

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// Why an index that the store has cannot be used now.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum OpenError {
    /// The file cannot be opened or mapped.
    #[error("the symbol index cannot be opened")]
    File(#[from] std::io::Error),
    /// The file is not what was written.
    #[error("the symbol index is damaged")]
    Damaged(#[from] IndexError),
    /// The index is whole, and is that of other files.
    #[error("the symbol index is one of other files")]
    OfOtherFiles,
    /// The work was cancelled by a stop of the server.
    #[error("the symbol index was not opened, since the server stops")]
    Cancelled(#[from] tokio::task::JoinError),
}

impl OpenError {
    /// Whether another file is needed in its place; otherwise it may be readable later.
    pub(super) fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged(_) | Self::OfOtherFiles)
    }

    /// Whether there is no file any more: the index was replaced by another one meanwhile.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self, Self::File(error) if error.kind() == std::io::ErrorKind::NotFound)
    }
}

/// The open indexes of this server.
#[derive(Debug)]
pub(super) struct OpenIndexes {
    cache: Cache<[u8; 32], Arc<OpenIndex>>,
    meter: CacheMeter,
}

impl OpenIndexes {
    /// None yet, and at most so many bytes.
    pub(super) fn new(bytes_max: u64, meter: CacheMeter) -> Self {
        meter.bounded_by(bytes_max);
        let removals = meter.clone();
        let weigh = |_: &[u8; 32], open: &Arc<OpenIndex>| {
            let weight = open.size_bytes.saturating_add(ENTRY_OVERHEAD_BYTES) / WEIGHT_BYTES;
            u32::try_from(weight).unwrap_or(u32::MAX)
        };
        let cache = Cache::builder()
            .max_capacity(bytes_max / WEIGHT_BYTES)
            .weigher(weigh)
            .eviction_listener(move |_, _, cause| removals.removed(cause))
            .build();
        Self { cache, meter }
    }

    /// The index, opened at most once at a time however many ask. The first one reads it whole to
    /// compare its checksums; nobody else compares it with anything.
    ///
    /// # Errors
    /// If it cannot be read, or is damaged. That is not remembered.
    pub(super) async fn open(&self, file: &IndexFile) -> Result<Arc<OpenIndex>, Arc<OpenError>> {
        if let Some(open) = self.cache.get(&file.sha256).await {
            self.meter.hit();
            return Ok(open);
        }
        self.meter.miss();
        let (path, lease) = (file.path.clone(), file.lease.clone());
        let sources = file.sources.clone();
        let opening = async move {
            let opened = tokio::task::spawn_blocking(move || open_and_verify(&path, lease));
            let open = opened.await??;
            // A whole index in another one's place has sound checksums.
            if !sources.iter().all(|file| open.facts.sources.contains(file)) {
                return Err(OpenError::OfOtherFiles);
            }
            Ok(Arc::new(open))
        };
        let opened = self.cache.try_get_with(file.sha256, opening).await;
        // Counts lag behind inserts until the cache's own upkeep has run.
        self.cache.run_pending_tasks().await;
        let mapped_bytes = self.cache.weighted_size().saturating_mul(WEIGHT_BYTES);
        self.meter.holds(self.cache.entry_count(), mapped_bytes);
        opened
    }
}

/// Opens the index at `path`, if it is as it was written.
pub(super) fn open_and_verify(path: &Path, lease: Lease) -> Result<OpenIndex, OpenError> {
    let file = File::open(path)?;
    #[expect(
        unsafe_code,
        reason = "mapping is the point: an open index costs no memory of its own"
    )]
    // SAFETY: the file is an index in the store, which is written once under a temporary name and
    // then never changed or cut, only unlinked; an unlinked file stays whole while it is mapped.
    let map = unsafe { Mmap::map(&file)? };
    let size_bytes = u64::try_from(map.len()).unwrap_or(u64::MAX);
    let index = SymbolIndex::parse(Mapped(map))?;
    index.verify()?;
    let facts = index.facts()?;
    Ok(OpenIndex {
        index,
        facts,
        size_bytes,
        _in_use: lease,
    })
}
