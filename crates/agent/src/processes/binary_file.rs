//! Reads what is needed of an ELF file that somebody else wrote and may be writing to.
//!
//! Nothing is mapped into memory: a file that shrinks while it is mapped kills who reads it. Only headers and the
//! sections that are asked for are read, each within a bound, so that a file of a terabyte of holes costs no more than
//! another one.

use std::cell::Cell;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use object::Endianness;
use object::elf::{
    FileHeader32, FileHeader64, PF_X, PT_GNU_EH_FRAME, PT_LOAD, SHF_COMPRESSED, SHT_NOBITS,
};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use object::read::{ReadCache, ReadRef};
use unhex_build_id::{ElfIdentities, FILE_HASH_PART_BYTES, FileHash, FileParts, Identity};
use unhex_symbols::address::LinkAddress;
use unhex_symbols::segments::{LoadSegment, LoadSegments};

/// Bytes of headers and notes that are read of one file: those of a library with 100,000 sections.
const HEADER_BYTES_MAX: u64 = 16 << 20;

/// Program headers that are looked at: real files have some fifteen.
const SEGMENTS_MAX: usize = 1024;

/// Largest section that is read: the unwind information of a browser, with all its libraries in one file, has some
/// 40 MB.
const SECTION_BYTES_MAX: u64 = 256 << 20;

/// An ELF file, opened.
#[derive(Debug)]
pub struct BinaryFile {
    source: Source,
    headers: ReadCache<Content>,
    header_bytes_left: Cell<u64>,
    is_64_bit: bool,
}

/// A section of an ELF file, as the file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The link address of its first byte; 0 for what is not loaded.
    pub address: LinkAddress,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// The sections that tell how to unwind; they are found by the program headers where section headers were removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnwindSections {
    /// `.eh_frame`.
    pub eh_frame: Option<Section>,
    /// `.eh_frame_hdr`, which has an index of the other.
    pub eh_frame_hdr: Option<Section>,
    /// `.debug_frame`, of a file that was built without the others.
    pub debug_frame: Option<Section>,
    /// The link addresses of `.got`, to which some encodings are relative.
    pub got: Option<Range<u64>>,
    /// The link addresses of `.text`, to which some encodings are relative.
    pub text: Option<Range<u64>>,
}

/// Where the bytes are.
#[derive(Clone, Debug)]
enum Source {
    File(Arc<File>),
    Memory(Arc<[u8]>),
}

impl Source {
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> Option<()> {
        match self {
            Self::File(file) => file.read_exact_at(bytes, offset).ok(),
            Self::Memory(memory) => {
                let start = usize::try_from(offset).ok()?;
                let end = start.checked_add(bytes.len())?;
                bytes.copy_from_slice(memory.get(start..end)?);
                Some(())
            }
        }
    }
}

/// The bytes, as headers are read from them: by position.
#[derive(Debug)]
struct Content {
    source: Source,
    length_bytes: u64,
    position: u64,
}

impl Read for Content {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = match &self.source {
            Source::File(file) => file.read_at(buffer, self.position)?,
            Source::Memory(memory) => {
                let start = usize::try_from(self.position).unwrap_or(usize::MAX);
                let mut rest = memory.get(start..).unwrap_or_default();
                Read::read(&mut rest, buffer)?
            }
        };
        self.position = self
            .position
            .saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        Ok(count)
    }
}

impl std::io::Seek for Content {
    fn seek(&mut self, to: std::io::SeekFrom) -> std::io::Result<u64> {
        let position = match to {
            std::io::SeekFrom::Start(position) => Some(position),
            std::io::SeekFrom::End(by) => self.length_bytes.checked_add_signed(by),
            std::io::SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        self.position = position.ok_or(std::io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

/// Headers within their bound.
#[derive(Clone, Copy)]
struct Headers<'file>(&'file BinaryFile);

impl Headers<'_> {
    fn spend(self, bytes: u64) -> Result<(), ()> {
        let left = self
            .0
            .header_bytes_left
            .get()
            .checked_sub(bytes)
            .ok_or(())?;
        self.0.header_bytes_left.set(left);
        Ok(())
    }
}

impl<'file> ReadRef<'file> for Headers<'file> {
    fn len(self) -> Result<u64, ()> {
        (&self.0.headers).len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'file [u8], ()> {
        self.spend(size)?;
        self.0.headers.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'file [u8], ()> {
        self.spend(1)?;
        self.0.headers.read_bytes_at_until(range, delimiter)
    }
}

/// One program header, of either class.
#[derive(Clone, Copy, Debug)]
struct Segment {
    kind: u32,
    load: LoadSegment,
}

impl BinaryFile {
    /// A file, if it is an ELF file.
    pub fn of_file(file: File) -> Option<Self> {
        let length_bytes = file.metadata().ok()?.len();
        Self::new(Source::File(Arc::new(file)), length_bytes)
    }

