//! One profile: what was counted, when, where and by whom, and what a value is in CPU time.

use super::{Profiles, Span, StringId};

/// A profile. Its samples are found by [`Profiles::samples`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// What each value of a sample is; OTLP has one, pprof any number.
    pub value_types: Vec<ValueType>,
    /// What the period is counted in, if the profiler says.
    pub period_type: Option<ValueType>,
    /// Events between two samples, 0 if unknown.
    pub period: i64,
    /// When it began, in nanoseconds since 1970.
    pub time_unix_nanos: u64,
    /// How long it took.
    pub duration_nanos: u64,
    /// Its own number, if the profiler gave one.
    pub id: Option<[u8; 16]>,
    /// The attributes of the resource: service, host, process.
    pub resource: Span,
    /// Who made it.
    pub origin: ProfileOrigin,
    /// The attributes of the profile itself.
    pub attributes: Span,
    /// pprof's comments, each a string.
    pub comments: Vec<StringId>,
    /// pprof's type to show first, as its name; empty if none.
    pub default_type: StringId,
    /// pprof's patterns of functions to leave out, and of those to keep all the same.
    pub dropped_frames: StringId,
    /// See `dropped_frames`.
    pub kept_frames: StringId,
    /// Its samples, see [`Profiles::samples`]; a builder sets it.
    pub samples: Span,
}

/// The instrumentation scope of OTLP.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProfileOrigin {
    /// The profiler.
    pub name: StringId,
    /// Its version.
    pub version: StringId,
    /// What else it says of itself.
    pub attributes: Span,
}

/// What is counted, and in which unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ValueType {
    /// As `cpu`, `samples`, `off_cpu`, `alloc_space`.
    pub name: StringId,
    /// As `nanoseconds`, `count`, `bytes`.
    pub unit: StringId,
}

impl Profile {
    /// How many samples it has.
    pub fn sample_count(&self) -> usize {
        self.samples.len()
    }
}

/// The units of time, in nanoseconds; the words are those of google/pprof's `measurement`.
const TIME_UNITS: [(&[&str], u64); 4] = [
    (&["nanoseconds", "nanosecond", "ns"], 1),
    (&["microseconds", "microsecond", "us", "µs"], 1_000),
    (&["milliseconds", "millisecond", "ms"], 1_000_000),
    (&["seconds", "second", "s"], 1_000_000_000),
];

impl Profiles<'_> {
    /// How many nanoseconds of CPU time one unit of a profile's value is, by place among its value types.
    ///
    /// A time on the CPU by its unit; a number of samples by the period, if that is a time on the CPU. None for everything
    /// else: time off the CPU, wall-clock time, bytes, cycles. CPU seconds are the total times this, over 10^9.
    pub fn cpu_nanos_per_value(&self, profile: &Profile, value_type: usize) -> Option<u64> {
        let counted = *profile.value_types.get(value_type)?;
        if let Some(nanos) = self.cpu_unit_nanos(counted) {
            return Some(nanos);
        }
        if !self.counts_samples(counted) {
            return None;
        }
        let unit_nanos = self.cpu_unit_nanos(profile.period_type?)?;
        let period = u64::try_from(profile.period)
            .ok()
            .filter(|&period| period > 0)?;
        period.checked_mul(unit_nanos)
    }

    /// The place of the value type that counts samples, which statistics need.
    pub fn sample_count_type(&self, profile: &Profile) -> Option<usize> {
        profile
            .value_types
            .iter()
            .position(|counted| self.counts_samples(*counted))
    }

    fn cpu_unit_nanos(&self, counted: ValueType) -> Option<u64> {
        if !matches!(self.text(counted.name), "cpu" | "cpu_time" | "process_cpu") {
            return None;
        }
        let unit = self.text(counted.unit);
        let found = TIME_UNITS.iter().find(|(words, _)| words.contains(&unit));
        found.map(|(_, nanos)| *nanos)
    }

    fn counts_samples(&self, counted: ValueType) -> bool {
        matches!(self.text(counted.name), "samples" | "sample" | "cpu")
            && matches!(self.text(counted.unit), "count" | "1" | "samples")
    }
}
