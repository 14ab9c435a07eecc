//! What processes have mapped, as the kernel program finds it: blocks of mappings, written before the process refers to
//! them, so that a stack meets the old ones or the new ones.

use rustc_hash::FxHashMap;
use unhex_symbols::address::ProcessAddress;

use super::blocks::{Run, Runs};
use super::kernel::{BLOCK_MAPPINGS, BLOCKS_POWER, Block, Kernel, PROCESSES_MAX};
use super::tables::{SLOT_UNKNOWN, Tables};
use crate::clock::monotonic_nanos;
use crate::engine::EngineError;
use crate::processes::{Process, Processes, Region};
use crate::sample::ProcessId;

/// Processes whose mappings the kernel has.
#[derive(Debug)]
pub(super) struct Mappings {
    runs: Runs,
    written: FxHashMap<ProcessId, Written>,
}

/// What was written of a process.
#[derive(Debug)]
pub(super) struct Written {
    generation: u64,
    /// Which program it was, from when on the kernel has had these mappings, and which program it was before.
    incarnation: u64,
    since_nanos: u64,
    incarnation_before: Option<u64>,
    run: Run,
    /// The slot of each region's table.
    slots: Vec<u32>,
    used_nanos: u64,
    /// Whether all tables were asked for.
    pub(super) is_asked: bool,
}

impl Mappings {
    pub(super) fn new() -> Self {
        Self {
            runs: Runs::new(BLOCKS_POWER),
            written: FxHashMap::default(),
        }
    }

    /// What was written of a process that has these mappings still.
    pub(super) fn current(&mut self, id: ProcessId, process: &Process) -> Option<&mut Written> {
        let written = self.written.get_mut(&id);
        written.filter(|written| written.generation == process.generation())
    }

    /// Writes the mappings of a process, unless that was done.
    pub(super) fn write(
        &mut self,
        kernel: &mut Kernel,
        tables: &mut Tables,
        (id, process): (ProcessId, &Process),
        now_nanos: u64,
    ) -> Result<(), EngineError> {
        if self.current(id, process).is_some() {
            return Ok(());
        }
        let regions = process.regions();
        let blocks = u32::try_from(regions.len().div_ceil(BLOCK_MAPPINGS)).unwrap_or(u32::MAX);
        if self.written.len() >= PROCESSES_MAX && !self.written.contains_key(&id) {
            self.forget_oldest(kernel, tables, now_nanos)?;
        }
        let Some(run) = self.runs.take(blocks) else {
            // What is given back rests first: until then the process has the mappings that it had before.
            return self.forget_oldest(kernel, tables, now_nanos);
        };
        let mut slots = Vec::with_capacity(regions.len());
        for (number, chunk) in (run.first..).zip(regions.chunks(BLOCK_MAPPINGS)) {
            let mut block: Block = [0; BLOCK_MAPPINGS * 4];
            for (place, region) in block.chunks_exact_mut(4).zip(chunk) {
                let (origin, slot) = match origin(region) {
                    Some(origin) => (origin, tables.acquire(kernel, &region.binary, now_nanos)?),
                    None => (0, SLOT_UNKNOWN),
                };
                let mapping = region.mapping;
                place.copy_from_slice(&[mapping.start.0, mapping.end.0, origin, slot.into()]);
                slots.push(slot);
            }
            kernel.put_block(number, &block)?;
        }
        let mappings = u32::try_from(regions.len()).unwrap_or(u32::MAX);
        kernel.put_process(id.0, run.first, mappings)?;
        let before = self.written.get(&id);
        let written = Written {
            generation: process.generation(),
            incarnation: process.incarnation(),
            since_nanos: monotonic_nanos(),
            incarnation_before: before.map(|before| before.incarnation),
            run,
            slots,
            used_nanos: now_nanos,
            is_asked: false,
        };
        if let Some(before) = self.written.insert(id, written) {
            self.give_back(&before, tables, now_nanos);
        }
        Ok(())
    }

    /// A process is gone.
    pub(super) fn remove(
        &mut self,
        kernel: &mut Kernel,
        tables: &mut Tables,
        id: ProcessId,
        now_nanos: u64,
    ) -> Result<(), EngineError> {
        if let Some(written) = self.written.remove(&id) {
            kernel.remove_process(id.0)?;
            self.give_back(&written, tables, now_nanos);
        }
        Ok(())
    }

    /// Removes what nobody knows any more; gives back what rests.
    pub(super) fn tidy(
        &mut self,
        kernel: &mut Kernel,
        tables: &mut Tables,
        processes: &Processes,
        now_nanos: u64,
    ) -> Result<(), EngineError> {
        let is_gone = |id: &&ProcessId| processes.get(**id).is_none();
        let gone: Vec<ProcessId> = self.written.keys().filter(is_gone).copied().collect();
        for id in gone {
            self.remove(kernel, tables, id, now_nanos)?;
        }
        Ok(())
    }

    pub(super) fn wake(&mut self, now_nanos: u64) {
        self.runs.wake(now_nanos);
    }

    /// Removes the eighth that was sampled least recently.
    fn forget_oldest(
        &mut self,
        kernel: &mut Kernel,
        tables: &mut Tables,
        now_nanos: u64,
    ) -> Result<(), EngineError> {
        let used = self
            .written
            .iter()
            .map(|(&id, written)| (written.used_nanos, id));
        let mut used: Vec<(u64, ProcessId)> = used.collect();
        used.sort_unstable();
        for &(_, id) in used.iter().take(used.len().div_ceil(8)) {
            self.remove(kernel, tables, id, now_nanos)?;
        }
        Ok(())
    }

    fn give_back(&mut self, written: &Written, tables: &mut Tables, now_nanos: u64) {
        for &slot in &written.slots {
            tables.release(slot);
        }
        self.runs.give_back(written.run, now_nanos);
    }
}

impl Written {
    /// Whether a stack of that time was unwound by mappings of the program that ran then. After `exec` the
    /// old ones stay until the new ones are written, and may by chance have something at the same addresses.
    pub(super) fn is_of(&self, process: &Process, time_nanos: u64) -> bool {
        let had = if time_nanos < self.since_nanos {
            self.incarnation_before
        } else {
            Some(self.incarnation)
        };
        had == Some(process.incarnation())
    }

    /// The slot of the table for an address, and its region.
    pub(super) fn slot_at<'a>(
        &self,
        process: &'a Process,
        address: ProcessAddress,
    ) -> Option<(u32, &'a Region)> {
        let regions = process.regions();
        let after = regions.partition_point(|region| region.mapping.start <= address);
        let place = after.checked_sub(1)?;
        let region = regions.get(place)?;
        let slot = self.slots.get(place)?;
        (address < region.mapping.end).then_some((*slot, region))
    }

    /// All slots, each with its region.
    pub(super) fn slots<'a>(
        &self,
        process: &'a Process,
    ) -> impl Iterator<Item = (u32, &'a Region)> {
        self.slots.iter().copied().zip(process.regions())
    }

    pub(super) fn touch(&mut self, now_nanos: u64) {
        self.used_nanos = now_nanos;
    }
}

/// What a table's rows of a region count from, in the process: any number where there are none.
pub(super) fn origin(region: &Region) -> Option<u64> {
    let segments = &region.binary.segments;
    if segments.0.is_empty() {
        return Some(0);
    }
    let base = segments.image_base()?;
    Some(region.bias()?.wrapping_add(base.0))
}
