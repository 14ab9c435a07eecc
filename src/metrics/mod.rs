//! What Prometheus scrapes: how the rooms count; [`METRICS`] is the table, docs/metrics.md shows it.
//!
//! Labels come from closed sets: a build ID or a path of a request is never one. Counters of a
//! room are touched through methods that take the room's enums, so that no other value can get in.
//! Service, version and deployment of profiles come from strangers: the room `signal` bounds them,
//! and they are filled in anew for each scrape, so that what it dropped is gone here too.

mod cache;
mod declared;
mod process;
mod queue;
mod s3;
mod scan;
mod upstream;

pub use cache::{Cache, CacheMeter};
pub use declared::{METRICS, MetricEntry, document};
pub use queue::{HoldOutcome, QueueClass, QueueMeter, QueueOutcome};
pub use s3::{Direction, S3Repeat, S3Request};
pub use scan::{ScanCounts, ScanMeter, ScanRole};
pub use upstream::{UpstreamMeter, UpstreamResult};

use std::fmt;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use prometheus::{Encoder as _, Histogram, IntCounter, IntGauge, Registry, TextEncoder};
use rustc_hash::FxHashMap;

use self::declared::Families;

/// The version that metrics, banners and answers show.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What Prometheus scrapes.
pub struct Metrics {
    registry: Registry,
    families: Families,
    hot: Hot,
    started: Instant,
    /// Held from filling in what strangers labelled until it is written.
    rendering: Mutex<()>,
}

/// What every request counts, found once: looking a series up costs more than counting.
struct Hot {
    http_running: IntGauge,
    connections: IntGauge,
    /// By route and class of status.
    answers: RwLock<FxHashMap<(&'static str, &'static str), AnswerMeter>>,
    /// By type of artifact and result.
    debuginfod: RwLock<FxHashMap<(&'static str, &'static str), IntCounter>>,
}

#[derive(Clone)]
struct AnswerMeter {
    requests: IntCounter,
    seconds: Histogram,
    sent_bytes: IntCounter,
}

impl Hot {
    fn of(families: &Families) -> Self {
        Self {
            http_running: families.http_running.with_label_values::<&str>(&[]),
            connections: families.connections.with_label_values::<&str>(&[]),
            answers: RwLock::default(),
            debuginfod: RwLock::default(),
        }
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

/// How a debuginfod request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DebuginfodResult {
    /// The file was there.
    Found,
    /// It does not exist.
    Absent,
    /// The request was wrong.
    Refused,
    /// It is not known now.
    Unavailable,
}

impl DebuginfodResult {
    fn as_str(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Absent => "absent",
            Self::Refused => "refused",
            Self::Unavailable => "unavailable",
        }
    }
}

/// A finished answer.
#[derive(Clone, Copy, Debug)]
pub struct HttpAnswer {
    /// A name of the route table.
    pub route: &'static str,
    /// The status that was sent.
    pub status: u16,
    /// From the headers of the request to the end of the answer.
    pub duration: Duration,
    /// Of the body, as sent.
    pub sent_bytes: u64,
    /// Whether the client has all of it.
    pub end: AnswerEnd,
}

/// What is counted of the profiles of one label set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileCounts {
    /// Service, version and deployment.
    pub labels: [String; 3],
    /// Profiles that arrived.
    pub profiles: u64,
    /// Those with a build ID that has no symbols.
    pub profiles_unknown: u64,
    /// Weight of frames by outcome, a word of the metric's description.
    pub frames: Vec<(&'static str, u64)>,
    /// Build IDs that the alert is about; without a series when that cannot be said yet.
    pub unknown_build_ids: Option<u64>,
}

/// Whether an answer reached its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerEnd {
    /// All of it was handed to the connection.
    Whole,
    /// The client left, or reading failed.
    Cut,
}

/// A gauge that is one higher for as long as this lives.
#[derive(Debug)]
pub struct Running(IntGauge);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Running {
    fn start(gauge: IntGauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Metrics {
    /// Metrics at zero, in a registry of their own.
    #[expect(
        clippy::expect_used,
        clippy::missing_panics_doc,
        reason = "names and labels are constants, and a test makes a Metrics"
    )]
    pub fn new() -> Self {
        let registry = Registry::new();
        let families = Families::register(&registry).expect("constant declarations are sound");
        families.build.with_label_values(&[VERSION]).set(1);
        Self {
            registry,
            hot: Hot::of(&families),
            families,
            started: Instant::now(),
            rendering: Mutex::new(()),
        }
    }

    /// Counts a finished answer.
    pub fn answered(&self, answer: &HttpAnswer) {
        let class = match answer.status {
            100..=199 => "1xx",
            200..=299 => "2xx",
            300..=399 => "3xx",
            400..=499 => "4xx",
            _ => "5xx",
        };
        let meter = self.answer_meter(answer.route, class);
        meter.requests.inc();
        meter.seconds.observe(answer.duration.as_secs_f64());
        meter.sent_bytes.inc_by(answer.sent_bytes);
        if answer.end == AnswerEnd::Cut {
            let cut = &self.families.http_cut;
            cut.with_label_values(&[answer.route]).inc();
        }
    }

