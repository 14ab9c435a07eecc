//! What a picture or file says of itself.

/// Title, question and window, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heading {
    /// What it shows, as `CPU time`.
    pub title: String,
    /// The selector and the window.
    pub subtitle: String,
    /// The first moment, in nanoseconds since 1970.
    pub from_unix_nanos: u64,
    /// How long the window is.
    pub duration_nanos: u64,
}
