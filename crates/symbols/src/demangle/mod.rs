//! Linkage names as people write them, in bounded time and memory.

use crate::model::Language;

/// A demangled name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demangled {
    /// With parameters and template arguments.
    pub full: String,
    /// Without.
    pub short: String,
}

impl Demangled {
    /// Demangles a linkage name.
    pub fn of(linkage_name: &str, _language: Language) -> Self {
        Self {
            full: linkage_name.to_owned(),
            short: linkage_name.to_owned(),
        }
    }
}
