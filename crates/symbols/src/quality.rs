//! How good the symbols of a binary are: the order that decides which debug file wins.

use serde::{Deserialize, Serialize};

/// What can be told of an address, from nothing to lines and inlined calls. Later is better.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Quality {
    /// No symbols at all.
    #[default]
    None,
    /// Exported symbols only (`.dynsym`).
    Dynsym,
    /// The whole symbol table (`.symtab`).
    Symtab,
    /// Functions and lines of a Go program (`.gopclntab`).
    GoPclntab,
    /// DWARF with line numbers, without inlined calls.
    DwarfLines,
    /// DWARF with line numbers and inlined calls.
    DwarfInlines,
}

impl Quality {
    /// The name in the API and in records, such as `dwarf_inlines`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Dynsym => "dynsym",
            Self::Symtab => "symtab",
            Self::GoPclntab => "go_pclntab",
            Self::DwarfLines => "dwarf_lines",
            Self::DwarfInlines => "dwarf_inlines",
        }
    }
}
