//! Every bound on what strangers send that can be set, each with its reason; docs/limits.md lists
//! them. Bounds that nobody needs to set are constants where they are used, and stand in
//! docs/fixed-limits.md.
//!
//! One line here declares a limit whole: its field, flag, `UNHEX_*` variable, key in `unhex.toml`,
//! default and reason. A test compares docs/limits.md with [`LIMITS`].

use std::fmt::Write as _;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

/// How a limit is written and what it is to the program.
pub trait Unit: Sized {
    /// What the program works with.
    type Value;
    /// The placeholder in `--help`.
    const PLACEHOLDER: &'static str;

    /// The value of a plain number in the unit's base.
    fn value(number: u64) -> Self::Value;

    /// The number as documentation shows it.
    fn show(number: u64) -> String;
}

/// A setting that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseLimitError {
    /// No number at the start, or one beyond 2^64-1.
    #[error("{0:?} is no whole number with an optional unit")]
    NotANumber(String),
    /// A unit that is not known.
    #[error("unknown unit {unit:?}: known are {known}")]
    UnknownUnit {
        /// What was found behind the number.
        unit: String,
        /// What may stand there.
        known: &'static str,
    },
    /// A number beyond what the unit can be.
    #[error("{number} is more than {max}, the most that can be set")]
    TooLarge {
        /// The number in the unit's base.
        number: u64,
        /// The most that can be set.
        max: u64,
    },
}

/// Longest time that can be set, 100 years: clocks cannot be moved by 2^64 seconds.
const SECONDS_MAX: u64 = 100 * 366 * 24 * 3600;

/// Splits `text` into its number and its unit, and multiplies.
fn parse_scaled(
    text: &str,
    scales: &[(&str, u64)],
    known: &'static str,
) -> Result<u64, ParseLimitError> {
    let text = text.trim();
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = text.strip_suffix(unit).unwrap_or_default();
    let not_a_number = || ParseLimitError::NotANumber(text.to_owned());
    let number = digits.parse::<u64>().ok().ok_or_else(not_a_number)?;
    let unit = unit.trim();
    let scale = scales
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit))
        .ok_or_else(|| ParseLimitError::UnknownUnit {
            unit: unit.to_owned(),
            known,
        })?;
    number.checked_mul(scale.1).ok_or_else(not_a_number)
}

fn within(number: u64, max: u64) -> Result<u64, ParseLimitError> {
    if number > max {
        return Err(ParseLimitError::TooLarge { number, max });
    }
    Ok(number)
}

/// A number, or a text with a unit, as `unhex.toml` may have it.
#[derive(Deserialize)]
#[serde(untagged)]
enum NumberOrText {
    Number(u64),
    Text(String),
}

macro_rules! unit {
    ($(#[$meta:meta])* $name:ident, $scales:expr, $known:literal, $max:expr) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
        #[serde(try_from = "NumberOrText")]
        pub struct $name(u64);

        impl FromStr for $name {
            type Err = ParseLimitError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::within(parse_scaled(text, $scales, $known)?)
            }
        }

        impl $name {
            fn within(number: u64) -> Result<Self, ParseLimitError> {
                within(number, $max).map(Self)
            }
        }

        impl TryFrom<NumberOrText> for $name {
            type Error = ParseLimitError;

            fn try_from(value: NumberOrText) -> Result<Self, Self::Error> {
                match value {
                    NumberOrText::Number(number) => Self::within(number),
                    NumberOrText::Text(text) => text.parse(),
                }
            }
        }
    };
}

unit!(
    /// A size: `512`, `64KiB`, `8GiB`.
    Bytes,
    &[("", 1), ("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)],
    "B, KiB, MiB, GiB, TiB",
    u64::MAX
);
unit!(
    /// A time: `30`, `30s`, `10m`, `1h`.
    Seconds,
    &[("", 1), ("s", 1), ("m", 60), ("min", 60), ("h", 3600)],
    "s, m, h",
    SECONDS_MAX
);
unit!(
    /// A plain number.
    Count, &[("", 1)], "none", u64::MAX
);

impl Unit for Bytes {
    type Value = u64;
    const PLACEHOLDER: &'static str = "SIZE";

    fn value(number: u64) -> u64 {
        number
    }

    fn show(number: u64) -> String {
        [
            (1 << 40, "TiB"),
            (1 << 30, "GiB"),
            (1 << 20, "MiB"),
            (1 << 10, "KiB"),
        ]
        .into_iter()
        .find(|(scale, _)| number >= *scale && number.is_multiple_of(*scale))
        .map_or_else(
            || format!("{number} B"),
            |(scale, unit)| format!("{} {unit}", number / scale),
        )
    }
}

impl Unit for Seconds {
    type Value = Duration;
    const PLACEHOLDER: &'static str = "TIME";

    fn value(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    fn show(number: u64) -> String {
        format!("{number} s")
    }
}

impl Seconds {
    /// The time that was set.
    pub fn duration(self) -> Duration {
        Self::value(self.0)
    }
}

impl Unit for Count {
    type Value = usize;
    const PLACEHOLDER: &'static str = "N";

    fn value(number: u64) -> usize {
        usize::try_from(number).unwrap_or(usize::MAX)
    }

    fn show(number: u64) -> String {
        number.to_string()
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
    /// How long a debuginfod client waits for the first byte at most: it gives up at 90 s itself,
    /// and waits gladly until then.
    debuginfod_wait_seconds_max: Seconds = 80, "UNHEX_DEBUGINFOD_WAIT_SECONDS_MAX";
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
    /// Free space below which `/readyz` says no: one large upload and its conversion still fit.
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
    fn sizes_and_times_are_read_with_their_units() {
        assert_eq!("8GiB".parse(), Ok(Bytes(8 << 30)));
        assert_eq!("512".parse(), Ok(Bytes(512)));
        assert_eq!("10 m".parse(), Ok(Seconds(600)));
        assert_eq!("7".parse(), Ok(Count(7)));
    }

    #[test]
    fn nonsense_is_refused_with_the_known_units() {
        for text in ["", "GiB", "-1", "18446744073709551616", "99999999TiB"] {
            assert!(text.parse::<Bytes>().is_err(), "{text:?}");
        }
        let error = "3 parsecs".parse::<Seconds>().unwrap_err().to_string();
        assert_eq!(error, "unknown unit \"parsecs\": known are s, m, h");
    }

    #[test]
    fn a_time_that_no_clock_can_be_moved_by_is_refused() {
        assert_eq!("876000h".parse(), Ok(Seconds(876_000 * 3600)));
        for text in ["18446744073709551615", "5124095576030431h"] {
            let error = text.parse::<Seconds>().unwrap_err();
            assert!(matches!(error, ParseLimitError::TooLarge { .. }), "{error}");
        }
        assert!(
            toml::from_str::<LimitSettings>("body_stall_seconds_max = 9223372036854775807")
                .is_err()
        );
    }

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
    fn defaults_are_shown_in_their_largest_unit() {
        assert_eq!(Bytes::show(8 << 30), "8 GiB");
        assert_eq!(Bytes::show(3), "3 B");
        assert_eq!(Seconds::show(600), "600 s");
    }
}
