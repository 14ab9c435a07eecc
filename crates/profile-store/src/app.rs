//! Everything that a running store is made of, wired once from the configuration.

use std::num::NonZeroUsize;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use unhex_api::client::{ClientOptions, RetryPolicy};

use crate::append::{Appender, AppenderParts};
use crate::clock::Clock;
use crate::config::Config;
use crate::engine::{Engine, EngineError, EngineOptions};
use crate::export::{ExportCounters, Exporter};
use crate::ingest::{Ingest, IngestParts};
use crate::limits::Limits;
use crate::maintain::{MaintainOptions, Maintenance};
use crate::metrics::Metrics;
use crate::objects::{self, Objects};
use crate::observe::{Notes, SetupError};
use crate::query::{Queries, QueriesParts, TurnOptions, Turns};
use crate::reading::Readings;
use crate::symbols::{Symbols, SymbolsOptions};

/// The folder of the table within the data folder.
const TABLE: &str = "table";
/// The folder for rows of compactions that do not fit into memory.
const COMPACTION_SPILL: &str = "compaction-spill";
/// The folder for rows of queries that do not fit into memory.
const QUERY_SPILL: &str = "query-spill";
/// Into how many parts for each thread few large files are cut: rows of one service are in a third of a file, or less.
const PARTS_PER_THREAD: NonZeroUsize = match NonZeroUsize::new(8) {
    Some(parts) => parts,
    None => NonZeroUsize::MIN,
};
/// After so long it is asked again whether a binary has symbols, or better ones: so that an upload shows within a minute.
const NAMES_RECHECK: Duration = Duration::from_secs(20);
/// Longest answer of the symbol server: 100,000 addresses at a time, with a kilobyte of names each.
const NAMES_BYTES_MAX: usize = 128 << 20;
/// How long a query waits for names: a million addresses take the symbol server some seconds.
const NAMES_WAIT: Duration = Duration::from_secs(20);
/// How long a connection to the symbol server may take to come about.
const NAMES_CONNECT: Duration = Duration::from_secs(2);
/// After a failure nobody asks for so long.
const NAMES_REST: Duration = Duration::from_secs(5);

/// What every handler may use; cheap to clone.
#[derive(Clone, Debug)]
pub struct App(Arc<Parts>);

/// What an [`App`] is made of.
#[derive(Debug)]
pub struct Parts {
    /// The configuration that it was made from.
    pub config: Arc<Config>,
    /// Where the table lies.
    pub objects: Objects,
    /// What time it is.
    pub clock: Clock,
    /// Takes messages of profiles.
    pub ingest: Ingest,
    /// Keeps the table small.
    pub maintenance: Arc<Maintenance>,
    /// Answers questions.
    pub queries: Queries,
    /// Which of them runs when.
    pub turns: Turns,
    /// How writing the Delta log went, where it is written.
    pub exports: Option<Arc<ExportCounters>>,
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
    /// Cancelled when the server stops to listen: windows are written without waiting for more.
    pub draining: CancellationToken,
    /// Cancelled when all requests are answered: endless tasks end then, others finish what they do.
    pub stopping: CancellationToken,
}