    /// The bytes of a file that is in memory.
    pub fn of_memory(bytes: Arc<[u8]>) -> Option<Self> {
        let length_bytes = bytes.len().try_into().ok()?;
        Self::new(Source::Memory(bytes), length_bytes)
    }

    fn new(source: Source, length_bytes: u64) -> Option<Self> {
        let mut start = [0; 5];
        source.read_exact_at(&mut start, 0)?;
        let is_64_bit = match &start {
            b"\x7fELF\x01" => false,
            b"\x7fELF\x02" => true,
            _ => return None,
        };
        let content = Content {
            source: source.clone(),
            length_bytes,
            position: 0,
        };
        Some(Self {
            source,
            headers: ReadCache::new(content),
            header_bytes_left: Cell::new(HEADER_BYTES_MAX),
            is_64_bit,
        })
    }

    /// Whether it is for processes of 64 bits.
    pub fn is_64_bit(&self) -> bool {
        self.is_64_bit
    }

    /// By what its debug files are found: its GNU build ID, else its Go build ID, else the hash of the file.
    /// `None` if it cannot be read any more.
    pub fn identity(&self) -> Option<Identity> {
        let ElfIdentities { gnu, go } = ElfIdentities::read_parts(Headers(self));
        gnu.map(Identity::Gnu)
            .or_else(|| go.map(Identity::Go))
            .or_else(|| self.file_hash().map(Identity::FileHash))
    }

    fn file_hash(&self) -> Option<FileHash> {
        let length_bytes = (&self.headers).len().ok()?;
        let part_bytes = u64::try_from(FILE_HASH_PART_BYTES).ok()?.min(length_bytes);
        let head = self.bytes_at(0, part_bytes)?;
        let tail = self.bytes_at(length_bytes.checked_sub(part_bytes)?, part_bytes)?;
        Some(FileHash::of_parts(FileParts {
            head: &head,
            tail: &tail,
            length_bytes,
        }))
    }

    /// Its loadable segments; none where its headers are damaged.
    pub fn segments(&self) -> LoadSegments {
        let all = self.program_headers().unwrap_or_default();
        let loaded = all.into_iter().filter(|segment| segment.kind == PT_LOAD.0);
        LoadSegments(loaded.map(|segment| segment.load).collect())
    }

    /// A section by its name; `None` if there is none, if it is compressed, and if it is larger than 256 MiB.
    pub fn section(&self, name: &str) -> Option<Section> {
        let (address, place) = self.find_section(name)?;
        Some(Section {
            address: LinkAddress(address),
            bytes: self.bytes_at(place.start, place.end.checked_sub(place.start)?)?,
        })
    }

    /// What is needed to unwind through it.
    pub fn unwind_sections(&self) -> UnwindSections {
        let addresses = |name| {
            let (address, place) = self.find_section(name)?;
            Some(address..address.checked_add(place.end.checked_sub(place.start)?)?)
        };
        let eh_frame = self
            .section(".eh_frame")
            .filter(|section| !section.bytes.is_empty());
        let mut found = UnwindSections {
            eh_frame_hdr: self.section(".eh_frame_hdr"),
            debug_frame: match eh_frame {
                Some(_) => None,
                None => self.section(".debug_frame"),
            },
            eh_frame,
            got: addresses(".got"),
            text: addresses(".text"),
        };
        if found.eh_frame.is_none()
            && let Some((hdr, eh_frame)) = self.unwind_sections_by_segments()
        {
            found.eh_frame_hdr = Some(hdr);
            found.eh_frame = Some(eh_frame);
        }
        found
    }

