//! Everything that a running server is made of, wired once from the configuration.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::artifacts::store::{CacheBounds, LocalStore, ObjectStore, S3Parts, S3Store, StoreError};
use crate::artifacts::{
    ArtifactLimits, Artifacts, ArtifactsParts, Clock, InPlace, SetupError, UpstreamAddresses,
    UpstreamLimits, UpstreamSettings, Upstreams,
};
use crate::config::Config;
use crate::conversion::{ConversionLimits, Convert, Converter, MeteredConverter};
use crate::limits::Limits;
use crate::metrics::{Cache, Metrics, QueueClass, QueueMeter};
use crate::queue::{FairQueue, Supply};
use crate::scan::{Scan, ScanParts};
use crate::signal::{Signal, SignalParts};
use crate::symbolize::{RequestMemory, Symbolizer};

/// What every handler may use; cheap to clone.
#[derive(Clone, Debug)]
pub struct App(Arc<Parts>);

/// What an [`App`] is made of.
#[derive(Debug)]
pub struct Parts {
    /// The configuration that it was made from.
    pub config: Arc<Config>,
    /// Where debug files live.
    pub artifacts: Arc<Artifacts>,
    /// The folders that are scanned, if there are any.
    pub scan: Option<Scan>,
    /// Answers batches of addresses.
    pub symbolizer: Arc<Symbolizer>,
    /// What all requests to it may hold at once.
    pub request_memory: RequestMemory,
    /// Turns to have upstream servers asked, for debuginfod clients.
    pub debuginfod_fetches: FairQueue,
    /// Turns to send a file.
    pub uploads: FairQueue,
    /// Which profiles arrived without symbols.
    pub signal: Arc<Signal>,
    /// What Prometheus scrapes.
    pub metrics: Arc<Metrics>,
    /// Work that goes on behind requests; a stop waits for it.
    pub background: Background,
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
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
    #[error("the data folder cannot be used")]
    Data(#[from] StoreError),
    /// The folder for what is known of scanned files cannot be made or read.
    #[error("the folder for scanned files cannot be used")]
    Scan(#[from] std::io::Error),
    /// Upstream servers cannot be asked.
    #[error(transparent)]
    Upstream(#[from] SetupError),
    /// The bucket refuses to be used.
    #[error("the bucket cannot be used")]
    Bucket(#[source] StoreError),
    /// The runtime stops already.
    #[error("opening the data folder was cut off: {0}")]
    Cut(String),
}

/// How long a start waits for the bucket before it goes on without, and `/readyz` says so.
const BUCKET_SECONDS_MAX: Duration = Duration::from_secs(10);

/// The bucket, if one is configured, else the folder.
async fn open_store(
    config: &Config,
    metrics: &Arc<Metrics>,
    background: &Background,
) -> Result<Arc<dyn ObjectStore>, OpenError> {
    let Some(bucket) = config.s3.clone() else {
        let data = config.data.clone();
        let opening = tokio::task::spawn_blocking(move || LocalStore::open(&data));
        let opened = opening.await;
        return Ok(Arc::new(
            opened.map_err(|error| OpenError::Cut(error.to_string()))??,
        ));
    };
    let store = S3Store::open(S3Parts {
        config: bucket,
        data: config.data.clone(),
        cache: CacheBounds {
            bytes_max: config.limits.cache_bytes_max,
            free_bytes_min: config.limits.free_disk_bytes_min,
            meter: metrics.cache(Cache::Files),
        },
        metrics: Arc::clone(metrics),
        tasks: background.tasks.clone(),
    });
    let store = store.await?;
    match tokio::time::timeout(BUCKET_SECONDS_MAX, store.check()).await {
        Ok(Ok(())) => {}
        // Waiting would not help.
        Ok(Err(error @ StoreError::Refused { .. })) => return Err(OpenError::Bucket(error)),
        Ok(Err(error)) => tracing::warn!(%error, "not ready until the bucket answers: {error}"),
        Err(elapsed) => tracing::warn!("not ready until the bucket answers: {elapsed}"),
    }
    Ok(Arc::new(store))
}

impl App {
    /// Opens the store and wires everything to it. Runs within a tokio runtime.
    ///
    /// # Errors
    /// If the data folder cannot be made or read.
    pub async fn open(config: Config) -> Result<Self, OpenError> {
        let background = Background::default();
        let metrics = Arc::new(Metrics::new());
        // What a bucket needs to open is large, and most servers have none.
        let store = Box::pin(open_store(&config, &metrics, &background)).await?;
        let converter: Arc<dyn Convert> = Arc::new(MeteredConverter {
            converter: Converter::new(
                config.converter_program.clone(),
                ConversionLimits::from(&config.limits),
                metrics.queue(QueueClass::Conversion),
            ),
            metrics: Arc::clone(&metrics),
        });
        let staging = store.staging().folder().to_owned();
        let scan = open_scan(&config, (&converter, staging), (&metrics, &background)).await?;
        let upstreams = Upstreams::new(&upstream_settings(&config), &metrics, &background.tasks)?;
        let artifacts = Arc::new(Artifacts::new(ArtifactsParts {
            store: Arc::clone(&store),
            converter,
            clock: Clock::system(),
            limits: ArtifactLimits::from(&config.limits),
            in_place: scan.clone().map(|scan| Arc::new(scan) as Arc<dyn InPlace>),
            upstreams,
            metrics: Arc::clone(&metrics),
            tasks: background.tasks.clone(),
            stopping: background.stopping.clone(),
        }));
        artifacts.sweep_by_and_by();
        scan.iter().for_each(Scan::run);
        let signal = Signal::open(SignalParts {
            store,
            artifacts: Arc::clone(&artifacts),
            metrics: Arc::clone(&metrics),
            clock: Clock::system(),
            config: config.signal.clone(),
            limits: &config.limits,
        })
        .await;
        signal.run(&background.tasks, &background.stopping);
        let limits = symbolizer_limits(&config);
        let symbolizer = Symbolizer::new(Arc::clone(&artifacts), &limits, &metrics);
        Ok(Self(Arc::new(Parts {
            request_memory: RequestMemory::new(
                &config.limits,
                metrics.queue(QueueClass::Symbolize),
            ),
            debuginfod_fetches: queue(
                config.limits.debuginfod_fetches_max,
                metrics.queue(QueueClass::Debuginfod),
            ),
            uploads: queue(config.limits.uploads_max, metrics.queue(QueueClass::Upload)),
            config: Arc::new(config),
            artifacts,
            scan,
            symbolizer: Arc::new(symbolizer),
            signal,
            metrics,
            background,
        })))
    }
}

/// Over a bucket, indexes that are open are files of the disk cache that cannot go: they leave half
/// of it to others.
fn symbolizer_limits(config: &Config) -> Limits {
    let mut limits = config.limits.clone();
    if config.s3.is_some() {
        limits.open_index_bytes_max = limits.open_index_bytes_max.min(limits.cache_bytes_max / 2);
    }
    limits
}

/// A queue of which each in it takes one.
fn queue(total: usize, meter: QueueMeter) -> FairQueue {
    let total = u64::try_from(total).unwrap_or(u64::MAX);
    FairQueue::new(Supply::of(total), meter)
}

/// The scanned folders, if there are any.
async fn open_scan(
    config: &Config,
    (converter, staging): (&Arc<dyn Convert>, PathBuf),
    (metrics, background): (&Arc<Metrics>, &Background),
) -> Result<Option<Scan>, OpenError> {
    if config.scan.paths.is_empty() {
        return Ok(None);
    }
    let (config, background) = (config.clone(), background.clone());
    let (converter, metrics) = (Arc::clone(converter), Arc::clone(metrics));
    let opening = tokio::task::spawn_blocking(move || {
        Scan::open(ScanParts {
            data: &config.data,
            staging: &staging,
            limits: &config.limits,
            config: config.scan,
            converter,
            clock: Clock::system(),
            metrics: &metrics,
            tasks: background.tasks,
            stopping: background.stopping,
        })
    });
    let opened = opening.await;
    let opened = opened.map_err(|error| OpenError::Cut(error.to_string()))?;
    Ok(Some(opened?))
}

/// Who is asked for what the store has not, and within which bounds.
fn upstream_settings(config: &Config) -> UpstreamSettings {
    let servers = config.upstream.servers.iter();
    UpstreamSettings {
        servers: servers.map(|server| server.url().clone()).collect(),
        redirects_to: if config.upstream.allow_private {
            UpstreamAddresses::All
        } else {
            UpstreamAddresses::Public
        },
        limits: UpstreamLimits::from(&config.limits),
    }
}
