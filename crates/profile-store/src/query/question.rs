//! What is asked: whose samples, of what, when, and which of their stacks.

use regex::Regex;

use super::window::Window;
use crate::selector::Selector;
use crate::view::ProfileType;

/// The labels that totals have, too.
pub const TOTAL_LABELS: [&str; 3] = ["service", "version", "deployment"];

/// Whose samples, of what, and when.
#[derive(Clone, Debug)]
pub struct Question {
    /// Whose.
    pub selector: Selector,
    /// Of what.
    pub profile_type: ProfileType,
    /// When.
    pub window: Window,
}

/// Which stacks: those that have a frame of each that is asked for.
#[derive(Clone, Debug, Default)]
pub struct StackFilter {
    /// A function.
    pub function: Option<TextFilter>,
    /// A binary, by its file name without the folder, or by its build ID.
    pub binary: Option<TextFilter>,
}

/// Which texts.
#[derive(Clone, Debug)]
pub enum TextFilter {
    /// This one.
    Exactly(String),
    /// Those that the expression is found in.
    Matching(Regex),
}

impl StackFilter {
    /// Whether every stack passes.
    pub fn is_empty(&self) -> bool {
        self.function.is_none() && self.binary.is_none()
    }
}

impl TextFilter {
    /// Whether a text passes.
    pub fn passes(&self, text: &str) -> bool {
        match self {
            Self::Exactly(wanted) => wanted == text,
            Self::Matching(pattern) => pattern.is_match(text),
        }
    }
}
