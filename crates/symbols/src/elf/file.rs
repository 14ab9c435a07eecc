//! The tables of an ELF file, of either class and byte order, as one plain structure.
//!
//! Everything that this crate does with ELF starts here, so the bounds stand here too: how many
//! sections and segments there may be, how long a name is, and that sections lie within the file.

use object::Endianness;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};

use super::{ElfError, FileFormat, what_is_it};

/// Sections in one file: a kernel module built with a section per function has some 10,000.
pub const SECTIONS_MAX: usize = 200_000;

/// Program headers in one file: core dumps aside, real ones have about a dozen.
pub const SEGMENTS_MAX: usize = 4_096;

/// Bytes of a section's name: names come from functions at times, and these can be long.
const SECTION_NAME_BYTES_MAX: usize = 4_096;

/// 32 or 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ElfClass {
    /// 32-bit addresses.
    Elf32,
    /// 64-bit addresses.
    Elf64,
}

/// The fields of the ELF header that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElfHeader {
    /// 32 or 64 bits.
    pub class: ElfClass,
    /// The byte order.
    pub endian: Endianness,
    /// `e_type`.
    pub file_type: u16,
    /// `e_machine`.
    pub machine: u16,
    /// `e_entry`: a link address, 0 when there is none.
    pub entry: u64,
}

/// One section header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElfSection<'data> {
    /// Its name; empty when it cannot be read.
    pub name: &'data [u8],
    /// `sh_type`.
    pub kind: u32,
    /// `sh_flags`.
    pub flags: u64,
    /// `sh_addr`.
    pub address: u64,
    /// `sh_offset`.
    pub offset: u64,
    /// `sh_size`.
    pub size: u64,
    /// `sh_link`.
    pub link: u32,
    /// `sh_info`.
    pub info: u32,
    /// `sh_addralign`.
    pub align: u64,
    /// `sh_entsize`.
    pub entry_size: u64,
}

/// One program header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElfSegment {
    /// `p_type`.
    pub kind: u32,
    /// `p_flags`.
    pub flags: u32,
    /// `p_vaddr`.
    pub address: u64,
    /// `p_offset`.
    pub offset: u64,
    /// `p_filesz`.
    pub file_size: u64,
    /// `p_memsz`.
    pub memory_size: u64,
    /// `p_align`.
    pub align: u64,
}

/// The tables of an ELF file.
#[derive(Clone, Debug)]
pub struct ElfFile<'data> {
    /// The whole file.
    pub data: &'data [u8],
    /// The ELF header.
    pub header: ElfHeader,
    /// The section headers, the null one included; empty when they are stripped.
    pub sections: Vec<ElfSection<'data>>,
    /// The program headers.
    pub segments: Vec<ElfSegment>,
}

impl ElfSection<'_> {
    /// Whether its bytes are in the file.
    pub fn has_bytes(&self) -> bool {
        self.kind != elf::SHT_NOBITS.0 && self.kind != elf::SHT_NULL.0
    }

    /// Whether it is loaded.
    pub fn is_allocated(&self) -> bool {
        self.flags & elf::SHF_ALLOC.0 != 0
    }

    /// Whether it is loaded and has code.
    pub fn is_code(&self) -> bool {
        self.is_allocated() && self.flags & elf::SHF_EXECINSTR.0 != 0
    }
}

impl<'data> ElfFile<'data> {
    /// The tables of `file`.
    ///
    /// # Errors
    /// If it is no ELF file, if it ends before its own tables or sections, if it has more than
    /// [`SECTIONS_MAX`] sections or [`SEGMENTS_MAX`] segments, if a table cannot be read, or if one
    /// refers to what is not there.
    pub fn parse(file: &'data [u8]) -> Result<Self, ElfError> {
        match what_is_it(file) {
            FileFormat::Elf => {}
            other => return Err(ElfError::NotElf(other)),
        }
        match file.get(4) {
            Some(1) => Self::parse_class::<elf::FileHeader32<Endianness>>(file, ElfClass::Elf32),
            Some(2) => Self::parse_class::<elf::FileHeader64<Endianness>>(file, ElfClass::Elf64),
            Some(&value) => Err(ElfError::UnknownIdent {
                field: "class",
                value,
            }),
            None => Err(truncated("the ELF header", 64, file)),
        }
    }

