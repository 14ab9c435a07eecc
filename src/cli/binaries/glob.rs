//! Patterns that say which files are meant: without `/` for their names, with `/` for their paths.

use std::path::Path;
use std::str::FromStr;

use crate::glob::{self, Dialect};

/// Longest pattern; matching takes its length times that of the name.
const PATTERN_CHARS_MAX: usize = 1_000;

/// A pattern. One without `/` is for file names, one with `/` for the path as it is printed, where
/// `*` stays within a folder and `**` does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Glob {
    pattern: glob::Glob,
    is_for_path: bool,
}

/// A pattern that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a pattern has 1 to {PATTERN_CHARS_MAX} characters, this one has {0}")]
pub(crate) struct ParseGlobError(usize);

impl FromStr for Glob {
    type Err = ParseGlobError;

    fn from_str(pattern: &str) -> Result<Self, Self::Err> {
        let length = pattern.chars().count();
        if !(1..=PATTERN_CHARS_MAX).contains(&length) {
            return Err(ParseGlobError(length));
        }
        Ok(Self {
            pattern: glob::Glob::new(pattern, Dialect::Folders),
            is_for_path: pattern.contains('/'),
        })
    }
}

impl Glob {
    /// Whether the pattern is for this file.
    pub(crate) fn matches(&self, path: &Path) -> bool {
        let text = if self.is_for_path {
            path.to_string_lossy()
        } else {
            path.file_name().unwrap_or_default().to_string_lossy()
        };
        self.pattern.matches(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        pattern.parse::<Glob>().unwrap().matches(Path::new(path))
    }

    #[test]
    fn a_pattern_without_slash_is_for_the_file_name() {
        assert!(matches("*.so*", "/usr/lib/libc.so.6"));
        assert!(matches("app", "/srv/app"));
        assert!(matches("a?p", "app"));
        assert!(!matches("app", "/srv/app/other"));
        assert!(!matches("*.so", "libc.so.6"));
    }

    #[test]
    fn a_pattern_with_slash_is_for_the_path() {
        assert!(matches("target/*/app", "target/release/app"));
        assert!(!matches("target/*/app", "target/release/deps/app"));
        assert!(matches("target/**/app", "target/release/deps/app"));
    }

    #[test]
    fn a_pattern_has_a_length() {
        assert!("".parse::<Glob>().is_err());
        assert!("x".repeat(1_001).parse::<Glob>().is_err());
    }
}
