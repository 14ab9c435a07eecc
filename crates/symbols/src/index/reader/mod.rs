//! A symbol index as bytes, opened: facts, single look-ups, and the views that a batch sweeps over.
//!
//! Opening decodes the front and three symbol tables and looks at nothing else, so a mapped file
//! answers in microseconds. Everything is read through checked sub-slices: damaged bytes give
//! wrong answers or an error, never a panic, and an error says where.

mod chain;
mod files;
mod names;
mod nodes;
mod rows;
mod segments;

use std::ops::Deref;

pub(super) use chain::{Call, DEPTH_MAX};
pub(super) use files::{Files, GROUP_FILES};
pub(super) use names::{
    DeclarationFile, GROUP_FUNCTIONS, NameRecord, Names, TAG_ATTRIBUTE, TAG_DECLARED_USUAL,
    TAG_FULL_DIFFERS, TAG_SHORT_OWN, TAG_SHORT_SUBSTRING, byte_of_attributes,
};
pub(super) use nodes::{BLOCK_NODES, NodeBlock, Nodes, UsualFiles};
pub(super) use rows::{BLOCK_ROWS, FoundRow, Hit, Place, RowBlock, RowFile, Rows};
pub(super) use segments::{Segment, Segments};

use super::bits::Bytes;
use super::error::IndexError;
use super::facts::{Counts, Facts};
use super::layout::{Front, Section, checksum};
use super::text::{SymbolTable, Text};
use super::{Frame, FunctionId, FunctionRecord, NameSet, SourceFileId};
use crate::address::LinkAddress;
use crate::model::NONE;

/// A symbol index over bytes that are owned, borrowed or mapped.
#[derive(Clone, Debug)]
pub struct SymbolIndex<D> {
    data: D,
    front: Front,
    counts: Counts,
    linkage_symbols: Box<SymbolTable>,
    full_symbols: Box<SymbolTable>,
    path_symbols: Box<SymbolTable>,
}

/// Memory that names and paths are decoded into, reused from call to call.
#[derive(Clone, Debug, Default)]
pub struct NameBuffer {
    text: Text,
}

impl<D: Deref<Target = [u8]>> SymbolIndex<D> {
    /// Opens an index. Costs microseconds, whatever its size; no checksum is verified.
    ///
    /// # Errors
    /// If `data` is not an index of this format version, or is cut short.
    pub fn parse(data: D) -> Result<Self, IndexError> {
        let front = Front::parse(&data)?;
        let section = |section| {
            data.get(front.entry(section).range.clone())
                .unwrap_or_default()
        };
        let counts = Counts::parse(section(Section::Facts));
        let mut tables = Bytes::new(section(Section::SymbolTables), 0);
        let linkage_symbols = SymbolTable::parse(&mut tables)?;
        let full_symbols = SymbolTable::parse(&mut tables)?;
        let path_symbols = SymbolTable::parse(&mut tables)?;
        let index = Self {
            data,
            front,
            counts,
            linkage_symbols,
            full_symbols,
            path_symbols,
        };
        index.check_counts()?;
        Ok(index)
    }

    /// The bytes that it was opened over.
    pub fn into_inner(self) -> D {
        self.data
    }

    /// Compares every byte with the checksums: once, when an index was fetched or written.
    ///
    /// # Errors
    /// If the front or a section has other bytes than were written.
    pub fn verify(&self) -> Result<(), IndexError> {
        let covered = self.data.get(24..self.front.length).unwrap_or_default();
        check(Section::Facts, self.front.checksum, covered)?;
        for section in Section::ALL {
            check(
                section,
                self.front.entry(section).checksum,
                self.section(section),
            )?;
        }
        Ok(())
    }

    /// What is known of the binary and of the conversion.
    ///
    /// # Errors
    /// If the facts are damaged.
    pub fn facts(&self) -> Result<Facts, IndexError> {
        Facts::parse(self.section(Section::Facts), self.front.converter_version)
    }

