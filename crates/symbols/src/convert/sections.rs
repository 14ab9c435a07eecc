//! The sections of DWARF that are needed, decompressed within limits.
//!
//! The declared size of a compressed section is checked before anything is allocated and never
//! exceeded: `ch_size` is four or eight bytes of a stranger's file.

use flate2::{Decompress, FlushDecompress, Status};
use gimli::SectionId;
use object::{Endianness, elf};
use zstd::zstd_safe::{self, DCtx};

use super::relocatable::{is_relocatable, relocated};
use super::{Budget, ConvertError, ConvertLimits};
use crate::elf::{ElfClass, ElfFile, ElfSection};

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

/// zlib cannot do better than 1032:1; a declared size beyond that is a lie.
const ZLIB_RATIO_MAX: u64 = 1032;

/// What zlib's decoder takes for itself: a window of 32 KiB and its tables.
const INFLATER_BYTES_MAX: usize = 256 << 10;

/// zstd cannot do better than four bytes for a block of 128 KiB, RFC 8878 §3.1.1.2.
const ZSTD_RATIO_MAX: u64 = 32 << 10;

/// How libzstd says that memory was refused.
const ZSTD_OUT_OF_MEMORY: &str = "Allocation error : not enough memory";

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
}

impl<'data> DwarfSections<'data> {
    /// Whether a file has DWARF.
    pub(crate) fn are_in(file: &ElfFile<'_>) -> bool {
        find(file, SectionId::DebugInfo).is_some_and(|s| s.has_bytes() && s.size > 0)
    }

