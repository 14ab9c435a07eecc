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

#[cfg(test)]
mod tests {
    use super::*;

    /// What this process has mapped and can be unwound, each binary once.
    fn regions(processes: &mut Processes) -> (ProcessId, Vec<Region>) {
        let id = ProcessId(std::process::id());
        assert!(processes.ensure(id, 1));
        let mut regions: Vec<Region> = Vec::new();
        for region in processes.get(id).unwrap().regions() {
            let is_new = regions
                .iter()
                .all(|known| known.binary.identity != region.binary.identity);
            if is_new && region.binary.identity.is_some() {
                regions.push(region.clone());
            }
        }
        assert!(regions.len() >= 3, "{regions:?}");
        (id, regions)
    }

    #[test]
    fn a_binary_is_read_once() {
        let mut processes = Processes::default();
        let (id, regions) = regions(&mut processes);
        let mut cache = DataCache::new(1 << 30);
        let first = cache.of_process(&processes, id).data(&regions[0]).unwrap();
        let second = cache.of_process(&processes, id).data(&regions[0]).unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!((cache.len(), cache.size_bytes()), (1, first.size_bytes()));
    }

    #[test]
    fn what_was_not_asked_for_longest_makes_room() {
        let mut processes = Processes::default();
        let (id, regions) = regions(&mut processes);
        let mut all = DataCache::new(1 << 30);
        let sizes: Vec<usize> = regions
            .iter()
            .filter_map(|region| Some(all.of_process(&processes, id).data(region)?.size_bytes()))
            .collect();
        let total: usize = sizes.iter().sum();
        // All but a little of what there is.
        let mut cache = DataCache::new(total - 1);
        for region in &regions {
            cache.of_process(&processes, id).data(region);
            assert!(cache.size_bytes() < total, "{sizes:?}");
        }
        assert!(cache.evicted() > 0, "{cache:?}");
        let held: usize = cache
            .by_identity
            .values()
            .flat_map(|entry| &entry.data)
            .map(|data| data.size_bytes())
            .sum();
        assert_eq!(cache.size_bytes(), held);
        let newest = regions.last().unwrap().binary.identity.clone().unwrap();
        assert!(cache.by_identity.contains_key(&newest));
    }

    #[test]
    fn a_file_that_is_not_to_be_had_is_not_looked_for_all_the_time() {
        let mut processes = Processes::default();
        let (_, mut regions) = regions(&mut processes);
        let region = &mut regions[0];
        let gone = crate::processes::Binary {
            name: "/nonexistent".to_owned(),
            ..crate::processes::Binary::clone(&region.binary)
        };
        region.binary = Arc::new(gone);
        let mut cache = DataCache::new(1 << 30);
        // No process has that number.
        let nobody = ProcessId(1 << 30);
        assert!(cache.of_process(&processes, nobody).data(region).is_none());
        let since = |cache: &DataCache| {
            cache
                .by_identity
                .values()
                .next()
                .unwrap()
                .data
                .as_ref()
                .err()
                .copied()
        };
        let before = since(&cache);
        assert!(before.is_some());
        assert!(cache.of_process(&processes, nobody).data(region).is_none());
        assert_eq!(since(&cache), before);
        assert_eq!((cache.len(), cache.size_bytes()), (0, 0));
    }
}
