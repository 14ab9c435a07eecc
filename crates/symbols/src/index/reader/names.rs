//! The names of functions: in name order, prefix-coded against the first of each group of eight, then FSST.
//!
//! A record is found by going over at most seven others, and only it and the head of its group are
//! decoded. So one name costs tens of nanoseconds wherever it lies, which small batches need.

use crate::index::bits::{Bytes, fetch, u32_at};
use crate::index::error::IndexError;
use crate::index::layout::Section;
use crate::index::text::{SymbolTable, Text, TextRange};
use crate::index::{NAME_BYTES_MAX, NameSet};
use crate::model::{Language, NONE, Provenance};

/// Functions in a group.
pub(in crate::index) const GROUP_FUNCTIONS: u32 = 8;
/// Bits of a record's tag.
pub(in crate::index) const TAG_FULL_DIFFERS: u8 = 1;
/// The short name is a substring of the full one.
pub(in crate::index) const TAG_SHORT_SUBSTRING: u8 = 2;
/// The short name is a string of its own.
pub(in crate::index) const TAG_SHORT_OWN: u8 = 4;
/// The declaration is in the usual file of the function.
pub(in crate::index) const TAG_DECLARED_USUAL: u8 = 8;
/// Language and provenance follow, being other than the usual ones.
pub(in crate::index) const TAG_ATTRIBUTE: u8 = 16;

/// The sections that hold functions' names.
#[derive(Clone, Copy, Debug)]
pub(in crate::index) struct Names<'a> {
    pub(super) count: u32,
    pub(super) offsets: &'a [u8],
    pub(super) data: &'a [u8],
    pub(super) linkage: &'a SymbolTable,
    pub(super) full: &'a SymbolTable,
    pub(super) attribute: u8,
}

/// One function's names in an arena, and what else its record says.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::index) struct NameRecord {
    pub(in crate::index) linkage: TextRange,
    pub(in crate::index) full: TextRange,
    pub(in crate::index) short: TextRange,
    pub(in crate::index) declaration_file: DeclarationFile,
    pub(in crate::index) declaration_line: u32,
    pub(in crate::index) language: Language,
    pub(in crate::index) provenance: Provenance,
}

/// The file that a function is declared in.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::index) enum DeclarationFile {
    /// The usual file of the function's code.
    #[default]
    Usual,
    /// Another, or [`NONE`].
    Other(u32),
}

