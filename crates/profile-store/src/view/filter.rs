//! Which stacks are of interest: those with a function, a source file or a binary.

use regex::{Regex, RegexBuilder};

use super::merged::{Merged, ShownCall};
use super::shown::ShownFunction;

/// Bytes of a pattern of a filter; names of templates that people paste have 1,000.
pub const FILTER_BYTES_MAX: usize = 4_096;
/// Bytes of a compiled pattern of a filter.
pub const FILTER_COMPILED_BYTES_MAX: usize = 1 << 20;

/// Keeps whole stacks, so that what is shown is still a path from the root. As in `pprof`, a pattern matches anywhere in a name.
#[derive(Clone, Debug, Default)]
pub struct StackFilter {
    function: Option<Regex>,
    binary: Option<Regex>,
    without: Option<Regex>,
}

/// The patterns of a filter, as they were given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterTexts<'t> {
    /// Stacks with a function whose name or source file matches; of one binary, if that is given, too.
    pub function: Option<&'t str>,
    /// Stacks with a frame in a binary whose file name matches.
    pub binary: Option<&'t str>,
    /// No stacks with a function whose name or source file matches.
    pub without: Option<&'t str>,
}

/// A pattern that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// It is no regular expression, or one that is too large.
    #[error("{what}: pattern `{pattern}`: {detail}")]
    Pattern {
        /// The filter.
        what: &'static str,
        /// The pattern.
        pattern: String,
        /// What is wrong.
        detail: String,
    },
    /// It is too long.
    #[error("{what}: pattern of {bytes} bytes, at most {max}")]
    TooLong {
        /// The filter.
        what: &'static str,
        /// Its bytes.
        bytes: usize,
        /// The limit.
        max: usize,
    },
}

impl StackFilter {
    /// From its patterns.
    ///
    /// # Errors
    /// If one of them is no regular expression or too large.
    pub fn new(texts: FilterTexts<'_>) -> Result<Self, FilterError> {
        Ok(Self {
            function: compiled("function", texts.function)?,
            binary: compiled("binary", texts.binary)?,
            without: compiled("without", texts.without)?,
        })
    }

    /// Whether it keeps everything.
    pub fn is_empty(&self) -> bool {
        self.function.is_none() && self.binary.is_none() && self.without.is_none()
    }

    /// The stacks that it keeps. Each name is looked at once, however many stacks it is in.
    pub fn apply(&self, merged: Merged) -> Merged {
        if self.is_empty() {
            return merged;
        }
        let functions = merged.functions().iter();
        let verdicts: Vec<Verdict> = functions.map(|function| self.verdict(function)).collect();
        let needs_one = self.function.is_some() || self.binary.is_some();
        merged.with_stacks(|calls| {
            let verdict = |call: &ShownCall| {
                let verdict = verdicts.get(call.function.index());
                verdict.copied().unwrap_or_default()
            };
            let mut is_there = !needs_one;
            for verdict in calls.map(verdict) {
                if verdict.is_unwanted {
                    return false;
                }
                is_there |= verdict.is_wanted;
            }
            is_there
        })
    }

    fn verdict(&self, function: &ShownFunction) -> Verdict {
        let names =
            |pattern: &Regex| pattern.is_match(&function.name) || pattern.is_match(&function.file);
        let in_binary = |pattern: &Regex| pattern.is_match(&function.binary);
        Verdict {
            is_wanted: self.function.as_ref().is_none_or(names)
                && self.binary.as_ref().is_none_or(in_binary),
            is_unwanted: self.without.as_ref().is_some_and(names),
        }
    }
}

/// What a function means for the stacks that have it.
#[derive(Clone, Copy, Debug, Default)]
struct Verdict {
    is_wanted: bool,
    is_unwanted: bool,
}

fn compiled(what: &'static str, text: Option<&str>) -> Result<Option<Regex>, FilterError> {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    if text.len() > FILTER_BYTES_MAX {
        return Err(FilterError::TooLong {
            what,
            bytes: text.len(),
            max: FILTER_BYTES_MAX,
        });
    }
    let built = RegexBuilder::new(text)
        .size_limit(FILTER_COMPILED_BYTES_MAX)
        .dfa_size_limit(FILTER_COMPILED_BYTES_MAX)
        .build();
    built.map(Some).map_err(|error| {
        let detail = error.to_string();
        let detail = detail.lines().last().unwrap_or_default().trim();
        FilterError::Pattern {
            what,
            pattern: text.to_owned(),
            detail: detail.strip_prefix("error: ").unwrap_or(detail).to_owned(),
        }
    })
}
