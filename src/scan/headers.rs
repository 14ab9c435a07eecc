//! The headers and notes of an ELF file that others may write to meanwhile, without the rest of it.
//!
//! The file is never mapped: whoever truncates a mapped file ends this process. What is needed is
//! read to its place in memory that is as long as the file and takes none where nothing is read.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use memmap2::{Advice, MmapMut, MmapOptions};
use object::Endianness;
use object::elf::{FileHeader32, FileHeader64, PT_NOTE, SHT_NOTE};
use object::read::elf::{FileHeader, ProgramHeader as _, SectionHeader as _};
use unhex_symbols::elf::{ElfError, ElfSummary, SECTIONS_MAX, SEGMENTS_MAX, section_range};

/// What is read at the start: the ELF header, most program headers, and the notes of most programs.
const HEAD_BYTES: usize = 4_096;

/// The longest file whose headers are read, each of which takes as many addresses of this process:
/// sparse files can be longer than all there are.
const FILE_BYTES_MAX: u64 = 1 << 40;

/// Bytes of the names of all sections: a kernel module built with a section per function has 1 MB.
const NAMES_BYTES_MAX: u64 = 16 << 20;

/// Bytes of notes, and of the sections that name other files: real ones have some hundred, a kernel
/// some thousand.
const NOTES_BYTES_MAX: u64 = 1 << 20;

/// Largest entry of a table of headers: those of the format have 64 bytes at most.
const ENTRY_BYTES_MAX: u64 = 256;

/// Sections beside notes whose bytes tell something about the file.
const NAMED: [&[u8]; 2] = [b".gnu_debugaltlink", b".debug_sup"];

/// The headers and notes of an ELF file, at their places; the rest reads as zeros.
#[derive(Debug)]
pub(super) struct Headers {
    bytes: MmapMut,
}

impl Headers {
    /// Reads them from a file of that length; `None` when it is no ELF file.
    ///
    /// # Errors
    /// If the file cannot be read, or is too long to be one.
    pub(super) fn read(file: &File, size_bytes: u64) -> io::Result<Option<Self>> {
        let mut head = [0; HEAD_BYTES];
        let length = read_up_to(file, &mut head, 0)?;
        let head = head.get(..length).unwrap_or_default();
        if !head.starts_with(b"\x7fELF") {
            return Ok(None);
        }
        if size_bytes > FILE_BYTES_MAX {
            let detail = format!("an ELF file of more than {FILE_BYTES_MAX} bytes");
            return Err(io::Error::other(detail));
        }
        let size = usize::try_from(size_bytes).map_err(io::Error::other)?;
        let mut bytes = MmapOptions::new()
            .len(size.max(1))
            .no_reserve_swap()
            .map_anon()?;
        // A huge page for each few bytes would have to be cleared. Systems without them refuse.
        let _without_huge_pages = bytes.advise(Advice::NoHugePage);
        let known = head.len().min(bytes.len());
        if let (Some(to), Some(from)) = (bytes.get_mut(..known), head.get(..known)) {
            to.copy_from_slice(from);
        }
        let mut headers = Self { bytes };
        let mut filling = Filling {
            file,
            notes_left: NOTES_BYTES_MAX,
        };
        match head.get(4) {
            Some(1) => filling.fill::<FileHeader32<Endianness>>(&mut headers.bytes)?,
            Some(2) => filling.fill::<FileHeader64<Endianness>>(&mut headers.bytes)?,
            _ => None,
        };
        Ok(Some(headers))
    }

    /// What the file is.
    ///
    /// # Errors
    /// If it is damaged.
    pub(super) fn summary(&self) -> Result<ElfSummary, ElfError> {
        ElfSummary::read_with(&self.bytes, |_text| None)
    }

    /// Where the bytes of a section lie in the file.
    pub(super) fn section(&self, name: &str) -> Option<Range<u64>> {
        section_range(&self.bytes, name).ok().flatten()
    }
}

/// Reads what is needed, as the headers tell it; ends where they are damaged, which whoever parses
/// them will find again.
struct Filling<'a> {
    file: &'a File,
    notes_left: u64,
}

impl Filling<'_> {
    fn fill<Elf: FileHeader<Endian = Endianness>>(
        &mut self,
        bytes: &mut MmapMut,
    ) -> io::Result<Option<()>> {
        let Some(tables) = Tables::of::<Elf>(bytes) else {
            return Ok(None);
        };
        // The first section header has the counts that are too large for the ELF header.
        self.read(bytes, tables.first_section())?;
        let Some((segments, sections)) = tables.counts::<Elf>(bytes) else {
            return Ok(None);
        };
        self.read(
            bytes,
            table(tables.segments_at, segments, tables.segment_bytes),
        )?;
        self.read(
            bytes,
            table(tables.sections_at, sections, tables.section_bytes),
        )?;
        self.read(bytes, names::<Elf>(bytes).unwrap_or_default())?;
        for range in notes::<Elf>(bytes).unwrap_or_default() {
            let length = range.end.saturating_sub(range.start);
            let Some(left) = self.notes_left.checked_sub(length) else {
                break;
            };
            self.notes_left = left;
            self.read(bytes, range)?;
        }
        Ok(Some(()))
    }

    /// Reads a range of the file to its place; what is beyond its end stays zero.
    fn read(&self, bytes: &mut MmapMut, range: Range<u64>) -> io::Result<()> {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let range = range.start.min(length)..range.end.min(length);
        let (Ok(start), Ok(end)) = (usize::try_from(range.start), usize::try_from(range.end))
        else {
            return Ok(());
        };
        // The head is there already.
        if end > HEAD_BYTES
            && let Some(to) = bytes.get_mut(start..end)
        {
            read_up_to(self.file, to, range.start)?;
        }
        Ok(())
    }
}

