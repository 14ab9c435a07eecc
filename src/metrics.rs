//! Every metric, declared once; docs/metrics.md says what each means and who watches it.
//!
//! Labels come from closed sets: a build ID or a path of a request is never one. Counters of a
//! room are touched through methods that take the room's enums, so that no other value can get in.

use std::fmt::{self, Write as _};
use std::fs;
use std::time::{Duration, Instant};

use prometheus::{
    Encoder as _, GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts,
    Registry, TextEncoder,
};

/// Bounds of durations, from a cached answer to a large conversion.
const SECONDS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
];

/// The version that metrics, banners and answers show.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A metric as documentation shows it.
#[derive(Clone, Copy, Debug)]
pub struct MetricEntry {
    /// Its whole name.
    pub name: &'static str,
    /// counter, gauge or histogram.
    pub kind: &'static str,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// What it counts, and who watches it.
    pub help: &'static str,
}

trait Declare: Sized {
    const KIND: &'static str;

    fn declare(entry: &MetricEntry) -> prometheus::Result<Self>;
}

impl Declare for IntCounterVec {
    const KIND: &'static str = "counter";

    fn declare(entry: &MetricEntry) -> prometheus::Result<Self> {
        Self::new(Opts::new(entry.name, entry.help), entry.labels)
    }
}

impl Declare for IntGaugeVec {
    const KIND: &'static str = "gauge";

    fn declare(entry: &MetricEntry) -> prometheus::Result<Self> {
        Self::new(Opts::new(entry.name, entry.help), entry.labels)
    }
}

impl Declare for GaugeVec {
    const KIND: &'static str = "gauge";

    fn declare(entry: &MetricEntry) -> prometheus::Result<Self> {
        Self::new(Opts::new(entry.name, entry.help), entry.labels)
    }
}

impl Declare for HistogramVec {
    const KIND: &'static str = "histogram";

    fn declare(entry: &MetricEntry) -> prometheus::Result<Self> {
        let options = HistogramOpts::new(entry.name, entry.help).buckets(SECONDS.to_vec());
        Self::new(options, entry.labels)
    }
}

