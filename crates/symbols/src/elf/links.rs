//! The files that an ELF file refers to: its separate debug file and its supplementary file.

use serde::{Deserialize, Serialize};
use unhex_build_id::BuildId;

use super::file::ElfFile;

/// Bytes of a file name in a link; `PATH_MAX` of Linux.
const NAME_BYTES_MAX: usize = 4_096;

/// What `.gnu_debuglink` says: the name of the separate debug file, and a checksum of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DebugLink {
    /// A file name without folders.
    pub name: String,
    /// CRC-32 of the whole debug file.
    pub crc: u32,
}

/// What `.gnu_debugaltlink` or `.debug_sup` says: the supplementary file that dwz made.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Supplement {
    /// Where it is, as the packager thought.
    pub name: String,
    /// Its build ID.
    pub build_id: BuildId,
}

impl DebugLink {
    pub(super) fn of(file: &ElfFile<'_>) -> Option<Self> {
        let bytes = file.bytes_of(file.section(".gnu_debuglink")?);
        let name = name(bytes)?;
        let crc_at = name.len().checked_add(1)?.checked_next_multiple_of(4)?;
        let crc = bytes.get(crc_at..crc_at.checked_add(4)?)?.try_into().ok()?;
        Some(Self {
            name: String::from_utf8_lossy(name).into_owned(),
            crc: match file.header.endian {
                object::Endianness::Little => u32::from_le_bytes(crc),
                object::Endianness::Big => u32::from_be_bytes(crc),
            },
        })
    }
}

impl Supplement {
    /// The supplementary file that `file` needs, if it needs one.
    pub fn of(file: &ElfFile<'_>) -> Option<Self> {
        let old = file.section(".gnu_debugaltlink");
        let old = old.and_then(|section| {
            let bytes = file.bytes_of(section);
            let name = name(bytes)?;
            Some((name, bytes.get(name.len().checked_add(1)?..)?))
        });
        let (name, id) = old.or_else(|| {
            let sup = DebugSup::of(file)?;
            (!sup.is_supplementary).then_some((sup.name, sup.checksum))
        })?;
        Some(Self {
            name: String::from_utf8_lossy(name).into_owned(),
            build_id: BuildId::from_bytes(id).ok()?,
        })
    }
}

/// The section `.debug_sup` of DWARF 5 §7.3.6.
pub(super) struct DebugSup<'data> {
    /// Whether this file is the supplementary one.
    pub(super) is_supplementary: bool,
    name: &'data [u8],
    checksum: &'data [u8],
}

impl<'data> DebugSup<'data> {
    pub(super) fn of(file: &ElfFile<'data>) -> Option<Self> {
        let bytes = file.bytes_of(file.section(".debug_sup")?);
        let name = name(bytes.get(3..)?)?;
        let length_at = name.len().checked_add(4)?;
        let length = *bytes.get(length_at)?;
        let checksum_at = length_at.checked_add(1)?;
        // A ULEB128 below 128 is one byte, and a build ID has at most 64 bytes.
        let checksum_end = checksum_at.checked_add(usize::from(length))?;
        Some(Self {
            is_supplementary: *bytes.get(2)? == 1,
            name,
            checksum: bytes.get(checksum_at..checksum_end)?,
        })
    }
}

fn name(bytes: &[u8]) -> Option<&[u8]> {
    let within = bytes.get(..NAME_BYTES_MAX).unwrap_or(bytes);
    within.get(..within.iter().position(|&byte| byte == 0)?)
}
