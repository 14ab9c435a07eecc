//! The table of metrics: name, labels, kind and meaning, each once.

use std::fmt::Write as _;

use prometheus::{CounterVec, GaugeVec, IntCounterVec, IntGaugeVec, Opts, Registry};

/// A metric as documentation shows it.
#[derive(Clone, Copy, Debug)]
pub struct MetricEntry {
    /// Its whole name.
    pub name: &'static str,
    /// counter or gauge.
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

macro_rules! declare {
    ($($family:ident $kind:literal;)+) => {
        $(impl Declare for $family {
            const KIND: &'static str = $kind;

            fn declare(entry: &MetricEntry) -> prometheus::Result<Self> {
                Self::new(Opts::new(entry.name, entry.help), entry.labels)
            }
        })+
    };
}

declare! {
    IntCounterVec "counter";
    CounterVec "counter";
    IntGaugeVec "gauge";
    GaugeVec "gauge";
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
    /// Samples that were taken, by `stop`, the reason why their stacks end: root is a complete one, and so is
    /// `no user stack`, of a thread of the kernel.
    samples: IntCounterVec = "unhex_agent_samples_total" ["stop"];
    /// Samples that the kernel could not hand over, since nobody took them in time. Alert on a rate: the host is
    /// overloaded, or the agent is stuck.
    lost: IntCounterVec = "unhex_agent_samples_lost_total" [];
    /// Records of new processes and mappings that the kernel could not hand over; stacks of such processes end early
    /// until the next look at them.
    lost_events: IntCounterVec = "unhex_agent_events_lost_total" [];
    /// Always 1; its label says who takes the samples: `ebpf` or `perf_copy`.
    engine: IntGaugeVec = "unhex_agent_engine_info" ["engine"];
    /// Samples a second that each processor is asked for; less than what is set while the agent is over its budget.
    rate: IntGaugeVec = "unhex_agent_samples_per_second" [];
    /// Times that the rate was lowered, since the agent took more of the host than its budget. Alert on a rate.
    slowed: IntCounterVec = "unhex_agent_slowed_total" [];
    /// Processes that are known.
    processes: IntGaugeVec = "unhex_agent_processes" [];
    /// Binaries whose unwind tables are held.
    binaries: IntGaugeVec = "unhex_agent_table_binaries" [];
    /// Rows of those tables.
    rows: IntGaugeVec = "unhex_agent_table_rows" [];
    /// Bytes that they take.
    table_bytes: IntGaugeVec = "unhex_agent_table_bytes" [];
    /// Tables that were put away for others, by a limit. Alert on a steady rate: the limit is too small for the host.
    evicted: IntCounterVec = "unhex_agent_tables_evicted_total" [];
    /// Batches by outcome: delivered; partial (some profiles of it were not taken, the log has the words); refused
    /// (sending it again is of no use); dropped (the queue was full, or the agent stopped). Alert on the last three.
    batches: IntCounterVec = "unhex_agent_batches_total" ["outcome"];
    /// Samples in those batches.
    batch_samples: IntCounterVec = "unhex_agent_batch_samples_total" ["outcome"];
    /// Attempts to deliver that failed and are repeated, by reason: connection, busy (429 or 503), `bad_gateway`
    /// (502 or 504), timeout (408, or no answer).
    retries: IntCounterVec = "unhex_agent_delivery_retries_total" ["reason"];
    /// Bytes of batches that were delivered, as sent.
    sent_bytes: IntCounterVec = "unhex_agent_sent_bytes_total" [];
    /// Batches that wait to be delivered.
    queued: IntGaugeVec = "unhex_agent_queue_batches" [];
    /// Bytes of those.
    queued_bytes: IntGaugeVec = "unhex_agent_queue_bytes" [];
    /// Lists of pods that were asked of the kubelet, by outcome: read or failed.
    pod_lists: IntCounterVec = "unhex_agent_pod_lists_total" ["outcome"];
    /// Binaries that the symbol server lacks, by what came of it: sent, `not_needed` (it has a file that is as good),
    /// `no_symbols` (there are none on this host), failed (it refused the file, or the file cannot be read).
    uploads: IntCounterVec = "unhex_agent_uploads_total" ["outcome"];
    /// Resident memory of the agent.
    resident_bytes: IntGaugeVec = "process_resident_memory_bytes" [];
    /// Processor seconds that the agent used, without what the kernel does for each sample.
    cpu_seconds: CounterVec = "process_cpu_seconds_total" [];
    /// Seconds since the agent started.
    uptime_seconds: GaugeVec = "unhex_agent_uptime_seconds" [];
    /// Always 1; its label has the version.
    build: IntGaugeVec = "unhex_agent_build_info" ["version"];
}

/// The agent's part of docs/metrics.md.
pub fn document() -> String {
    let mut text = String::from(
        "## Metrics of `unhex-agent`\n\n\
         What `GET /metrics` of the host agent answers.\n\
         Written by `UPDATE=1 cargo test -p unhex-agent --test documents`; see\n\
         `crates/agent/src/metrics/declared.rs`.\n\n\
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
