//! The unwind information of the binaries that stacks went through, each once, within a bound of memory.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use unhex_build_id::Identity;

use super::stack::DataSource;
use super::unwind_data::UnwindData;
use crate::clock::monotonic_nanos;
use crate::processes::{Processes, Region};
use crate::sample::ProcessId;

/// How long a binary whose file was not to be had is not looked for again.
const MISSING_NANOS: u64 = 5_000_000_000;

/// Binaries that are remembered, whether there was something to be had of them or not.
const BINARIES_MAX: usize = 8192;

/// All that was read.
#[derive(Debug)]
pub(super) struct DataCache {
    by_identity: FxHashMap<Identity, Entry>,
    bytes: usize,
    bytes_max: usize,
    uses: u64,
    evicted: u64,
}

#[derive(Debug)]
struct Entry {
    /// `None` where the file was not to be had, and when that was.
    data: Result<Arc<UnwindData>, u64>,
    used: u64,
}

/// What can be had while one process is at hand.
pub(super) struct OfProcess<'a> {
    cache: &'a mut DataCache,
    processes: &'a Processes,
    id: ProcessId,
}

impl DataCache {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            by_identity: FxHashMap::default(),
            bytes: 0,
            bytes_max,
            uses: 0,
            evicted: 0,
        }
    }

    pub(super) fn of_process<'a>(
        &'a mut self,
        processes: &'a Processes,
        id: ProcessId,
    ) -> OfProcess<'a> {
        OfProcess {
            cache: self,
            processes,
            id,
        }
    }

    /// Bytes that it holds.
    pub(super) fn size_bytes(&self) -> usize {
        self.bytes
    }

    /// Binaries that there is something of.
    pub(super) fn len(&self) -> usize {
        self.by_identity
            .values()
            .filter(|entry| entry.data.is_ok())
            .count()
    }

    /// Binaries that made room for others since the start.
    pub(super) fn evicted(&self) -> u64 {
        self.evicted
    }

    fn insert(&mut self, identity: Identity, data: Result<Arc<UnwindData>, u64>) {
        let used = self.uses;
        let added = data.as_ref().map_or(0, |data| data.size_bytes());
        self.bytes = self.bytes.saturating_add(added);
        self.by_identity.insert(identity, Entry { data, used });
        if self.bytes > self.bytes_max || self.by_identity.len() > BINARIES_MAX {
            self.make_room();
        }
    }

    /// Lets go of what was not asked for longest, until a quarter is free.
    fn make_room(&mut self) {
        let mut by_age: Vec<(u64, Identity)> = Vec::with_capacity(self.by_identity.len());
        by_age.extend(
            self.by_identity
                .iter()
                .map(|(identity, entry)| (entry.used, identity.clone())),
        );
        by_age.sort_unstable();
        let (bytes_kept, binaries_kept) = (self.bytes_max / 4 * 3, BINARIES_MAX / 4 * 3);
        for (_, identity) in by_age {
            if self.bytes <= bytes_kept && self.by_identity.len() <= binaries_kept {
                return;
            }
            if let Some(Entry { data: Ok(data), .. }) = self.by_identity.remove(&identity) {
                self.bytes = self.bytes.saturating_sub(data.size_bytes());
                self.evicted += 1;
            }
        }
    }
}

impl DataSource for OfProcess<'_> {
    fn data(&mut self, region: &Region) -> Option<Arc<UnwindData>> {
        let identity = region.binary.identity.as_ref()?;
        self.cache.uses = self.cache.uses.wrapping_add(1);
        let uses = self.cache.uses;
        let now = monotonic_nanos();
        if let Some(entry) = self.cache.by_identity.get_mut(identity) {
            match &entry.data {
                Ok(data) => {
                    entry.used = uses;
                    return Some(Arc::clone(data));
                }
                Err(since) if now.saturating_sub(*since) < MISSING_NANOS => return None,
                Err(_) => {}
            }
        }
        let file = self.processes.open(self.id, region);
        let data = file.map(|file| Arc::new(UnwindData::of(&file)));
        let data = data.filter(|data| data.size_bytes() <= self.cache.bytes_max);
        self.cache.insert(identity.clone(), data.clone().ok_or(now));
        data
    }
}