    /// `.eh_frame_hdr` and `.eh_frame` of a file without section headers: the one has a program header, and begins
    /// with where the other is, which goes to the end of its segment at most and ends itself by an entry of length 0.
    fn unwind_sections_by_segments(&self) -> Option<(Section, Section)> {
        // DW_EH_PE_pcrel | DW_EH_PE_sdata4: what all linkers write.
        const PCREL_SDATA4: u8 = 0x1b;
        let segments = self.program_headers()?;
        let hdr = segments
            .iter()
            .find(|segment| segment.kind == PT_GNU_EH_FRAME.0)?
            .load;
        let bytes = self.bytes_at(hdr.file_offset, hdr.file_size_bytes)?;
        let [1, PCREL_SDATA4, _, _, relative @ ..] = bytes.get(..8)? else {
            return None;
        };
        let relative = i32::from_le_bytes(relative.try_into().ok()?);
        let address = hdr
            .address
            .checked_add(4)?
            .checked_add_signed(relative.into())?;
        let segment = segments
            .iter()
            .filter(|segment| segment.kind == PT_LOAD.0)
            .find_map(|segment| {
                let within = address.checked_sub(segment.load.address)?;
                let left = segment.load.file_size_bytes.checked_sub(within)?;
                Some((segment.load.file_offset.checked_add(within)?, left))
            });
        let (offset, left) = segment?;
        let section = |address, bytes| Section {
            address: LinkAddress(address),
            bytes,
        };
        Some((
            section(hdr.address, bytes),
            section(address, self.bytes_at(offset, left)?),
        ))
    }

    fn program_headers(&self) -> Option<Vec<Segment>> {
        if self.is_64_bit {
            program_headers::<FileHeader64<Endianness>>(Headers(self))
        } else {
            program_headers::<FileHeader32<Endianness>>(Headers(self))
        }
    }

    /// Link address and file offsets of a section.
    fn find_section(&self, name: &str) -> Option<(u64, Range<u64>)> {
        if self.is_64_bit {
            find_section::<FileHeader64<Endianness>>(Headers(self), name)
        } else {
            find_section::<FileHeader32<Endianness>>(Headers(self), name)
        }
    }

    /// A piece of the file. The length is checked against the file's before there is memory for it.
    fn bytes_at(&self, offset: u64, length_bytes: u64) -> Option<Vec<u8>> {
        let end = offset.checked_add(length_bytes)?;
        if length_bytes > SECTION_BYTES_MAX || end > (&self.headers).len().ok()? {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(length_bytes).ok()?];
        self.source.read_exact_at(&mut bytes, offset)?;
        Some(bytes)
    }
}

fn program_headers<Elf: FileHeader<Endian = Endianness>>(
    data: Headers<'_>,
) -> Option<Vec<Segment>> {
    let header = Elf::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let all = header.program_headers(endian, data).ok()?;
    let segment = |header: &Elf::ProgramHeader| Segment {
        kind: header.p_type(endian).0,
        load: LoadSegment {
            address: header.p_vaddr(endian).into(),
            file_offset: header.p_offset(endian).into(),
            file_size_bytes: header.p_filesz(endian).into(),
            memory_size_bytes: header.p_memsz(endian).into(),
            align: header.p_align(endian).into(),
            executable: header.p_flags(endian).0 & PF_X.0 != 0,
        },
    };
    Some(all.iter().take(SEGMENTS_MAX).map(segment).collect())
}

fn find_section<Elf: FileHeader<Endian = Endianness>>(
    data: Headers<'_>,
    name: &str,
) -> Option<(u64, Range<u64>)> {
    let header = Elf::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, data).ok()?;
    let (_, section) = sections.section_by_name(endian, name.as_bytes())?;
    let is_compressed = section.sh_flags(endian).0 & SHF_COMPRESSED.0 != 0;
    if section.sh_type(endian) == SHT_NOBITS || is_compressed {
        return None;
    }
    let offset: u64 = section.sh_offset(endian).into();
    let end = offset.checked_add(section.sh_size(endian).into())?;
    Some((section.sh_addr(endian).into(), offset..end))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use unhex_testkit::fixture::Program;

    use super::*;

