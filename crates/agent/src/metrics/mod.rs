//! What Prometheus scrapes: how the rooms count; [`METRICS`] is the table, docs/metrics.md shows it.
//!
//! Labels come from closed sets: neither a build ID nor a service is ever one.

mod declared;
mod listener;

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus::{Encoder as _, IntCounterVec, IntGaugeVec, Registry, TextEncoder};

use self::declared::Families;
use crate::engine::Counters;
use crate::sample::Stop;

pub use declared::{METRICS, MetricEntry, document};
pub use listener::MetricsListener;

const NONE: &[&str] = &[];

/// What Prometheus scrapes.
pub struct Metrics {
    registry: Registry,
    families: Families,
    started: Instant,
    /// What the engine had counted when it was asked last.
    counted: Mutex<Counters>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchOutcome {
    /// All of it was taken.
    Delivered,
    /// Some of its profiles were not.
    Partial,
    /// Sending it again would be of no use.
    Refused,
    /// There was no room for it, or no time.
    Dropped,
}

/// Why an attempt is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryReason {
    /// No connection, or a broken one.
    Connection,
    /// The receiver has no room at the moment.
    Busy,
    /// Somebody between has no receiver.
    BadGateway,
    /// No answer in time.
    Timeout,
}

impl BatchOutcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Partial => "partial",
            Self::Refused => "refused",
            Self::Dropped => "dropped",
        }
    }
}

impl RetryReason {
    fn as_str(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::Busy => "busy",
            Self::BadGateway => "bad_gateway",
            Self::Timeout => "timeout",
        }
    }
}

/// What came of a binary that the symbol server lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UploadOutcome {
    /// It was sent.
    Sent,
    /// The server has as good a file by now.
    NotNeeded,
    /// This host has no symbols of it either.
    NoSymbols,
    /// It was refused, or cannot be read.
    Failed,
}

impl UploadOutcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::NotNeeded => "not_needed",
            Self::NoSymbols => "no_symbols",
            Self::Failed => "failed",
        }
    }
}

