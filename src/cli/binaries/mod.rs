//! Which binaries there are in the files, folders and archives that somebody names.
//!
//! `upload` and `check` ask the same question, so the answer lives here once: a [`Search`] walks the
//! paths and hands over one [`Finding`] after another, so that sending can start while a large
//! folder is still being read. Archives come from strangers: what is unpacked of them is bounded,
//! goes into nameless temporary files, and the names in them are never used as paths.

mod beside;
mod elf;
mod glob;
mod mapped;
mod search;

use std::fmt;
use std::path::{Path, PathBuf};

use tempfile::TempPath;
use unhex_build_id::BuildId;
use unhex_symbols::elf::ElfRole;
use unhex_symbols::quality::Quality;

pub(crate) use elf::Toolchain;
pub(crate) use glob::Glob;
pub(crate) use mapped::Mapped;
pub(crate) use search::{Search, SearchOptions};

/// What came of one file.
#[derive(Debug)]
pub(crate) enum Finding {
    /// A binary with a build ID.
    Binary(Box<Binary>),
    /// A program or library that nobody can ask for.
    WithoutBuildId(WithoutBuildId),
    /// It should have been looked at but could not be.
    Unreadable {
        /// Which.
        label: Label,
        /// Why not.
        reason: String,
    },
    /// It was named, or looks like a binary, but there is nothing to be stored.
    Skipped {
        /// Which.
        label: Label,
        /// Why.
        reason: String,
    },
    /// A path that was named has no binary in it.
    Nothing {
        /// Which.
        label: Label,
    },
}

/// An ELF file with a build ID.
#[derive(Debug)]
pub(crate) struct Binary {
    /// What people call it.
    pub(crate) label: Label,
    /// Its name, without folders.
    pub(crate) file_name: String,
    /// Where its bytes lie.
    pub(crate) content: Content,
    /// Its length.
    pub(crate) size_bytes: u64,
    /// Its build ID.
    pub(crate) build_id: BuildId,
    /// What it is to that build ID.
    pub(crate) part: Part,
}

/// What a file is to its build ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A program, its debug file, or both in one.
    Whole {
        /// Which of them.
        role: ElfRole,
        /// What its symbols are good for, at best.
        quality_estimate: Quality,
    },
    /// The `.dwp` of the program that lies beside it.
    PackedSplitDwarf,
}

impl Binary {
    /// Whether it has DWARF, so that it names source files.
    pub(crate) fn has_dwarf(&self) -> bool {
        match self.part {
            Part::Whole {
                quality_estimate, ..
            } => quality_estimate >= Quality::DwarfLines,
            Part::PackedSplitDwarf => false,
        }
    }
}

/// A program or library without a build ID.
#[derive(Debug)]
pub(crate) struct WithoutBuildId {
    /// What people call it.
    pub(crate) label: Label,
    /// What it was built with, which decides on the advice.
    pub(crate) toolchain: Toolchain,
}

impl WithoutBuildId {
    /// Why that is a fault, and what mends it.
    pub(crate) fn advice(&self) -> String {
        format!("it has no build ID; {}", self.toolchain.advice())
    }
}

/// Where the bytes of a binary lie.
#[derive(Debug)]
pub(crate) enum Content {
    /// In a file of the user's.
    File(PathBuf),
    /// In a file that was unpacked, and goes away with this.
    Unpacked(TempPath),
}

impl Content {
    /// The file to be read.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::File(path) => path,
            Self::Unpacked(path) => path,
        }
    }

    /// Whether it comes from an archive.
    pub(crate) fn is_unpacked(&self) -> bool {
        matches!(self, Self::Unpacked(_))
    }
}

/// What people call a file: its path, or `archive!member`. Without control characters, since names
/// in archives are a stranger's and end up on a terminal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(transparent)]
pub(crate) struct Label(String);

impl Label {
    /// The label of a file on disk.
    pub(crate) fn of_path(path: &Path) -> Self {
        Self(printable(&path.to_string_lossy()))
    }

    /// The label of a member of the archive that this is the label of.
    pub(crate) fn member(&self, name: &str) -> Self {
        Self(format!("{}!{}", self.0, printable(name)))
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

#[cfg(test)]
mod tests;
