//! What a profile that arrived brought: its labels, and per module whether it has symbols.

use serde::{Deserialize, Serialize};
use unhex_api::symbolize::ModuleStatus;
use unhex_build_id::Identity;

use super::labels::LabelSet;

/// One profile that arrived, or a part of one.
#[derive(Clone, Debug)]
pub struct Observation {
    /// Whose it was.
    pub labels: LabelSet,
    /// Parts with one ID are one profile.
    pub profile_id: Option<String>,
    /// Its modules; one may appear several times.
    pub modules: Vec<ObservedModule>,
}

/// One module of a profile.
#[derive(Clone, Debug)]
pub struct ObservedModule {
    /// What it is; `None` when what was sent is no identity.
    pub identity: Option<Identity>,
    /// The file name that was sent.
    pub name: Option<String>,
    /// Whether it has symbols.
    pub status: ModuleStatus,
    /// Addresses in it; 0 when only the weight is known.
    pub addresses: u64,
    /// How often they were seen.
    pub weight: u64,
    /// The part of `weight` whose addresses no function covers, although there are symbols.
    pub weight_without_function: u64,
}

/// What became of frames; the words are those of the label `outcome`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Symbolized,
    UnknownBuildId,
    NoDebugInfo,
    NoFunction,
    Unavailable,
    Ignored,
}

impl Outcome {
    pub(super) const ALL: [Self; 6] = [
        Self::Symbolized,
        Self::UnknownBuildId,
        Self::NoDebugInfo,
        Self::NoFunction,
        Self::Unavailable,
        Self::Ignored,
    ];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Symbolized => "symbolized",
            Self::UnknownBuildId => "unknown_build_id",
            Self::NoDebugInfo => "no_debug_info",
            Self::NoFunction => "no_function",
            Self::Unavailable => "unavailable",
            Self::Ignored => "ignored",
        }
    }

    /// Of frames in a module of that status, but for those that no function covers.
    pub(super) fn of(status: ModuleStatus) -> Self {
        match status {
            ModuleStatus::Found => Self::Symbolized,
            ModuleStatus::UnknownBuildId => Self::UnknownBuildId,
            ModuleStatus::NoDebugInfo => Self::NoDebugInfo,
            _ => Self::Unavailable,
        }
    }
}

/// Why a build ID has no symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// Nothing is stored of it.
    UnknownBuildId,
    /// Its files have dynamic symbols at most.
    NoDebugInfo,
    /// Its debug file is being converted; counts when that takes longer than the grace.
    Pending,
    /// It is not known; counts when that takes longer than the grace.
    Unavailable,
}

impl Missing {
    /// What a status says; `None` when there are symbols, or a debug file that cannot be used.
    pub fn of(status: ModuleStatus) -> Option<Self> {
        match status {
            ModuleStatus::UnknownBuildId => Some(Self::UnknownBuildId),
            ModuleStatus::NoDebugInfo => Some(Self::NoDebugInfo),
            ModuleStatus::Pending => Some(Self::Pending),
            ModuleStatus::Unavailable => Some(Self::Unavailable),
            _ => None,
        }
    }

    /// The status that says so.
    pub fn status(self) -> ModuleStatus {
        match self {
            Self::UnknownBuildId => ModuleStatus::UnknownBuildId,
            Self::NoDebugInfo => ModuleStatus::NoDebugInfo,
            Self::Pending => ModuleStatus::Pending,
            Self::Unavailable => ModuleStatus::Unavailable,
        }
    }

    /// Whether it is certain at once; else it may pass by itself.
    pub fn is_definite(self) -> bool {
        matches!(self, Self::UnknownBuildId | Self::NoDebugInfo)
    }
}