    fn parse_class<Elf: FileHeader<Endian = Endianness>>(
        file: &'data [u8],
        class: ElfClass,
    ) -> Result<Self, ElfError> {
        let header_size = size_of::<Elf>();
        if file.len() < header_size {
            return Err(truncated("the ELF header", header_size as u64, file));
        }
        let header = Elf::parse(file).map_err(damaged("the ELF header"))?;
        let endian = header.endian().map_err(damaged("the byte order"))?;
        let mut parsed = Self {
            data: file,
            header: ElfHeader {
                class,
                endian,
                file_type: header.e_type(endian).0,
                machine: header.e_machine(endian).0,
                entry: header.e_entry(endian).into(),
            },
            sections: Vec::new(),
            segments: Vec::new(),
        };
        parsed.segments = segments(header, endian, file)?;
        parsed.sections = sections(header, endian, file)?;
        parsed.check_extents()?;
        parsed.check_symbol_tables(size_of::<Elf::Sym>() as u64)?;
        Ok(parsed)
    }

    /// The first section of that name.
    pub fn section(&self, name: &str) -> Option<&ElfSection<'data>> {
        self.sections.iter().find(|s| s.name == name.as_bytes())
    }

    /// The raw bytes of a section, still compressed if they are; empty when it has none.
    pub fn bytes_of(&self, section: &ElfSection<'_>) -> &'data [u8] {
        if !section.has_bytes() {
            return &[];
        }
        range(section.offset, section.size)
            .and_then(|range| self.data.get(range))
            .unwrap_or_default()
    }

    /// Sections have to lie within the file. Segments need not: a debug-only file keeps the
    /// program headers of what it was split from. They are looked at when there are no sections.
    fn check_extents(&self) -> Result<(), ElfError> {
        let length = self.data.len() as u64;
        let beyond = |what: &dyn Fn() -> String, offset: u64, size: u64| {
            let end = offset.saturating_add(size);
            if end > length {
                return Err(ElfError::Truncated {
                    what: what(),
                    end,
                    length,
                });
            }
            Ok(())
        };
        for section in self.sections.iter().filter(|s| s.has_bytes()) {
            let name = || format!("section {}", String::from_utf8_lossy(section.name));
            beyond(&name, section.offset, section.size)?;
        }
        for (number, segment) in self.segments.iter().enumerate() {
            if self.sections.is_empty() && segment.kind == elf::PT_LOAD.0 {
                let name = || format!("program header {number}");
                beyond(&name, segment.offset, segment.file_size)?;
            }
        }
        Ok(())
    }

    /// Symbols have one size, and their names are in a section. Other readers (BFD, elfutils) refuse
    /// such a table, too.
    fn check_symbol_tables(&self, expected: u64) -> Result<(), ElfError> {
        let is_table = |s: &&ElfSection<'_>| {
            [elf::SHT_SYMTAB.0, elf::SHT_DYNSYM.0].contains(&s.kind) && s.size > 0
        };
        for table in self.sections.iter().filter(is_table) {
            let name = String::from_utf8_lossy(table.name);
            if table.entry_size != expected {
                return Err(ElfError::SymbolSize {
                    section: name.into_owned(),
                    size: table.entry_size,
                    expected,
                });
            }
            let link = usize::try_from(table.link).unwrap_or(usize::MAX);
            // The first symbol is empty and needs no name.
            let is_linked = (1..self.sections.len()).contains(&link) || table.size <= expected;
            if !is_linked {
                let what = format!("the names of section {name}");
                return Err(no_such_section(&what, table.link, self.sections.len()));
            }
        }
        Ok(())
    }
}

