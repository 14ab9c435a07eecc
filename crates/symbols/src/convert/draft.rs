//! What the walk over DWARF has found so far, before overlaps are settled and gaps are filled.

use super::NameId;
use crate::model::{CallNode, Language, Provenance, Row, SourcePath};

/// Rows by piece, in the order of the walk.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// The rows of all pieces, one piece after the other.
    pub(crate) rows: Vec<Row>,
    /// Ranges of code that belong to one function.
    pub(crate) pieces: Vec<Piece>,
    /// Lines of code that belongs to no function.
    pub(crate) orphans: Vec<LineRow>,
    /// All call nodes, parents first, perhaps unused ones.
    pub(crate) nodes: Vec<CallNode>,
    /// All source files.
    pub(crate) files: Vec<SourcePath>,
}

/// A range of code that belongs to one function; its rows begin at its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// First address.
    pub(crate) start: u64,
    /// One past the last address.
    pub(crate) end: u64,
    /// Index of its first row.
    pub(crate) first_row: u32,
    /// How many rows it has.
    pub(crate) rows: u32,
}

/// A row of a line program, with the end of its validity.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineRow {
    /// First address.
    pub(crate) start: u64,
    /// One past the last address.
    pub(crate) end: u64,
    /// Index of the file in [`Draft::files`], or `NONE`.
    pub(crate) file: u32,
    /// Line, 0 for none.
    pub(crate) line: u32,
    /// Column, 0 for none.
    pub(crate) column: u32,
}

/// What tells one function from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FunctionKey {
    /// Linkage name, else plain name, with the suffix of this clone.
    pub(crate) name: NameId,
    /// Index of the file in [`Draft::files`], or `NONE`.
    pub(crate) declaration_file: u32,
    /// Line of the declaration, 0 when unknown.
    pub(crate) declaration_line: u32,
    /// The language of its unit.
    pub(crate) language: Language,
    /// Where the name comes from.
    pub(crate) provenance: Provenance,
}