    fn program() -> Program {
        Program::c("int main(void) { return 0; }").flags(&["-g"])
    }

    fn opened(bytes: &[u8]) -> BinaryFile {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        BinaryFile::of_file(file).unwrap()
    }

    #[test]
    fn a_file_has_its_build_id_and_else_its_hash() {
        let with = program().build();
        let identity = opened(&with.bytes()).identity().unwrap();
        assert_eq!(identity, Identity::Gnu(with.build_id().parse().unwrap()));
        let without = program().without_build_id().build().bytes();
        let hash = FileHash::of(&without);
        assert_eq!(opened(&without).identity(), Some(Identity::FileHash(hash)));
    }

    #[test]
    fn segments_and_sections_are_those_that_are_read_of_the_whole_file() {
        use object::{Object, ObjectSection};
        let bytes = program().build().bytes();
        let elf = opened(&bytes);
        let whole = object::File::parse(&*bytes).unwrap();
        let named = |name: &str| {
            let section = whole.section_by_name(name)?;
            Some(Section {
                address: LinkAddress(section.address()),
                bytes: section.data().unwrap().to_vec(),
            })
        };
        let sections = elf.unwind_sections();
        assert_eq!(sections.eh_frame, named(".eh_frame"));
        assert_eq!(sections.eh_frame_hdr, named(".eh_frame_hdr"));
        assert_eq!(
            sections.text.unwrap().start,
            named(".text").unwrap().address.0
        );
        assert_eq!(sections.debug_frame, None);
        assert_eq!(elf.section(".bss"), None);
        assert_eq!(elf.section(".nothing"), None);
        let summary = unhex_symbols::elf::ElfSummary::read(&bytes).unwrap();
        assert_eq!(elf.segments(), summary.segments);
    }

    #[test]
    fn unwind_information_is_found_without_section_headers() {
        let mut bytes = program().build().bytes();
        let whole = opened(&bytes).unwind_sections();
        // e_shoff, e_shnum and e_shstrndx.
        bytes[0x28..0x30].fill(0);
        bytes[0x3c..0x40].fill(0);
        let stripped = opened(&bytes);
        assert_eq!(stripped.section(".text"), None);
        let found = stripped.unwind_sections();
        assert_eq!(found.eh_frame_hdr, whole.eh_frame_hdr);
        let (found, whole) = (found.eh_frame.unwrap(), whole.eh_frame.unwrap());
        assert_eq!(found.address, whole.address);
        assert!(found.bytes.starts_with(&whole.bytes));
    }

    #[test]
    fn a_file_of_holes_costs_no_more_than_its_bounds() {
        let mut bytes = program().build().bytes();
        // A section header table of 65535 sections and a note segment of half a terabyte.
        bytes[0x3c..0x3e].copy_from_slice(&u16::MAX.to_le_bytes());
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        file.set_len(1 << 40).unwrap();
        let elf = BinaryFile::of_file(file).unwrap();
        assert_eq!(elf.bytes_at(0, SECTION_BYTES_MAX + 1), None);
        let Some(Identity::Gnu(_)) = elf.identity() else {
            panic!("the segments have its build ID: {elf:?}");
        };
        let mut reads = 0;
        while Headers(&elf).read_bytes_at(reads, 1 << 20).is_ok() {
            reads += 1;
        }
        assert!(reads <= HEADER_BYTES_MAX >> 20, "{reads}");
    }

    #[test]
    fn what_is_no_elf_file_is_none() {
        for bytes in [&b""[..], b"\x7fELF", b"#!/bin/sh\n", b"\x7fELF\x03aaaaaaaa"] {
            assert!(BinaryFile::of_memory(bytes.into()).is_none(), "{bytes:?}");
        }
    }

    #[test]
    fn a_damaged_file_has_what_is_left_of_it() {
        let bytes = program().build().bytes();
        for step in 0..bytes.len() / 64 {
            let mut damaged = bytes.clone();
            damaged[step * 16 % 0x400] ^= 0xff;
            damaged.truncate(bytes.len() - step * 32);
            if let Some(elf) = BinaryFile::of_memory(damaged.into()) {
                let _ = (elf.identity(), elf.segments(), elf.unwind_sections());
            }
        }
    }
}
