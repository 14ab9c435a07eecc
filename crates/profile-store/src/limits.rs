//! Every bound on what strangers send that can be set, each with its reason; docs/limits.md lists
//! them. Bounds that nobody needs to set are constants where they are used, and stand in
//! docs/fixed-limits.md.
//!
//! One line here declares a limit whole: its field, flag, `UNHEX_STORE_*` variable, key in
//! `unhex-store.toml`, default and reason. A test compares docs/limits.md with [`LIMITS`].

mod unit;

use std::fmt::Write as _;

use serde::Deserialize;

pub use unit::{Bytes, Count, Days, Millis, ParseLimitError, Seconds, Unit};

/// A limit as documentation shows it.
#[derive(Clone, Copy, Debug)]
pub struct LimitEntry {
    /// The field, and the key in `unhex-store.toml` under `[limits]`.
    pub name: &'static str,
    /// The environment variable.
    pub variable: &'static str,
    /// The default in the unit's base.
    pub default: u64,
    /// Writes the default with its unit.
    pub show: fn(u64) -> String,
    /// What it bounds, and why the default is what it is.
    pub reason: &'static str,
}

impl LimitEntry {
    /// The command line flag.
    pub fn flag(&self) -> String {
        format!("--{}", self.name.replace('_', "-"))
    }
}

