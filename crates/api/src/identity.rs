//! By which identity a binary is named: GNU build IDs, and the other kinds that lead to the same artifact.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The kind of identity that a `build_id` field or a path holds.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum IdKind {
    /// The descriptor of the `NT_GNU_BUILD_ID` note, in hex.
    #[default]
    Gnu,
    /// Go's own build ID, the text of the `NT_GO_BUILD_ID` note.
    Go,
    /// The 16-byte hash of head, tail and length that OpenTelemetry's profiler makes, in hex.
    Htlhash,
    /// GUID and age of a PDB file, in hex.
    Pdb,
    /// The UUID of a Mach-O file, in hex.
    Macho,
}

impl IdKind {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gnu => "gnu",
            Self::Go => "go",
            Self::Htlhash => "htlhash",
            Self::Pdb => "pdb",
            Self::Macho => "macho",
        }
    }
}
