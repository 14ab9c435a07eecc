//! The facts of an index: which binary it is for, what its symbols are good for, what it was made from.

use unhex_build_id::BuildId;

use super::bits::{Bytes, put_varint};
use super::error::IndexError;
use super::layout::Section;
use crate::model::ModelHeader;
use crate::quality::Quality;
use crate::segments::{LoadSegment, LoadSegments};

/// What the front of an index says of the binary and of the conversion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Version of the converter that made it; a newer one may do better from the same sources.
    pub converter_version: u32,
    /// The build ID of the binary, if it has one.
    pub build_id: Option<BuildId>,
    /// `e_machine`.
    pub machine: u16,
    /// What the symbols are good for.
    pub quality: Quality,
    /// DWARF units that were read.
    pub units: u32,
    /// DWARF units that could not be read and were skipped.
    pub units_failed: u32,
    /// Units whose split part (.dwo, .dwp) was not at hand.
    pub units_without_dwo: u32,
    /// The build ID of the supplementary file that was not at hand.
    pub needs_supplement: Option<Box<[u8]>>,
    /// SHA-256 of each file it was made from.
    pub sources: Vec<[u8; 32]>,
    /// Program headers of the executable, if it was at hand.
    pub segments: Option<LoadSegments>,
    /// Address ranges that are told apart.
    pub rows: u64,
    /// Rows that have a line.
    pub lines: u64,
    /// Calls: functions as they were really called, and calls inlined into them.
    pub nodes: u32,
    /// Distinct functions.
    pub functions: u32,
    /// Distinct source files.
    pub files: u32,
}

/// Numbers that only the reader of the other sections needs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) nodes: u32,
    pub(super) functions: u32,
    pub(super) files: u32,
    /// Language and provenance of the functions that do not say their own.
    pub(super) attribute: u8,
}

impl Facts {
    /// The facts of a model, before anything was counted.
    pub(super) fn of_model(header: ModelHeader, converter_version: u32) -> Self {
        Self {
            converter_version,
            build_id: header.build_id,
            machine: header.machine,
            quality: header.quality,
            units: header.units,
            units_failed: header.units_failed,
            units_without_dwo: header.units_without_dwo,
            needs_supplement: header.needs_supplement,
            sources: header.sources,
            segments: header.segments,
            ..Self::default()
        }
    }

    /// The bytes of the facts section.
    pub(super) fn to_bytes(&self, attribute: u8) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(self.nodes.to_le_bytes());
        out.extend(self.functions.to_le_bytes());
        out.extend(self.files.to_le_bytes());
        out.extend(self.machine.to_le_bytes());
        out.push(quality_number(self.quality));
        out.push(attribute);
        out.extend(self.rows.to_le_bytes());
        out.extend(self.lines.to_le_bytes());
        out.extend(self.units.to_le_bytes());
        out.extend(self.units_failed.to_le_bytes());
        out.extend(self.units_without_dwo.to_le_bytes());
        let build_id = self.build_id.as_ref().map_or(&[][..], BuildId::as_bytes);
        put_bytes(&mut out, build_id);
        put_bytes(
            &mut out,
            self.needs_supplement.as_deref().unwrap_or_default(),
        );
        put_varint(&mut out, self.sources.len() as u64);
        out.extend(self.sources.iter().flatten());
        match &self.segments {
            None => put_varint(&mut out, 0),
            Some(segments) => put_segments(&mut out, segments),
        }
        out
    }

    /// Reads the facts section.
    pub(super) fn parse(data: &[u8], converter_version: u32) -> Result<Self, IndexError> {
        let mut bytes = Bytes::new(data, COUNTS_BYTES);
        let counts = Counts::parse(data);
        let [quality] = Bytes::new(data, QUALITY_OFFSET).chunk();
        let facts = Self {
            converter_version,
            nodes: counts.nodes,
            functions: counts.functions,
            files: counts.files,
            machine: u16::from_le_bytes(Bytes::new(data, MACHINE_OFFSET).chunk()),
            quality: quality_of_number(quality)
                .ok_or_else(|| damaged(QUALITY_OFFSET, "unknown quality"))?,
            rows: u64::from_le_bytes(bytes.chunk()),
            lines: u64::from_le_bytes(bytes.chunk()),
            units: u32::from_le_bytes(bytes.chunk()),
            units_failed: u32::from_le_bytes(bytes.chunk()),
            units_without_dwo: u32::from_le_bytes(bytes.chunk()),
            build_id: take_bytes(&mut bytes)?
                .map(|id| BuildId::from_bytes(&id))
                .transpose()
                .map_err(|_error| damaged(bytes.position(), "overlong build ID"))?,
            needs_supplement: take_bytes(&mut bytes)?,
            sources: take_sources(&mut bytes)?,
            segments: take_segments(&mut bytes)?,
        };
        Ok(facts)
    }
}

