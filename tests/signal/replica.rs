//! The room without HTTP: replicas over one folder, with a clock that the test sets.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use unhex::app::Background;
use unhex::artifacts::store::{LocalStore, ObjectStore};
use unhex::artifacts::{ArtifactLimits, Artifacts, ArtifactsParts, Clock, Upstreams};
use unhex::config::SignalConfig;
use unhex::conversion::{ConversionLimits, Converter};
use unhex::limits::Limits;
use unhex::metrics::{Metrics, ProfileCounts, QueueClass};
use unhex::signal::{LabelSet, Observation, ObservedModule, Signal, SignalParts};
use unhex_api::symbolize::{Labels, ModuleStatus};
use unhex_build_id::{BuildId, Identity};

use crate::failing::FailingStore;

/// A clock that stands until it is set.
#[derive(Clone, Debug)]
pub struct Time {
    start: SystemTime,
    seconds: Arc<AtomicU64>,
}

impl Time {
    /// Another clock, which is so far behind this one.
    pub fn behind(&self, by: Duration) -> Self {
        Self {
            start: self.start - by,
            seconds: Arc::clone(&self.seconds),
        }
    }

    /// Sets it to so long behind its start.
    pub fn set(&self, since_start: Duration) {
        self.seconds.store(since_start.as_secs(), Ordering::SeqCst);
    }

    pub fn new() -> Self {
        Self {
            start: SystemTime::now(),
            seconds: Arc::default(),
        }
    }

    pub fn advance(&self, by: Duration) {
        self.seconds.fetch_add(by.as_secs(), Ordering::SeqCst);
    }

    fn clock(&self) -> Clock {
        let time = self.clone();
        Clock::new(move || time.start + Duration::from_secs(time.seconds.load(Ordering::SeqCst)))
    }
}

/// How a replica is started.
pub struct Start<'a> {
    pub folder: &'a Path,
    pub time: &'a Time,
    pub config: SignalConfig,
    pub limits: Limits,
    /// Between the room and the folder, for tests in which the store fails.
    pub store: Option<Arc<FailingStore>>,
}

impl<'a> Start<'a> {
    pub fn new(folder: &'a Path, time: &'a Time) -> Self {
        Self {
            folder,
            time,
            config: SignalConfig::default(),
            limits: Limits::default(),
            store: None,
        }
    }

    pub fn over(self, store: &Arc<FailingStore>) -> Self {
        let store = Some(Arc::clone(store));
        Self { store, ..self }
    }

    /// Nothing goes on behind it: the test synchronizes and checks.
    pub async fn open(self) -> Arc<Signal> {
        self.open_with(&Arc::new(Metrics::new())).await
    }

    pub async fn open_with(self, metrics: &Arc<Metrics>) -> Arc<Signal> {
        let store: Arc<dyn ObjectStore> = match self.store {
            Some(store) => store,
            None => Arc::new(LocalStore::open(self.folder).unwrap()),
        };
        let limits = ConversionLimits::from(&self.limits);
        let meter = metrics.queue(QueueClass::Conversion);
        let converter = Converter::new("unhex".into(), limits, meter);
        let background = Background::default();
        let artifacts = Artifacts::new(ArtifactsParts {
            store: Arc::clone(&store),
            converter: Arc::new(converter),
            in_place: None,
            upstreams: Upstreams::none(),
            metrics: Arc::clone(metrics),
            clock: self.time.clock(),
            limits: ArtifactLimits::from(&self.limits),
            tasks: background.tasks,
            stopping: background.stopping,
        });
        Signal::open(SignalParts {
            store,
            artifacts: Arc::new(artifacts),
            metrics: Arc::clone(metrics),
            clock: self.time.clock(),
            config: self.config,
            limits: &self.limits,
        })
        .await
    }
}

pub fn labels(service: &str, version: &str) -> LabelSet {
    LabelSet::new(&Labels {
        service: Some(service.to_owned()),
        version: Some(version.to_owned()),
        deployment: Some("prod".to_owned()),
    })
}

pub fn identity(number: u64) -> Identity {
    Identity::Gnu(BuildId::from_bytes(&number.to_be_bytes()).unwrap())
}

/// A module of one address.
pub fn module(id: u64, status: ModuleStatus, weight: u64) -> ObservedModule {
    ObservedModule {
        identity: Some(identity(id)),
        name: Some(format!("lib{id}.so")),
        status,
        addresses: 1,
        weight,
        weight_without_function: 0,
    }
}

/// A profile of checkout 2.4 with these modules.
pub fn profile(modules: Vec<ObservedModule>) -> Observation {
    Observation {
        labels: labels("checkout", "2.4"),
        profile_id: None,
        modules,
    }
}

pub fn unknown(id: u64) -> ObservedModule {
    module(id, ModuleStatus::UnknownBuildId, 100)
}

/// What is counted of a label set; all zero when it has no series.
pub fn counts(signal: &Signal, labels: &LabelSet) -> ProfileCounts {
    let mut all = signal.profile_counts().into_iter();
    all.find(|counts| counts.labels == labels.values())
        .unwrap_or_default()
}

/// The gauge of checkout 2.4 as it is shown, if it is.
pub fn shown(signal: &Signal) -> Option<u64> {
    counts(signal, &labels("checkout", "2.4")).unknown_build_ids
}

/// The gauge of checkout 2.4, once the store was asked.
pub async fn gauge(signal: &Signal) -> u64 {
    signal.check().await;
    shown(signal).unwrap_or_default()
}
