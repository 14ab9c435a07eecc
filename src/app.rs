//! Everything that a running server is made of, wired once from the configuration.

use std::sync::Arc;

use crate::artifacts::Artifacts;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::symbolize::Symbolizer;

/// What every handler may use; cheap to clone.
#[derive(Clone, Debug)]
pub struct App {
    /// The configuration that it was made from.
    pub config: Arc<Config>,
    /// Where debug files live.
    pub artifacts: Arc<Artifacts>,
    /// Answers batches of addresses.
    pub symbolizer: Arc<Symbolizer>,
    /// What Prometheus scrapes.
    pub metrics: Arc<Metrics>,
}
