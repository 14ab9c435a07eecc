//! The table of metrics: name, labels, kind and meaning, each once.

use std::fmt::Write as _;

use prometheus::{
    CounterVec, GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry,
};

/// Bounds of durations, from a cached answer to a large conversion.
const SECONDS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
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
    /// Requests answered, by route of the table in src/http/mod.rs and class of status (2xx). Alert
    /// on a rising share of 5xx.
    http_requests: IntCounterVec = "unhex_http_requests_total" ["route", "status"];
    /// Seconds from a request's headers to the last byte of its answer.
    http_seconds: HistogramVec = "unhex_http_request_duration_seconds" ["route"];
    /// Bytes of answers' bodies that were sent.
    http_sent_bytes: IntCounterVec = "unhex_http_response_body_bytes_total" ["route"];
    /// Answers that did not reach their end, since the client left, reading failed, or the connection
    /// was reset instead (see `unhex_debuginfod_held_total`).
    http_cut: IntCounterVec = "unhex_http_responses_cut_total" ["route"];
    /// Requests that are being answered now.
    http_running: IntGaugeVec = "unhex_http_requests_running" [];
    /// Connections that are open now; at the limit clients wait.
    connections: IntGaugeVec = "unhex_http_connections_open" [];
    /// debuginfod requests by type of artifact (a closed set, other words are `invalid`) and result:
    /// found, absent, refused (the client's fault) or unavailable (ours).
    debuginfod: IntCounterVec = "unhex_debuginfod_requests_total" ["type", "result"];
    /// debuginfod clients that could not be answered at once, since an upstream server or the store
    /// could not say: answered (a later attempt had an answer), reset (their connection, when
    /// `--hold-deadline` was over) or unavailable (503, behind a proxy or over HTTP/2). Alert on a
    /// rate of the last two.
    debuginfod_held: IntCounterVec = "unhex_debuginfod_held_total" ["outcome"];
    /// Requests for work that is bounded, by class (debuginfod: files from upstream servers;
    /// symbolize: memory of `/symbolize`; upload; conversion: memory of conversion children) and by
    /// outcome: `at_once`, served (after a wait), `too_long` (not in time), full (too many waited),
    /// left (the client did).
    queue_requests: IntCounterVec = "unhex_queue_requests_total" ["class", "outcome"];
    /// Seconds that requests waited in a queue, those that were served at once apart.
    queue_seconds: HistogramVec = "unhex_queue_wait_duration_seconds" ["class"];
    /// Requests that wait in a queue now.
    queue_waiting: IntGaugeVec = "unhex_queue_waiting" ["class"];
    /// How much of what the queue hands out is in use, from 0 to 1.
    queue_used: GaugeVec = "unhex_queue_used_ratio" ["class"];
    /// Conversions of debug files by outcome: converted, malformed, unsupported, `too_large`, timeout
    /// or unavailable (nothing is known of the file then).
    conversions: IntCounterVec = "unhex_conversions_total" ["outcome"];
    /// Seconds that a conversion took with its wait for memory, whatever came of it.
    conversion_seconds: HistogramVec = "unhex_conversion_duration_seconds" [];
    /// Conversions that run now or wait for memory.
    conversions_running: IntGaugeVec = "unhex_conversions_running" [];
    /// Profiles that arrived, whether they have symbols or not; parts with one `profile_id` count
    /// once. `service`, `version` and `deployment` are as the profiler says, at most
    /// `--label-sets-max` of them, the rest is `_other`.
    profiles: IntCounterVec = "unhex_profiles_total" ["service", "version", "deployment"];
    /// Those of them with at least one build ID that has no symbols and is not ignored.
    profiles_unknown: IntCounterVec = "unhex_profiles_unknown_build_id_total" ["service", "version", "deployment"];
    /// Frames by outcome, each counted as often as it was seen: symbolized, `unknown_build_id`,
    /// `no_debug_info` (dynamic symbols at most), `no_function` (there are symbols, none covers the
    /// address), unavailable (not known now, or its debug file cannot be used), ignored. The alert
    /// `MissingSymbolRate` watches the share of the second and third.
    frames: IntCounterVec = "unhex_frames_total" ["service", "version", "deployment", "outcome"];
    /// Build IDs without symbols, by the ledger of all replicas: first seen longer ago than
    /// `--unknown-grace`, seen within 24 h, not ignored, at least `--unknown-min-share` of what the
    /// label set sent. Right after a start a label set has no series until its build IDs were looked
    /// for in the store. The alert `ProfileWithUnknownBuildId` watches it; over replicas take the
    /// maximum.
    unknown_build_ids: IntGaugeVec = "unhex_unknown_build_ids" ["service", "version", "deployment"];
    /// Build IDs without symbols that the ledger has a note of, ignored and recent ones too.
    ledger_build_ids: IntGaugeVec = "unhex_ledger_build_ids" [];
    /// Times that the ledger could not be written to or read from the object store.
    ledger_failures: IntCounterVec = "unhex_ledger_failures_total" [];
    /// Objects of the ledger, segments and decisions to ignore, that are there and cannot be read:
    /// damaged, too large or out of reach. They are left alone and what is in them does not count.
    ledger_unreadable: IntGaugeVec = "unhex_ledger_unreadable_objects" [];
    /// Questions to upstream servers (`upstream` is the host of the configured URL) by result: found,
    /// absent (404 or 410, the only definite no), timeout, connection, status, redirect, lie (no such
    /// file, too long, a page of HTML), `not_stored` (this server's fault), resting (left alone
    /// since it failed too often). Alert on a rising share of the others.
    upstream_requests: IntCounterVec = "unhex_upstream_requests_total" ["upstream", "result"];
    /// Seconds from a question to an upstream server to its last word, with repetitions and the body.
    upstream_seconds: HistogramVec = "unhex_upstream_request_duration_seconds" ["upstream"];
    /// Bytes of bodies that came from an upstream server, as sent.
    upstream_received_bytes: IntCounterVec = "unhex_upstream_received_bytes_total" ["upstream"];
    /// 1 while an upstream server is left alone since it failed too often, else 0.
    upstream_resting: IntGaugeVec = "unhex_upstream_resting" ["upstream"];
    /// Requests to the S3 server by operation and outcome: ok, absent, exists, refused (by a 4xx),
    /// throttled, failed (by a 5xx) or unreachable. Repeated ones count each time.
    s3_requests: IntCounterVec = "unhex_s3_requests_total" ["operation", "outcome"];
    /// Seconds from a request to the S3 server to the headers of its answer.
    s3_seconds: HistogramVec = "unhex_s3_request_duration_seconds" ["operation"];
    /// Requests to the S3 server that repeat one that failed, and by `body` the bodies of answers that
    /// broke off and were asked for again.
    s3_retries: IntCounterVec = "unhex_s3_retries_total" ["operation"];
    /// Bytes of objects that were sent to the S3 server or received from it.
    s3_bytes: IntCounterVec = "unhex_s3_bytes_total" ["direction"];
    /// Questions to a cache by its name and by result, hit or miss. In memory: states (what is known of
    /// build IDs), absent (build IDs of which nothing is stored), indexes (open symbol indexes),
    /// `source_bundles` (their directories), `upstream_absent` (what no upstream server has),
    /// `upstream_sources` (source files from there). On the disk: files (fetched from the bucket),
    /// `scanned_members` (of archives, unpacked), `scanned_indexes` (symbol indexes of scanned files).
    cache_requests: IntCounterVec = "unhex_cache_requests_total" ["cache", "result"];
    /// Entries that had to go for lack of room, not those that grew old. Watch files: when it rises as
    /// fast as the misses, `--cache-bytes-max` is too small for what is asked for.
    cache_evictions: IntCounterVec = "unhex_cache_evictions_total" ["cache"];
    /// Entries in a cache after the last miss.
    cache_entries: IntGaugeVec = "unhex_cache_entries" ["cache"];
    /// Bytes in a cache after the last miss; of open indexes the mapped ones.
    cache_bytes: IntGaugeVec = "unhex_cache_bytes" ["cache"];
    /// Bytes that a cache may hold; 0 where only entries are bounded, or there is no such cache.
    cache_bytes_max: IntGaugeVec = "unhex_cache_bytes_max" ["cache"];
    /// When the file that goes next from the disk was last used, in seconds since 1970, or 0 when all
    /// are in use. `time()` less this is how long a file stays that nobody asks for.
    cache_oldest_use: GaugeVec = "unhex_cache_oldest_use_timestamp_seconds" ["cache"];
    /// Scanned files that are known: served (they have something to serve) or `passed_over`. With
    /// `--scan` only, as all of scanning.
    scan_files: IntGaugeVec = "unhex_scan_files" ["kind"];
    /// Build IDs of which a scanned folder has a file.
    scan_build_ids: IntGaugeVec = "unhex_scan_build_ids" [];
    /// Scanned files and folders that could not be read or are damaged; the log names them.
    scan_errors: IntCounterVec = "unhex_scan_errors_total" [];
    /// Files and folders that the last scan could not read for a reason that is not their own, scanned
    /// paths that are away among them. While it is not 0, what is not found is not known to be absent:
    /// debuginfod clients are held and get 503.
    scan_unread: IntGaugeVec = "unhex_scan_unread" [];
    /// Scanned files that were looked at since they were new or had changed, by `source`: file, or the
    /// ending of an archive. As the reference server calls it.
    scanned_files: IntCounterVec = "scanned_files_total" ["source"];
    /// Bytes of those files, of which only headers are read unless they are archives. As the reference
    /// server calls it.
    scanned_bytes: IntCounterVec = "scanned_bytes_total" ["source"];
    /// Executables that scans found. As the reference server calls it.
    found_executables: IntCounterVec = "found_executable_total" ["source"];
    /// Debug files that scans found. As the reference server calls it.
    found_debuginfos: IntCounterVec = "found_debuginfo_total" ["source"];
    /// Source files that scanned binaries name, counted when a binary is converted, since scans do not
    /// read DWARF. As the reference server calls it.
    found_sourcerefs: IntCounterVec = "found_sourcerefs_total" ["source"];
    /// Rounds through all folders (traverse), files looked at (scan), groomings (groom). As the
    /// reference server calls it.
    thread_work: IntCounterVec = "thread_work_total" ["role"];
    /// Files that wait to be looked at, by role scan. As the reference server calls it.
    thread_pending: IntGaugeVec = "thread_work_pending" ["role"];
    /// How many are at work now. As the reference server calls it.
    thread_busy: IntGaugeVec = "thread_busy" ["role"];
    /// Scanned files that grooming found as they were (fresh) or gone or changed (stale). As the reference
    /// server calls it.
    groomed: IntCounterVec = "groomed_total" ["decision"];
    /// What is known of scanned files, as the reference server calls it.
    groom: IntGaugeVec = "groom" ["statistic"];
    /// Answers to debuginfod requests by status and type, as the reference server calls it.
    debuginfod_responses: IntGaugeVec = "http_responses_transfer_bytes_count" ["code", "type"];
    /// Always 1, as the reference server calls it.
    scan_ready: IntGaugeVec = "ready" [];
    /// Resident memory of the server, without its conversion children.
    resident_bytes: IntGaugeVec = "process_resident_memory_bytes" [];
    /// Open files and sockets of the server.
    open_files: IntGaugeVec = "process_open_fds" [];
    /// Most files and sockets that the server may have open.
    open_files_max: IntGaugeVec = "process_max_fds" [];
    /// Threads of the server.
    threads: IntGaugeVec = "process_threads" [];
    /// Processor seconds that the server used, without its conversion children.
    cpu_seconds: CounterVec = "process_cpu_seconds_total" [];
    /// Seconds since the server started.
    uptime_seconds: GaugeVec = "unhex_uptime_seconds" [];
    /// Always 1; its label has the version.
    build: IntGaugeVec = "unhex_build_info" ["version"];
}

/// docs/metrics.md, whole.
pub fn document() -> String {
    let mut text = String::from(
        "# Metrics\n\n\
         What `GET /metrics` answers. Label values come from closed sets, but for `service`, `version` and\n\
         `deployment`, which are bounded in length and number; a build ID is never one.\n\
         Written by `UPDATE=1 cargo test -p unhex --test server documents`; see `src/metrics/declared.rs`.\n\n\
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
