//! What an ELF file is to its build ID, and what its symbols may be good for, by headers alone.
//!
//! The rule is elfutils debuginfod's, so that both servers find the same files in a package.

use object::elf;
use serde::{Deserialize, Serialize};

use super::file::{ElfFile, ElfSection};
use crate::quality::Quality;

/// What a file is to its build ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ElfRole {
    /// The program or library that runs, without debug information.
    Executable,
    /// Debug information that was split from its executable.
    Debuginfo,
    /// A program or library that was not stripped.
    Both,
    /// Neither: an object file without debug information, for instance.
    Neither,
}

/// The two forms of split DWARF.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SplitDwarf {
    /// The split part of one compilation unit.
    Dwo,
    /// The split parts of a program, packed.
    Dwp,
}

impl ElfRole {
    /// Whether it can be served as the executable.
    pub fn is_executable(self) -> bool {
        matches!(self, Self::Executable | Self::Both)
    }

    /// Whether it can be served as the debuginfo.
    pub fn is_debuginfo(self) -> bool {
        matches!(self, Self::Debuginfo | Self::Both)
    }

    /// `executable` is ET_EXEC or ET_DYN with loaded bytes. `debuginfo` has `.debug_*` sections, or
    /// a symbol table and nothing that is loaded but notes, as `strip` leaves for `--only-keep-debug`.
    pub(super) fn of(file: &ElfFile<'_>) -> Self {
        let loads = |s: &ElfSection<'_>| s.is_allocated() && s.kind == elf::SHT_PROGBITS.0;
        let linked = [elf::ET_EXEC.0, elf::ET_DYN.0].contains(&file.header.file_type);
        let has_code = if file.sections.is_empty() {
            file.segments
                .iter()
                .any(|s| s.kind == elf::PT_LOAD.0 && s.file_size > 0)
        } else {
            file.sections.iter().any(loads)
        };
        let is_executable = linked && has_code;
        let debug_section =
            |s: &ElfSection<'_>| s.name.starts_with(b".debug_") || s.name.starts_with(b".zdebug_");
        let bare = |s: &ElfSection<'_>| {
            !s.is_allocated() || [elf::SHT_NOBITS.0, elf::SHT_NOTE.0].contains(&s.kind)
        };
        let has_symtab = file.sections.iter().any(|s| s.kind == elf::SHT_SYMTAB.0);
        let is_debuginfo = file.sections.iter().any(debug_section)
            || (has_symtab && file.sections.iter().all(bare));
        match (is_executable, is_debuginfo) {
            (true, true) => Self::Both,
            (true, false) => Self::Executable,
            (false, true) => Self::Debuginfo,
            (false, false) => Self::Neither,
        }
    }
}

impl SplitDwarf {
    /// Whether the file is the split part of others.
    pub(super) fn of(file: &ElfFile<'_>) -> Option<Self> {
        let has = |name: &str| file.section(name).is_some();
        if has(".debug_cu_index") || has(".debug_tu_index") {
            Some(Self::Dwp)
        } else if has(".debug_info.dwo") && !has(".debug_info") {
            Some(Self::Dwo)
        } else {
            None
        }
    }
}

/// What the symbols in the file are good for, at best: DWARF itself is not read, so a file that
/// has lines but no inlined calls is rated too high here and right once it was converted.
pub(super) fn quality_estimate(file: &ElfFile<'_>) -> Quality {
    let filled = |name: &str| {
        file.section(name)
            .is_some_and(|s| s.has_bytes() && s.size > 0)
    };
    let dwarf =
        |part: &str| filled(&format!(".debug_{part}")) || filled(&format!(".zdebug_{part}"));
    let symbols = |kind: elf::SectionType| {
        let smallest = 2 * 16;
        file.sections
            .iter()
            .any(|s| s.kind == kind.0 && s.size >= smallest)
    };
    if dwarf("info") && dwarf("line") {
        Quality::DwarfInlines
    } else if filled(".gopclntab") || filled(".data.rel.ro.gopclntab") {
        Quality::GoPclntab
    } else if symbols(elf::SHT_SYMTAB) || filled(".gnu_debugdata") {
        Quality::Symtab
    } else if symbols(elf::SHT_DYNSYM) {
        Quality::Dynsym
    } else {
        Quality::None
    }
}