/// What the agent took of the host so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time on processors.
    pub cpu: Duration,
    /// Resident memory.
    pub resident_bytes: u64,
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
        let version = env!("CARGO_PKG_VERSION");
        families.build.with_label_values(&[version]).set(1);
        Self {
            registry,
            families,
            started: Instant::now(),
            counted: Mutex::default(),
        }
    }

    /// Who takes the samples, and how often.
    pub fn sampling(&self, engine: &'static str, samples_per_second: u32) {
        self.families.engine.reset();
        self.families.engine.with_label_values(&[engine]).set(1);
        let rate = self.families.rate.with_label_values(NONE);
        rate.set(samples_per_second.into());
    }

    /// The rate was lowered.
    pub fn slowed(&self) {
        self.families.slowed.with_label_values(NONE).inc();
    }

    /// What the engine counted since its start.
    pub fn engine(&self, counters: &Counters) {
        let families = &self.families;
        let mut before = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = counters.samples.iter().zip(&before.samples);
        for (stop, (now, before)) in Stop::ALL.into_iter().zip(counts) {
            let samples = families.samples.with_label_values(&[stop.as_str()]);
            samples.inc_by(now.saturating_sub(*before));
        }
        let more = |counter: &IntCounterVec, now: u64, before: u64| {
            let counter = counter.with_label_values(NONE);
            counter.inc_by(now.saturating_sub(before));
        };
        more(&families.lost, counters.lost, before.lost);
        more(
            &families.lost_events,
            counters.lost_events,
            before.lost_events,
        );
        more(&families.evicted, counters.evicted, before.evicted);
        set(&families.binaries, counters.binaries);
        set(&families.rows, counters.table_rows);
        set(&families.table_bytes, counters.table_bytes);
        *before = counters.clone();
    }

    /// How many processes are known.
    pub fn processes(&self, count: usize) {
        set(&self.families.processes, count);
    }

    /// What became of a batch of so many samples.
    pub fn batch(&self, outcome: BatchOutcome, samples: u64) {
        let outcome = [outcome.as_str()];
        self.families.batches.with_label_values(&outcome).inc();
        let counter = self.families.batch_samples.with_label_values(&outcome);
        counter.inc_by(samples);
    }

    /// An attempt that is repeated.
    pub fn retry(&self, reason: RetryReason) {
        let reason = [reason.as_str()];
        self.families.retries.with_label_values(&reason).inc();
    }

    /// Bytes that were delivered.
    pub fn sent(&self, bytes: usize) {
        let counter = self.families.sent_bytes.with_label_values(NONE);
        counter.inc_by(u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    /// What waits to be delivered.
    pub fn queue(&self, batches: usize, bytes: usize) {
        set(&self.families.queued, batches);
        set(&self.families.queued_bytes, bytes);
    }

    /// A list of pods was read, or not.
    pub fn pod_list<T, E>(&self, read: &Result<T, E>) {
        let outcome = if read.is_ok() { "read" } else { "failed" };
        self.families.pod_lists.with_label_values(&[outcome]).inc();
    }

    /// What came of a binary that the symbol server lacks.
    pub fn upload(&self, outcome: UploadOutcome) {
        let outcome = [outcome.as_str()];
        self.families.uploads.with_label_values(&outcome).inc();
    }

    /// What the agent took so far.
    pub fn usage(&self, usage: Usage) {
        // The kernel counts; here it is only shown.
        self.families.cpu_seconds.reset();
        let cpu = self.families.cpu_seconds.with_label_values(NONE);
        cpu.inc_by(usage.cpu.as_secs_f64());
        set(&self.families.resident_bytes, usage.resident_bytes);
    }

    /// All of it, in Prometheus' text format.
    pub fn render(&self) -> String {
        let uptime = self.families.uptime_seconds.with_label_values(NONE);
        uptime.set(self.started.elapsed().as_secs_f64());
        let mut text = Vec::new();
        if let Err(error) = TextEncoder::new().encode(&self.registry.gather(), &mut text) {
            tracing::error!(%error, "the metrics cannot be written: {error}");
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

fn set(gauge: &IntGaugeVec, value: impl TryInto<i64>) {
    let gauge = gauge.with_label_values(NONE);
    gauge.set(value.try_into().unwrap_or(i64::MAX));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_room_is_seen_in_what_is_scraped() {
        let metrics = Metrics::new();
        metrics.sampling("ebpf", 19);
        metrics.slowed();
        let mut counters = Counters {
            lost: 2,
            table_rows: 7,
            ..Counters::default()
        };
        counters.count(Stop::Root);
        metrics.engine(&counters);
        counters.count(Stop::Root);
        metrics.engine(&counters);
        metrics.batch(BatchOutcome::Delivered, 5);
        metrics.retry(RetryReason::Busy);
        metrics.sent(100);
        metrics.queue(1, 30);
        metrics.processes(4);
        metrics.pod_list::<(), ()>(&Err(()));
        metrics.upload(UploadOutcome::NoSymbols);
        metrics.usage(Usage {
            cpu: Duration::from_millis(1500),
            resident_bytes: 4096,
        });
        let text = metrics.render();
        for line in [
            "unhex_agent_samples_total{stop=\"root\"} 2",
            "unhex_agent_samples_lost_total 2",
            "unhex_agent_engine_info{engine=\"ebpf\"} 1",
            "unhex_agent_samples_per_second 19",
            "unhex_agent_slowed_total 1",
            "unhex_agent_table_rows 7",
            "unhex_agent_batches_total{outcome=\"delivered\"} 1",
            "unhex_agent_batch_samples_total{outcome=\"delivered\"} 5",
            "unhex_agent_delivery_retries_total{reason=\"busy\"} 1",
            "unhex_agent_sent_bytes_total 100",
            "unhex_agent_queue_batches 1",
            "unhex_agent_queue_bytes 30",
            "unhex_agent_processes 4",
            "unhex_agent_pod_lists_total{outcome=\"failed\"} 1",
            "unhex_agent_uploads_total{outcome=\"no_symbols\"} 1",
            "process_cpu_seconds_total 1.5",
            "process_resident_memory_bytes 4096",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}:\n{text}");
        }
    }
}
