//! What code was loaded from: a mapping of the formats, with the identity by which debug files are found.

use unhex_build_id::Identity;

use super::{Span, StringId};

/// A mapping, and the binary in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Binary {
    /// The file's name or path, as the profiler says, or a name like `[vdso]`.
    pub file_name: StringId,
    /// By what its debug files are found, if the profiler says: the best of what it says, a GNU build ID before a file
    /// hash before a Go build ID.
    pub identity: Option<Identity>,
    /// The text that pprof has as the build ID, also if it is no identity; empty for OTLP.
    pub id_text: StringId,
    /// What kind of thing it is.
    pub role: BinaryRole,
    /// Where it lies.
    pub extent: Extent,
    /// pprof's `has_inline_frames`: names that came with the frames are complete.
    pub has_inline_frames: bool,
    /// OTLP's attributes of the mapping, the other identities among them.
    pub attributes: Span,
}

/// The addresses of a mapping, as the profiler says: of a process or as linked, see [`crate::CodeAddress`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Extent {
    /// The first address.
    pub start: u64,
    /// The first address behind it; 0 or 2^64-1 where nobody knows.
    pub limit: u64,
    /// The offset of the first address in the file.
    pub file_offset: u64,
}

/// What kind of thing code was loaded from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BinaryRole {
    /// A file on disk.
    File,
    /// The code that the kernel gives every process. Nobody uploads its debug information.
    Vdso,
    /// The kernel or a module of it.
    Kernel,
    /// Memory without a file: what a just-in-time compiler wrote, or nothing that is known.
    #[default]
    Anonymous,
}
