//! What is asked: whose samples, of what, and when.

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