    /// Loads the needed sections of a file.
    pub(crate) fn load(
        file: &ElfFile<'data>,
        limits: &ConvertLimits<'_>,
        budget: &Budget<'_>,
    ) -> Result<Self, ConvertError> {
        let plausible = (file.data.len() as u64)
            .saturating_mul(DECOMPRESSED_RATIO_MAX)
            .saturating_add(DECOMPRESSED_BYTES_FREE);
        let mut left = limits.sections_bytes_max.min(plausible);
        let mut sections = Vec::new();
        for id in NEEDED {
            let Some(section) = find(file, id) else {
                continue;
            };
            let max = left.min(limits.section_bytes_max);
            let mut bytes = load_one(file, section, max)?;
            bytes.release(file, section, limits);
            if is_relocatable(file) {
                bytes = SectionBytes::Owned(relocated(file, section, bytes.get(), budget)?);
            }
            left = left.saturating_sub(bytes.get().len() as u64);
            sections.push((id, bytes));
        }
        Ok(Self { sections })
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
        Ok(Self { sections })
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
    let bytes = file.bytes_of(section);
    let compressed = if section.flags & elf::SHF_COMPRESSED.0 != 0 {
        Some(compression_header(file, bytes))
    } else if section.name.starts_with(b".zdebug_") {
        Some(old_compression_header(bytes))
    } else {
        None
    };
    let Some(compressed) = compressed else {
        size_within(bytes.len() as u64, max)?;
        return Ok(SectionBytes::Mapped(bytes));
    };
    let compressed = compressed.ok_or_else(|| damaged(section, "its compression header is cut"))?;
    let (ratio_max, decompress): (u64, Decompressor) = match compressed.method {
        1 => (ZLIB_RATIO_MAX, inflate),
        2 => (ZSTD_RATIO_MAX, unzstd),
        other => {
            return Err(ConvertError::Unsupported {
                what: format!("section compression method {other}"),
            });
        }
    };
    // A size that cannot be is no size that is too large.
    let possible = (compressed.payload.len() as u64).saturating_mul(ratio_max);
    if compressed.size > possible {
        let detail = format!(
            "{} compressed bytes cannot be the declared {}",
            compressed.payload.len(),
            compressed.size
        );
        return Err(damaged(section, &detail));
    }
    size_within(compressed.size, max)?;
    match decompress(&compressed) {
        Ok(bytes) => Ok(SectionBytes::Owned(bytes)),
        Err(Unreadable::Damaged(detail)) => Err(damaged(section, &detail)),
        Err(Unreadable::OutOfMemory) => Err(ConvertError::OutOfMemory {
            what: format!("section {}", String::from_utf8_lossy(section.name)),
            bytes: compressed.size,
        }),
    }
}

/// Decompresses a section whose declared size may be true.
type Decompressor = fn(&Compressed<'_>) -> Result<Vec<u8>, Unreadable>;

/// Why a section was not decompressed.
enum Unreadable {
    Damaged(String),
    OutOfMemory,
}

fn damaged(section: &ElfSection<'_>, detail: &str) -> ConvertError {
    ConvertError::Malformed {
        what: format!("section {}", String::from_utf8_lossy(section.name)),
        detail: detail.to_owned(),
    }
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

/// A compressed section, before it is decompressed.
struct Compressed<'data> {
    method: u32,
    size: u64,
    payload: &'data [u8],
}

/// The header `Elf32_Chdr` or `Elf64_Chdr` of a section with SHF_COMPRESSED.
fn compression_header<'data>(file: &ElfFile<'_>, bytes: &'data [u8]) -> Option<Compressed<'data>> {
    let endian = file.header.endian;
    let word = |at: usize| {
        let bytes = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(match endian {
            Endianness::Little => u32::from_le_bytes(bytes),
            Endianness::Big => u32::from_be_bytes(bytes),
        })
    };
    let long = |at: usize| {
        let bytes = bytes.get(at..at.checked_add(8)?)?.try_into().ok()?;
        Some(match endian {
            Endianness::Little => u64::from_le_bytes(bytes),
            Endianness::Big => u64::from_be_bytes(bytes),
        })
    };
    Some(match file.header.class {
        ElfClass::Elf32 => Compressed {
            method: word(0)?,
            size: word(4)?.into(),
            payload: bytes.get(12..)?,
        },
        ElfClass::Elf64 => Compressed {
            method: word(0)?,
            size: long(8)?,
            payload: bytes.get(24..)?,
        },
    })
}

/// The header of `.zdebug_*`: "ZLIB" and the size, always big-endian.
fn old_compression_header(bytes: &[u8]) -> Option<Compressed<'_>> {
    let (magic, rest) = bytes.split_at_checked(4)?;
    let (size, payload) = rest.split_first_chunk::<8>()?;
    (magic == b"ZLIB").then_some(Compressed {
        method: 1,
        size: u64::from_be_bytes(*size),
        payload,
    })
}

/// A buffer of the declared size.
fn buffer(compressed: &Compressed<'_>) -> Result<Vec<u8>, Unreadable> {
    let size = usize::try_from(compressed.size).unwrap_or(usize::MAX);
    let mut buffer = Vec::new();
    match buffer.try_reserve_exact(size) {
        Ok(()) => Ok(buffer),
        Err(_refused) => Err(Unreadable::OutOfMemory),
    }
}

fn inflate(compressed: &Compressed<'_>) -> Result<Vec<u8>, Unreadable> {
    let mut out = buffer(compressed)?;
    // The decoder panics when it is refused its own memory.
    Vec::<u8>::new()
        .try_reserve_exact(INFLATER_BYTES_MAX)
        .map_err(|_refused| Unreadable::OutOfMemory)?;
    let mut inflater = Decompress::new(true);
    let status = inflater
        .decompress_vec(compressed.payload, &mut out, FlushDecompress::Finish)
        .map_err(|error| Unreadable::Damaged(error.to_string()))?;
    if status == Status::StreamEnd {
        whole(out, compressed)
    } else {
        Err(Unreadable::Damaged(format!(
            "more or less than the declared {} bytes",
            compressed.size
        )))
    }
}

fn unzstd(compressed: &Compressed<'_>) -> Result<Vec<u8>, Unreadable> {
    let mut out = buffer(compressed)?;
    let mut context = DCtx::try_create().ok_or(Unreadable::OutOfMemory)?;
    match context.decompress(&mut out, compressed.payload) {
        Ok(_written) => whole(out, compressed),
        Err(code) => Err(match zstd_safe::get_error_name(code) {
            ZSTD_OUT_OF_MEMORY => Unreadable::OutOfMemory,
            other => Unreadable::Damaged(other.to_owned()),
        }),
    }
}

fn whole(out: Vec<u8>, compressed: &Compressed<'_>) -> Result<Vec<u8>, Unreadable> {
    if out.len() as u64 == compressed.size {
        Ok(out)
    } else {
        Err(Unreadable::Damaged(format!(
            "{} bytes, declared are {}",
            out.len(),
            compressed.size
        )))
    }
}
