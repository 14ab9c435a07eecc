//! What the kernel refused, and what would help: one error for all who ask it for something.

/// Why no samples can be had this way.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The kernel refused.
    #[error("{action}: {source}{advice}", advice = .advice.map(|advice| format!(": {advice}")).unwrap_or_default())]
    Refused {
        /// What was asked of it.
        action: &'static str,
        /// How it refused.
        source: std::io::Error,
        /// What would help, if that is known.
        advice: Option<&'static str>,
    },
    /// The program for the kernel could not be loaded.
    #[error("the unwinder could not be loaded into the kernel: {0}")]
    Load(String),
}
