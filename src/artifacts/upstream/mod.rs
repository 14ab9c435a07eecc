//! Other debuginfod servers that are asked for what is missing here.
//!
//! All of them are asked at once ([`race`]); the first in the order of the configuration that has a
//! sound file delivers. Only 404 and 410 of every one of them mean "does not exist", which is then
//! remembered for minutes; whatever else goes wrong says nothing, and the next request asks anew.
//! [`client`] and [`offer`] speak HTTP with bounds on everything, [`breaker`] spares a server that keeps failing,
//! [`address`] knows where a redirect may lead, [`fetching`] takes what was delivered into the store.

mod address;
mod asker;
mod breaker;
mod client;
mod failure;
mod fetching;
mod offer;
mod race;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::Url;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use unhex_build_id::BuildId;

pub use self::asker::Asker;
pub use self::client::{SetupError, UpstreamAddresses};
pub use self::fetching::Fetching;

use self::breaker::Breaker;
use self::client::Client;
use self::fetching::FetchResult;
use super::Artifacts;
use super::located::{Artifact, ArtifactKind, LocateError, Section, Source};
use super::single_flight::SingleFlight;
use crate::limits::Limits;
use crate::metrics::{Cache, CacheMeter, Metrics, UpstreamMeter};

/// Which servers are asked, and how much they may cost.
#[derive(Clone, Debug)]
pub struct UpstreamSettings {
    /// The servers, the preferred first; none means that nobody is asked.
    pub servers: Vec<Url>,
    /// Where redirects may lead.
    pub redirects_to: UpstreamAddresses,
    /// Bounds on every question.
    pub limits: UpstreamLimits,
}

/// Bounds on questions to upstream servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpstreamLimits {
    /// The longest silence, before the first byte and between any two.
    pub silence: Duration,
    /// The longest time from the question to the last byte, over all servers and attempts.
    pub total: Duration,
    /// How long it is remembered that no server has a file.
    pub absent_for: Duration,
    /// Questions to one server at once.
    pub requests_max: usize,
    /// Files that are being fetched or wait for their turn.
    pub fetches_max: usize,
    /// Failures in a row after which a server is left alone.
    pub failures_max: usize,
    /// For how long it is left alone.
    pub rest: Duration,
    /// Memory for source files that were fetched.
    pub sources_bytes_max: u64,
    /// Largest file.
    pub file_bytes_max: u64,
    /// Largest source file.
    pub source_bytes_max: u64,
}

impl From<&Limits> for UpstreamLimits {
    fn from(limits: &Limits) -> Self {
        Self {
            silence: limits.upstream_first_byte_seconds_max,
            total: limits.upstream_seconds_max,
            absent_for: limits.upstream_absent_seconds_max,
            requests_max: limits.upstream_requests_max,
            fetches_max: limits.upstream_fetches_max,
            failures_max: limits.upstream_failures_max,
            rest: limits.upstream_rest_seconds_max,
            sources_bytes_max: limits.upstream_sources_bytes_max,
            file_bytes_max: limits.upload_bytes_max,
            source_bytes_max: limits.sources_file_bytes_max,
        }
    }
}

/// What a server is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wanted {
    id: BuildId,
    what: What,
}

/// Which file of a build ID.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum What {
    Debuginfo,
    Executable,
    /// The source file at a canonical absolute path.
    Source(String),
}

impl Wanted {
    /// A file of a kind that the protocol has a word for.
    pub(super) fn file(id: &BuildId, kind: ArtifactKind) -> Option<Self> {
        let what = match kind {
            ArtifactKind::Debuginfo => What::Debuginfo,
            ArtifactKind::Executable => What::Executable,
            ArtifactKind::Dwp | ArtifactKind::Sources => return None,
        };
        let id = id.clone();
        Some(Self { id, what })
    }

    /// A source file, by its canonical path.
    pub(super) fn source(id: &BuildId, path: &str) -> Self {
        Self {
            id: id.clone(),
            what: What::Source(path.to_owned()),
        }
    }

    /// What to store it as; `None` for a source file.
    fn kind(&self) -> Option<ArtifactKind> {
        match self.what {
            What::Debuginfo => Some(ArtifactKind::Debuginfo),
            What::Executable => Some(ArtifactKind::Executable),
            What::Source(_) => None,
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            What::Debuginfo => write!(f, "debuginfo of {}", self.id),
            What::Executable => write!(f, "executable of {}", self.id),
            What::Source(path) => write!(f, "source {path} of {}", self.id),
        }
    }
}

/// Which flight a question belongs to. A question that has come round through other servers never
/// waits for the one that it began as: each would wait for the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FlightKey {
    wanted: Wanted,
    hops: usize,
}

/// The upstream servers, and what is known of them.
#[derive(Debug)]
pub struct Upstreams {
    servers: Vec<Arc<Server>>,
    limits: UpstreamLimits,
    flights: SingleFlight<FlightKey, FetchResult>,
    completions: SingleFlight<BuildId, Result<(), LocateError>>,
    /// What no server has.
    absent: moka::sync::Cache<Wanted, ()>,
    absent_meter: CacheMeter,
    sources: moka::sync::Cache<Wanted, Bytes>,
    sources_meter: CacheMeter,
    /// One permit for each file that is being fetched or waits.
    fetches: Arc<Semaphore>,
}