macro_rules! limits {
    ($( $(#[doc = $doc:literal])+ $name:ident : $unit:ident = $default:expr, $variable:literal; )+) => {
        /// Bounds on what strangers send. Each can be set in the configuration.
        #[derive(Clone, Debug)]
        pub struct Limits {
            $( $(#[doc = $doc])+ pub $name: <$unit as Unit>::Value, )+
        }

        impl Default for Limits {
            fn default() -> Self {
                Self { $( $name: <$unit as Unit>::value($default), )+ }
            }
        }

        /// The limits that somebody set, by flag, variable or file.
        #[derive(Clone, Debug, Default, clap::Args, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct LimitSettings {
            $(
                $(#[doc = $doc])+
                #[arg(
                    long,
                    env = $variable,
                    value_name = <$unit as Unit>::PLACEHOLDER,
                    help_heading = "Limits",
                    hide_short_help = true,
                )]
                pub $name: Option<$unit>,
            )+
        }

        impl LimitSettings {
            /// These settings, and those of `under` where these have none.
            #[must_use]
            pub fn over(self, under: Self) -> Self {
                Self { $( $name: self.$name.or(under.$name), )+ }
            }

            /// The limits: what was set, else the defaults.
            pub fn resolve(&self) -> Limits {
                Limits {
                    $( $name: <$unit as Unit>::value(self.$name.map_or($default, |set| set.0)), )+
                }
            }
        }

        /// Every limit, in the order of the documentation.
        pub const LIMITS: &[LimitEntry] = &[
            $( LimitEntry {
                name: stringify!($name),
                variable: $variable,
                default: $default,
                show: <$unit as Unit>::show,
                reason: concat!($($doc),+),
            }, )+
        ];
    };
}

limits! {
    /// Largest message of profiles after decompression: what the OTLP specification recommends.
    message_bytes_max: Bytes = 64 << 20, "UNHEX_STORE_MESSAGE_BYTES_MAX";
    /// Bodies of profiles that are in memory at once, as they were sent: a hundred hosts that push 2 MB each
    /// in one moment. What does not fit is told to come again.
    body_bytes_total_max: Bytes = 256 << 20, "UNHEX_STORE_BODY_BYTES_TOTAL_MAX";
    /// Messages that are decompressed and read at once, each on a thread and in up to ten times the memory of
    /// its message. 0 means as many as there are processors.
    decoders_max: Count = 0, "UNHEX_STORE_DECODERS_MAX";
    /// How long a message waits for one of them, or for room among the rows, before it is told to come again:
    /// exporters give up after 5 to 10 s.
    ingest_queue_seconds_max: Seconds = 3, "UNHEX_STORE_INGEST_QUEUE_SECONDS_MAX";
    /// Rows, stacks and frames that were read and are not durable yet, by an estimate of their memory: some
    /// five million rows.
    row_bytes_total_max: Bytes = 512 << 20, "UNHEX_STORE_ROW_BYTES_TOTAL_MAX";
    /// How long requests are gathered into one segment before it is written. Longer makes fewer objects, and
    /// everybody waits so long at most for the answer; at most 1 s.
    window_millis_max: Millis = 500, "UNHEX_STORE_WINDOW_MILLIS_MAX";
    /// Rows of a window, which is written at once when it has so many.
    window_rows_max: Count = 2_000_000, "UNHEX_STORE_WINDOW_ROWS_MAX";
    /// How long a message waits for its window to become durable before its sender is told to come again; the
    /// writing goes on, and who comes again waits for it. Senders have given up long before.
    append_seconds_max: Seconds = 30, "UNHEX_STORE_APPEND_SECONDS_MAX";
    /// Notes for the symbol server that wait for it, the oldest out: an hour of a thousand hosts that push
    /// every few seconds, while it is away.
    observe_entries_max: Count = 100_000, "UNHEX_STORE_OBSERVE_ENTRIES_MAX";
    /// Memory of those notes, the oldest out.
    observe_bytes_max: Bytes = 64 << 20, "UNHEX_STORE_OBSERVE_BYTES_MAX";
    /// How long such a note is tried to be delivered: what is older says nothing about now.
    observe_seconds_max: Seconds = 3600, "UNHEX_STORE_OBSERVE_SECONDS_MAX";
    /// Memory of compactions for rows; beyond it they spill. An hour of a service of 40 hosts has 30 million rows.
    compaction_memory_bytes_max: Bytes = 512 << 20, "UNHEX_STORE_COMPACTION_MEMORY_BYTES_MAX";
    /// Room on the disk for rows of compactions that do not fit into that memory.
    compaction_spill_bytes_max: Bytes = 32 << 30, "UNHEX_STORE_COMPACTION_SPILL_BYTES_MAX";
    /// Queries that run at once; more wait for their turn. They share the threads, of which there are as many as
    /// processors, and the memory.
    queries_max: Count = 8, "UNHEX_STORE_QUERIES_MAX";
    /// How long a query waits for its turn before it is told to come again.
    query_queue_seconds_max: Seconds = 10, "UNHEX_STORE_QUERY_QUEUE_SECONDS_MAX";
    /// How long a query may run: people have given up by then, and so have most proxies.
    query_seconds_max: Seconds = 60, "UNHEX_STORE_QUERY_SECONDS_MAX";
    /// Memory of all queries at once for rows and sums; a merge of 20,000 stacks takes 10 MB. One that needs more is
    /// told so.
    query_memory_bytes_max: Bytes = 1 << 30, "UNHEX_STORE_QUERY_MEMORY_BYTES_MAX";
    /// Room on the disk for rows that do not fit into that memory.
    query_spill_bytes_max: Bytes = 16 << 30, "UNHEX_STORE_QUERY_SPILL_BYTES_MAX";
    /// Stacks, frames and label sets that are kept in memory between queries: those of a thousand services.
    stack_bytes_max: Bytes = 256 << 20, "UNHEX_STORE_STACK_BYTES_MAX";
    /// Names of native frames that are kept in memory between queries, a million of them.
    name_bytes_max: Bytes = 256 << 20, "UNHEX_STORE_NAME_BYTES_MAX";
    /// Connections that are open at once; more wait in the kernel's queue. Each costs a file and
    /// about 20 KiB.
    connections_max: Count = 4_096, "UNHEX_STORE_CONNECTIONS_MAX";
    /// Requests that are worked on at once over one HTTP/2 connection.
    http2_streams_max: Count = 256, "UNHEX_STORE_HTTP2_STREAMS_MAX";
    /// How long a client may take to send a request's headers, and how long a connection may be
    /// idle between requests: profilers come back every few seconds.
    header_read_seconds_max: Seconds = 60, "UNHEX_STORE_HEADER_READ_SECONDS_MAX";
    /// How long a client may send nothing within a request's body.
    body_stall_seconds_max: Seconds = 10, "UNHEX_STORE_BODY_STALL_SECONDS_MAX";
    /// How long the body of a message of profiles may take in all: 64 MiB at 1 MB/s. Its memory is held so
    /// long.
    body_seconds_max: Seconds = 60, "UNHEX_STORE_BODY_SECONDS_MAX";
    /// How long a connection may have no request, whatever pings it answers: exporters keep theirs, and
    /// come every few seconds. Over HTTP/1 `header_read_seconds_max` comes first.
    connection_idle_seconds_max: Seconds = 180, "UNHEX_STORE_CONNECTION_IDLE_SECONDS_MAX";
    /// How long a client may take nothing of an answer.
    write_stall_seconds_max: Seconds = 90, "UNHEX_STORE_WRITE_STALL_SECONDS_MAX";
    /// Headers of one request, in bytes.
    header_bytes_max: Bytes = 64 << 10, "UNHEX_STORE_HEADER_BYTES_MAX";
    /// Label sets (service, version, deployment) that have series of their own in `/metrics`; the
    /// least recently seen go to `_other`.
    label_sets_max: Count = 1_000, "UNHEX_STORE_LABEL_SETS_MAX";
    /// Free space below which `/readyz` says no: some minutes of a large fleet still fit.
    free_disk_bytes_min: Bytes = 1 << 30, "UNHEX_STORE_FREE_DISK_BYTES_MIN";
}

/// The store's part of docs/limits.md.
pub fn document() -> String {
    let mut text = String::from(
        "## Limits of `unhex-store`\n\n\
         Each is set by a flag of `unhex-store serve`, by an environment variable, or under `[limits]` in\n\
         `unhex-store.toml`.\n\
         Written by `UPDATE=1 cargo test -p unhex-profile-store --test program documents`.\n\n\
         | flag | variable | default | what and why |\n|---|---|---|---|\n",
    );
    for limit in LIMITS {
        let _infallible = writeln!(
            text,
            "| `{}` | `{}` | {} | {} |",
            limit.flag(),
            limit.variable,
            (limit.show)(limit.default),
            limit.reason.trim(),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_is_its_limits_name() {
        for limit in LIMITS {
            assert_eq!(
                limit.variable,
                format!("UNHEX_STORE_{}", limit.name.to_uppercase())
            );
        }
    }

    #[test]
    fn a_window_is_never_longer_than_a_second() {
        assert!(toml::from_str::<LimitSettings>("window_millis_max = '1s'").is_ok());
        assert!(toml::from_str::<LimitSettings>("window_millis_max = 1001").is_err());
    }
}