fn segments<Elf: FileHeader<Endian = Endianness>>(
    header: &Elf,
    endian: Endianness,
    file: &[u8],
) -> Result<Vec<ElfSegment>, ElfError> {
    let count = header
        .phnum(endian, file)
        .map_err(damaged("the number of program headers"))?;
    let is_elsewhere = header.e_phnum(endian) == elf::PN_XNUM;
    if is_elsewhere && count < u32::from(elf::PN_XNUM) {
        return Err(ElfError::NoProgramHeaderCount { count });
    }
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    too_many("program headers", count, SEGMENTS_MAX)?;
    let table_end = u64::saturating_add(
        header.e_phoff(endian).into(),
        (count as u64).saturating_mul(u64::from(header.e_phentsize(endian))),
    );
    if count > 0 && table_end > file.len() as u64 {
        return Err(truncated("the table of program headers", table_end, file));
    }
    let headers = header
        .program_headers(endian, file)
        .map_err(damaged("the program headers"))?;
    Ok(headers
        .iter()
        .map(|segment| ElfSegment {
            kind: segment.p_type(endian).0,
            flags: segment.p_flags(endian).0,
            address: segment.p_vaddr(endian).into(),
            offset: segment.p_offset(endian).into(),
            file_size: segment.p_filesz(endian).into(),
            memory_size: segment.p_memsz(endian).into(),
            align: segment.p_align(endian).into(),
        })
        .collect())
}

fn sections<'data, Elf: FileHeader<Endian = Endianness>>(
    header: &Elf,
    endian: Endianness,
    file: &'data [u8],
) -> Result<Vec<ElfSection<'data>>, ElfError> {
    let table_at: u64 = header.e_shoff(endian).into();
    if table_at == 0 {
        return Ok(Vec::new());
    }
    if table_at >= file.len() as u64 {
        return Err(truncated("the table of section headers", table_at, file));
    }
    let count = header
        .shnum(endian, file)
        .map_err(damaged("the number of section headers"))?;
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    too_many("section headers", count, SECTIONS_MAX)?;
    let entry_size = u64::from(header.e_shentsize(endian));
    let table_end = table_at.saturating_add((count as u64).saturating_mul(entry_size));
    if table_end > file.len() as u64 {
        return Err(truncated("the table of section headers", table_end, file));
    }
    let headers = header
        .section_headers(endian, file)
        .map_err(damaged("the section headers"))?;
    let strings = if header.e_shstrndx(endian) == elf::SHN_UNDEF {
        &[]
    } else {
        let index = header.shstrndx(endian, file).map_err(damaged(
            "the index of the section with the names of sections",
        ))?;
        let strings = usize::try_from(index).ok().and_then(|at| headers.get(at));
        let no_section = || no_such_section("the names of sections", index, headers.len());
        let strings = strings.ok_or_else(no_section)?;
        strings.data(endian, file).unwrap_or_default()
    };
    Ok(headers
        .iter()
        .map(|section| ElfSection {
            name: name_at(strings, section.sh_name(endian), SECTION_NAME_BYTES_MAX),
            kind: section.sh_type(endian).0,
            flags: section.sh_flags(endian).0,
            address: section.sh_addr(endian).into(),
            offset: section.sh_offset(endian).into(),
            size: section.sh_size(endian).into(),
            link: section.sh_link(endian),
            info: section.sh_info(endian),
            align: section.sh_addralign(endian).into(),
            entry_size: section.sh_entsize(endian).into(),
        })
        .collect())
}

/// The name at `offset` of a string table, up to its NUL; empty when it has none within `max`.
pub(super) fn name_at(strings: &[u8], offset: u32, max: usize) -> &[u8] {
    let from = usize::try_from(offset)
        .ok()
        .and_then(|at| strings.get(at..))
        .unwrap_or_default();
    let within = from.get(..max).unwrap_or(from);
    let end = within.iter().position(|&byte| byte == 0);
    end.and_then(|end| within.get(..end)).unwrap_or_default()
}

fn range(offset: u64, size: u64) -> Option<std::ops::Range<usize>> {
    let start = usize::try_from(offset).ok()?;
    Some(start..start.checked_add(usize::try_from(size).ok()?)?)
}

fn too_many(what: &'static str, count: usize, max: usize) -> Result<(), ElfError> {
    if count > max {
        return Err(ElfError::TooMany { what, count, max });
    }
    Ok(())
}

fn no_such_section(what: &str, index: u32, count: usize) -> ElfError {
    ElfError::NoSuchSection {
        what: what.to_owned(),
        index,
        count,
    }
}

fn truncated(what: &str, end: u64, file: &[u8]) -> ElfError {
    ElfError::Truncated {
        what: what.to_owned(),
        end,
        length: file.len() as u64,
    }
}

fn damaged(what: &'static str) -> impl Fn(object::Error) -> ElfError {
    move |error| ElfError::Damaged {
        what,
        detail: error.to_string(),
    }
}
