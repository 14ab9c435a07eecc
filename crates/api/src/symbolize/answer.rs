//! What `POST /symbolize` answers, in the form that people read.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::quality::{Origin, Quality};

/// The answer: one [`ModuleAnswer`] per module of the request, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SymbolizeAnswer {
    /// One per module of the request, in its order.
    pub modules: Vec<ModuleAnswer>,
}

/// What is known of one module and its addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModuleAnswer {
    /// The identity as asked, lower case where it is hex.
    pub build_id: String,
    /// Whether there are symbols, and if not, why.
    pub status: ModuleStatus,
    /// The same in words, and what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// When to ask again, in seconds; there when `status` is `pending`, or `unavailable` for want of time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u32>,
    /// How good the symbols are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<Quality>,
    /// How the best debug file came into the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// Which symbols answered: it changes exactly when the frames or reasons of some address of the module
    /// could, with the same options. There when the server has any symbols of it, dynamic ones too. A module without addresses
    /// asks for nothing else, at next to no cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<String>,
    /// Per address its frames, innermost first. As long as `addresses`, and there exactly when
    /// `status` is `found`, or `no_debug_info` with dynamic symbols.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<Vec<Vec<Frame>>>,
    /// Per address why it has no frames, or why they may be incomplete; there when `frames` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasons: Option<Vec<Option<Reason>>>,
}

/// One function at an address: the one that was called, or one that was inlined there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub struct Frame {
    /// Its name, demangled as asked; missing where only file and line are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// As the linker knows it; missing when it is the same as `function`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linkage_name: Option<String>,
    /// The source file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line, from 1; of an outer frame, that of the call.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub line: u32,
    /// The column, from 1.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub column: u32,
    /// Whether it was inlined into the next frame.
    #[serde(default, skip_serializing_if = "is_false")]
    pub inlined: bool,
    /// Bytes from the function's entry to the address; only of the outermost frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands references to skip_serializing_if"
)]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands references to skip_serializing_if"
)]
fn is_false(flag: &bool) -> bool {
    !*flag
}

/// Whether there are symbols of a module, and if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModuleStatus {
    /// There are: at least a symbol table.
    Found,
    /// Nothing is known of the build ID: upload its debug file.
    UnknownBuildId,
    /// The build ID is known, but its files have dynamic symbols at most.
    NoDebugInfo,
    /// Its debug file is being fetched or converted: ask again.
    Pending,
    /// Its debug file, or the identity in the request, is damaged.
    Malformed,
    /// Its debug file is sound but of a kind that is not supported.
    Unsupported,
    /// Its debug file exceeds a limit.
    TooLarge,
    /// Its debug file took longer to convert than the limit.
    Timeout,
    /// It is not known now; ask again.
    Unavailable,
}

impl ModuleStatus {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::UnknownBuildId => "unknown_build_id",
            Self::NoDebugInfo => "no_debug_info",
            Self::Pending => "pending",
            Self::Malformed => "malformed",
            Self::Unsupported => "unsupported",
            Self::TooLarge => "too_large",
            Self::Timeout => "timeout",
            Self::Unavailable => "unavailable",
        }
    }
}

/// Why one address has no frames, or why its frames may be incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// No function covers it.
    NoFunction,
    /// It lies in no loadable segment, or outside the mapping.
    OutsideModule,
    /// It is no number to 2^64-1, or there is no mapping that could place it.
    InvalidAddress,
    /// Only the executable's program headers could place it, and they are not known.
    NeedsExecutable,
    /// Names are missing that stand in a supplementary (dwz) file, which is not in the store.
    NeedsSupplement,
}

impl Reason {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoFunction => "no_function",
            Self::OutsideModule => "outside_module",
            Self::InvalidAddress => "invalid_address",
            Self::NeedsExecutable => "needs_executable",
            Self::NeedsSupplement => "needs_supplement",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_the_same_by_serde_and_by_as_str() {
        use ModuleStatus as S;
        for status in [
            S::Found,
            S::UnknownBuildId,
            S::NoDebugInfo,
            S::Pending,
            S::Malformed,
            S::Unsupported,
            S::TooLarge,
            S::Timeout,
            S::Unavailable,
        ] {
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
        for reason in [
            Reason::NoFunction,
            Reason::OutsideModule,
            Reason::InvalidAddress,
            Reason::NeedsExecutable,
            Reason::NeedsSupplement,
        ] {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
        for quality in [
            Quality::None,
            Quality::Dynsym,
            Quality::Symtab,
            Quality::GoPclntab,
            Quality::DwarfLines,
            Quality::DwarfInlines,
        ] {
            assert_eq!(serde_json::to_value(quality).unwrap(), quality.as_str());
        }
        for origin in [Origin::Upload, Origin::Upstream, Origin::Scanned] {
            assert_eq!(serde_json::to_value(origin).unwrap(), origin.as_str());
        }
    }

    #[test]
    fn the_documented_answer_round_trips() {
        let text = r#"{"modules":[{"build_id":"9a0f","status":"found","quality":"dwarf_inlines","origin":"upload","frames":[[{"function":"inner","linkage_name":"_Z5innerv","file":"/src/in.c","line":3,"column":7,"inlined":true},{"function":"outer","file":"/src/in.c","line":8,"offset":21}],[]],"reasons":[null,"no_function"]}]}"#;
        let answer: SymbolizeAnswer = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&answer).unwrap(), text);
    }
}