/// Bytes before the row count.
const COUNTS_BYTES: usize = 16;
const MACHINE_OFFSET: usize = 12;
const QUALITY_OFFSET: usize = 14;
const SEGMENT_BYTES: u64 = 41;

impl Counts {
    /// Reads the fixed front of the facts section; zeros where it is too short.
    pub(super) fn parse(data: &[u8]) -> Self {
        let mut bytes = Bytes::new(data, 0);
        Self {
            nodes: u32::from_le_bytes(bytes.chunk()),
            functions: u32::from_le_bytes(bytes.chunk()),
            files: u32::from_le_bytes(bytes.chunk()),
            attribute: Bytes::new(data, QUALITY_OFFSET + 1).byte(),
        }
    }
}

fn damaged(offset: usize, what: &'static str) -> IndexError {
    IndexError::Damaged {
        section: Section::Facts,
        offset: offset as u64,
        what,
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn take_bytes(bytes: &mut Bytes<'_>) -> Result<Option<Box<[u8]>>, IndexError> {
    let offset = bytes.position();
    let length = bytes.varint();
    let taken = bytes
        .take(length)
        .ok_or_else(|| damaged(offset, "bytes cut short"))?;
    Ok((!taken.is_empty()).then(|| taken.into()))
}

fn take_sources(bytes: &mut Bytes<'_>) -> Result<Vec<[u8; 32]>, IndexError> {
    let offset = bytes.position();
    let count = bytes.varint();
    let taken = bytes.take(count.saturating_mul(32));
    let taken = taken.ok_or_else(|| damaged(offset, "source hashes cut short"))?;
    Ok(taken.as_chunks::<32>().0.to_vec())
}

/// The number of load segments and one, then each: four numbers, alignment, whether executable.
fn put_segments(out: &mut Vec<u8>, segments: &LoadSegments) {
    put_varint(out, segments.0.len() as u64 + 1);
    for segment in &segments.0 {
        out.extend(segment.address.to_le_bytes());
        out.extend(segment.file_offset.to_le_bytes());
        out.extend(segment.file_size_bytes.to_le_bytes());
        out.extend(segment.memory_size_bytes.to_le_bytes());
        out.extend(segment.align.to_le_bytes());
        out.push(u8::from(segment.executable));
    }
}

fn take_segments(bytes: &mut Bytes<'_>) -> Result<Option<LoadSegments>, IndexError> {
    let offset = bytes.position();
    let Some(count) = bytes.varint().checked_sub(1) else {
        return Ok(None);
    };
    let taken = bytes.take(count.saturating_mul(SEGMENT_BYTES));
    let taken = taken.ok_or_else(|| damaged(offset, "load segments cut short"))?;
    let segment = |entry: &[u8; 41]| {
        let mut bytes = Bytes::new(entry, 0);
        LoadSegment {
            address: u64::from_le_bytes(bytes.chunk()),
            file_offset: u64::from_le_bytes(bytes.chunk()),
            file_size_bytes: u64::from_le_bytes(bytes.chunk()),
            memory_size_bytes: u64::from_le_bytes(bytes.chunk()),
            align: u64::from_le_bytes(bytes.chunk()),
            executable: bytes.byte() != 0,
        }
    };
    Ok(Some(LoadSegments(
        taken.as_chunks().0.iter().map(segment).collect(),
    )))
}

fn quality_number(quality: Quality) -> u8 {
    match quality {
        Quality::None => 0,
        Quality::Dynsym => 1,
        Quality::Symtab => 2,
        Quality::GoPclntab => 3,
        Quality::DwarfLines => 4,
        Quality::DwarfInlines => 5,
    }
}

fn quality_of_number(number: u8) -> Option<Quality> {
    Some(match number {
        0 => Quality::None,
        1 => Quality::Dynsym,
        2 => Quality::Symtab,
        3 => Quality::GoPclntab,
        4 => Quality::DwarfLines,
        5 => Quality::DwarfInlines,
        _ => return None,
    })
}
