//! Every bound on what strangers send that can be set, each with its reason; docs/limits.md lists
//! them. Bounds that nobody needs to set are constants where they are used, and stand in
//! docs/fixed-limits.md.
//!
//! One line here declares a limit whole: its field, flag, `UNHEX_*` variable, key in `unhex.toml`,
//! default and reason. A test compares docs/limits.md with [`LIMITS`].

mod unit;

use std::fmt::Write as _;

use serde::Deserialize;

pub use unit::{Bytes, Count, ParseLimitError, Seconds, Unit};

impl Count {
    /// The number that was set.
    pub fn number(self) -> usize {
        Self::value(self.0)
    }
}

/// A limit as documentation shows it.
#[derive(Clone, Copy, Debug)]
pub struct LimitEntry {
    /// The field, and the key in `unhex.toml` under `[limits]`.
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
    /// Largest upload after decompression: Chromium's and Firefox's debug files are below 8 GiB.
    upload_bytes_max: Bytes = 8 << 30, "UNHEX_UPLOAD_BYTES_MAX";
    /// Files in one bundle of sources: the Linux kernel has 80,000.
    sources_files_max: Count = 200_000, "UNHEX_SOURCES_FILES_MAX";
    /// Largest file in a bundle of sources: the largest generated one that was seen has 50 MiB.
    sources_file_bytes_max: Bytes = 64 << 20, "UNHEX_SOURCES_FILE_BYTES_MAX";
    /// All files in a bundle of sources together: the Linux kernel has 1.4 GiB.
    sources_bytes_max: Bytes = 4 << 30, "UNHEX_SOURCES_BYTES_MAX";
    /// Uploads that are received, or read back from the bucket, and published at once; more wait in
    /// turns, by client. Each holds a file, a thread while it writes, and 1 MiB; one that is read
    /// back 32 MiB.
    uploads_max: Count = 64, "UNHEX_UPLOADS_MAX";
    /// How long an upload waits for its turn, its body unread, before it is told to come again:
    /// below the time-outs of proxies.
    upload_queue_seconds_max: Seconds = 30, "UNHEX_UPLOAD_QUEUE_SECONDS_MAX";
    /// Files that are kept under one build ID, worse ones too: a release has about four.
    artifacts_per_build_id_max: Count = 256, "UNHEX_ARTIFACTS_PER_BUILD_ID_MAX";
    /// Wall clock of one conversion: the largest file seen (libjvm) takes 3 s.
    conversion_seconds_max: Seconds = 600, "UNHEX_CONVERSION_SECONDS_MAX";
    /// Address space of the conversion child beyond its input files, which it maps.
    conversion_memory_bytes_max: Bytes = 4 << 30, "UNHEX_CONVERSION_MEMORY_BYTES_MAX";
    /// Largest symbol index that a conversion may write.
    conversion_output_bytes_max: Bytes = 2 << 30, "UNHEX_CONVERSION_OUTPUT_BYTES_MAX";
    /// Memory of all conversion children that run at once, by an estimate from their inputs: one of
    /// the largest, or dozens of usual ones.
    conversion_memory_bytes_total_max: Bytes = 4 << 30, "UNHEX_CONVERSION_MEMORY_BYTES_TOTAL_MAX";
    /// Symbol indexes that are kept open, in bytes of mapped files: hundreds of the largest fit, and
    /// the pages belong to the system's cache.
    open_index_bytes_max: Bytes = 8 << 30, "UNHEX_OPEN_INDEX_BYTES_MAX";
    /// Files on this disk that were fetched from the bucket, the least recently used out: a day's work
    /// of a large team. What is in use stays, so that it may be exceeded for a while.
    cache_bytes_max: Bytes = 20 << 30, "UNHEX_CACHE_BYTES_MAX";
    /// Largest `/symbolize` body after decompression: a profile of a million addresses fits.
    symbolize_body_bytes_max: Bytes = 64 << 20, "UNHEX_SYMBOLIZE_BODY_BYTES_MAX";
    /// Addresses in one `/symbolize` request, over all modules: about a second of work.
    symbolize_addresses_max: Count = 1_000_000, "UNHEX_SYMBOLIZE_ADDRESSES_MAX";
    /// Modules in one `/symbolize` request: a browser maps a few hundred.
    symbolize_modules_max: Count = 4_096, "UNHEX_SYMBOLIZE_MODULES_MAX";
    /// How long one `/symbolize` request may take beside the wait for conversions that it asks for,
    /// and the look-ups of one `/observe`: a sound store answers in milliseconds, and a million
    /// addresses take a second. What is not known by then reads `unavailable`.
    symbolize_seconds_max: Seconds = 30, "UNHEX_SYMBOLIZE_SECONDS_MAX";
    /// Memory of all `/symbolize` requests at once, by an estimate from their bodies and addresses:
    /// seven of the largest, or thousands of usual ones.
    symbolize_memory_bytes_total_max: Bytes = 4 << 30, "UNHEX_SYMBOLIZE_MEMORY_BYTES_TOTAL_MAX";
    /// How long a `/symbolize` request waits for its share of that memory before it is told to come
    /// again: clients wait gladly for seconds, and give up after a minute.
    symbolize_queue_seconds_max: Seconds = 10, "UNHEX_SYMBOLIZE_QUEUE_SECONDS_MAX";
    /// Connections that are open at once; more wait in the kernel's queue. Each costs a file and
    /// about 20 KiB.
    connections_max: Count = 4_096, "UNHEX_CONNECTIONS_MAX";
    /// Requests that are worked on at once over one HTTP/2 connection.
    http2_streams_max: Count = 256, "UNHEX_HTTP2_STREAMS_MAX";
    /// How long a client may take to send a request's headers, and how long a connection may be
    /// idle between requests: profilers come back every few seconds.
    header_read_seconds_max: Seconds = 60, "UNHEX_HEADER_READ_SECONDS_MAX";
    /// How long a client may send nothing within a request's body: CI machines stall for seconds,
    /// not for a minute.
    body_stall_seconds_max: Seconds = 60, "UNHEX_BODY_STALL_SECONDS_MAX";
    /// How long a connection may have no request, whatever pings it answers: the pools of clients let
    /// go of theirs after 90 s. Over HTTP/1 `header_read_seconds_max` comes first.
    connection_idle_seconds_max: Seconds = 180, "UNHEX_CONNECTION_IDLE_SECONDS_MAX";
    /// How long a client may take nothing of an answer, over HTTP/2 of any one answer: debuginfod
    /// clients give up at 90 s below 100 KiB/s themselves.
    write_stall_seconds_max: Seconds = 90, "UNHEX_WRITE_STALL_SECONDS_MAX";
    /// Headers of one request, in bytes: `DEBUGINFOD_HEADERS_FILE` and long source paths fit.
    header_bytes_max: Bytes = 64 << 10, "UNHEX_HEADER_BYTES_MAX";
    /// Largest JSON body outside `/symbolize`.
    json_body_bytes_max: Bytes = 1 << 20, "UNHEX_JSON_BODY_BYTES_MAX";
    /// How long a debuginfod client is held while its answer is not known, before its connection is
    /// reset or it gets 503: it gives up at 90 s itself, and proxies at 60 s by default.
    hold_deadline: Seconds = 50, "UNHEX_HOLD_DEADLINE";
    /// Files that are fetched from upstream for debuginfod clients at once; more wait in turns, by
    /// client. As many as one upstream is asked for.
    debuginfod_fetches_max: Count = 64, "UNHEX_DEBUGINFOD_FETCHES_MAX";
    /// Longest silence of an upstream, before and in its answer: waiting clients bear twice that.
    upstream_first_byte_seconds_max: Seconds = 10, "UNHEX_UPSTREAM_FIRST_BYTE_SECONDS_MAX";
    /// How long one file may be fetched from upstream in all: half a gigabyte takes so long at 2 MB/s.
    upstream_seconds_max: Seconds = 300, "UNHEX_UPSTREAM_SECONDS_MAX";
    /// How long it is remembered that no upstream has a file; debuginfod clients do it so long too.
    upstream_absent_seconds_max: Seconds = 600, "UNHEX_UPSTREAM_ABSENT_SECONDS_MAX";
    /// Requests to one upstream at once, the rest waits: thirty unknown build IDs make sixty.
    upstream_requests_max: Count = 64, "UNHEX_UPSTREAM_REQUESTS_MAX";
    /// Files that are fetched from upstream or wait for it, over all requests: each costs a task.
    upstream_fetches_max: Count = 4_096, "UNHEX_UPSTREAM_FETCHES_MAX";
    /// Failures in a row after which an upstream server is left alone.
    upstream_failures_max: Count = 5, "UNHEX_UPSTREAM_FAILURES_MAX";
    /// How long it is left alone, before one request tries it again.
    upstream_rest_seconds_max: Seconds = 30, "UNHEX_UPSTREAM_REST_SECONDS_MAX";
    /// Memory for source files that were fetched from upstream servers, for an hour at most.
    upstream_sources_bytes_max: Bytes = 64 << 20, "UNHEX_UPSTREAM_SOURCES_BYTES_MAX";
    /// Disk for members of scanned archives that were asked for, the least recently used out; a member
    /// that is larger than all of it is still served, once.
    scan_members_bytes_max: Bytes = 10 << 30, "UNHEX_SCAN_MEMBERS_BYTES_MAX";
    /// Disk for symbol indexes of scanned files, the least recently used out.
    scan_indexes_bytes_max: Bytes = 10 << 30, "UNHEX_SCAN_INDEXES_BYTES_MAX";
    /// Largest member of a scanned archive: the debug files of browsers have 4 GB.
    scan_member_bytes_max: Bytes = 16 << 30, "UNHEX_SCAN_MEMBER_BYTES_MAX";
    /// How long one `/metadata` query may search; the reference server takes 5 s too.
    metadata_seconds_max: Seconds = 5, "UNHEX_METADATA_SECONDS_MAX";
    /// Results of one `/metadata` query: a whole distribution's `/usr/bin` fits.
    metadata_results_max: Count = 10_000, "UNHEX_METADATA_RESULTS_MAX";
    /// Label sets (service, version, deployment) that have series of their own in `/metrics`; the
    /// least recently seen go to `_other`. Each costs some ten series in every Prometheus.
    label_sets_max: Count = 1_000, "UNHEX_LABEL_SETS_MAX";
    /// Build IDs without symbols in the ledger, the least recently seen out: a large fleet has a few
    /// thousand binaries. Each takes some 300 bytes.
    ledger_build_ids_max: Count = 100_000, "UNHEX_LEDGER_BUILD_IDS_MAX";
    /// Free space below which `/readyz` says no: one large upload and its conversion still fit. Files
    /// that can be fetched again go before it comes to that.
    free_disk_bytes_min: Bytes = 1 << 30, "UNHEX_FREE_DISK_BYTES_MIN";
}

/// docs/limits.md, whole.
pub fn document() -> String {
    let mut text = String::from(
        "# Limits\n\n\
         Every bound on what strangers send that can be set; those that cannot stand in\n\
         [fixed-limits.md](fixed-limits.md). Each is set by a flag of `unhex serve`, by an\n\
         environment variable, or under `[limits]` in `unhex.toml` (the flag's name without the\n\
         dashes in front, `_` for `-`). Sizes take `KiB`, `MiB`, `GiB`; times take `s`, `m`, `h`.\n\
         Written by `UPDATE=1 cargo test -p unhex --test server documents`; see `src/limits.rs`.\n\n\
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
                format!("UNHEX_{}", limit.name.to_uppercase())
            );
        }
    }

    #[test]
    fn a_time_that_is_too_long_is_refused_in_the_file_too() {
        let text = "body_stall_seconds_max = 9223372036854775807";
        assert!(toml::from_str::<LimitSettings>(text).is_err());
    }
}
