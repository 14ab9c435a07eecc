//! What an ELF file is, read from its headers alone: enough to accept, refuse, compare and serve it.
//!
//! [`ElfFile`] is the file's own tables, whatever its class and byte order; [`ElfSummary`] is what
//! is remembered of it; [`difference()`] tells other code under a known build ID. DWARF is not
//! touched here. Everything is total on hostile bytes, and bounded by [`SECTIONS_MAX`].

mod classify;
mod difference;
mod error;
mod file;
mod format;
mod links;
mod summary;
mod symbol_table;

pub use classify::{ElfRole, SplitDwarf};
pub use difference::{CodeDifference, difference};
pub use error::ElfError;
pub use file::{ElfClass, ElfFile, ElfHeader, ElfSection, ElfSegment, SECTIONS_MAX, SEGMENTS_MAX};
pub use format::{FileFormat, what_is_it};
pub use links::{DebugLink, Supplement};
pub use summary::{AllocatedSection, ElfSummary, TextHash};
pub use symbol_table::ElfSymbol;

pub(crate) use summary::load_segments;

use std::ops::Range;

/// Where the raw bytes of the first section of that name lie in `file`, still compressed if they
/// are. `None` when there is no such section, or it is empty or has no bytes in the file.
///
/// # Errors
/// If `file` is no ELF file or damaged.
pub fn section_range(file: &[u8], name: &str) -> Result<Option<Range<u64>>, ElfError> {
    let elf = ElfFile::parse(file)?;
    let mut sections = elf.sections.iter().filter(|s| s.name == name.as_bytes());
    Ok(sections
        .find(|section| section.has_bytes() && section.size > 0)
        .map(|section| section.offset..section.offset.saturating_add(section.size)))
}

/// Whether a file is what runs, and so has program headers that count.
pub(crate) fn is_executable(file: &ElfFile<'_>) -> bool {
    ElfRole::of(file).is_executable()
}
