//! An error and what it comes from, in one line of the log.

use std::error::Error;
use std::fmt::Write as _;

/// The error with its sources.
pub(super) fn shown(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let source_text = source.to_string();
        // Transparent errors say what their source says.
        if !text.ends_with(&source_text) {
            let _infallible = write!(text, ": {source_text}");
        }
        next = source.source();
    }
    text
}
