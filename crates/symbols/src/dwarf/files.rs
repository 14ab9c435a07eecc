//! Source paths as llvm prints them: compilation folder, include folder and name, joined.
//!
//! Nothing is normalised: `a/../b` is another place than `b` where `a` is a symbolic link, and
//! llvm, gdb and the paths in a source bundle are the same bytes then.

use gimli::Endianity;
use rustc_hash::FxHashMap;

use super::unit::OpenUnit;
use super::units::Sources;
use crate::convert::{Budget, ConvertError};
use crate::model::{NONE, SourcePath};

/// File indexes that are remembered per unit; beyond, a path is joined again.
const INDEXES_KEPT: u64 = 1 << 20;

/// Bytes of one path; Linux knows no longer ones.
const PATH_BYTES_MAX: usize = 4096;

/// All source paths, each once.
#[derive(Default)]
pub(super) struct Files {
    known: FxHashMap<Vec<u8>, u32>,
    pub(super) paths: Vec<SourcePath>,
}

impl Files {
    /// The file of an index in a unit's line program; `NONE` when there is no such file.
    ///
    /// Index 0 is a file in DWARF 5 only.
    pub(super) fn of<'a: 'u, 'u, E: Endianity>(
        &mut self,
        sources: &Sources<'a, E>,
        unit: &OpenUnit<'u, E>,
        index: u64,
        budget: &Budget<'_>,
    ) -> Result<u32, ConvertError> {
        let unit = unit.with_lines();
        let place = usize::try_from(index).unwrap_or(usize::MAX);
        if let Some(Some(file)) = unit.files.borrow().get(place) {
            return Ok(*file);
        }
        let file = match path(sources, unit, index) {
            Some(path) => self.intern(path, budget)?,
            None => NONE,
        };
        if index < INDEXES_KEPT {
            let mut files = unit.files.borrow_mut();
            if files.len() <= place {
                files.resize(place.saturating_add(1), None);
            }
            if let Some(slot) = files.get_mut(place) {
                *slot = Some(file);
            }
        }
        Ok(file)
    }

    fn intern(&mut self, path: Vec<u8>, budget: &Budget<'_>) -> Result<u32, ConvertError> {
        if let Some(&file) = self.known.get(&path) {
            return Ok(file);
        }
        budget.files(self.paths.len().saturating_add(1))?;
        budget.name(path.len())?;
        let text = String::from_utf8_lossy(&path).into_owned();
        let (directory, name) = match text.rsplit_once('/') {
            Some(("", name)) => ("/".to_owned(), name.to_owned()),
            Some((directory, name)) => (directory.to_owned(), name.to_owned()),
            None => (String::new(), text),
        };
        let file = u32::try_from(self.paths.len()).unwrap_or(NONE);
        self.paths.push(SourcePath { directory, name });
        self.known.insert(path, file);
        Ok(file)
    }
}

/// The path of a file, by the rule of `DWARFDebugLine::Prologue::getFileNameByIndex`.
fn path<'a: 'u, 'u, E: Endianity>(
    sources: &Sources<'a, E>,
    unit: &OpenUnit<'u, E>,
    index: u64,
) -> Option<Vec<u8>> {
    let header = unit.unit.line_program.as_ref()?.header();
    if index == 0 && header.version() < 5 {
        return None;
    }
    let entry = header.file(index)?;
    let dwarf = sources.dwarf_of(unit);
    let text = |value| {
        dwarf
            .attr_string(&unit.unit, value)
            .ok()
            .map(|text| text.slice())
    };
    let name = text(entry.path_name())?;
    let directory_index = entry.directory_index();
    let has_directory = header.version() >= 5 || directory_index != 0;
    let directory = has_directory.then(|| entry.directory(header)).flatten();
    let directory = directory.and_then(text).unwrap_or_default();
    // In DWARF 5, folder 0 is the compilation folder itself.
    let compilation = match unit.unit.comp_dir {
        Some(folder) if header.version() < 5 || directory_index != 0 => folder.slice(),
        _ => &[],
    };
    let mut path = Vec::new();
    for part in [compilation, directory, name] {
        append(&mut path, part);
    }
    path.truncate(PATH_BYTES_MAX);
    Some(path)
}

/// Appends a part; an absolute one replaces what is before it.
fn append(path: &mut Vec<u8>, part: &[u8]) {
    let is_absolute = match part {
        [b'/' | b'\\', ..] => true,
        [drive, b':', b'/' | b'\\', ..] => drive.is_ascii_alphabetic(),
        _ => false,
    };
    if is_absolute {
        path.clear();
    } else if path.last().is_some_and(|&last| last != b'/') && !part.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(part);
}
