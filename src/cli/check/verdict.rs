//! What the state of a build ID means for somebody who is about to deploy it.

use serde::Serialize;
use unhex_api::artifacts::{BuildIdState, IndexState};
use unhex_api::quality::Quality;

/// Whether a binary can be symbolized, and if not, why and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Verdict {
    /// In one word.
    pub(super) status: VerdictStatus,
    /// What its symbols are good for, where the store has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) quality: Option<Quality>,
    /// In words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) detail: Option<String>,
}

/// Whether a binary can be symbolized; the first words are those of `POST /symbolize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum VerdictStatus {
    /// With the quality that was demanded.
    Found,
    /// The store knows nothing of it.
    UnknownBuildId,
    /// The store has it, stripped.
    NoDebugInfo,
    /// The server is still converting it.
    Pending,
    /// The server cannot convert it.
    Failed,
    /// It can, but with less than what was demanded.
    BelowMinimum,
    /// It has no build ID.
    NoBuildId,
    /// It could not be looked at.
    Unreadable,
}

impl VerdictStatus {
    /// The word for people.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::UnknownBuildId => "unknown",
            Self::NoDebugInfo => "no debug info",
            Self::Pending => "pending",
            Self::Failed => "failed",
            Self::BelowMinimum => "below minimum",
            Self::NoBuildId => "no build ID",
            Self::Unreadable => "unreadable",
        }
    }
}

impl Verdict {
    /// A verdict without words.
    pub(super) fn new(status: VerdictStatus) -> Self {
        Self {
            status,
            quality: None,
            detail: None,
        }
    }

    /// With words.
    pub(super) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// The verdict on what the store says of a build ID, if it knows it.
    pub(super) fn of(state: Option<&BuildIdState>, minimum: Quality) -> Self {
        let Some(state) = state else {
            let advice =
                "the store knows nothing of this build; unhex upload it, with its debug file";
            return Self::new(VerdictStatus::UnknownBuildId).detail(advice);
        };
        let said = state
            .detail
            .as_deref()
            .unwrap_or("the server does not say why");
        let mut verdict = match state.index {
            Some(IndexState::Converting) => {
                Self::new(VerdictStatus::Pending).detail("it is still being converted; check again")
            }
            Some(IndexState::Failed) => Self::new(VerdictStatus::Failed).detail(said),
            _ if state.quality >= minimum => Self::new(VerdictStatus::Found),
            _ if state.quality < Quality::Symtab => Self::new(VerdictStatus::NoDebugInfo).detail(
                "the store has it without debug information only; unhex upload its debug file",
            ),
            _ => Self::new(VerdictStatus::BelowMinimum).detail(format!(
                "{} is less than {}; unhex upload a debug file with more",
                state.quality.as_str(),
                minimum.as_str()
            )),
        };
        verdict.quality = Some(state.quality);
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(quality: Quality, index: IndexState) -> BuildIdState {
        let text = r#"{"build_id":"ab","generation":"1","quality":"none","artifacts":[]}"#;
        let mut state: BuildIdState = serde_json::from_str(text).unwrap();
        state.quality = quality;
        state.index = Some(index);
        state
    }

    #[test]
    fn quality_decides_once_the_index_is_there() {
        let of =
            |quality, index, minimum| Verdict::of(Some(&state(quality, index)), minimum).status;
        let ready = IndexState::Ready;
        assert_eq!(
            of(Quality::DwarfInlines, ready, Quality::Symtab),
            VerdictStatus::Found
        );
        assert_eq!(
            of(Quality::Symtab, ready, Quality::Symtab),
            VerdictStatus::Found
        );
        assert_eq!(
            of(Quality::Symtab, ready, Quality::DwarfLines),
            VerdictStatus::BelowMinimum
        );
        assert_eq!(
            of(Quality::Dynsym, ready, Quality::Symtab),
            VerdictStatus::NoDebugInfo
        );
        assert_eq!(
            of(Quality::Dynsym, ready, Quality::Dynsym),
            VerdictStatus::Found
        );
        let inlines = Quality::DwarfInlines;
        assert_eq!(
            of(inlines, IndexState::Converting, inlines),
            VerdictStatus::Pending
        );
        assert_eq!(
            of(inlines, IndexState::Failed, inlines),
            VerdictStatus::Failed
        );
        assert_eq!(
            Verdict::of(None, inlines).status,
            VerdictStatus::UnknownBuildId
        );
    }
}
