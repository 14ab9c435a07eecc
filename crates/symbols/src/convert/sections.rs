//! The sections of DWARF that are needed, decompressed within limits.
//!
//! The declared size of a compressed section is checked before anything is allocated and never
//! exceeded: `ch_size` is four or eight bytes of a stranger's file.

use gimli::SectionId;

use super::relocatable::{is_relocatable, relocated};
use super::stream::PackedInfo;
use super::unpack::Compressed;
use super::{Budget, ConvertError, ConvertLimits};
use crate::elf::{ElfFile, ElfSection};

/// Sections that a conversion reads; locations, macros and indexes are not needed.
const NEEDED: [SectionId; 9] = [
    SectionId::DebugInfo,
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
];

/// Sections of a package of split units: those that its index refers to have to be there, also
/// when nothing is read from them.
const NEEDED_OF_PACKAGE: [SectionId; 13] = [
    SectionId::DebugLine,
    SectionId::DebugLoc,
    SectionId::DebugLocLists,
    SectionId::DebugMacinfo,
    SectionId::DebugMacro,
    SectionId::DebugTypes,
    SectionId::DebugInfo,
    SectionId::DebugAbbrev,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
    SectionId::DebugRngLists,
    SectionId::DebugCuIndex,
    SectionId::DebugTuIndex,
];

/// How many times its file DWARF may be, decompressed, beside the bytes that any file has free:
/// real ones are up to 5 times, and bombs, honest ones too, start at hundreds.
const DECOMPRESSED_RATIO_MAX: u64 = 16;
const DECOMPRESSED_BYTES_FREE: u64 = 64 << 20;

/// One section: bytes of the file, or decompressed.
#[derive(Debug)]
enum SectionBytes<'data> {
    Mapped(&'data [u8]),
    Owned(Vec<u8>),
}

/// The needed sections of one file.
#[derive(Debug)]
pub(crate) struct DwarfSections<'data> {
    sections: Vec<(SectionId, SectionBytes<'data>)>,
    /// Instead of `.debug_info`.
    packed_info: Option<PackedInfo<'data>>,
}

/// How the largest section, `.debug_info`, is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadInfo {
    Whole,
    /// It stays as it is where it can be read unit by unit.
    Packed,
}

impl<'data> DwarfSections<'data> {
    /// Whether a file has DWARF.
    pub(crate) fn are_in(file: &ElfFile<'_>) -> bool {
        find(file, SectionId::DebugInfo).is_some_and(|s| s.has_bytes() && s.size > 0)
    }

    /// Loads the needed sections of a file.
    pub(crate) fn load(
        file: &ElfFile<'data>,
        info: LoadInfo,
        limits: &ConvertLimits<'data>,
        budget: &Budget<'_>,
    ) -> Result<Self, ConvertError> {
        let plausible = (file.data.len() as u64)
            .saturating_mul(DECOMPRESSED_RATIO_MAX)
            .saturating_add(DECOMPRESSED_BYTES_FREE);
        let mut left = limits.sections_bytes_max.min(plausible);
        let mut sections = Vec::new();
        let mut packed_info = None;
        for id in NEEDED {
            let Some(section) = find(file, id) else {
                continue;
            };
            let max = left.min(limits.section_bytes_max);
            if id == SectionId::DebugInfo && info == LoadInfo::Packed && !is_relocatable(file) {
                packed_info = PackedInfo::of(file, section, limits)?;
                if let Some(packed) = &packed_info {
                    size_within(packed.size(), max)?;
                    left = left.saturating_sub(packed.size());
                    continue;
                }
            }
            let mut bytes = load_one(file, section, max)?;
            bytes.release(file, section, limits);
            if is_relocatable(file) {
                bytes = SectionBytes::Owned(relocated(file, section, bytes.get(), budget)?);
            }
            left = left.saturating_sub(bytes.get().len() as u64);
            sections.push((id, bytes));
        }
        Ok(Self {
            sections,
            packed_info,
        })
    }

    /// `.debug_info`, when it is to be read unit by unit.
    pub(crate) fn packed_info(&self) -> Option<&PackedInfo<'data>> {
        self.packed_info.as_ref()
    }

    /// Loads the sections of a package of split units.
    pub(crate) fn load_package(
        file: &ElfFile<'data>,
        limits: &ConvertLimits<'_>,
    ) -> Result<Self, ConvertError> {
        let mut left = limits.sections_bytes_max;
        let mut sections = Vec::new();
        for id in NEEDED_OF_PACKAGE {
            let Some(section) = id.dwo_name().and_then(|name| file.section(name)) else {
                continue;
            };
            let bytes = load_one(file, section, left.min(limits.section_bytes_max))?;
            bytes.release(file, section, limits);
            left = left.saturating_sub(bytes.get().len() as u64);
            sections.push((id, bytes));
        }
        Ok(Self {
            sections,
            packed_info: None,
        })
    }

    /// The bytes of a section; empty when the file has none.
    pub(crate) fn get(&self, id: SectionId) -> &[u8] {
        let found = self.sections.iter().find(|(other, _)| *other == id);
        found.map(|(_, bytes)| bytes.get()).unwrap_or_default()
    }
}

impl SectionBytes<'_> {
    /// Tells the caller that the compressed bytes are not needed any more.
    fn release(&self, file: &ElfFile<'_>, section: &ElfSection<'_>, limits: &ConvertLimits<'_>) {
        if let (Self::Owned(_), Some(release)) = (self, limits.release) {
            release(file.bytes_of(section));
        }
    }

    fn get(&self) -> &[u8] {
        match self {
            Self::Mapped(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }
}

/// The section of that name, plain or in the old compressed form `.zdebug_*`.
fn find<'a, 'data>(file: &'a ElfFile<'data>, id: SectionId) -> Option<&'a ElfSection<'data>> {
    let name = id.name();
    let old = name
        .strip_prefix(".debug_")
        .map(|rest| format!(".zdebug_{rest}"));
    file.section(name).or_else(|| file.section(&old?))
}

fn load_one<'data>(
    file: &ElfFile<'data>,
    section: &ElfSection<'data>,
    max: u64,
) -> Result<SectionBytes<'data>, ConvertError> {
    let Some(compressed) = Compressed::of(file, section)? else {
        let bytes = file.bytes_of(section);
        size_within(bytes.len() as u64, max)?;
        return Ok(SectionBytes::Mapped(bytes));
    };
    size_within(compressed.size, max)?;
    let bytes = compressed.unpack();
    let bytes = bytes.map_err(|error| error.of(section.name, compressed.size))?;
    Ok(SectionBytes::Owned(bytes))
}

fn size_within(size: u64, max: u64) -> Result<(), ConvertError> {
    if size > max {
        return Err(ConvertError::TooLarge {
            what: "bytes of DWARF sections",
            count: size,
            max,
        });
    }
    Ok(())
}
