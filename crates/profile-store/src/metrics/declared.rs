//! The table of metrics: name, labels, kind and meaning, each once.

use std::fmt::Write as _;

use prometheus::{
    CounterVec, GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry,
};

/// Bounds of durations, from a health check to a query of weeks.
const SECONDS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 5.0, 10.0, 30.0,
    60.0, 300.0,
];

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

impl Declare for CounterVec {
    const KIND: &'static str = "counter";

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
        pub(super) struct Families {
            $( $(#[doc = $help])+ pub(super) $field: $kind, )+
        }

        impl Families {
            pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
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
    /// Requests answered, by route of the table in crates/profile-store/src/http/mod.rs and class of
    /// status (2xx). Alert on a rising share of 5xx.
    http_requests: IntCounterVec = "unhex_store_http_requests_total" ["route", "status"];
    /// Seconds from a request's headers to the last byte of its answer.
    http_seconds: HistogramVec = "unhex_store_http_request_duration_seconds" ["route"];
    /// Bytes of answers' bodies that were sent.
    http_sent_bytes: IntCounterVec = "unhex_store_http_response_body_bytes_total" ["route"];
    /// Answers that did not reach their end, since the client left or reading failed.
    http_cut: IntCounterVec = "unhex_store_http_responses_cut_total" ["route"];
    /// Requests that are being answered now.
    http_running: IntGaugeVec = "unhex_store_http_requests_running" [];
    /// Connections that are open now; at the limit clients wait.
    connections: IntGaugeVec = "unhex_store_http_connections_open" [];
    /// Messages of profiles by protocol (`otlp_http`, `otlp_json`, `otlp_grpc`, `pprof`) and outcome: stored,
    /// resent (it was stored before, and is kept once), malformed, `too_large`, busy (told to come again),
    /// unavailable (the object store did not take it) or cut (the body did not come). Alert on a rate of
    /// the last three.
    messages: IntCounterVec = "unhex_store_messages_total" ["protocol", "outcome"];
    /// Bytes of messages, as sent and as unpacked, by `form`.
    message_bytes: IntCounterVec = "unhex_store_message_bytes_total" ["form"];
    /// Profiles that were not kept, by reason: malformed (refers to what is not in the message), negative,
    /// `too_large` (a value beyond 64 bits), `too_many_rows`, `too_old` (older than the retention), ahead
    /// (of the clock here). The log has the words that the sender got. Alert on ahead: a clock is wrong.
    rejected: IntCounterVec = "unhex_store_profiles_rejected_total" ["reason"];
    /// What of labels did not fit: labels (too many, or a long name), values (cut), samples (that lost their own
    /// labels, since the message had too many series).
    left_out: IntCounterVec = "unhex_store_labels_left_out_total" ["what"];
    /// Samples that were stored. `service`, `version` and `deployment` are as the profiler says, at most
    /// `--label-sets-max` of them, the rest is `_other`.
    samples: IntCounterVec = "unhex_store_samples_total" ["service", "version", "deployment"];
    /// CPU seconds that those stand for.
    cpu_seconds_stored: CounterVec = "unhex_store_cpu_seconds_total" ["service", "version", "deployment"];
    /// Frames of those samples by what is known at ingest, each counted as often as it was sampled: native (to
    /// be named by the symbol server: its `unhex_frames_total` says how), `no_identity` (native code
    /// without a build ID), named (by the profiler), kernel, vdso, unplaced (memory without a file),
    /// `missing_unwinder` (of a runtime that the profiler cannot unwind) or truncated (the profiler
    /// stopped there).
    frames: IntCounterVec = "unhex_store_frames_total" ["service", "version", "deployment", "outcome"];
    /// Rows that were stored.
    rows: IntCounterVec = "unhex_store_rows_total" [];
    /// Segments that were stored: one an hour that a window has rows of.
    segments: IntCounterVec = "unhex_store_segments_total" [];
    /// Bytes of those, and of files of the dictionary, by `kind`: segment, series, stacks, frames, numbers.
    stored_bytes: IntCounterVec = "unhex_store_written_bytes_total" ["kind"];
    /// Windows by outcome: written, or failed (their senders were told to come again).
    windows: IntCounterVec = "unhex_store_windows_total" ["outcome"];
    /// Seconds from a message that was read to its rows being durable: the wait for the window and its writing.
    append_seconds: HistogramVec = "unhex_store_append_duration_seconds" [];
    /// Seconds that the writing of a window took.
    window_seconds: HistogramVec = "unhex_store_window_write_duration_seconds" [];
    /// Bytes in memory on their way, by `what`: bodies as sent, rows that were read.
    in_flight: IntGaugeVec = "unhex_store_in_flight_bytes" ["what"];
    /// Messages that are being decompressed and read now.
    decoding: IntGaugeVec = "unhex_store_decoders_running" [];
    /// Notes for the symbol server that wait.
    observe_waiting: IntGaugeVec = "unhex_store_observe_queue_entries" [];
    /// Bytes of those notes.
    observe_waiting_bytes: IntGaugeVec = "unhex_store_observe_queue_bytes" [];
    /// Notes for the symbol server by outcome: delivered, retried (each attempt that failed), refused (it did
    /// not understand), overflowed (the queue was full, the oldest went), expired (it was away for too
    /// long). Alert on the last three: profiles are stored, and the alert on missing symbols does not know of them.
    observed: IntCounterVec = "unhex_store_observe_notes_total" ["outcome"];
    /// Compactions of an hour that were done.
    compactions: IntCounterVec = "unhex_store_compactions_total" [];
    /// Seconds that they took.
    compaction_seconds: CounterVec = "unhex_store_compaction_seconds_total" [];
    /// Rows of samples that went into compactions and came out of them, by `direction`: in, out.
    compacted_rows: IntCounterVec = "unhex_store_compacted_rows_total" ["direction"];
    /// Bytes of the same, with hourly totals.
    compacted_bytes: IntCounterVec = "unhex_store_compacted_bytes_total" ["direction"];
    /// Tombstones that were put: by retention, and by whoever deleted.
    tombstones: IntCounterVec = "unhex_store_tombstones_total" [];
    /// Objects that the sweeper removed.
    swept: IntCounterVec = "unhex_store_swept_objects_total" [];
    /// Compactions and looks at an hour that failed, and are tried again, by reason: store, unreadable, memory,
    /// `too_old`, sums (the outputs had other sums: nothing was replaced), other. Alert on unreadable and sums.
    maintenance_failures: IntCounterVec = "unhex_store_maintenance_failures_total" ["reason"];
    /// Rounds through all hours.
    maintenance_rounds: IntCounterVec = "unhex_store_maintenance_rounds_total" [];
    /// Hours that there is anything of, at the last round.
    hours: IntGaugeVec = "unhex_store_hours" [];
    /// Those of them whose compaction is due and failed.
    hours_waiting: IntGaugeVec = "unhex_store_hours_waiting" [];
    /// Objects in the table's folders that are not its own; they are left alone.
    foreign_objects: IntGaugeVec = "unhex_store_foreign_objects" [];
    /// Compacted files that have rows of a service, at the last round; the smallest services beyond
    /// `--label-sets-max` are `_other`, and segments that are not compacted yet `_fresh`.
    service_objects: IntGaugeVec = "unhex_store_service_objects" ["service"];
    /// Bytes of them; files of several services count for each by its rows.
    service_bytes: IntGaugeVec = "unhex_store_service_bytes" ["service"];
    /// Rows of them.
    service_rows: IntGaugeVec = "unhex_store_service_rows" ["service"];
    /// Files of dictionaries that were merged into one, counted by merge.
    dictionary_merges: IntCounterVec = "unhex_store_dictionary_merges_total" [];
    /// Queries that run now, of `--queries-max`.
    queries_running: IntGaugeVec = "unhex_store_queries_running" [];
    /// Memory that they have now by their own account, of `--query-memory-bytes-max`.
    query_memory_bytes: IntGaugeVec = "unhex_store_query_memory_bytes" [];
    /// Memory for names that the symbol server gave, of `--name-bytes-max`.
    name_bytes: IntGaugeVec = "unhex_store_name_bytes" [];
    /// Requests to the symbol server for names by outcome: answered, failed, late (it said nothing for as long as
    /// queries wait), spared (it failed a moment ago, so that nobody asked) or queued (those of other queries took
    /// all the time). Alert on failed and late: profiles are shown without names.
    name_requests: IntCounterVec = "unhex_store_name_requests_total" ["outcome"];
    /// Exports to the Delta log by outcome: written (or nothing was new), busy (other replicas were faster) or
    /// failed. Alert on failed.
    exports: IntCounterVec = "unhex_store_delta_exports_total" ["outcome"];
    /// Requests to the object store by operation (put, get, list, delete) and outcome.
    object_requests: IntCounterVec = "unhex_store_object_requests_total" ["operation", "outcome"];
    /// Seconds of a request to the object store with its repetitions.
    object_seconds: HistogramVec = "unhex_store_object_request_duration_seconds" ["operation"];
    /// Bytes of objects that were sent (put) or asked for (get).
    object_bytes: IntCounterVec = "unhex_store_object_bytes_total" ["operation"];
    /// Resident memory of the process.
    resident_bytes: IntGaugeVec = "process_resident_memory_bytes" [];
    /// Open files and sockets of the process.
    open_files: IntGaugeVec = "process_open_fds" [];
    /// Most files and sockets that the process may have open.
    open_files_max: IntGaugeVec = "process_max_fds" [];
    /// Threads of the process.
    threads: IntGaugeVec = "process_threads" [];
    /// Processor seconds that the process used.
    cpu_seconds: CounterVec = "process_cpu_seconds_total" [];
    /// Seconds since the process started.
    uptime_seconds: GaugeVec = "unhex_store_uptime_seconds" [];
    /// Always 1; its label has the version.
    build: IntGaugeVec = "unhex_store_build_info" ["version"];
}

/// The store's part of docs/metrics.md.
pub fn document() -> String {
    let mut text = String::from(
        "## Metrics of `unhex-store`\n\n\
         What `GET /metrics` of the profile store answers.\n\
         Written by `UPDATE=1 cargo test -p unhex-profile-store --test program documents`; see\n\
         `crates/profile-store/src/metrics/declared.rs`.\n\n\
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
