//! What is remembered of an ELF file: enough to serve, rate and compare it without its bytes.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use object::{Endianness, elf};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use unhex_build_id::{BuildId, ElfIdentities, GoBuildId};

use super::classify::{ElfRole, SplitDwarf, quality_estimate};
use super::error::ElfError;
use super::file::{ElfClass, ElfFile};
use super::links::{DebugLink, DebugSup, Supplement};
use crate::quality::Quality;
use crate::segments::{LoadSegment, LoadSegments};

/// Loaded sections that are remembered: a linked file has some 30, a kernel module some 500.
const ALLOCATED_SECTIONS_MAX: usize = 16_384;

/// Bytes of the names of them all: many sections may share one long name, so that a small file would
/// have a summary of gigabytes.
const SECTION_NAMES_BYTES_MAX: usize = 2 << 20;

/// What is remembered of an ELF file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ElfSummary {
    /// 32 or 64 bits.
    pub class: ElfClass,
    /// Whether it is little-endian.
    pub little_endian: bool,
    /// `e_type`.
    pub file_type: u16,
    /// `e_machine`.
    pub machine: u16,
    /// `e_entry`.
    pub entry: u64,
    /// The PT_LOAD program headers. Of a debug-only file, offsets and sizes in the file are void.
    pub segments: LoadSegments,
    /// The loaded sections in order of the file; empty when section headers are stripped.
    pub allocated_sections: Vec<AllocatedSection>,
    /// SHA-256 of the bytes of `.text`, when they are in the file.
    pub text_sha256: Option<TextHash>,
    /// What it is to its build ID.
    pub role: ElfRole,
    /// What its symbols are good for, at best.
    pub quality_estimate: Quality,
    /// The GNU build ID.
    pub build_id: Option<BuildId>,
    /// The Go build ID.
    pub go_build_id: Option<GoBuildId>,
    /// Its separate debug file.
    pub debug_link: Option<DebugLink>,
    /// The supplementary file that it needs.
    pub supplement: Option<Supplement>,
    /// Whether it is itself the supplementary file of others.
    pub is_supplement: bool,
    /// Whether it is the split part of others.
    pub split_dwarf: Option<SplitDwarf>,
}

/// One section that is loaded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AllocatedSection {
    /// Its name.
    pub name: String,
    /// Link address.
    pub address: u64,
    /// Its length in memory.
    pub size_bytes: u64,
    /// `sh_type`, which is SHT_NOBITS in a debug-only file.
    pub kind: u32,
    /// `sh_flags`.
    pub flags: u64,
}

/// SHA-256 of the bytes of `.text`, written in hex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TextHash(pub [u8; 32]);

/// A text that is no SHA-256.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no SHA-256 in hex")]
pub struct ParseTextHashError(String);

impl ElfSummary {
    /// The summary of the ELF file whose whole content is `file`.
    ///
    /// Reads headers, notes and `.text`, which is hashed; nothing is decompressed.
    ///
    /// # Errors
    /// If `file` is no ELF file, truncated or damaged, or has too many sections.
    pub fn read(file: &[u8]) -> Result<Self, ElfError> {
        let hash = |bytes: &[u8]| Some(TextHash(Sha256::digest(bytes).into()));
        Self::read_with(file, |text| {
            let range = usize::try_from(text.start).ok()?..usize::try_from(text.end).ok()?;
            file.get(range).and_then(hash)
        })
    }

    /// The same, with `.text` hashed by the caller, who is told where its bytes lie in the file: of a
    /// mapped file, hashing hundreds of megabytes through the map makes all of them resident.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_with(
        file: &[u8],
        hash_text: impl FnOnce(Range<u64>) -> Option<TextHash>,
    ) -> Result<Self, ElfError> {
        let elf = ElfFile::parse(file)?;
        let identities = ElfIdentities::read(file);
        Ok(Self {
            class: elf.header.class,
            little_endian: elf.header.endian == Endianness::Little,
            file_type: elf.header.file_type,
            machine: elf.header.machine,
            entry: elf.header.entry,
            segments: load_segments(&elf),
            allocated_sections: allocated_sections(&elf)?,
            text_sha256: text_range(&elf).and_then(hash_text),
            role: ElfRole::of(&elf),
            quality_estimate: quality_estimate(&elf),
            build_id: identities.gnu,
            go_build_id: identities.go,
            debug_link: DebugLink::of(&elf),
            supplement: Supplement::of(&elf),
            is_supplement: is_supplement(&elf),
            split_dwarf: SplitDwarf::of(&elf),
        })
    }
}

/// The PT_LOAD program headers of a file, in its order.
pub(crate) fn load_segments(elf: &ElfFile<'_>) -> LoadSegments {
    let loads = elf.segments.iter().filter(|s| s.kind == elf::PT_LOAD.0);
    LoadSegments(
        loads
            .map(|segment| LoadSegment {
                address: segment.address,
                file_offset: segment.offset,
                file_size_bytes: segment.file_size,
                memory_size_bytes: segment.memory_size,
                align: segment.align,
                executable: segment.flags & elf::PF_X.0 != 0,
            })
            .collect(),
    )
}

