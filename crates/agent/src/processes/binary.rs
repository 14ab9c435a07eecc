//! What is mapped: a file with an identity that holds on every host, or memory that has none.

use unhex_build_id::Identity;
use unhex_symbols::segments::LoadSegments;

/// A binary, shared by all that have it mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    /// The name of the mapping as the process sees it: a path, or a name like `[vdso]`; empty for memory without one.
    pub name: String,
    /// By what its debug files are found: a GNU build ID, else a Go build ID, else a file hash. `None` where the file
    /// could not be read, and for memory that no file is behind.
    pub identity: Option<Identity>,
    /// Its loadable segments; none where the file could not be read, and for memory that no file is behind.
    pub segments: LoadSegments,
    /// What kind of thing it is.
    pub kind: BinaryKind,
}

/// What kind of thing is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryKind {
    /// An ELF file, also one that was deleted since or that lies in memory only (memfd).
    File,
    /// The code that the kernel gives every process.
    Vdso,
    /// Memory that no file is behind: code that was made while the process ran.
    Anonymous,
}

impl Binary {
    /// Memory that no file is behind.
    pub fn anonymous() -> Self {
        Self {
            name: String::new(),
            identity: None,
            segments: LoadSegments::default(),
            kind: BinaryKind::Anonymous,
        }
    }
}
