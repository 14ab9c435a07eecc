//! The names of source files in DWARF: those of the line tables and of the units.
//!
//! Directories are joined by llvm's rule, as symbol indexes do it, so that the names here are those
//! of frames: in DWARF 5 directory 0 already is the compilation directory and is not joined to it.

use std::borrow::Cow;
use std::collections::BTreeSet;

use gimli::{DwarfSections, EndianSlice, RunTimeEndian, SectionId};
use object::{Object as _, ObjectSection as _};

use crate::artifacts::canonical_source_path;

/// Names in one binary: the largest programs have about 300,000 with all their headers.
const NAMES_MAX: usize = 2_000_000;

type Slice<'a> = EndianSlice<'a, RunTimeEndian>;
type Unit<'a> = gimli::Unit<Slice<'a>>;
type Dwarf<'a> = gimli::Dwarf<Slice<'a>>;

/// The source files that a binary names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SourceNames {
    /// Canonical absolute paths.
    pub(super) absolute: BTreeSet<String>,
    /// How many are not absolute.
    pub(super) relative: u64,
}

/// What is joined to a path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PathParts<'a> {
    /// `DW_AT_comp_dir`.
    pub(super) compilation_directory: &'a str,
    /// The directory of the file's entry; empty for directory 0 before DWARF 5.
    pub(super) directory: &'a str,
    /// The file's entry.
    pub(super) name: &'a str,
    /// Whether `directory` is directory 0 of DWARF 5.
    pub(super) is_base: bool,
}

impl PathParts<'_> {
    /// The whole path, canonical where it is absolute.
    pub(super) fn path(self) -> String {
        let mut path = self.name.to_owned();
        if !path.starts_with('/') && !self.directory.is_empty() {
            path = format!("{}/{path}", self.directory);
        }
        if !path.starts_with('/') && !self.is_base && !self.compilation_directory.is_empty() {
            path = format!("{}/{path}", self.compilation_directory);
        }
        // The server finds a file under the canonical form of the path that it is asked for.
        canonical_source_path(&path).unwrap_or(path)
    }
}

/// The names in the DWARF of `file`. Units that are damaged are passed over.
///
/// # Errors
/// If `file` is no ELF file or a section cannot be decompressed.
pub(super) fn source_names(file: &[u8]) -> anyhow::Result<SourceNames> {
    let elf = object::File::parse(file)?;
    let endian = if elf.is_little_endian() {
        RunTimeEndian::Little
    } else {
        RunTimeEndian::Big
    };
    let sections = DwarfSections::load(|id| section(&elf, id))?;
    let dwarf = sections.borrow(|section| EndianSlice::new(section, endian));
    let mut names = BTreeSet::new();
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        if let Ok(unit) = dwarf.unit(header) {
            unit_names(&dwarf, &unit, &mut names);
        }
        anyhow::ensure!(
            names.len() <= NAMES_MAX,
            "more than {NAMES_MAX} source files"
        );
    }
    let all = names.len();
    names.retain(|name| canonical_source_path(name).is_some());
    Ok(SourceNames {
        relative: u64::try_from(all - names.len()).unwrap_or(u64::MAX),
        absolute: names,
    })
}

/// The sections that names are in; the others are not even decompressed.
fn section<'data>(elf: &object::File<'data>, id: SectionId) -> anyhow::Result<Cow<'data, [u8]>> {
    let is_needed = matches!(
        id,
        SectionId::DebugAbbrev
            | SectionId::DebugInfo
            | SectionId::DebugLine
            | SectionId::DebugLineStr
            | SectionId::DebugStr
            | SectionId::DebugStrOffsets
    );
    let section = elf.section_by_name(id.name()).filter(|_| is_needed);
    Ok(match section {
        Some(section) => section.uncompressed_data()?,
        None => Cow::Borrowed(&[]),
    })
}

fn unit_names(dwarf: &Dwarf<'_>, unit: &Unit<'_>, names: &mut BTreeSet<String>) {
    let text = |slice: Slice<'_>| slice.to_string_lossy().into_owned();
    let compilation_directory = unit.comp_dir.map(text).unwrap_or_default();
    if let Some(name) = unit.name.map(text) {
        let parts = PathParts {
            compilation_directory: &compilation_directory,
            name: &name,
            ..PathParts::default()
        };
        add(parts.path(), names);
    }
    let Some(program) = &unit.line_program else {
        return;
    };
    let header = program.header();
    let is_5 = header.version() >= 5;
    for entry in header.file_names() {
        let index = entry.directory_index();
        let Ok(name) = dwarf.attr_string(unit, entry.path_name()).map(text) else {
            continue;
        };
        let has_directory = is_5 || index != 0;
        let directory = has_directory.then(|| header.directory(index)).flatten();
        let directory = match directory.map(|value| dwarf.attr_string(unit, value)) {
            None => String::new(),
            Some(Ok(directory)) => text(directory),
            Some(Err(_)) => continue,
        };
        let parts = PathParts {
            compilation_directory: &compilation_directory,
            directory: &directory,
            name: &name,
            is_base: is_5 && index == 0,
        };
        add(parts.path(), names);
    }
}

/// Names such as `<built-in>` and `<artificial>` are no files.
fn add(path: String, names: &mut BTreeSet<String>) {
    let name = path.rsplit('/').next().unwrap_or_default();
    if !name.is_empty() && !name.starts_with('<') {
        names.insert(path);
    }
}
