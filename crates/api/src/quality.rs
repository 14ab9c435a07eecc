//! How good the symbols of a build ID are and where they came from, as words on the wire.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What can be told of an address, from nothing to lines and inlined calls; later is better.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Quality {
    /// No symbols at all.
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
    /// The word on the wire.
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

/// How a debug file came into the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Origin {
    /// Somebody uploaded it.
    Upload,
    /// It was fetched from an upstream debuginfod server.
    Upstream,
    /// It lies in a folder that the server scans, and is served from there.
    Scanned,
}

impl Origin {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Upload => "upload",
            Self::Upstream => "upstream",
            Self::Scanned => "scanned",
        }
    }
}
