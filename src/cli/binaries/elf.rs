//! What an ELF file is to an upload: its summary, and the advice when it has no build ID.

use unhex_symbols::elf::{ElfError, ElfFile, ElfSummary, SplitDwarf};

/// `ET_REL` and `ET_CORE` of `e_type`.
const TYPE_RELOCATABLE: u16 = 1;
const TYPE_CORE: u16 = 4;

/// Bytes of `.comment` that are looked at: each compiler adds some 40, and a linker keeps one of each.
const COMMENT_BYTES_MAX: usize = 64 << 10;

/// What a binary was built with, as far as advice depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Toolchain {
    /// The Go linker.
    Go,
    /// rustc.
    Rust,
    /// Anything else.
    Other,
}

impl Toolchain {
    /// What to change so that the next build has a build ID.
    pub(crate) fn advice(self) -> &'static str {
        match self {
            Self::Go => "build it with: go build -ldflags='-B gobuildid'",
            Self::Rust => "build it with: RUSTFLAGS='-C link-arg=-Wl,--build-id=sha1'",
            Self::Other => "link it with: -Wl,--build-id=sha1",
        }
    }

    fn of(file: &ElfFile<'_>) -> Self {
        let has = |name: &str| file.section(name).is_some();
        if has(".go.buildinfo") || has(".note.go.buildid") {
            return Self::Go;
        }
        let comment = file
            .section(".comment")
            .map(|section| file.bytes_of(section));
        let comment = comment.unwrap_or_default();
        let start = comment.get(..COMMENT_BYTES_MAX).unwrap_or(comment);
        if start.windows(6).any(|word| word == b"rustc ") {
            Self::Rust
        } else {
            Self::Other
        }
    }
}

/// An ELF file as an upload sees it.
#[derive(Clone, Debug)]
pub(crate) struct ElfFacts {
    /// What the server will remember of it.
    pub(crate) summary: ElfSummary,
    /// What it was built with.
    pub(crate) toolchain: Toolchain,
}

impl ElfFacts {
    /// The facts of the ELF file whose whole content is `file`.
    ///
    /// # Errors
    /// If it is none, or damaged.
    pub(crate) fn read(file: &[u8]) -> Result<Self, ElfError> {
        Ok(Self {
            summary: ElfSummary::read(file)?,
            toolchain: Toolchain::of(&ElfFile::parse(file)?),
        })
    }

    /// Why a file that has no build ID, or no role, is nothing to be stored; `None` for a program or
    /// library, which should have both.
    pub(crate) fn excuse(&self) -> Option<&'static str> {
        match self.summary.file_type {
            TYPE_CORE => Some("a core dump"),
            _ if self.summary.split_dwarf == Some(SplitDwarf::Dwp) => {
                Some("packed split DWARF without its program beside it")
            }
            _ if self.summary.split_dwarf.is_some() => {
                Some("split DWARF of one unit; pack those of a program with dwp")
            }
            TYPE_RELOCATABLE if self.summary.build_id.is_none() => {
                Some("an object file that was not linked yet")
            }
            _ if !self.has_role() => Some("it has neither code nor debug information"),
            _ => None,
        }
    }

    fn has_role(&self) -> bool {
        self.summary.role.is_executable() || self.summary.role.is_debuginfo()
    }
}
