//! The fixed front of an index: magic, versions and the table of sections.
//!
//! The order of the sections puts what every look-up needs first (facts, segments, symbol tables,
//! block starts), so that a cold file answers after one read-ahead of the disk.

use std::fmt;
use std::ops::Range;

use super::bits::Bytes;
use super::error::IndexError;

/// The first eight bytes of every index.
pub const MAGIC: [u8; 8] = *b"UNHEXSYM";
/// The version of the layout that this build writes and reads.
pub const FORMAT_VERSION: u32 = 1;
/// Bytes before the section table.
pub(super) const FRONT_BYTES: usize = 32;
/// Bytes of one entry of the section table.
pub(super) const ENTRY_BYTES: usize = 24;
/// Sections begin at multiples of this.
pub(super) const SECTION_ALIGN_BYTES: usize = 8;
/// Zeros after packed sections, so that the last number too is read by one 64-bit load.
pub(super) const PADDING_BYTES: usize = 8;

/// The sections in the order of the file; the discriminant is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
#[non_exhaustive]
pub enum Section {
    /// What is known of the binary and of the conversion.
    Facts = 1,
    /// Address ranges of 4 GiB, each with its first row block.
    Segments = 2,
    /// FSST symbol tables: linkage names, full names, paths.
    SymbolTables = 3,
    /// First address of each row block.
    RowStarts = 4,
    /// Where each row block lies.
    RowOffsets = 5,
    /// Where each node block lies.
    NodeOffsets = 6,
    /// Where each group of eight functions lies.
    FunctionOffsets = 7,
    /// The usual file of each function.
    FunctionFiles = 8,
    /// Where each directory lies.
    DirectoryOffsets = 9,
    /// Where each group of eight file names lies.
    FileOffsets = 10,
    /// Row blocks.
    Rows = 11,
    /// Node blocks.
    Nodes = 12,
    /// Function records.
    Functions = 13,
    /// Directories.
    Directories = 14,
    /// File names.
    Files = 15,
}

impl Section {
    /// All of them, in the order of the file.
    pub(super) const ALL: [Self; 15] = [
        Self::Facts,
        Self::Segments,
        Self::SymbolTables,
        Self::RowStarts,
        Self::RowOffsets,
        Self::NodeOffsets,
        Self::FunctionOffsets,
        Self::FunctionFiles,
        Self::DirectoryOffsets,
        Self::FileOffsets,
        Self::Rows,
        Self::Nodes,
        Self::Functions,
        Self::Directories,
        Self::Files,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Facts => "facts",
            Self::Segments => "segments",
            Self::SymbolTables => "symbol tables",
            Self::RowStarts => "row starts",
            Self::RowOffsets => "row offsets",
            Self::NodeOffsets => "node offsets",
            Self::FunctionOffsets => "function offsets",
            Self::FunctionFiles => "function files",
            Self::DirectoryOffsets => "directory offsets",
            Self::FileOffsets => "file offsets",
            Self::Rows => "rows",
            Self::Nodes => "nodes",
            Self::Functions => "functions",
            Self::Directories => "directories",
            Self::Files => "files",
        }
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where one section lies in the file, and what its bytes should hash to.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    pub(super) range: Range<usize>,
    pub(super) checksum: u32,
}

/// The front of an index, decoded.
#[derive(Clone, Debug)]
pub(super) struct Front {
    pub(super) converter_version: u32,
    pub(super) checksum: u32,
    /// Bytes of the front with the section table.
    pub(super) length: usize,
    entries: [Entry; Section::ALL.len()],
}

impl Front {
    /// Reads the front; every range lies within `data`.
    pub(super) fn parse(data: &[u8]) -> Result<Self, IndexError> {
        if data.first_chunk() != Some(&MAGIC) {
            return Err(IndexError::NotAnIndex);
        }
        let truncated = |what, needed| IndexError::Truncated {
            what,
            length: data.len() as u64,
            needed,
        };
        let front: &[u8; FRONT_BYTES] = data
            .first_chunk()
            .ok_or_else(|| truncated("the header", FRONT_BYTES as u64))?;
        let mut bytes = Bytes::new(front, MAGIC.len());
        let found = u32::from_le_bytes(bytes.chunk());
        if found != FORMAT_VERSION {
            return Err(IndexError::UnknownVersion {
                found,
                known: FORMAT_VERSION,
            });
        }
        let converter_version = u32::from_le_bytes(bytes.chunk());
        let sections = u32::from_le_bytes(bytes.chunk());
        let checksum = u32::from_le_bytes(bytes.chunk());
        let file_length = u64::from_le_bytes(bytes.chunk());
        if file_length > data.len() as u64 {
            return Err(truncated("its own length", file_length));
        }
        let length = FRONT_BYTES.saturating_add((sections as usize).saturating_mul(ENTRY_BYTES));
        let table = data
            .get(FRONT_BYTES..length)
            .ok_or_else(|| truncated("the section table", length as u64))?;
        let entries = parse_table(table, data.len())?;
        Ok(Self {
            converter_version,
            checksum,
            length,
            entries,
        })
    }

    /// Where a section lies; empty when it is not in the table.
    #[inline]
    pub(super) fn entry(&self, section: Section) -> &Entry {
        let [facts, ..] = &self.entries;
        self.entries.get(section as usize - 1).unwrap_or(facts)
    }
}

fn parse_table(
    table: &[u8],
    file_length: usize,
) -> Result<[Entry; Section::ALL.len()], IndexError> {
    let mut entries: [Entry; Section::ALL.len()] = Default::default();
    let mut seen = [false; Section::ALL.len()];
    for entry in table.as_chunks::<ENTRY_BYTES>().0 {
        let mut bytes = Bytes::new(entry, 0);
        let kind = u32::from_le_bytes(bytes.chunk());
        let checksum = u32::from_le_bytes(bytes.chunk());
        let offset = u64::from_le_bytes(bytes.chunk());
        let length = u64::from_le_bytes(bytes.chunk());
        let slot = (kind as usize).wrapping_sub(1);
        let (Some(place), Some(seen)) = (entries.get_mut(slot), seen.get_mut(slot)) else {
            continue; // of a later version that older readers need not know
        };
        let end = offset.saturating_add(length);
        let range = usize::try_from(offset).ok().zip(usize::try_from(end).ok());
        if let Some((start, end)) = range.filter(|(_, end)| *end <= file_length) {
            *place = Entry {
                range: start..end,
                checksum,
            }
        } else {
            let length = file_length as u64;
            return Err(IndexError::Truncated {
                what: "the end of a section",
                length,
                needed: end,
            });
        }
        *seen = true;
    }
    match Section::ALL.into_iter().zip(seen).find(|(_, seen)| !seen) {
        Some((section, _)) => Err(IndexError::MissingSection { section }),
        None => Ok(entries),
    }
}

/// CRC-32 (IEEE 802.3), the checksum of the front and of every section.
pub(super) fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}