    fn answer_meter(&self, route: &'static str, class: &'static str) -> AnswerMeter {
        if let Some(meter) = self.hot.answers.read().get(&(route, class)) {
            return meter.clone();
        }
        let families = &self.families;
        let meter = AnswerMeter {
            requests: families.http_requests.with_label_values(&[route, class]),
            seconds: families.http_seconds.with_label_values(&[route]),
            sent_bytes: families.http_sent_bytes.with_label_values(&[route]),
        };
        let mut answers = self.hot.answers.write();
        answers.insert((route, class), meter.clone());
        meter
    }

    /// A request is being answered.
    pub fn request_running(&self) -> Running {
        Running::start(self.hot.http_running.clone())
    }

    /// A connection is open.
    pub fn connection_open(&self) -> Running {
        Running::start(self.hot.connections.clone())
    }

    /// Counts a debuginfod request; `artifact_type` is a word of the protocol or `invalid`.
    pub fn debuginfod(&self, artifact_type: &'static str, result: DebuginfodResult) {
        let key = (artifact_type, result.as_str());
        if let Some(counter) = self.hot.debuginfod.read().get(&key) {
            return counter.inc();
        }
        let counter = self.families.debuginfod.with_label_values(&[key.0, key.1]);
        counter.inc();
        self.hot.debuginfod.write().insert(key, counter);
    }

    /// A conversion child runs.
    pub fn conversion_running(&self) -> Running {
        Running::start(
            self.families
                .conversions_running
                .with_label_values::<&str>(&[]),
        )
    }

    /// Counts a conversion that ended; `outcome` is a word of the metric's description.
    pub fn converted(&self, outcome: &'static str, duration: Duration) {
        self.families
            .conversions
            .with_label_values(&[outcome])
            .inc();
        self.families
            .conversion_seconds
            .with_label_values::<&str>(&[])
            .observe(duration.as_secs_f64());
    }

    /// Counts a time that the ledger could not be written or read.
    pub fn ledger_failed(&self) {
        self.families
            .ledger_failures
            .with_label_values::<&str>(&[])
            .inc();
    }

    /// Notes how many build IDs are in the ledger.
    pub fn ledger_holds(&self, build_ids: usize) {
        self.families
            .ledger_build_ids
            .with_label_values::<&str>(&[])
            .set(i64::try_from(build_ids).unwrap_or(i64::MAX));
    }

    /// Notes how many objects of the ledger are there and cannot be read.
    pub fn ledger_lacks(&self, objects: usize) {
        self.families
            .ledger_unreadable
            .with_label_values::<&str>(&[])
            .set(i64::try_from(objects).unwrap_or(i64::MAX));
    }

    fn fill_in(&self, profiles: &[ProfileCounts]) {
        let families = &self.families;
        families.profiles.reset();
        families.profiles_unknown.reset();
        families.frames.reset();
        families.unknown_build_ids.reset();
        for counts in profiles {
            let [service, version, deployment] = &counts.labels;
            let labels = &[service, version, deployment];
            families
                .profiles
                .with_label_values(labels)
                .inc_by(counts.profiles);
            families
                .profiles_unknown
                .with_label_values(labels)
                .inc_by(counts.profiles_unknown);
            if let Some(number) = counts.unknown_build_ids {
                families
                    .unknown_build_ids
                    .with_label_values(labels)
                    .set(i64::try_from(number).unwrap_or(i64::MAX));
            }
            for (outcome, weight) in &counts.frames {
                families
                    .frames
                    .with_label_values(&[service, version, deployment, *outcome])
                    .inc_by(*weight);
            }
        }
    }

    /// All of it in Prometheus's text format, with what is counted of profiles now.
    ///
    /// # Errors
    /// If a family cannot be written, which its declaration rules out.
    pub fn render(&self, profiles: &[ProfileCounts]) -> prometheus::Result<Vec<u8>> {
        let _rendering = self.rendering.lock();
        self.fill_in(profiles);
        process::read(&self.families);
        self.families
            .uptime_seconds
            .with_label_values::<&str>(&[])
            .set(self.started.elapsed().as_secs_f64());
        let mut text = Vec::with_capacity(16 << 10);
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_says_its_memory_and_files() {
        let text = String::from_utf8(Metrics::new().render(&[]).unwrap()).unwrap();
        for name in [
            "process_resident_memory_bytes",
            "process_open_fds",
            "process_max_fds",
        ] {
            let value = text
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .unwrap();
            assert!(value.trim().parse::<f64>().unwrap() > 0.0, "{name} {value}");
        }
    }

    #[test]
    fn names_end_in_their_unit() {
        for metric in METRICS {
            assert_eq!(
                metric.kind == "counter",
                metric.name.ends_with("_total"),
                "{}",
                metric.name
            );
        }
    }
}
