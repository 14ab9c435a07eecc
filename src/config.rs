//! The configuration: flags, then `UNHEX_*` variables, then `unhex.toml`, then the defaults.
//!
//! The only place that reads the environment.

use crate::limits::Limits;

/// Everything that can be set.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Bounds on what strangers send.
    pub limits: Limits,
}