/// Where the tables of headers lie.
struct Tables {
    segments_at: u64,
    segment_bytes: u64,
    sections_at: u64,
    section_bytes: u64,
}

impl Tables {
    fn of<Elf: FileHeader<Endian = Endianness>>(bytes: &MmapMut) -> Option<Self> {
        let header = Elf::parse(&bytes[..]).ok()?;
        let endian = header.endian().ok()?;
        Some(Self {
            segments_at: header.e_phoff(endian).into(),
            segment_bytes: u64::from(header.e_phentsize(endian)).min(ENTRY_BYTES_MAX),
            sections_at: header.e_shoff(endian).into(),
            section_bytes: u64::from(header.e_shentsize(endian)).min(ENTRY_BYTES_MAX),
        })
    }

    fn first_section(&self) -> Range<u64> {
        match self.sections_at {
            0 => 0..0,
            at => table(at, 1, self.section_bytes),
        }
    }

    /// How many segments and sections there are.
    fn counts<Elf: FileHeader<Endian = Endianness>>(&self, bytes: &MmapMut) -> Option<(u64, u64)> {
        let header = Elf::parse(&bytes[..]).ok()?;
        let endian = header.endian().ok()?;
        let most = |most: usize| u64::try_from(most).unwrap_or(u64::MAX);
        let segments = header.phnum(endian, &bytes[..]).ok()?;
        let sections = match self.sections_at {
            0 => 0,
            _ => header.shnum(endian, &bytes[..]).ok()?,
        };
        Some((
            u64::from(segments).min(most(SEGMENTS_MAX)),
            u64::from(sections).min(most(SECTIONS_MAX)),
        ))
    }
}

fn table(at: u64, count: u64, entry_bytes: u64) -> Range<u64> {
    at..at.saturating_add(count.saturating_mul(entry_bytes))
}

/// Where the names of sections are.
fn names<Elf: FileHeader<Endian = Endianness>>(bytes: &MmapMut) -> Option<Range<u64>> {
    let header = Elf::parse(&bytes[..]).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.section_headers(endian, &bytes[..]).ok()?;
    let number = header.shstrndx(endian, &bytes[..]).ok()?;
    let section = sections.get(usize::try_from(number).ok()?)?;
    let (at, length): (u64, u64) = (
        section.sh_offset(endian).into(),
        section.sh_size(endian).into(),
    );
    Some(table(at, 1, length.min(NAMES_BYTES_MAX)))
}

/// Where notes are, and what names other files.
fn notes<Elf: FileHeader<Endian = Endianness>>(bytes: &MmapMut) -> Option<Vec<Range<u64>>> {
    let header = Elf::parse(&bytes[..]).ok()?;
    let endian = header.endian().ok()?;
    let mut ranges = Vec::new();
    if let Ok(sections) = header.sections(endian, &bytes[..]) {
        for section in sections.iter() {
            let is_named = sections
                .section_name(endian, section)
                .is_ok_and(|name| NAMED.contains(&name));
            if section.sh_type(endian) == SHT_NOTE || is_named {
                let length: u64 = section.sh_size(endian).into();
                ranges.push(table(section.sh_offset(endian).into(), 1, length));
            }
        }
    }
    // The segments of a debug-only file point at what is no longer there.
    if ranges.is_empty() {
        for segment in header.program_headers(endian, &bytes[..]).ok()? {
            if segment.p_type(endian) == PT_NOTE {
                let length: u64 = segment.p_filesz(endian).into();
                ranges.push(table(segment.p_offset(endian).into(), 1, length));
            }
        }
    }
    Some(ranges)
}

/// Reads until `to` is full or the file ends.
fn read_up_to(file: &File, to: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0_usize;
    while let Some(rest) = to.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        let at = offset.saturating_add(u64::try_from(filled).map_err(io::Error::other)?);
        match file.read_at(rest, at) {
            Ok(0) => break,
            Ok(count) => filled = filled.saturating_add(count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary_of(path: &std::path::Path) -> (ElfSummary, ElfSummary) {
        let file = File::open(path).unwrap();
        let size = file.metadata().unwrap().len();
        let sparse = Headers::read(&file, size).unwrap().unwrap();
        let whole = ElfSummary::read(&std::fs::read(path).unwrap()).unwrap();
        (sparse.summary().unwrap(), whole)
    }

    #[test]
    fn headers_alone_tell_the_same_as_the_whole_file() {
        let program = unhex_testkit::fixture::Program::c("int main(void) { return 0; }")
            .flags(&["-g", "-O1"])
            .build();
        let own = std::env::current_exe().unwrap();
        for path in [
            program.path(),
            &program.debug_only(),
            &program.stripped(),
            &own,
        ] {
            let (sparse, whole) = summary_of(path);
            assert!(sparse.build_id.is_some() || path.as_os_str() == own.as_os_str());
            let whole = ElfSummary {
                text_sha256: None,
                ..whole
            };
            assert_eq!(sparse, whole, "{}", path.display());
        }
    }

    #[test]
    fn what_is_no_elf_file_or_cut_is_no_error_of_reading() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, b"#!/bin/sh\n").unwrap();
        assert!(
            Headers::read(&File::open(&path).unwrap(), 10)
                .unwrap()
                .is_none()
        );
        let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        for length in [0, 3, 16, 63, 64, 100, 5_000] {
            std::fs::write(&path, &whole[..length]).unwrap();
            let file = File::open(&path).unwrap();
            if let Some(headers) = Headers::read(&file, length as u64).unwrap() {
                assert!(headers.summary().is_err(), "{length}");
            }
        }
    }
}
