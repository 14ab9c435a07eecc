//! What is wrong with a selector, and where.

/// Why a text is no selector. Places are characters from its beginning, the first is 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectorError {
    /// Something else should be here.
    #[error("selector, character {place}: expected {expected}, found {found}")]
    Unexpected {
        /// Where.
        place: usize,
        /// What should be here.
        expected: &'static str,
        /// What is here.
        found: String,
    },
    /// An escape of a string that is none.
    #[error("selector, character {place}: {detail}")]
    Escape {
        /// Where the escape begins, or the string whose bytes are no UTF-8.
        place: usize,
        /// What is wrong.
        detail: &'static str,
    },
    /// A pattern that cannot be read, or would be too large.
    #[error("selector, character {place}: pattern `{pattern}`: {detail}")]
    Pattern {
        /// Where its string begins.
        place: usize,
        /// The pattern.
        pattern: String,
        /// What is wrong.
        detail: String,
    },
    /// It is too long.
    #[error("selector of {bytes} bytes, at most {max}")]
    TooLong {
        /// Its bytes.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// It has too many matchers.
    #[error("selector of more than {max} matchers")]
    TooManyMatchers {
        /// The limit.
        max: usize,
    },
}