/// Why the store cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The folder or bucket cannot be used.
    #[error("the table cannot be opened")]
    Objects(#[from] objects::OpenError),
    /// The address of the symbol server cannot be used.
    #[error(transparent)]
    Symbols(#[from] SetupError),
    /// The table cannot be compacted.
    #[error("the engine of compactions cannot start")]
    Compaction(#[source] EngineError),
    /// The table cannot be queried.
    #[error("the engine of queries cannot start")]
    Query(#[source] EngineError),
}

impl App {
    /// Opens the table and wires everything to it. Runs within a tokio runtime.
    ///
    /// # Errors
    /// If the folder or bucket cannot be used.
    pub async fn open(config: Config) -> Result<Self, OpenError> {
        let background = Background::default();
        let metrics = Arc::new(Metrics::new(config.limits.label_sets_max));
        let objects = open_objects(&config).await?;
        let objects = objects.observed(observer(&metrics));
        let clock = Clock::system();
        let notes = Notes::open(&config, &metrics)?;
        notes.run(&background.tasks, &background.stopping);
        let appender = Appender::new(AppenderParts {
            objects: objects.clone(),
            clock: clock.clone(),
            metrics: Arc::clone(&metrics),
            limits: config.limits.clone(),
        });
        appender.run(
            &background.tasks,
            background.draining.clone(),
            background.stopping.clone(),
        );
        let maintenance = maintenance(&config, &objects, &clock).map_err(OpenError::Compaction)?;
        let exports = config.delta.then(|| {
            let exporter = Exporter::new(objects.clone(), clock.clone());
            let counters = exporter.counters();
            let exporting = exporter.run(background.stopping.clone());
            background.tasks.spawn(exporting);
            counters
        });
        let maintaining = Arc::clone(&maintenance).run(background.stopping.clone());
        background.tasks.spawn(maintaining);
        let ingest = Ingest::new(IngestParts {
            appender,
            notes,
            clock: clock.clone(),
            metrics: Arc::clone(&metrics),
            tasks: background.tasks.clone(),
            config: &config,
        });
        let queries = queries(&config, &objects, &clock)?;
        let turns = Turns::new(turn_options(&config.limits));
        Ok(Self(Arc::new(Parts {
            config: Arc::new(config),
            objects,
            clock,
            ingest,
            maintenance,
            queries,
            turns,
            exports,
            metrics,
            background,
        })))
    }
}

/// The bucket, if one is configured, else the folder.
async fn open_objects(config: &Config) -> Result<Objects, objects::OpenError> {
    match &config.s3 {
        Some(options) => Objects::bucket(options).await,
        None => Objects::folder(&config.data.join(TABLE)),
    }
}

/// With an engine of its own, on half of the processors: queries do not wait for compactions.
fn maintenance(
    config: &Config,
    objects: &Objects,
    clock: &Clock,
) -> Result<Arc<Maintenance>, EngineError> {
    let limits = &config.limits;
    let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let engine = Engine::new(
        objects.store(),
        &EngineOptions {
            memory_bytes: usize::try_from(limits.compaction_memory_bytes_max).unwrap_or(usize::MAX),
            spill: config.data.join(COMPACTION_SPILL),
            spill_bytes_max: limits.compaction_spill_bytes_max,
            threads: NonZeroUsize::new(processors / 2).unwrap_or(NonZeroUsize::MIN),
            parts_per_thread: NonZeroUsize::MIN,
        },
    )?;
    let options = MaintainOptions {
        retention: config.retention.clone(),
        ..MaintainOptions::default()
    };
    let (objects, clock) = (objects.clone(), clock.clone());
    Ok(Arc::new(Maintenance::new(objects, engine, clock, options)))
}

fn observer(metrics: &Arc<Metrics>) -> objects::Observer {
    let metrics = Arc::clone(metrics);
    Arc::new(move |request| {
        let words = [request.operation.as_str(), request.outcome.as_str()];
        metrics.object_request(words, request.bytes, request.took);
    })
}

fn queries(config: &Config, objects: &Objects, clock: &Clock) -> Result<Queries, OpenError> {
    let engine = Engine::new(objects.store(), &engine_options(config));
    let readings = Readings::new(objects.clone(), clock.clone());
    Ok(Queries::new(QueriesParts {
        objects: objects.clone(),
        engine: engine.map_err(OpenError::Query)?,
        readings: Arc::new(readings),
        symbols: Arc::new(symbols(config)?),
        stack_bytes_max: config.limits.stack_bytes_max,
    }))
}

/// All processors, and a folder beside the table for what does not fit into memory.
fn engine_options(config: &Config) -> EngineOptions {
    let limits = &config.limits;
    EngineOptions {
        memory_bytes: usize::try_from(limits.query_memory_bytes_max).unwrap_or(usize::MAX),
        spill: config.data.join(QUERY_SPILL),
        spill_bytes_max: limits.query_spill_bytes_max,
        threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        parts_per_thread: PARTS_PER_THREAD,
    }
}

fn symbols(config: &Config) -> Result<Symbols, SetupError> {
    let client = config.symbols.clone().map(|server| ClientOptions {
        server,
        user_agent: concat!("unhex-store/", env!("CARGO_PKG_VERSION")).to_owned(),
        // Whoever looks does not want to wait, and looks again.
        retries: RetryPolicy {
            attempts_max: 2,
            wait_first: Duration::from_millis(200),
            wait_max: Duration::from_secs(1),
        },
        connect_timeout: NAMES_CONNECT,
        answer_timeout: NAMES_WAIT,
        answer_bytes_max: NAMES_BYTES_MAX,
        ..ClientOptions::default()
    });
    let symbols = Symbols::new(SymbolsOptions {
        client,
        bytes_max: config.limits.name_bytes_max,
        recheck: NAMES_RECHECK,
        wait: NAMES_WAIT,
        rest: NAMES_REST,
    });
    Ok(symbols?)
}

fn turn_options(limits: &Limits) -> TurnOptions {
    TurnOptions {
        at_once: limits.queries_max,
        queue: limits.query_queue_seconds_max,
        seconds_max: limits.query_seconds_max,
    }
}