/// One upstream server.
#[derive(Debug)]
struct Server {
    client: Client,
    breaker: Breaker,
    /// One permit for each question at once, given in the order of asking.
    requests: Arc<Semaphore>,
    meter: UpstreamMeter,
}

impl Upstreams {
    /// Nobody is asked.
    pub fn none() -> Self {
        let settings = UpstreamSettings {
            servers: Vec::new(),
            redirects_to: UpstreamAddresses::Public,
            limits: UpstreamLimits::from(&Limits::default()),
        };
        Self::over(&settings, Vec::new(), &Metrics::new(), &TaskTracker::new())
    }

    /// The servers of `settings`; fetches are counted by `tasks`.
    ///
    /// # Errors
    /// If the HTTP client cannot be set up.
    pub fn new(
        settings: &UpstreamSettings,
        metrics: &Metrics,
        tasks: &TaskTracker,
    ) -> Result<Self, SetupError> {
        let clients = Client::all(settings)?;
        Ok(Self::over(settings, clients, metrics, tasks))
    }

    fn over(
        settings: &UpstreamSettings,
        clients: Vec<Client>,
        metrics: &Metrics,
        tasks: &TaskTracker,
    ) -> Self {
        let limits = settings.limits;
        let absent_meter = metrics.cache(Cache::UpstreamAbsent);
        let sources_meter = metrics.cache(Cache::UpstreamSources);
        sources_meter.bounded_by(limits.sources_bytes_max);
        let (absent_goes, source_goes) = (absent_meter.clone(), sources_meter.clone());
        let servers = clients.into_iter().map(|client| {
            let meter = metrics.upstream(client.name());
            Arc::new(Server {
                breaker: Breaker::new(limits.failures_max, limits.rest, meter.clone()),
                requests: Arc::new(Semaphore::new(limits.requests_max.clamp(1, PERMITS_MAX))),
                client,
                meter,
            })
        });
        Self {
            servers: servers.collect(),
            flights: SingleFlight::new(tasks.clone()),
            completions: SingleFlight::new(tasks.clone()),
            absent: moka::sync::Cache::builder()
                .time_to_live(limits.absent_for)
                .max_capacity(ABSENT_MAX)
                .eviction_listener(move |_, (), cause| absent_goes.removed(cause))
                .build(),
            absent_meter,
            sources: moka::sync::Cache::builder()
                .weigher(|wanted: &Wanted, source: &Bytes| weight_bytes(wanted, source))
                .max_capacity(limits.sources_bytes_max)
                .time_to_live(SOURCE_AGE_MAX)
                .eviction_listener(move |_, _, cause| source_goes.removed(cause))
                .build(),
            sources_meter,
            fetches: Arc::new(Semaphore::new(limits.fetches_max.clamp(1, PERMITS_MAX))),
            limits,
        }
    }
}

impl Artifacts {
    /// The file of a kind, from the store or else from an upstream server; `None` when none of them
    /// has it, definitely. A fetch goes on when the caller leaves.
    ///
    /// # Errors
    /// If the answer is not known now.
    pub async fn locate_or_fetch(
        &self,
        wanted: (&BuildId, ArtifactKind),
        asker: &Asker,
    ) -> Result<Option<Artifact>, LocateError> {
        self.inner.locate_or_fetch(wanted, asker).await
    }

    /// As [`Self::section`], from files of an upstream server if the store has none.
    ///
    /// # Errors
    /// If the answer is not known now.
    pub async fn section_or_fetch(
        &self,
        wanted: (&BuildId, &str),
        asker: &Asker,
    ) -> Result<Option<Section>, LocateError> {
        self.inner.section_or_fetch(wanted, asker).await
    }

    /// As [`Self::source`], and from an upstream server if no upload has it.
    ///
    /// # Errors
    /// If the answer is not known now.
    pub async fn source_or_fetch(
        &self,
        wanted: (&BuildId, &str),
        asker: &Asker,
    ) -> Result<Option<Source>, LocateError> {
        self.inner.source_or_fetch(wanted, asker).await
    }

    /// Begins to fetch from upstream servers what the symbols of a build ID need and the store has
    /// not; what is answered ends when all have said what they have.
    ///
    /// # Errors
    /// If it is not known now what the store has.
    pub async fn begin_completion(&self, id: &BuildId) -> Result<Fetching, LocateError> {
        self.inner.begin_completion(id).await
    }
}

/// Files of which it is remembered that no server has them; each takes some 200 bytes.
const ABSENT_MAX: u64 = 100_000;

/// The most that a semaphore takes.
const PERMITS_MAX: usize = Semaphore::MAX_PERMITS;

/// A source file cannot be compared with a hash, so that a mistake of a server is not kept for ever.
const SOURCE_AGE_MAX: Duration = Duration::from_hours(1);

fn weight_bytes(wanted: &Wanted, source: &Bytes) -> u32 {
    let name_bytes = match &wanted.what {
        What::Source(path) => path.len(),
        What::Debuginfo | What::Executable => 0,
    };
    let bytes = source.len().saturating_add(name_bytes).saturating_add(256);
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
