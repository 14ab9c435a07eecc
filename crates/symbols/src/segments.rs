//! The loadable segments of an executable, and the only conversions between the kinds of address.
//!
//! Only the executable's own program headers are good for this: a debug-only file loses them
//! (objcopy zeroes `p_filesz`, ld moves `p_offset`).

use serde::{Deserialize, Serialize};

use crate::address::{FileOffset, LinkAddress, ProcessAddress, RelativeAddress};

/// One PT_LOAD program header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadSegment {
    /// `p_vaddr`: the link address of the first byte.
    pub address: u64,
    /// `p_offset`: where the bytes lie in the file.
    pub file_offset: u64,
    /// `p_filesz`: bytes in the file.
    pub file_size_bytes: u64,
    /// `p_memsz`: bytes in memory, at least `file_size_bytes`.
    pub memory_size_bytes: u64,
    /// `p_align`: a power of two, or 0 or 1 for none.
    pub align: u64,
    /// Whether PF_X is set.
    pub executable: bool,
}

/// One mapping of a process, as in a line of `/proc/PID/maps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: ProcessAddress,
    /// One past the last address.
    pub end: ProcessAddress,
    /// Offset of `start` in the mapped file.
    pub file_offset: FileOffset,
}

/// The PT_LOAD program headers of an executable, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadSegments(pub Vec<LoadSegment>);

impl LoadSegments {
    /// The link address of a byte of the file; executable segments are asked first, since two
    /// segments may share a page of the file. `None` when no segment has it.
    pub fn link_address_of_offset(&self, offset: FileOffset) -> Option<LinkAddress> {
        let hit = |s: &&LoadSegment| {
            offset
                .0
                .checked_sub(s.file_offset)
                .is_some_and(|within| within < s.file_size_bytes)
        };
        let segment = self
            .0
            .iter()
            .filter(|s| s.executable)
            .find(hit)
            .or_else(|| self.0.iter().find(hit))?;
        let within = offset.0.checked_sub(segment.file_offset)?;
        segment.address.checked_add(within).map(LinkAddress)
    }

    /// The link address of an offset from the image base. `None` without segments or on overflow.
    pub fn link_address_of_relative(&self, relative: RelativeAddress) -> Option<LinkAddress> {
        self.image_base()?
            .0
            .checked_add(relative.0)
            .map(LinkAddress)
    }

    /// The link address of an address in a process that mapped this file by `mapping`.
    /// `None` when the address lies outside the mapping or the file offset in no segment.
    pub fn link_address_of_process(
        &self,
        address: ProcessAddress,
        mapping: Mapping,
    ) -> Option<LinkAddress> {
        if address >= mapping.end {
            return None;
        }
        let within = address.0.checked_sub(mapping.start.0)?;
        let offset = mapping.file_offset.0.checked_add(within)?;
        self.link_address_of_offset(FileOffset(offset))
    }

    /// The lowest `p_vaddr` of a PT_LOAD, rounded down to its alignment when that is a power of two.
    pub fn image_base(&self) -> Option<LinkAddress> {
        let first = self.0.iter().min_by_key(|s| s.address)?;
        let page = if first.align.is_power_of_two() {
            first.align
        } else {
            1
        };
        Some(LinkAddress(first.address & !(page - 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments() -> LoadSegments {
        let segment = |address, file_offset, size, executable| LoadSegment {
            address,
            file_offset,
            file_size_bytes: size,
            memory_size_bytes: size,
            align: 0x1000,
            executable,
        };
        LoadSegments(vec![
            segment(0x40_0000, 0, 0x5f0, false),
            segment(0x40_1000, 0x1000, 0x1e1, true),
            segment(0x40_3df0, 0x2df0, 0x240, false),
        ])
    }

    #[test]
    fn a_file_offset_becomes_the_link_address_of_its_segment() {
        let link = segments().link_address_of_offset(FileOffset(0x1139));
        assert_eq!(link, Some(LinkAddress(0x40_1139)));
        assert_eq!(segments().link_address_of_offset(FileOffset(0x900)), None);
    }

    #[test]
    fn a_process_address_goes_through_its_mapping() {
        let mapping = Mapping {
            start: ProcessAddress(0x7f00_0000_1000),
            end: ProcessAddress(0x7f00_0000_2000),
            file_offset: FileOffset(0x1000),
        };
        let at = |a| segments().link_address_of_process(ProcessAddress(a), mapping);
        assert_eq!(at(0x7f00_0000_1139), Some(LinkAddress(0x40_1139)));
        assert_eq!(at(0x7f00_0000_2000), None);
        assert_eq!(at(0x10), None);
    }

    #[test]
    fn a_relative_address_counts_from_the_first_page() {
        let link = segments().link_address_of_relative(RelativeAddress(0x1139));
        assert_eq!(link, Some(LinkAddress(0x40_1139)));
        assert_eq!(
            LoadSegments::default().link_address_of_relative(RelativeAddress(0)),
            None
        );
    }
}