fn allocated_sections(elf: &ElfFile<'_>) -> Result<Vec<AllocatedSection>, ElfError> {
    let allocated = || elf.sections.iter().filter(|s| s.is_allocated());
    let count = allocated().count();
    if count > ALLOCATED_SECTIONS_MAX {
        return Err(ElfError::TooMany {
            what: "allocated sections",
            count,
            max: ALLOCATED_SECTIONS_MAX,
        });
    }
    let count = allocated().map(|section| section.name.len()).sum();
    if count > SECTION_NAMES_BYTES_MAX {
        return Err(ElfError::TooMany {
            what: "bytes of names of allocated sections",
            count,
            max: SECTION_NAMES_BYTES_MAX,
        });
    }
    Ok(allocated()
        .map(|section| AllocatedSection {
            name: String::from_utf8_lossy(section.name).into_owned(),
            address: section.address,
            size_bytes: section.size,
            kind: section.kind,
            flags: section.flags,
        })
        .collect())
}

/// Where the bytes of `.text` lie, when they are in the file.
fn text_range(elf: &ElfFile<'_>) -> Option<Range<u64>> {
    let text = elf.section(".text")?;
    let is_there = text.has_bytes() && !elf.bytes_of(text).is_empty();
    is_there.then(|| text.offset..text.offset.saturating_add(text.size))
}

/// dwz makes a file without segments that says so in `.debug_sup`, or, in the GNU form, nowhere.
fn is_supplement(elf: &ElfFile<'_>) -> bool {
    let says_so = DebugSup::of(elf).is_some_and(|sup| sup.is_supplementary);
    let loads = |s: &super::ElfSection<'_>| s.is_allocated() && s.kind != elf::SHT_NOTE.0;
    let bare = elf.segments.is_empty() && !elf.sections.iter().any(loads);
    says_so
        || (bare && elf.section(".debug_info").is_some() && elf.header.file_type != elf::ET_REL.0)
}

impl fmt::Display for TextHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        unhex_build_id::Hex(&self.0).fmt(f)
    }
}

impl FromStr for TextHash {
    type Err = ParseTextHashError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = || ParseTextHashError(text.to_owned());
        // Both are 1 to 64 bytes of hex; the length is checked here.
        let bytes: BuildId = text.parse().map_err(|_error| refuse())?;
        bytes
            .as_bytes()
            .try_into()
            .map(Self)
            .map_err(|_error| refuse())
    }
}

impl TryFrom<String> for TextHash {
    type Error = ParseTextHashError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<TextHash> for String {
    fn from(hash: TextHash) -> Self {
        hash.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file of `count` loaded sections that share one name.
    fn of_sections(count: u16, name: &[u8]) -> Vec<u8> {
        let header = |fields: [u64; 6]| -> Vec<u8> {
            let [name, kind, flags, offset, size, align] = fields;
            let mut bytes = Vec::new();
            bytes.extend(u32::try_from(name).unwrap().to_le_bytes());
            bytes.extend(u32::try_from(kind).unwrap().to_le_bytes());
            for field in [flags, 0, offset, size] {
                bytes.extend(field.to_le_bytes());
            }
            bytes.extend([0; 8]);
            bytes.extend(align.to_le_bytes());
            bytes.extend([0; 8]);
            bytes
        };
        let names_at = 64 + (u64::from(count) + 2) * 64;
        let names_length = u64::try_from(name.len()).unwrap() + 2;
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(16, 0);
        file.extend([3, 0, 62, 0, 1, 0, 0, 0]);
        file.extend([0; 16]);
        file.extend(64_u64.to_le_bytes());
        file.extend([0; 4]);
        for field in [64, 56, 0, 64, count + 2, 1] {
            file.extend(field.to_le_bytes());
        }
        file.extend([0; 64]);
        let strings = u64::from(elf::SHT_STRTAB.0);
        file.extend(header([0, strings, 0, names_at, names_length, 1]));
        for _ in 0..count {
            file.extend(header([1, 8, elf::SHF_ALLOC.0, 0, 16, 1]));
        }
        file.push(0);
        file.extend(name);
        file.push(0);
        file
    }

    #[test]
    fn many_sections_that_share_a_long_name_are_refused() {
        let sound = ElfSummary::read(&of_sections(100, &[b'x'; 4_000])).unwrap();
        assert_eq!(sound.allocated_sections.len(), 100);
        assert_eq!(sound.allocated_sections[99].name.len(), 4_000);
        let refused = ElfSummary::read(&of_sections(16_384, &[1; 4_000]));
        assert!(
            matches!(refused, Err(ElfError::TooMany { .. })),
            "{refused:?}"
        );
    }
}
