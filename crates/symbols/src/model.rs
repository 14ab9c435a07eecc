//! What a converter found in a debug file, flat: the hand-over from the front ends to the index writer.
//!
//! Rows say which call node, file, line and column an address range belongs to. Call nodes are the
//! tree of inlined calls, as it stands in the code: a root is a function that was really called,
//! its descendants were inlined into it. Functions and files are stored once each.

use unhex_build_id::BuildId;

use crate::quality::Quality;
use crate::segments::LoadSegments;

/// No function, no node, no file: the value of an index field that refers to nothing.
pub const NONE: u32 = u32::MAX;

/// Everything that goes into one symbol index.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// Facts about the binary and the conversion.
    pub header: ModelHeader,
    /// Sorted by address, each valid up to the next one's address; a gap in the code is a row
    /// whose `node`, `file`, `line` and `column` are all empty. No two rows share an address.
    pub rows: Vec<Row>,
    /// Parents come before their children.
    pub nodes: Vec<CallNode>,
    /// In any order; the writer sorts them by linkage name.
    pub functions: Vec<Function>,
    /// In any order; the writer drops those that nothing refers to.
    pub files: Vec<SourcePath>,
}

/// Facts about the binary and the conversion.
#[derive(Clone, Debug, Default)]
pub struct ModelHeader {
    /// The build ID of the binary, if it has one.
    pub build_id: Option<BuildId>,
    /// `e_machine`.
    pub machine: u16,
    /// What the symbols are good for.
    pub quality: Quality,
    /// DWARF units that were read.
    pub units: u32,
    /// DWARF units that could not be read and were skipped.
    pub units_failed: u32,
    /// Units whose split part (.dwo, .dwp) was not at hand.
    pub units_without_dwo: u32,
    /// The build ID in `.gnu_debugaltlink` or `.debug_sup` when that file was not at hand.
    pub needs_supplement: Option<Box<[u8]>>,
    /// SHA-256 of each file it was made from, in the order given to the converter.
    pub sources: Vec<[u8; 32]>,
    /// Program headers of the executable; `None` when only a debug file was at hand.
    pub segments: Option<LoadSegments>,
}

/// One range of code with the same call chain, file, line and column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Link address of the first byte.
    pub address: u64,
    /// Innermost call node, an index into [`Model::nodes`], or [`NONE`] outside every function.
    pub node: u32,
    /// Index into [`Model::files`], or [`NONE`].
    pub file: u32,
    /// Line, from 1; 0 when the compiler gave none.
    pub line: u32,
    /// Column, from 1; 0 when the compiler gave none.
    pub column: u32,
}

/// One call as it stands in the code: a function, or a function inlined into its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallNode {
    /// Index into [`Model::functions`].
    pub function: u32,
    /// The node it was inlined into, or [`NONE`] for a root.
    pub parent: u32,
    /// Where the call stands, in the parent's code: index into [`Model::files`], or [`NONE`].
    pub call_file: u32,
    /// Line of the call, 0 when unknown.
    pub call_line: u32,
    /// Column of the call, 0 when unknown.
    pub call_column: u32,
    /// Of a root: link address of its entry point. 0 for inlined calls.
    pub entry: u64,
    /// Of a root: bytes of code in all its ranges. 0 for inlined calls.
    pub size_bytes: u64,
}

/// One function, wherever it was inlined.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Function {
    /// As the linker knows it, with clone suffixes such as `.cold` where this range has one.
    pub linkage_name: String,
    /// Demangled in full; equal to the linkage name when that is not mangled.
    pub full_name: String,
    /// Demangled without parameters, template arguments, return type and hash.
    pub short_name: String,
    /// Where it is declared: index into [`Model::files`], or [`NONE`].
    pub declaration_file: u32,
    /// Line of the declaration, 0 when unknown.
    pub declaration_line: u32,
    /// The source language.
    pub language: Language,
    /// Where the name comes from.
    pub provenance: Provenance,
}

/// A source file as the debug information names it, joined by llvm's rule; `.` and `..` stay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SourcePath {
    /// Everything before the last `/`; empty when there is none, `/` for files in the root.
    pub directory: String,
    /// The last part of the path.
    pub name: String,
}

/// Source languages that are told apart; the discriminant is stored in the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Language {
    /// Not known.
    #[default]
    Unknown = 0,
    /// C.
    C = 1,
    /// C++.
    Cpp = 2,
    /// Rust.
    Rust = 3,
    /// Go.
    Go = 4,
    /// Assembler.
    Assembler = 5,
    /// D.
    D = 6,
    /// Swift.
    Swift = 7,
    /// Zig.
    Zig = 8,
    /// Fortran.
    Fortran = 9,
    /// Ada.
    Ada = 10,
    /// OCaml.
    OCaml = 11,
    /// Objective-C and Objective-C++.
    ObjectiveC = 12,
    /// Any other that DWARF names.
    Other = 15,
}

/// Where a function's name comes from; the discriminant is stored in the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Provenance {
    /// A DWARF subprogram.
    #[default]
    Dwarf = 0,
    /// `.symtab`.
    Symtab = 1,
    /// `.dynsym`.
    Dynsym = 2,
    /// Go's `.gopclntab`.
    Pclntab = 3,
    /// Made up for a stub of the procedure linkage table, `name@plt`.
    Plt = 4,
    /// `.gnu_debugdata`.
    Minidebuginfo = 5,
}
