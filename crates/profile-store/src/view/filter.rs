//! Which stacks are of interest: those with a function, a source file or a binary.

use regex::{Regex, RegexBuilder};

use super::merged::Merged;
use super::shown::{ShownBinary, ShownFunction};

/// Bytes of a pattern of a filter; names of templates that people paste have 1,000.
pub const FILTER_BYTES_MAX: usize = 4_096;
/// Bytes of a compiled pattern of a filter.
pub const FILTER_COMPILED_BYTES_MAX: usize = 1 << 20;

/// Keeps whole stacks, so that what is shown is still a path from the root. As in `pprof`, a pattern matches anywhere in a name.
#[derive(Clone, Debug, Default)]
pub struct StackFilter {
    function: Option<Regex>,
    binary: Option<Regex>,
}

/// The patterns of a filter, as they were given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterTexts<'t> {
    /// Stacks with a function whose name or source file matches; of one binary, if that is given, too.
    pub function: Option<&'t str>,
    /// Stacks with a frame in a binary whose file name or build ID matches.
    pub binary: Option<&'t str>,
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
        })
    }

    /// Whether it keeps everything.
    pub fn is_empty(&self) -> bool {
        self.function.is_none() && self.binary.is_none()
    }

    /// The stacks that it keeps. Each name is looked at once, however many stacks it is in.
    pub fn apply(&self, merged: Merged) -> Merged {
        if self.is_empty() {
            return merged;
        }
        let in_binary: Vec<bool> = merged
            .binaries()
            .iter()
            .map(|binary| self.names_identity(binary))
            .collect();
        let functions: Vec<Verdict> = merged
            .functions()
            .iter()
            .map(|function| self.verdict(function))
            .collect();
        let frames: Vec<Verdict> = merged
            .frames()
            .iter()
            .map(|frame| {
                let binary = frame.binary.and_then(|of| in_binary.get(of.index()));
                let has_identity = binary.copied().unwrap_or_default();
                let calls = merged.calls_of(frame).iter();
                let of = calls.filter_map(|call| functions.get(call.function.index()));
                of.fold(Verdict::default(), |all, one| all.with(*one, has_identity))
            })
            .collect();
        merged.with_stacks(|stack| {
            let mut of = stack.iter().filter_map(|frame| frames.get(frame.index()));
            of.any(|verdict| verdict.has_name && verdict.has_binary)
        })
    }

    fn names_identity(&self, binary: &ShownBinary) -> bool {
        let identity = binary.identity.as_ref().map(ToString::to_string);
        let pattern = self.binary.as_ref().zip(identity);
        pattern.is_some_and(|(pattern, identity)| pattern.is_match(&identity))
    }

    fn verdict(&self, function: &ShownFunction) -> Verdict {
        let names =
            |pattern: &Regex| pattern.is_match(&function.name) || pattern.is_match(&function.file);
        let in_binary = |pattern: &Regex| pattern.is_match(&function.binary);
        Verdict {
            has_name: self.function.as_ref().is_none_or(names),
            has_binary: self.binary.as_ref().is_none_or(in_binary),
        }
    }
}

/// What a function or frame means for the stacks that have it.
#[derive(Clone, Copy, Debug, Default)]
struct Verdict {
    has_name: bool,
    has_binary: bool,
}

impl Verdict {
    /// A frame's, with one more of its functions; it may be in the binary by its identity.
    fn with(self, function: Self, has_identity: bool) -> Self {
        let has_binary = function.has_binary || has_identity;
        let is_wanted = function.has_name && has_binary;
        Self {
            has_name: self.has_name || is_wanted,
            has_binary: self.has_binary || is_wanted,
        }
    }
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
