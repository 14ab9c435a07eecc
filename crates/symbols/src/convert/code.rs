//! Where the code is: what tells real addresses from those that a linker has buried.
//!
//! A linker that drops a function leaves its DWARF behind with an address of 0, 1, -1 or -2. Such
//! an address is real only where a section of code really is, which section headers tell, also
//! those of a debug-only file.

use object::elf;

use crate::elf::ElfFile;

/// The ranges of link addresses that have code.
#[derive(Debug, Default)]
pub(crate) struct CodeMap {
    /// Sorted, not empty.
    ranges: Vec<(u64, u64)>,
}

impl CodeMap {
    /// The code of the first file that tells: by sections, else by executable segments.
    pub(crate) fn of(files: &[&ElfFile<'_>]) -> Self {
        let by_sections = |file: &&ElfFile<'_>| {
            let code = file.sections.iter().filter(|s| s.is_code());
            Self::sorted(code.map(|s| (s.address, s.size)).collect())
        };
        let by_segments = |file: &&ElfFile<'_>| {
            let executable = |s: &&crate::elf::ElfSegment| {
                s.kind == elf::PT_LOAD.0 && s.flags & elf::PF_X.0 != 0
            };
            let code = file.segments.iter().filter(executable);
            Self::sorted(code.map(|s| (s.address, s.memory_size)).collect())
        };
        files
            .iter()
            .map(by_sections)
            .chain(files.iter().map(by_segments))
            .find(|map| !map.ranges.is_empty())
            .unwrap_or_default()
    }

    fn sorted(sizes: Vec<(u64, u64)>) -> Self {
        let ends = sizes
            .into_iter()
            .map(|(start, size)| (start, start.saturating_add(size)));
        let mut ranges: Vec<_> = ends.filter(|(start, end)| start < end).collect();
        ranges.sort_unstable();
        Self { ranges }
    }

    /// The end of the section that has code at `address`; `None` where no code is.
    #[inline]
    pub(crate) fn end_after(&self, address: u64) -> Option<u64> {
        let after = self.ranges.partition_point(|&(start, _)| start <= address);
        let &(_, end) = self.ranges.get(after.checked_sub(1)?)?;
        (address < end).then_some(end)
    }

    /// A range cut to the section that it starts in; `None` when it is empty or starts in none.
    #[inline]
    pub(crate) fn live(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        if start >= end {
            return None;
        }
        let section_end = self.end_after(start)?;
        Some((start, end.min(section_end)))
    }
}