    /// The frames at `address`, innermost first: inlined calls, then the function that was really called.
    ///
    /// Empty when no function covers the address; that is no error, stripped code is common.
    /// Costs one binary search over blocks and the decoding of one row block and of the node blocks
    /// that the chain passes through. Names and paths are decoded apart, by [`Self::function`] and
    /// [`Self::path`].
    ///
    /// # Errors
    /// If a block that is needed is damaged. Other blocks stay usable.
    ///
    /// ```
    /// # use unhex_symbols::index::{SymbolIndex, NameBuffer, NameSet, write};
    /// # use unhex_symbols::{address::LinkAddress, model::Model};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut bytes = Vec::new();
    /// write(Model::default(), &mut bytes)?;
    /// let index = SymbolIndex::parse(bytes)?;
    /// let mut buffer = NameBuffer::default();
    /// for frame in index.frames(LinkAddress(0x1139))? {
    ///     let function = index.function(frame.function, NameSet::All, &mut buffer)?;
    ///     println!("{} line {}", function.full_name, frame.line);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn frames(&self, address: LinkAddress) -> Result<Vec<Frame>, IndexError> {
        let mut frames = Vec::new();
        let Some((segment, offset)) = self.segments().find(address.0) else {
            return Ok(frames);
        };
        let rows = self.rows();
        let Some(number) = segment.block_of(rows, offset) else {
            return Ok(frames);
        };
        let block = rows.block(number)?;
        let hit = block.hit(block.find(offset).row);
        chain::frames_of(self.nodes(), hit, &mut frames)?;
        Ok(frames)
    }

    /// The names of a function, as far as they are `wanted`; the others are empty.
    ///
    /// # Errors
    /// If its record is damaged, or no function has this number.
    pub fn function<'b>(
        &self,
        function: FunctionId,
        wanted: NameSet,
        buffer: &'b mut NameBuffer,
    ) -> Result<FunctionRecord<'b>, IndexError> {
        buffer.text.clear();
        let record = self.names().read(function.0, wanted, &mut buffer.text)?;
        let text = |range| buffer.text.str_at(range);
        Ok(FunctionRecord {
            linkage_name: text(record.linkage),
            full_name: text(record.full),
            short_name: text(record.short),
            declaration_file: self.declaration_file(function.0, &record),
            declaration_line: record.declaration_line,
            language: record.language,
            provenance: record.provenance,
        })
    }

    /// The path of a source file, as the debug information names it.
    ///
    /// # Errors
    /// If its record is damaged, or no file has this number.
    pub fn path<'b>(
        &self,
        file: SourceFileId,
        buffer: &'b mut NameBuffer,
    ) -> Result<&'b str, IndexError> {
        buffer.text.clear();
        let range = self.files().read(file.0, &mut buffer.text)?;
        Ok(buffer.text.str_at(range))
    }

    pub(super) fn declaration_file(
        &self,
        function: u32,
        record: &NameRecord,
    ) -> Option<SourceFileId> {
        let file = match record.declaration_file {
            DeclarationFile::Usual => self.usual_files().of(function),
            DeclarationFile::Other(file) => file,
        };
        (file != NONE).then_some(SourceFileId(file))
    }

    /// Tables are as long as the counts say; so what a count sizes is never larger than the file.
    fn check_counts(&self) -> Result<(), IndexError> {
        let counts = &self.counts;
        let entries = |section| self.section(section).len() / 4;
        let check = |section, expected: u32, group: u32| {
            if entries(section) == expected.div_ceil(group) as usize {
                return Ok(());
            }
            let what = "the table is not as long as its count says";
            Err(IndexError::Damaged {
                section,
                offset: 0,
                what,
            })
        };
        check(Section::NodeOffsets, counts.nodes, BLOCK_NODES)?;
        check(Section::FunctionOffsets, counts.functions, GROUP_FUNCTIONS)?;
        check(Section::FileOffsets, counts.files, GROUP_FILES)
    }

    #[inline]
    fn section(&self, section: Section) -> &[u8] {
        self.data
            .get(self.front.entry(section).range.clone())
            .unwrap_or_default()
    }

    #[inline]
    pub(super) fn segments(&self) -> Segments<'_> {
        Segments {
            table: self.section(Section::Segments).as_chunks().0,
            blocks: self.section(Section::RowStarts).len() / 4,
        }
    }

    #[inline]
    pub(super) fn rows(&self) -> Rows<'_> {
        Rows {
            starts: self.section(Section::RowStarts),
            offsets: self.section(Section::RowOffsets),
            data: self.section(Section::Rows),
        }
    }

    #[inline]
    pub(super) fn nodes(&self) -> Nodes<'_> {
        Nodes {
            count: self.counts.nodes,
            offsets: self.section(Section::NodeOffsets),
            data: self.section(Section::Nodes),
            usual: self.usual_files(),
        }
    }

    #[inline]
    fn usual_files(&self) -> UsualFiles<'_> {
        let table = self.section(Section::FunctionFiles);
        if self.counts.files < WIDE_FILES {
            UsualFiles::Narrow(table)
        } else {
            UsualFiles::Wide(table)
        }
    }

    #[inline]
    pub(super) fn names(&self) -> Names<'_> {
        Names {
            count: self.counts.functions,
            offsets: self.section(Section::FunctionOffsets),
            data: self.section(Section::Functions),
            linkage: &self.linkage_symbols,
            full: &self.full_symbols,
            attribute: self.counts.attribute,
        }
    }

    #[inline]
    pub(super) fn files(&self) -> Files<'_> {
        Files {
            count: self.counts.files,
            directory_offsets: self.section(Section::DirectoryOffsets),
            directories: self.section(Section::Directories),
            offsets: self.section(Section::FileOffsets),
            data: self.section(Section::Files),
            symbols: &self.path_symbols,
        }
    }
}

/// From so many files on, their numbers need more than 16 bits.
pub(super) const WIDE_FILES: u32 = 65_535;

fn check(section: Section, expected: u32, bytes: &[u8]) -> Result<(), IndexError> {
    let found = checksum(bytes);
    if found == expected {
        Ok(())
    } else {
        Err(IndexError::Checksum {
            section,
            expected,
            found,
        })
    }
}
