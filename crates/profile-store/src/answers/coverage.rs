//! `GET /query/coverage`: how much of the CPU time has its names, and why the rest has not.
//!
//! A row is about the frames of one binary (or runtime, or reason) with one outcome. Its seconds are those of all stacks that have such a frame, each stack counted
//! once, so that a row says how much of the CPU time it spoils; rows do not add up, since one stack may have frames of several. Its own seconds are
//! those of stacks whose leaf is such a frame, and these add up to all.

use serde::{Deserialize, Serialize};
use unhex_api::quality::Quality;
use unhex_build_id::IdKind;
use utoipa::ToSchema;

use super::Asked;

/// CPU seconds by outcome.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CoverageAnswer {
    /// The question.
    pub asked: Asked,
    /// CPU seconds in all.
    pub total_seconds: f64,
    /// CPU seconds of stacks that were unwound to their end and of which each frame has its name, or is no missing symbol.
    pub whole_seconds: f64,
    /// The rows, the most seconds first.
    pub rows: Vec<CoverageRow>,
    /// Rows beyond the limit, which are not listed.
    pub left_out: u64,
}

/// The frames of one binary with one outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CoverageRow {
    /// The service; empty if rows are not made by it, like the next two.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub service: String,
    /// Its version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Where it runs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub deployment: String,
    /// The start of the step in seconds since 1970, if a step was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<i64>,
    /// The file name of the binary; empty if there is none, or rows are not made by it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub binary: String,
    /// Its identity, if it has one and rows are made by binary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
    /// What the identity is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub id_kind: Option<IdKind>,
    /// What became of the frames.
    pub outcome: Outcome,
    /// How good the symbols are, of those that are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<Quality>,
    /// The runtime without an unwinder, the reason of the profiler for stopping, or what the symbol server says of the debug file.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// CPU seconds of stacks with such a frame.
    pub seconds: f64,
    /// CPU seconds of stacks whose leaf is such a frame.
    pub self_seconds: f64,
    /// `seconds` of those of the row's service, version, deployment and step: 0 to 1.
    pub share: f64,
}

/// What became of a frame.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// It has its names from the symbol server.
    Symbolized,
    /// It came with names that are final, as of interpreted code.
    Named,
    /// The symbol server knows nothing of the build ID.
    UnknownBuildId,
    /// The symbol server has a file without debug information, of which this frame has no name, or that of a dynamic symbol.
    NoDebugInfo,
    /// There is debug information, and no function at the address.
    NoFunction,
    /// The debug file is damaged, too large or of no kind that can be read.
    Unusable,
    /// The debug file is being fetched or converted.
    Pending,
    /// The symbol server could not be asked, or could not say.
    Unavailable,
    /// The binary has no build ID, so that nobody can be asked.
    NoIdentity,
    /// A runtime that the profiler cannot unwind.
    MissingUnwinder,
    /// The profiler stopped before the end of the stack.
    Truncated,
    /// The kernel's: no missing symbols, its names come from the host.
    Kernel,
    /// The vdso's: no missing symbols.
    Vdso,
    /// Memory without a file, as of just-in-time compilers, or no mapping: no missing symbols.
    Unplaced,
}

impl Outcome {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Symbolized => "symbolized",
            Self::Named => "named",
            Self::UnknownBuildId => "unknown_build_id",
            Self::NoDebugInfo => "no_debug_info",
            Self::NoFunction => "no_function",
            Self::Unusable => "unusable",
            Self::Pending => "pending",
            Self::Unavailable => "unavailable",
            Self::NoIdentity => "no_identity",
            Self::MissingUnwinder => "missing_unwinder",
            Self::Truncated => "truncated",
            Self::Kernel => "kernel",
            Self::Vdso => "vdso",
            Self::Unplaced => "unplaced",
        }
    }

    /// Whether a stack with such a frame is whole all the same, see [`CoverageAnswer::whole_seconds`].
    pub fn is_whole(self) -> bool {
        matches!(
            self,
            Self::Symbolized | Self::Named | Self::Kernel | Self::Vdso | Self::Unplaced
        )
    }
}
