//! One entry of a stack: a place in a binary, names, or the reason why there is neither.

use super::{BinaryId, FunctionId, Span, StringId};

/// A frame: what the formats call a location.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Frame {
    /// What it is.
    pub kind: FrameKind,
    /// What its code was loaded from, if anybody knows.
    pub binary: Option<BinaryId>,
    /// The number in the message, for writing it again; see [`FrameKind::Native`] for one that means something.
    pub address: u64,
    /// The names that came with it, see [`super::Profiles::lines`].
    pub lines: Span,
    /// The word of `profile.frame.type` (`native`, `kernel`, `cpython`, …); empty if the profiler has not said.
    pub language: StringId,
    /// OTLP's attributes of the location.
    pub attributes: Span,
    /// pprof's `is_folded`: several functions have this code.
    pub is_folded: bool,
}

/// What a frame is, and so what can be made of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrameKind {
    /// Code of a binary. It can be symbolized if the binary has an identity; names that came with it are the
    /// profiler's own, good where nobody has the debug information.
    Native(CodeAddress),
    /// An interpreted frame, or one that came with names alone: they are final.
    Named,
    /// The kernel: names come from the host's symbol table and are final. The address is an offset into a module
    /// or depends on the boot, so that it can be looked up nowhere.
    Kernel,
    /// A frame of a runtime that the profiler cannot unwind: its only name is that of the interpreter, as `[python]`.
    MissingUnwinder,
    /// Not a call: the profiler stopped here and its name says why, as `[truncated: max depth]`.
    Truncated,
    /// Code that nobody can name: without a mapping or outside of it, or in memory that no file lies behind.
    #[default]
    Unplaced,
}

/// An address in a binary that is the same in every process, made from the profiler's once and never again.
///
/// It is never moved to the call site: both formats have that done by the profiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CodeAddress {
    /// As linked, the `p_vaddr` space: `address_kind` `link` of `/symbolize`.
    Link(u64),
    /// An offset into the file: `address_kind` `file_offset` of `/symbolize`.
    FileOffset(u64),
}

/// A name of a frame: a function and where in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Line {
    /// The function.
    pub function: FunctionId,
    /// The line in its file, 0 if unknown.
    pub line: i64,
    /// The column, 0 if unknown.
    pub column: i64,
}

/// A function that the profiler named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Function {
    /// Its name for people.
    pub name: StringId,
    /// Its name for linkers, mangled; empty if the profiler has not said.
    pub system_name: StringId,
    /// The source file.
    pub file_name: StringId,
    /// The line on which it starts, 0 if unknown.
    pub start_line: i64,
}
