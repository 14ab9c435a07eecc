//! Everything that a running server is made of, wired once from the configuration.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

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
    /// Work that goes on behind requests; a stop waits for it.
    pub background: Background,
}

/// The tasks that outlive the request that started them, all owned here.
#[derive(Clone, Debug, Default)]
pub struct Background {
    /// Spawns them, and waits for them at a stop.
    pub tasks: TaskTracker,
    /// Cancelled when the server stops: endless tasks end then, others finish what they do.
    pub stopping: CancellationToken,
}

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The folder for the data cannot be made or used.
    #[error("the data folder {path} cannot be used")]
    Data {
        /// The folder.
        path: std::path::PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl App {
    /// Opens the store and wires everything to it. Runs within a tokio runtime.
    ///
    /// # Errors
    /// If the data folder cannot be made or read.
    #[expect(clippy::unused_async, reason = "opening a store may wait for it")]
    pub async fn open(config: Config) -> Result<Self, OpenError> {
        std::fs::create_dir_all(&config.data).map_err(|source| OpenError::Data {
            path: config.data.clone(),
            source,
        })?;
        Ok(Self {
            config: Arc::new(config),
            artifacts: Arc::new(Artifacts {}),
            symbolizer: Arc::new(Symbolizer {}),
            metrics: Arc::new(Metrics::new()),
            background: Background::default(),
        })
    }
}
