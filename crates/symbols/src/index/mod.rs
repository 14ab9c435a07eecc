//! The symbol index: what addresses mean, packed so that a look-up is quick and the file small.
//!
//! [`write()`] makes one from a [`Model`](crate::model::Model); [`SymbolIndex`] reads one from bytes,
//! mapped or in memory. A single address is asked with [`SymbolIndex::frames`]; many at once with
//! [`SymbolIndex::resolve`] into a [`Batch`], which sorts them and decodes every block once.
//!
//! Rows say which call node, line and column a range of code belongs to; nodes are the tree of
//! inlined calls; functions have their three names; files their paths. docs/symbol-index.md has
//! the layout byte by byte.
//!
//! Files are made by a converter that read a stranger's debug file, and are fetched over a network:
//! the reader is total, and every answer is bounded.

mod batch;
mod bits;
mod error;
mod facts;
mod layout;
mod radix;
mod reader;
#[cfg(test)]
mod tests;
mod text;
mod writer;

pub use batch::{Batch, BatchFrame, ResolveOptions, Span};
pub use error::{IndexError, WriteError};
pub use facts::Facts;
pub use layout::{FORMAT_VERSION, MAGIC, Section};
pub use reader::{NameBuffer, SymbolIndex};
pub use writer::write;

use crate::address::LinkAddress;
use crate::model::{Language, Provenance};

/// Longest name or part of a path that is stored, in bytes: C++ names of a megabyte exist, but
/// nobody reads them. They are cut at a character.
pub const NAME_BYTES_MAX: usize = 16 << 10;

/// The number of a function in its index, in the order of linkage names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(pub u32);

/// The number of a source file in its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceFileId(pub u32);

/// Which names are decoded; each costs time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameSet {
    /// None at all.
    None,
    /// As the linker knows it.
    Linkage,
    /// Demangled in full.
    Full,
    /// Demangled, without parameters and template arguments.
    Short,
    /// All three.
    #[default]
    All,
}

impl NameSet {
    #[inline]
    fn has_linkage(self) -> bool {
        matches!(self, Self::Linkage | Self::All)
    }

    #[inline]
    fn has_full(self) -> bool {
        matches!(self, Self::Full | Self::All)
    }

    #[inline]
    fn has_short(self) -> bool {
        matches!(self, Self::Short | Self::All)
    }
}

/// One frame of the answer to a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The function.
    pub function: FunctionId,
    /// The source file, if it is known.
    pub file: Option<SourceFileId>,
    /// Line, from 1; 0 when unknown. Of the outer frames: the line of the call.
    pub line: u32,
    /// Column, from 1; 0 when unknown.
    pub column: u32,
    /// Whether the call was inlined into the next frame's function.
    pub inlined: bool,
    /// The entry point of a function that was really called.
    pub entry: Option<LinkAddress>,
    /// Bytes of code of a function that was really called, in all its ranges; 0 of inlined calls.
    pub size_bytes: u64,
}

/// What an index knows of a function. Names that were not asked for are empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionRecord<'a> {
    /// As the linker knows it.
    pub linkage_name: &'a str,
    /// Demangled in full; the linkage name where that is not mangled.
    pub full_name: &'a str,
    /// Demangled without parameters, template arguments, return type and hash.
    pub short_name: &'a str,
    /// The file that it is declared in, if known.
    pub declaration_file: Option<SourceFileId>,
    /// The line of the declaration, 0 when unknown.
    pub declaration_line: u32,
    /// The source language.
    pub language: Language,
    /// Where the name comes from.
    pub provenance: Provenance,
}