macro_rules! metrics {
    ($( $(#[doc = $help:literal])+ $field:ident : $kind:ident = $name:literal [$($label:literal),*]; )+) => {
        struct Families {
            $( $field: $kind, )+
        }

        impl Families {
            fn register(registry: &Registry) -> prometheus::Result<Self> {
                let mut entries = METRICS.iter();
                let mut next = || entries.next().ok_or(prometheus::Error::AlreadyReg);
                $(
                    let $field = <$kind as Declare>::declare(next()?)?;
                    registry.register(Box::new($field.clone()))?;
                )+
                Ok(Self { $($field,)+ })
            }
        }

        /// Every metric, in the order of the documentation.
        pub const METRICS: &[MetricEntry] = &[
            $( MetricEntry {
                name: $name,
                kind: <$kind as Declare>::KIND,
                labels: &[$($label),*],
                help: concat!($($help),+),
            }, )+
        ];
    };
}

metrics! {
    /// Requests answered, by route of the table in src/http/mod.rs and class of status (2xx). Alert
    /// on a rising share of 5xx.
    http_requests: IntCounterVec = "unhex_http_requests_total" ["route", "status"];
    /// Seconds from a request's headers to the last byte of its answer.
    http_seconds: HistogramVec = "unhex_http_request_duration_seconds" ["route"];
    /// Bytes of answers' bodies that were sent.
    http_sent_bytes: IntCounterVec = "unhex_http_response_body_bytes_total" ["route"];
    /// Answers that did not reach their end, since the client left or reading failed.
    http_cut: IntCounterVec = "unhex_http_responses_cut_total" ["route"];
    /// Requests that are being answered now.
    http_running: IntGaugeVec = "unhex_http_requests_running" [];
    /// Connections that are open now; at the limit clients wait.
    connections: IntGaugeVec = "unhex_http_connections_open" [];
    /// debuginfod requests by type of artifact (a closed set, other words are `invalid`) and result:
    /// found, absent, refused (the client's fault) or unavailable (ours).
    debuginfod: IntCounterVec = "unhex_debuginfod_requests_total" ["type", "result"];
    /// Conversions of debug files by outcome: converted, malformed, unsupported, too_large, timeout
    /// or unavailable (nothing is known of the file then).
    conversions: IntCounterVec = "unhex_conversions_total" ["outcome"];
    /// Seconds that a conversion took, whatever came of it.
    conversion_seconds: HistogramVec = "unhex_conversion_duration_seconds" [];
    /// Conversion children that run now.
    conversions_running: IntGaugeVec = "unhex_conversions_running" [];
    /// Questions to a cache by its name and by result: hit or miss.
    cache_requests: IntCounterVec = "unhex_cache_requests_total" ["cache", "result"];
    /// Entries in a cache.
    cache_entries: IntGaugeVec = "unhex_cache_entries" ["cache"];
    /// Bytes in a cache.
    cache_bytes: IntGaugeVec = "unhex_cache_bytes" ["cache"];
    /// Resident memory of the server, without its conversion children.
    resident_bytes: IntGaugeVec = "process_resident_memory_bytes" [];
    /// Open files and sockets of the server.
    open_files: IntGaugeVec = "process_open_fds" [];
    /// Most files and sockets that the server may have open.
    open_files_max: IntGaugeVec = "process_max_fds" [];
    /// Threads of the server.
    threads: IntGaugeVec = "process_threads" [];
    /// Processor seconds that the server used, without its conversion children.
    cpu_seconds: GaugeVec = "process_cpu_seconds_total" [];
    /// Seconds since the server started.
    uptime_seconds: GaugeVec = "unhex_uptime_seconds" [];
    /// Always 1; its label has the version.
    build: IntGaugeVec = "unhex_build_info" ["version"];
}

/// What Prometheus scrapes.
pub struct Metrics {
    registry: Registry,
    families: Families,
    started: Instant,
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

/// The caches that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// Folded states of build IDs.
    States,
    /// Open symbol indexes.
    Indexes,
}

impl Cache {
    fn as_str(self) -> &'static str {
        match self {
            Self::States => "states",
            Self::Indexes => "indexes",
        }
    }
}

/// What a cache answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheResult {
    /// It had it.
    Hit,
    /// It had to be fetched.
    Miss,
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
pub struct Running(prometheus::IntGauge);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Running {
    fn start(gauge: prometheus::IntGauge) -> Self {
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
            families,
            started: Instant::now(),
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
        let families = &self.families;
        let route = &[answer.route];
        families
            .http_requests
            .with_label_values(&[answer.route, class])
            .inc();
        families
            .http_seconds
            .with_label_values(route)
            .observe(answer.duration.as_secs_f64());
        families
            .http_sent_bytes
            .with_label_values(route)
            .inc_by(answer.sent_bytes);
        if answer.end == AnswerEnd::Cut {
            families.http_cut.with_label_values(route).inc();
        }
    }

    /// A request is being answered.
    pub fn request_running(&self) -> Running {
        Running::start(self.families.http_running.with_label_values::<&str>(&[]))
    }

    /// A connection is open.
    pub fn connection_open(&self) -> Running {
        Running::start(self.families.connections.with_label_values::<&str>(&[]))
    }

    /// Counts a debuginfod request; `artifact_type` is a word of the protocol or `invalid`.
    pub fn debuginfod(&self, artifact_type: &'static str, result: DebuginfodResult) {
        self.families
            .debuginfod
            .with_label_values(&[artifact_type, result.as_str()])
            .inc();
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

    /// Counts a question to a cache.
    pub fn cache_asked(&self, cache: Cache, result: CacheResult) {
        let result = match result {
            CacheResult::Hit => "hit",
            CacheResult::Miss => "miss",
        };
        self.families
            .cache_requests
            .with_label_values(&[cache.as_str(), result])
            .inc();
    }

    /// Notes how much is in a cache.
    pub fn cache_holds(&self, cache: Cache, entries: u64, size_bytes: u64) {
        let labels = &[cache.as_str()];
        self.families
            .cache_entries
            .with_label_values(labels)
            .set(i64::try_from(entries).unwrap_or(i64::MAX));
        self.families
            .cache_bytes
            .with_label_values(labels)
            .set(i64::try_from(size_bytes).unwrap_or(i64::MAX));
    }

    /// All of it in Prometheus's text format.
    ///
    /// # Errors
    /// If a family cannot be written, which its declaration rules out.
    pub fn render(&self) -> prometheus::Result<Vec<u8>> {
        self.read_process();
        let mut text = Vec::with_capacity(16 << 10);
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(text)
    }

    /// Reads what the kernel knows of this process; what it does not say keeps its last value.
    fn read_process(&self) {
        let none: &[&str] = &[];
        let families = &self.families;
        let set = |gauge: &IntGaugeVec, value: Option<i64>| {
            if let Some(value) = value {
                gauge.with_label_values(none).set(value);
            }
        };
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let kibibytes = status_number(&status, "VmRSS:");
        set(
            &families.resident_bytes,
            kibibytes.map(|kib| kib.saturating_mul(1024)),
        );
        set(&families.threads, status_number(&status, "Threads:"));
        let files = fs::read_dir("/proc/self/fd").map(Iterator::count).ok();
        set(
            &families.open_files,
            files.and_then(|n| i64::try_from(n).ok()),
        );
        let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        set(
            &families.open_files_max,
            most.and_then(|n| i64::try_from(n).ok()),
        );
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        if let Some(used) = cpu_seconds(&stat) {
            families.cpu_seconds.with_label_values(none).set(used);
        }
        families
            .uptime_seconds
            .with_label_values(none)
            .set(self.started.elapsed().as_secs_f64());
    }
}

/// The number behind a name of `/proc/self/status`.
fn status_number(status: &str, name: &str) -> Option<i64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// User and system time of `/proc/self/stat`: the 14th and 15th word, counted by proc(5), where
/// the second is the program's name in parentheses and may have spaces.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, words) = stat.rsplit_once(") ")?;
    let mut words = words.split_whitespace().skip(11);
    let user: u32 = words.next()?.parse().ok()?;
    let system: u32 = words.next()?.parse().ok()?;
    let ticks = u32::try_from(rustix::param::clock_ticks_per_second()).ok()?;
    Some((f64::from(user) + f64::from(system)) / f64::from(ticks))
}

/// docs/metrics.md, whole.
pub fn document() -> String {
    let mut text = String::from(
        "# Metrics\n\n\
         What `GET /metrics` answers. Label values come from closed sets; a build ID is never one.\n\
         Written by `UPDATE=1 cargo test -p unhex --test server documents`; see `src/metrics.rs`.\n\n\
         | metric | kind | labels | what it says |\n|---|---|---|---|\n",
    );
    for metric in METRICS {
        let labels = match metric.labels {
            [] => String::new(),
            labels => format!("`{}`", labels.join("`, `")),
        };
        let _infallible = writeln!(
            text,
            "| `{}` | {} | {labels} | {} |",
            metric.name,
            metric.kind,
            metric.help.trim(),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_says_its_memory_and_files() {
        let text = String::from_utf8(Metrics::new().render().unwrap()).unwrap();
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
            let counts = metric.kind == "counter";
            assert_eq!(
                counts || metric.name == "process_cpu_seconds_total",
                metric.name.ends_with("_total"),
                "{}",
                metric.name
            );
        }
    }
}
