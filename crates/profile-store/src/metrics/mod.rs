//! What Prometheus scrapes: how the rooms count; [`METRICS`] is the table, docs/metrics.md shows it.
//!
//! Labels come from closed sets: a build ID or a path of a request is never one. Service, version and deployment of
//! profiles come from strangers: their number is bounded ([`SetCounts`]).

mod declared;
mod label_sets;
mod maintenance;
mod process;
mod queries;
mod words;

use std::fmt;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use prometheus::{Encoder as _, IntGauge, Registry, TextEncoder};

use self::declared::Families;
use self::label_sets::LabelSets;
use crate::export::ExportCounters;
use crate::maintain::CountersRead;
use crate::symbols::NameCounters;

pub use declared::{METRICS, MetricEntry, document};
pub use label_sets::{LabelSet, SetCounts};
pub use words::{InFlight, MessageOutcome, NoteOutcome, Protocol};

/// The version that metrics, banners and answers show.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

const NONE: &[&str] = &[];
const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// What Prometheus scrapes.
pub struct Metrics {
    registry: Registry,
    families: Families,
    label_sets: LabelSets,
    services_max: usize,
    started: Instant,
    /// Held from filling in what strangers labelled until it is written.
    rendering: Mutex<()>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// What the rooms count themselves, at a scrape.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scraped<'a> {
    /// What keeps the table small; `None` where nothing does.
    pub maintained: Option<&'a CountersRead>,
    /// Queries that run now.
    pub queries_running: u64,
    /// Memory that they have, by their own account.
    pub query_memory_bytes: u64,
    /// Memory for names.
    pub name_bytes: u64,
    /// Requests for names.
    pub names: Option<&'a NameCounters>,
    /// Exports, where there are any.
    pub exports: Option<&'a ExportCounters>,
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

/// A window that was written.
#[derive(Clone, Copy, Debug)]
pub struct WrittenWindow {
    /// Segments in it.
    pub segments: u64,
    /// Their rows.
    pub rows: u64,
    /// How long it took.
    pub took: Duration,
}

impl Metrics {
    /// Metrics at zero, in a registry of their own, with so many label sets at most.
    #[expect(
        clippy::expect_used,
        clippy::missing_panics_doc,
        reason = "names and labels are constants, and a test makes a Metrics"
    )]
    pub fn new(label_sets_max: usize) -> Self {
        let registry = Registry::new();
        let families = Families::register(&registry).expect("constant declarations are sound");
        families.build.with_label_values(&[VERSION]).set(1);
        Self {
            registry,
            families,
            label_sets: LabelSets::new(label_sets_max),
            services_max: label_sets_max,
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
        let (families, route) = (&self.families, answer.route);
        let requests = &families.http_requests;
        requests.with_label_values(&[route, class]).inc();
        let seconds = families.http_seconds.with_label_values(&[route]);
        seconds.observe(answer.duration.as_secs_f64());
        let sent = families.http_sent_bytes.with_label_values(&[route]);
        sent.inc_by(answer.sent_bytes);
        if answer.end == AnswerEnd::Cut {
            families.http_cut.with_label_values(&[route]).inc();
        }
    }

    /// A request is being answered.
    pub fn request_running(&self) -> Running {
        Running::start(self.families.http_running.with_label_values(NONE))
    }

    /// A connection is open.
    pub fn connection_open(&self) -> Running {
        Running::start(self.families.connections.with_label_values(NONE))
    }

    /// A message is being read.
    pub fn decoding(&self) -> Running {
        Running::start(self.families.decoding.with_label_values(NONE))
    }

    /// Counts a message.
    pub fn message(&self, protocol: Protocol, outcome: MessageOutcome) {
        let labels = [protocol.as_str(), outcome.as_str()];
        self.families.messages.with_label_values(&labels).inc();
    }

    /// Counts the bytes of a message as sent and as unpacked.
    pub fn message_bytes(&self, sent: u64, unpacked: u64) {
        let bytes = &self.families.message_bytes;
        bytes.with_label_values(&["sent"]).inc_by(sent);
        bytes.with_label_values(&["unpacked"]).inc_by(unpacked);
    }

    /// Counts profiles that were not kept; `reason` is a word of the metric's description.
    pub fn rejected(&self, reason: &'static str, profiles: u64) {
        let rejected = &self.families.rejected;
        rejected.with_label_values(&[reason]).inc_by(profiles);
    }

    /// Counts what of labels was left out; `what` is a word of the metric's description.
    pub fn labels_left_out(&self, what: &'static str, count: u64) {
        self.families
            .left_out
            .with_label_values(&[what])
            .inc_by(count);
    }

    /// Counts samples that were stored.
    pub fn stored(&self, labels: &LabelSet, counts: &SetCounts) {
        self.label_sets.count(labels, counts);
    }

    /// Counts a window that was written.
    pub fn window_written(&self, window: &WrittenWindow) {
        let families = &self.families;
        families.windows.with_label_values(&["written"]).inc();
        families
            .segments
            .with_label_values(NONE)
            .inc_by(window.segments);
        families.rows.with_label_values(NONE).inc_by(window.rows);
        let seconds = families.window_seconds.with_label_values(NONE);
        seconds.observe(window.took.as_secs_f64());
    }

    /// Counts a window that was not.
    pub fn window_failed(&self) {
        self.families.windows.with_label_values(&["failed"]).inc();
    }

    /// Counts bytes of a file that was written; `kind` is a word of the metric's description.
    pub fn wrote_bytes(&self, kind: &'static str, bytes: u64) {
        let written = &self.families.stored_bytes;
        written.with_label_values(&[kind]).inc_by(bytes);
    }

    /// Notes how long a message took to become durable.
    pub fn appended(&self, took: Duration) {
        let seconds = self.families.append_seconds.with_label_values(NONE);
        seconds.observe(took.as_secs_f64());
    }

    /// The gauge of bytes on their way.
    pub fn in_flight(&self, what: InFlight) -> IntGauge {
        self.families.in_flight.with_label_values(&[what.as_str()])
    }

    /// Counts a note for the symbol server.
    pub fn note(&self, outcome: NoteOutcome) {
        let observed = &self.families.observed;
        observed.with_label_values(&[outcome.as_str()]).inc();
    }

    /// Notes how many notes wait, and their bytes.
    pub fn notes_waiting(&self, entries: usize, bytes: usize) {
        let number = |of: usize| i64::try_from(of).unwrap_or(i64::MAX);
        let waiting = self.families.observe_waiting.with_label_values(NONE);
        waiting.set(number(entries));
        let waiting = self.families.observe_waiting_bytes.with_label_values(NONE);
        waiting.set(number(bytes));
    }

    /// Counts a request to the object store; both words are of closed sets.
    pub fn object_request(&self, words: [&'static str; 2], bytes: u64, took: Duration) {
        let [operation, _] = words;
        let families = &self.families;
        families.object_requests.with_label_values(&words).inc();
        let seconds = families.object_seconds.with_label_values(&[operation]);
        seconds.observe(took.as_secs_f64());
        if bytes > 0 {
            let moved = families.object_bytes.with_label_values(&[operation]);
            moved.inc_by(bytes);
        }
    }

    fn fill_in(&self) {
        let families = &self.families;
        families.samples.reset();
        families.cpu_seconds_stored.reset();
        families.frames.reset();
        for ([service, version, deployment], counts) in self.label_sets.shown() {
            let labels: [&str; 3] = [&service, &version, &deployment];
            let samples = families.samples.with_label_values(&labels);
            samples.inc_by(counts.samples);
            let whole = u64::try_from(counts.cpu_nanos / NANOS_PER_SECOND).unwrap_or(u64::MAX);
            let rest = u32::try_from(counts.cpu_nanos % NANOS_PER_SECOND).unwrap_or_default();
            let seconds = Duration::new(whole, rest).as_secs_f64();
            let stored = families.cpu_seconds_stored.with_label_values(&labels);
            stored.inc_by(seconds);
            let [service, version, deployment] = labels;
            for (outcome, count) in counts.frames {
                let labels = [service, version, deployment, outcome];
                let frames = families.frames.with_label_values(&labels);
                frames.inc_by(count);
            }
        }
    }

    /// All of it in Prometheus's text format, with what the rooms count now.
    ///
    /// # Errors
    /// If a family cannot be written, which its declaration rules out.
    pub fn render(&self, scraped: &Scraped<'_>) -> prometheus::Result<Vec<u8>> {
        let _rendering = self.rendering.lock();
        self.fill_in();
        if let Some(maintained) = scraped.maintained {
            maintenance::show(&self.families, maintained, self.services_max);
        }
        queries::show(&self.families, scraped);
        process::read(&self.families);
        let uptime = self.families.uptime_seconds.with_label_values(NONE);
        uptime.set(self.started.elapsed().as_secs_f64());
        let mut text = Vec::with_capacity(16 << 10);
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_a_label_set_are_shown_with_their_cpu_time_and_frames() {
        let metrics = Metrics::new(10);
        let labels: LabelSet = ["checkout".into(), "2.4".into(), "prod".into()];
        let counts = SetCounts {
            samples: 3,
            cpu_nanos: 1_500_000_000,
            frames: [("truncated", 2)].into(),
        };
        metrics.stored(&labels, &counts);
        let text = String::from_utf8(metrics.render(&Scraped::default()).unwrap()).unwrap();
        for line in [
            "unhex_store_samples_total{deployment=\"prod\",service=\"checkout\",version=\"2.4\"} 3",
            "unhex_store_cpu_seconds_total{deployment=\"prod\",service=\"checkout\",version=\"2.4\"} 1.5",
            "unhex_store_frames_total{deployment=\"prod\",outcome=\"truncated\",service=\"checkout\",version=\"2.4\"} 2",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }

    #[test]
    fn names_end_in_their_unit() {
        for metric in METRICS {
            let is_total = metric.name.ends_with("_total");
            assert_eq!(metric.kind == "counter", is_total, "{}", metric.name);
        }
    }
}
