//! What a query was told of its places.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use unhex_api::quality::Quality;
use unhex_build_id::Identity;
use unhex_pprof::CodeAddress;

use crate::answers::Outcome;
use crate::rows::NativeFrame;
use crate::view::{Call, NamesLacking};

/// The names of the places of a query.
#[derive(Clone, Debug, Default)]
pub struct Names {
    pub(super) modules: FxHashMap<Identity, ModuleNames>,
    pub(super) lacking: Option<NamesLacking>,
}

/// The names of the places in one binary.
#[derive(Clone, Debug)]
pub(super) struct ModuleNames {
    pub(super) standing: ModuleStanding,
    pub(super) calls: FxHashMap<CodeAddress, Arc<[Call]>>,
}

/// What the symbol server says of a binary as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ModuleStanding {
    /// It has symbols.
    Found(Quality),
    /// Nobody has anything of it.
    UnknownBuildId,
    /// It has dynamic symbols at most.
    NoDebugInfo,
    /// Its debug file is of no use, and why.
    Unusable(Arc<str>),
    /// Its debug file is being fetched or converted.
    Pending,
    /// The server could not be asked, or could not say.
    Unavailable,
}

/// What became of one place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameOutcome {
    /// Whether it has a name, and if not, why.
    pub outcome: Outcome,
    /// How good its symbols are, if it has a name.
    pub quality: Option<Quality>,
    /// What the server says of an unusable debug file.
    pub detail: Arc<str>,
}

impl Names {
    /// The functions at a place, innermost first; empty if it has no name.
    pub fn calls(&self, native: &NativeFrame) -> &[Call] {
        let identity = native.identity.as_ref();
        let module = identity.and_then(|identity| self.modules.get(identity));
        let calls = module.and_then(|module| module.calls.get(&native.address));
        calls.map_or(&[], |calls| calls)
    }

    /// What became of a place.
    pub fn outcome(&self, native: &NativeFrame) -> NameOutcome {
        let Some(identity) = &native.identity else {
            return NameOutcome::of(Outcome::NoIdentity);
        };
        let Some(module) = self.modules.get(identity) else {
            return NameOutcome::of(Outcome::Unavailable);
        };
        NameOutcome::of(match &module.standing {
            ModuleStanding::Found(quality) => match module.calls.get(&native.address) {
                None => Outcome::Unavailable,
                Some(calls) if calls.is_empty() => Outcome::NoFunction,
                Some(_) => {
                    return NameOutcome {
                        quality: Some(*quality),
                        ..NameOutcome::of(Outcome::Symbolized)
                    };
                }
            },
            ModuleStanding::Unusable(detail) => {
                return NameOutcome {
                    detail: Arc::clone(detail),
                    ..NameOutcome::of(Outcome::Unusable)
                };
            }
            ModuleStanding::UnknownBuildId => Outcome::UnknownBuildId,
            ModuleStanding::NoDebugInfo => Outcome::NoDebugInfo,
            ModuleStanding::Pending => Outcome::Pending,
            ModuleStanding::Unavailable => Outcome::Unavailable,
        })
    }

    /// None if everybody who may know names was asked and has answered.
    pub fn lacking(&self) -> Option<&NamesLacking> {
        self.lacking.as_ref()
    }
}

impl NameOutcome {
    /// One without more to say.
    pub fn of(outcome: Outcome) -> Self {
        Self {
            outcome,
            quality: None,
            detail: "".into(),
        }
    }
}
