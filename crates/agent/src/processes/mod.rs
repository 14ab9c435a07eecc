//! What runs on the host and what each process has mapped: from a process address to a binary and its link address.
//!
//! The kernel's records of changes ([`crate::sideband`]) say what processes do; `/proc` says what they have now, at the
//! start and where records are missing. Each process carries the time of what was read of it, so that a record of
//! something older, which comes late, changes nothing.

mod binaries;
mod binary;
mod binary_file;
mod maps;
mod mounts;
mod opening;
mod process;
mod scan;
mod vdso;

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use binaries::Binaries;
pub use binary::{Binary, BinaryKind};
pub use binary_file::{BinaryFile, Section, UnwindSections};
pub use maps::{Backing, MappedFile};
use process::Mapped;
pub use process::{Process, Region};

use crate::limits::Limits;
use crate::sample::ProcessId;

/// How long the mappings of a process outlive it: samples of it are on their way.
const ENDED_NANOS: u64 = 5_000_000_000;

/// How long a process that could not be found is not looked for again.
const ABSENT_NANOS: u64 = 1_000_000_000;

/// Processes that are remembered not to be there: those that end within a second on a host that starts thousands.
const ABSENT_MAX: usize = 4096;

/// Everything that runs, as far as it was seen. Times are nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Debug, Default)]
pub struct Processes {
    by_id: FxHashMap<ProcessId, Process>,
    /// How often mappings were set, of any process: a process that gets the number of one that ended is another one.
    settings: u64,
    binaries: Binaries,
    limits: Limits,
    /// Processes that have ended, with their generation then, in the order of their ends.
    ended: VecDeque<(u64, ProcessId, u64)>,
    /// Processes that were looked for in vain, and when.
    absent: FxHashMap<ProcessId, u64>,
    dropped_mappings: u64,
    forgotten: u64,
}

impl Processes {
    /// None yet, and never more than these.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// What is known of a process; `None` when nothing was seen of it yet.
    pub fn get(&self, id: ProcessId) -> Option<&Process> {
        let process = self.by_id.get(&id)?;
        process.used.set(self.settings);
        Some(process)
    }

