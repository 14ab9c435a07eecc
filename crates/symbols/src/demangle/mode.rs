//! Which form of a name a request wants; the words are those of the API, and of Parca and pprof.

use std::borrow::Cow;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::scheme::{Scheme, split_clones};
use super::shorten;
use crate::model::Language;

/// Which form of a name a request wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DemangleMode {
    /// With parameters and template arguments.
    #[default]
    Full,
    /// Template arguments, but no parameters.
    Templates,
    /// Neither.
    Simple,
    /// The linkage name as it is.
    None,
}

/// The stored forms of one function's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names<'a> {
    /// As the linker knows it.
    pub linkage: &'a str,
    /// Demangled in full.
    pub full: &'a str,
    /// Demangled without parameters and template arguments.
    pub short: &'a str,
}

/// A word that is no [`DemangleMode`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no way to demangle: full, templates, simple or none")]
pub struct ParseDemangleModeError(pub String);

impl DemangleMode {
    /// Every mode, in the order of the documentation.
    pub const ALL: [Self; 4] = [Self::Full, Self::Templates, Self::Simple, Self::None];

    /// The word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Templates => "templates",
            Self::Simple => "simple",
            Self::None => "none",
        }
    }

    /// The name in this form. Only `templates` may allocate.
    pub fn name(self, names: Names<'_>) -> Cow<'_, str> {
        match self {
            Self::Full => names.full.into(),
            Self::Simple => names.short.into(),
            Self::None => names.linkage.into(),
            Self::Templates => with_templates(names),
        }
    }
}

fn with_templates(names: Names<'_>) -> Cow<'_, str> {
    let (base, _) = split_clones(names.linkage);
    if names.full == names.linkage {
        return names.short.into();
    }
    match Scheme::of(base, Language::Unknown) {
        Some(Scheme::Cpp) => shorten::without_parameters(names.full).into(),
        _ => names
            .full
            .split(" [clone ")
            .next()
            .unwrap_or(names.full)
            .into(),
    }
}

impl FromStr for DemangleMode {
    type Err = ParseDemangleModeError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.as_str() == word)
            .ok_or_else(|| ParseDemangleModeError(word.to_owned()))
    }
}
