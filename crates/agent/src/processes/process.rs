//! One process: its executable mappings, by address.

use std::cell::Cell;
use std::sync::Arc;

use unhex_symbols::address::{FileOffset, LinkAddress, ProcessAddress};
use unhex_symbols::segments::{LoadSegment, Mapping};

use super::Binary;

/// One process.
#[derive(Clone, Debug)]
pub struct Process {
    /// By address, none over another; shared with processes that began as copies, until one of them changes.
    regions: Arc<Vec<Region>>,
    pub(super) generation: u64,
    pub(super) incarnation: u64,
    /// When it was read from `/proc` or began: what is older changes nothing.
    pub(super) as_of_nanos: u64,
    /// When it was read from `/proc`; 0 for never.
    pub(super) read_nanos: u64,
    /// When it was looked at, by the count of settings.
    pub(super) used: Cell<u64>,
}

/// An executable mapping of a process.
#[derive(Clone, Debug)]
pub struct Region {
    /// Where it lies, and which part of the file it is.
    pub mapping: Mapping,
    /// What is mapped there.
    pub binary: Arc<Binary>,
}

/// What became of a mapping that was to be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mapped {
    /// It is there now.
    Changed,
    /// It was there before.
    Already,
    /// There are too many others, and nothing was done.
    TooMany,
}

impl Region {
    /// The address as linked, which is the same in every process; `None` outside the region and its file's segments.
    pub fn link_address(&self, address: ProcessAddress) -> Option<LinkAddress> {
        self.binary
            .segments
            .link_address_of_process(address, self.mapping)
    }

    /// What is to be added to a link address to get the address in the process; wraps around. `None` where no executable
    /// segment is mapped.
    ///
    /// The mapping begins with the page of its segment, and so before it where the linker put segments one behind
    /// another: the byte at its start can be one of the segment before, which lies elsewhere.
    pub fn bias(&self) -> Option<u64> {
        let first = self.mapping.file_offset.0;
        let length = self.mapping.end.0.checked_sub(self.mapping.start.0)?;
        let end = first.saturating_add(length);
        let has_bytes_here = |segment: &&LoadSegment| {
            let segment_end = segment.file_offset.saturating_add(segment.file_size_bytes);
            segment.file_offset < end && first < segment_end
        };
        let mut segments = self
            .binary
            .segments
            .0
            .iter()
            .filter(|segment| segment.executable);
        let segment = segments.find(has_bytes_here)?;
        let file_start = self.mapping.start.0.wrapping_sub(first);
        Some(
            file_start
                .wrapping_add(segment.file_offset)
                .wrapping_sub(segment.address),
        )
    }
}

impl Process {
    pub(super) fn new(mut regions: Vec<Region>, generation: u64, as_of_nanos: u64) -> Self {
        regions.sort_by_key(|region| region.mapping.start);
        Self {
            regions: Arc::new(regions),
            generation,
            incarnation: generation,
            as_of_nanos,
            read_nanos: as_of_nanos,
            used: Cell::new(generation),
        }
    }

    /// A process that begins as a copy of this one.
    pub(super) fn copy(&self, generation: u64) -> Self {
        Self {
            regions: Arc::clone(&self.regions),
            generation,
            incarnation: generation,
            as_of_nanos: 0,
            read_nanos: 0,
            used: Cell::new(generation),
        }
    }

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

    /// A number that is another one whenever the program is another: after a fork and an exec, and of another process
    /// of that number.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// When it was read from `/proc`, in nanoseconds of `CLOCK_MONOTONIC`; 0 if it is known by records of changes alone.
    pub fn read_nanos(&self) -> u64 {
        self.read_nanos
    }

    /// Adds a mapping; what it covers of others is gone from them, as the kernel does it.
    pub(super) fn map(&mut self, region: Region, regions_max: usize) -> Mapped {
        let Mapping { start, end, .. } = region.mapping;
        let first = self
            .regions
            .partition_point(|other| other.mapping.end <= start);
        let after = self
            .regions
            .partition_point(|other| other.mapping.start < end);
        let covered = self
            .regions
            .get(first..after.max(first))
            .unwrap_or_default();
        if let [same] = covered
            && same.mapping == region.mapping
            && same.binary == region.binary
        {
            return Mapped::Already;
        }
        let head = covered
            .first()
            .filter(|other| other.mapping.start < start)
            .map(|other| {
                let mut head = other.clone();
                head.mapping.end = start;
                head
            });
        let tail = covered.last().and_then(|other| {
            let by = end.0.checked_sub(other.mapping.start.0)?;
            let mut tail = other.clone();
            tail.mapping.start = end;
            tail.mapping.file_offset = FileOffset(other.mapping.file_offset.0.wrapping_add(by));
            (end < other.mapping.end).then_some(tail)
        });
        let pieces: Vec<Region> = head.into_iter().chain([region]).chain(tail).collect();
        let length = (self.regions.len() + pieces.len()).saturating_sub(covered.len());
        if length > regions_max && length > self.regions.len() {
            return Mapped::TooMany;
        }
        Arc::make_mut(&mut self.regions).splice(first..after.max(first), pieces);
        Mapped::Changed
    }
}