    /// All that are known.
    pub fn iter(&self) -> impl Iterator<Item = (ProcessId, &Process)> {
        self.by_id.iter().map(|(&id, process)| (id, process))
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Mappings that were left out because their process has too many.
    pub fn dropped_mappings(&self) -> u64 {
        self.dropped_mappings
    }

    /// Processes that were forgotten because there were too many.
    pub fn forgotten_processes(&self) -> u64 {
        self.forgotten
    }

    /// The file behind a region, to read how its code is unwound, or its symbols. `None` if it is not to be had any
    /// more: the process has ended and its file is gone or another one.
    ///
    /// Costs some system calls; what is read is checked to be the binary.
    pub fn open(&self, id: ProcessId, region: &Region) -> Option<BinaryFile> {
        self.binaries.open(id, region)
    }

    /// From now on a process has these executable mappings.
    pub fn set(&mut self, id: ProcessId, regions: Vec<Region>) {
        self.set_as_of(id, regions, 0);
    }

    fn set_as_of(&mut self, id: ProcessId, mut regions: Vec<Region>, as_of_nanos: u64) {
        let too_many = regions
            .len()
            .saturating_sub(self.limits.mappings_per_process_max);
        self.dropped_mappings += u64::try_from(too_many).unwrap_or(u64::MAX);
        regions.truncate(self.limits.mappings_per_process_max);
        self.settings = self.settings.wrapping_add(1);
        let process = Process::new(regions, self.settings, as_of_nanos);
        self.by_id.insert(id, process);
        self.absent.remove(&id);
        self.forget_oldest();
    }

    /// Forgets the eighth that was not looked at for longest, when there are too many.
    fn forget_oldest(&mut self) {
        if self.by_id.len() <= self.limits.processes_max {
            return;
        }
        let mut used: Vec<u64> = self
            .by_id
            .values()
            .map(|process| process.used.get())
            .collect();
        let surplus = self.by_id.len().saturating_sub(self.limits.processes_max);
        let count = surplus
            .max(self.limits.processes_max / 8)
            .min(used.len().saturating_sub(1));
        let (_, &mut oldest_kept, _) = used.select_nth_unstable(count);
        let before = self.by_id.len();
        self.by_id
            .retain(|_, process| process.used.get() >= oldest_kept);
        let forgotten = before.saturating_sub(self.by_id.len());
        self.forgotten += u64::try_from(forgotten).unwrap_or(u64::MAX);
    }

    /// A process has ended.
    pub fn remove(&mut self, id: ProcessId) {
        self.by_id.remove(&id);
    }

    /// Reads what all processes have mapped now.
    ///
    /// # Errors
    /// If `/proc` cannot be read. What concerns one process is no error: it may have ended meanwhile.
    pub fn scan(&mut self, now_nanos: u64) -> std::io::Result<()> {
        for id in scan::process_ids()? {
            self.read(id, now_nanos);
        }
        Ok(())
    }

    /// Makes sure that a process that was sampled is known: reads what it has mapped if it is not. Whether it is known
    /// now. One that is not there is not looked for again within a second.
    pub fn ensure(&mut self, id: ProcessId, now_nanos: u64) -> bool {
        if self.by_id.contains_key(&id) {
            return true;
        }
        let looked = self.absent.get(&id).copied();
        if looked.is_some_and(|looked| now_nanos.saturating_sub(looked) < ABSENT_NANOS) {
            return false;
        }
        if self.read(id, now_nanos) {
            return true;
        }
        if self.absent.len() >= ABSENT_MAX {
            self.absent.clear();
        }
        self.absent.insert(id, now_nanos);
        false
    }

    /// Reads anew what a process has mapped, unless that was done within the second before: for a sample at an address
    /// that nothing is known of. Whether it was read.
    pub fn refresh(&mut self, id: ProcessId, now_nanos: u64) -> bool {
        let as_of = self.by_id.get(&id).map(|process| process.read_nanos);
        let is_fresh = as_of.is_some_and(|as_of| now_nanos.saturating_sub(as_of) < ABSENT_NANOS);
        let incarnation = self.by_id.get(&id).map(|process| process.incarnation);
        if is_fresh || !self.read(id, now_nanos) {
            return false;
        }
        if let (Some(incarnation), Some(process)) = (incarnation, self.by_id.get_mut(&id)) {
            process.incarnation = incarnation;
        }
        true
    }

    fn read(&mut self, id: ProcessId, now_nanos: u64) -> bool {
        // One more than allowed, so that it is seen that there are more.
        let Ok(mapped) = scan::mappings(id, self.limits.mappings_per_process_max.saturating_add(1))
        else {
            return false;
        };
        let regions = mapped.iter().map(|mapped| Region {
            mapping: mapped.mapping,
            binary: self.binaries.of_mapping(id, mapped, now_nanos),
        });
        let regions = regions.collect();
        self.set_as_of(id, regions, now_nanos);
        true
    }

    /// A process has a new executable mapping, which takes the place of what was there.
    pub fn map(&mut self, id: ProcessId, mapped: &MappedFile, time_nanos: u64) {
        if !self.by_id.contains_key(&id) {
            // Its beginning was not seen: what else it has mapped is read, too.
            if self.ensure(id, time_nanos) {
                return;
            }
            self.set_as_of(id, Vec::new(), 0);
        }
        if self
            .by_id
            .get(&id)
            .is_none_or(|process| time_nanos < process.as_of_nanos)
        {
            return;
        }
        let region = Region {
            mapping: mapped.mapping,
            binary: self.binaries.of_mapping(id, mapped, time_nanos),
        };
        self.settings = self.settings.wrapping_add(1);
        let Some(process) = self.by_id.get_mut(&id) else {
            return;
        };
        process.used.set(self.settings);
        match process.map(region, self.limits.mappings_per_process_max) {
            Mapped::Changed => process.generation = self.settings,
            Mapped::Already => {}
            Mapped::TooMany => self.dropped_mappings += 1,
        }
    }

    /// A process has begun, as a copy of another one.
    pub fn fork(&mut self, parent: ProcessId, child: ProcessId, time_nanos: u64) {
        let known = self.by_id.get(&child);
        if known.is_some_and(|known| time_nanos < known.as_of_nanos) {
            return;
        }
        self.settings = self.settings.wrapping_add(1);
        let copy = self
            .by_id
            .get(&parent)
            .map(|process| process.copy(self.settings));
        let Some(copy) = copy else {
            // What is left of another process of that number is not it.
            self.by_id.remove(&child);
            self.ensure(child, time_nanos);
            return;
        };
        self.absent.remove(&child);
        self.by_id.insert(child, copy);
        self.forget_oldest();
    }

    /// A process runs another program from now on: all that it had mapped is gone.
    pub fn exec(&mut self, id: ProcessId, time_nanos: u64) {
        let known = self.by_id.get(&id);
        if known.is_none_or(|known| time_nanos >= known.as_of_nanos) {
            self.set_as_of(id, Vec::new(), 0);
        }
    }

    /// A process has ended; what is known of it stays for five seconds more.
    pub fn end(&mut self, id: ProcessId, time_nanos: u64) {
        let Some(process) = self.by_id.get(&id) else {
            return;
        };
        if time_nanos >= process.as_of_nanos {
            self.ended.push_back((time_nanos, id, process.incarnation));
        }
    }

    /// Forgets processes that have ended more than five seconds ago; says which.
    pub fn forget_ended(&mut self, now_nanos: u64, mut forgotten: impl FnMut(ProcessId)) {
        while let Some(&(time_nanos, id, incarnation)) = self.ended.front() {
            if now_nanos.saturating_sub(time_nanos) < ENDED_NANOS {
                return;
            }
            self.ended.pop_front();
            if self
                .by_id
                .get(&id)
                .is_none_or(|process| process.incarnation != incarnation)
            {
                continue;
            }
            if scan::has_other_threads(id) {
                self.ended.push_back((now_nanos, id, incarnation));
                continue;
            }
            self.by_id.remove(&id);
            forgotten(id);
        }
    }
}

#[cfg(test)]
mod tests;
