//! What runs on the host and what each process has mapped: from a process address to a binary and its link address.

mod binary;

use std::sync::Arc;

use rustc_hash::FxHashMap;
use unhex_symbols::address::{FileOffset, LinkAddress, ProcessAddress};
use unhex_symbols::segments::Mapping;

pub use binary::{Binary, BinaryKind};

use crate::sample::ProcessId;

/// Everything that runs, as far as it was seen.
#[derive(Debug, Default)]
pub struct Processes {
    processes: FxHashMap<ProcessId, Process>,
    /// How often mappings were set, of any process: a process that gets the number of one that ended is another one.
    settings: u64,
}

/// One process.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Its executable mappings by address, none over another.
    regions: Vec<Region>,
    generation: u64,
}

/// An executable mapping of a process.
#[derive(Clone, Debug)]
pub struct Region {
    /// Where it lies, and which part of the file it is.
    pub mapping: Mapping,
    /// What is mapped there.
    pub binary: Arc<Binary>,
}

impl Region {
    /// The address as linked, which is the same in every process; `None` outside the region and its file's segments.
    pub fn link_address(&self, address: ProcessAddress) -> Option<LinkAddress> {
        self.binary
            .segments
            .link_address_of_process(address, self.mapping)
    }

    /// What is to be added to a link address to get the address in the process; wraps around.
    pub fn bias(&self) -> Option<u64> {
        let linked = self
            .binary
            .segments
            .link_address_of_offset(FileOffset(self.mapping.file_offset.0))?;
        Some(self.mapping.start.0.wrapping_sub(linked.0))
    }
}

impl Process {
    /// Its executable mappings, by address.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// The mapping that has an address.
    pub fn region_at(&self, address: ProcessAddress) -> Option<&Region> {
        let after = self
            .regions
            .partition_point(|region| region.mapping.start <= address);
        let region = self.regions.get(after.checked_sub(1)?)?;
        (address < region.mapping.end).then_some(region)
    }

    /// A number that is another one whenever the mappings are others.
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

impl Processes {
    /// What is known of a process; `None` when nothing was seen of it yet.
    pub fn get(&self, id: ProcessId) -> Option<&Process> {
        self.processes.get(&id)
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.processes.len()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// From now on a process has these executable mappings.
    pub fn set(&mut self, id: ProcessId, mut regions: Vec<Region>) {
        regions.sort_by_key(|region| region.mapping.start);
        self.settings = self.settings.wrapping_add(1);
        let generation = self.settings;
        self.processes.insert(
            id,
            Process {
                regions,
                generation,
            },
        );
    }

    /// A process has ended.
    pub fn remove(&mut self, id: ProcessId) {
        self.processes.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use unhex_symbols::segments::{LoadSegment, LoadSegments};

    use super::*;

    fn region(start: u64, end: u64) -> Region {
        let segment = LoadSegment {
            address: 0x40_1000,
            file_offset: 0x1000,
            file_size_bytes: 0x2000,
            memory_size_bytes: 0x2000,
            align: 0x1000,
            executable: true,
        };
        Region {
            mapping: Mapping {
                start: ProcessAddress(start),
                end: ProcessAddress(end),
                file_offset: FileOffset(0x1000),
            },
            binary: Arc::new(Binary {
                segments: LoadSegments(vec![segment]),
                ..Binary::anonymous()
            }),
        }
    }

    #[test]
    fn an_address_finds_the_region_that_has_it() {
        let mut processes = Processes::default();
        let id = ProcessId(7);
        processes.set(id, vec![region(0x9000, 0xa000), region(0x1000, 0x3000)]);
        let process = processes.get(id).unwrap();
        let at = |address| {
            let region = process.region_at(ProcessAddress(address))?;
            region.link_address(ProcessAddress(address))
        };
        assert_eq!(at(0xfff), None);
        assert_eq!(at(0x1000), Some(LinkAddress(0x40_1000)));
        assert_eq!(at(0x2fff), Some(LinkAddress(0x40_2fff)));
        assert_eq!(at(0x3000), None);
        assert_eq!(at(0x9001), Some(LinkAddress(0x40_1001)));
        assert_eq!(
            process.regions()[1].bias(),
            Some(0x9000_u64.wrapping_sub(0x40_1000))
        );
    }

    #[test]
    fn other_mappings_are_another_generation_also_those_of_another_process_of_that_number() {
        let mut processes = Processes::default();
        let id = ProcessId(7);
        processes.set(id, Vec::new());
        let before = processes.get(id).unwrap().generation();
        processes.set(id, vec![region(0x1000, 0x3000)]);
        assert_ne!(processes.get(id).unwrap().generation(), before);
        let first = processes.get(id).unwrap().generation();
        processes.remove(id);
        assert!(processes.is_empty());
        processes.set(id, Vec::new());
        assert_ne!(processes.get(id).unwrap().generation(), first);
    }
}