impl Names<'_> {
    /// How many functions there are.
    #[inline]
    pub(in crate::index) fn count(self) -> u32 {
        self.count
    }

    /// Fetches a group of functions, some of which will be read.
    #[inline]
    pub(in crate::index) fn fetch(self, group: u32) {
        let group = group as usize;
        let start = u32_at(self.offsets, group).unwrap_or(0) as usize;
        let end = u32_at(self.offsets, group + 1).map_or(usize::MAX, |end| end as usize);
        fetch(self.data, start, end);
    }

    /// Appends the wanted names of `function` to `text`.
    pub(in crate::index) fn read(
        self,
        function: u32,
        wanted: NameSet,
        text: &mut Text,
    ) -> Result<NameRecord, IndexError> {
        let group = function / GROUP_FUNCTIONS;
        let from = u32_at(self.offsets, group as usize).filter(|_| function < self.count);
        let from = from.ok_or_else(|| damaged(function as usize, "no such function"))? as usize;
        let mut bytes = Bytes::new(self.data, from);
        let head = Head::read(bytes);
        for _ in 0..function % GROUP_FUNCTIONS {
            bytes.byte();
            let length = bytes.varint();
            bytes.skip(length);
        }
        self.record(bytes, head, wanted, text)
    }

    fn record(
        self,
        mut bytes: Bytes<'_>,
        head: Head<'_>,
        wanted: NameSet,
        text: &mut Text,
    ) -> Result<NameRecord, IndexError> {
        let mut record = NameRecord::default();
        let tag = bytes.byte();
        bytes.varint();
        let full_differs = tag & TAG_FULL_DIFFERS != 0;
        let decodes_full = wanted.has_full() || wanted.has_short() && tag & TAG_SHORT_OWN == 0;
        let mut linkage = TextRange::default();
        if wanted.has_linkage() || decodes_full && !full_differs {
            linkage = self.name(Column::Linkage, &mut bytes, head, text)?;
        } else {
            go_over(&mut bytes);
        }
        let mut full = linkage;
        if full_differs && decodes_full {
            full = self.name(Column::Full, &mut bytes, head, text)?;
        } else if full_differs {
            go_over(&mut bytes);
        }
        let short = self.short_name(tag, &mut bytes, full, text)?;
        let asked = |range, wanted| if wanted { range } else { TextRange::default() };
        record.linkage = asked(linkage, wanted.has_linkage());
        record.full = asked(full, wanted.has_full());
        record.short = asked(short, wanted.has_short());
        record.declaration_file = if tag & TAG_DECLARED_USUAL != 0 {
            DeclarationFile::Usual
        } else {
            DeclarationFile::Other(bytes.varint32().checked_sub(1).unwrap_or(NONE))
        };
        record.declaration_line = bytes.varint32();
        let attribute = if tag & TAG_ATTRIBUTE != 0 {
            bytes.byte()
        } else {
            self.attribute
        };
        (record.language, record.provenance) = attributes_of_byte(attribute);
        Ok(record)
    }

    /// A name as {length of the prefix that it shares with the head's, length, FSST of the rest}.
    ///
    /// Of the head no more is decoded than is shared.
    #[inline]
    fn name(
        self,
        column: Column,
        bytes: &mut Bytes<'_>,
        head: Head<'_>,
        text: &mut Text,
    ) -> Result<TextRange, IndexError> {
        let offset = bytes.position();
        let shared = bytes.varint();
        let length = bytes.varint();
        let compressed = bytes
            .take(length)
            .ok_or_else(|| damaged(offset, "name cut short"))?;
        let start = text.len();
        let shared = usize::try_from(shared)
            .unwrap_or(usize::MAX)
            .min(NAME_BYTES_MAX);
        let table = match column {
            Column::Linkage => self.linkage,
            Column::Full => self.full,
        };
        if shared > 0 {
            let (head_table, head) = match (column, head.full) {
                (Column::Full, Some(full)) => (self.full, full),
                _ => (self.linkage, head.linkage),
            };
            head_table.decode(head, shared, text);
        }
        table.decode(compressed, NAME_BYTES_MAX, text);
        Ok(text.since(start))
    }

    fn short_name(
        self,
        tag: u8,
        bytes: &mut Bytes<'_>,
        full: TextRange,
        text: &mut Text,
    ) -> Result<TextRange, IndexError> {
        if tag & TAG_SHORT_SUBSTRING != 0 {
            let start = full.start.saturating_add(bytes.varint32());
            let end = start.saturating_add(bytes.varint32());
            let within = start <= end && end <= full.end;
            return Ok(if within {
                TextRange { start, end }
            } else {
                full
            });
        }
        if tag & TAG_SHORT_OWN != 0 {
            let offset = bytes.position();
            let length = bytes.varint();
            let compressed = bytes
                .take(length)
                .ok_or_else(|| damaged(offset, "name cut short"))?;
            let start = text.len();
            self.full.decode(compressed, NAME_BYTES_MAX, text);
            return Ok(text.since(start));
        }
        Ok(full)
    }
}

#[cold]
fn damaged(offset: usize, what: &'static str) -> IndexError {
    IndexError::Damaged {
        section: Section::Functions,
        offset: offset as u64,
        what,
    }
}

/// Which of the two prefix-coded names.
#[derive(Clone, Copy)]
enum Column {
    Linkage,
    Full,
}

/// The first function of a group: its names, still compressed.
#[derive(Clone, Copy)]
struct Head<'a> {
    linkage: &'a [u8],
    /// `None` where it is the linkage name.
    full: Option<&'a [u8]>,
}

impl<'a> Head<'a> {
    #[inline]
    fn read(mut bytes: Bytes<'a>) -> Self {
        let name = |bytes: &mut Bytes<'a>| {
            bytes.varint();
            let length = bytes.varint();
            bytes.take(length).unwrap_or_default()
        };
        let tag = bytes.byte();
        bytes.varint();
        let linkage = name(&mut bytes);
        let full = (tag & TAG_FULL_DIFFERS != 0).then(|| name(&mut bytes));
        Self { linkage, full }
    }
}

#[inline]
fn go_over(bytes: &mut Bytes<'_>) {
    bytes.varint();
    let length = bytes.varint();
    bytes.skip(length);
}

/// Language in the low four bits, provenance in the others.
pub(in crate::index) fn attributes_of_byte(byte: u8) -> (Language, Provenance) {
    let language = match byte & 15 {
        1 => Language::C,
        2 => Language::Cpp,
        3 => Language::Rust,
        4 => Language::Go,
        5 => Language::Assembler,
        6 => Language::D,
        7 => Language::Swift,
        8 => Language::Zig,
        9 => Language::Fortran,
        10 => Language::Ada,
        11 => Language::OCaml,
        12 => Language::ObjectiveC,
        15 => Language::Other,
        _ => Language::Unknown,
    };
    let provenance = match byte >> 4 {
        1 => Provenance::Symtab,
        2 => Provenance::Dynsym,
        3 => Provenance::Pclntab,
        4 => Provenance::Plt,
        5 => Provenance::Minidebuginfo,
        _ => Provenance::Dwarf,
    };
    (language, provenance)
}

/// The byte of a language and a provenance.
pub(in crate::index) fn byte_of_attributes(language: Language, provenance: Provenance) -> u8 {
    language as u8 | (provenance as u8) << 4
}
