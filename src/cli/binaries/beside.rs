//! Files that belong together although only one of them says so: a program, its debug file, its packed split DWARF.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use unhex_build_id::BuildId;
use unhex_symbols::elf::{ElfRole, SplitDwarf};

use super::elf::ElfFacts;
use super::mapped::Mapped;

/// The files to take along with the program at `path`, where debuggers look for them first.
///
/// A stripped program names its debug file in `.gnu_debuglink`; gdb looks beside it, then in
/// `.debug`. The packed split DWARF of a program is beside it and has `.dwp` behind its name. Both
/// count only when they are what they should be.
pub(super) fn companions(path: &Path, facts: &ElfFacts) -> Vec<PathBuf> {
    if !facts.summary.role.is_executable() {
        return Vec::new();
    }
    let packed = packed_of(path).filter(|packed| {
        let split = read(packed).and_then(|facts| facts.summary.split_dwarf);
        split == Some(SplitDwarf::Dwp)
    });
    debug_file(path, facts).into_iter().chain(packed).collect()
}

fn debug_file(path: &Path, facts: &ElfFacts) -> Option<PathBuf> {
    let summary = &facts.summary;
    if summary.role != ElfRole::Executable {
        return None;
    }
    let name = Path::new(&summary.debug_link.as_ref()?.name).file_name()?;
    let folder = path.parent()?;
    let candidates = [folder.join(name), folder.join(".debug").join(name)];
    candidates.into_iter().find(|candidate| {
        let found = read(candidate).and_then(|facts| facts.summary.build_id);
        found.is_some() && found == summary.build_id
    })
}

fn packed_of(path: &Path) -> Option<PathBuf> {
    let mut name = OsString::from(path.file_name()?);
    name.push(".dwp");
    Some(path.with_file_name(name))
}

/// The build ID of the program that the packed split DWARF at `path` is of.
pub(super) fn program_of_packed(path: &Path) -> Option<BuildId> {
    if path.extension()? != "dwp" {
        return None;
    }
    read(&path.with_extension(""))?.summary.build_id
}

/// The facts of a regular file; others could block whoever opens them.
fn read(path: &Path) -> Option<ElfFacts> {
    path.metadata().ok().filter(std::fs::Metadata::is_file)?;
    ElfFacts::read(&Mapped::open(path).ok()?).ok()
}
