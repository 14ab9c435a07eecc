//! Samples of some seconds, gathered to be sent together.

use std::collections::BTreeMap;
use std::time::Instant;

use rustc_hash::FxHashMap;
use unhex_pprof::{
    Attribute, AttributeId, NewSample, Profile, ProfileOrigin, Profiles, Span, StackId, StringId,
    Value, ValueType,
};

use super::frames::{FileNames, Frames};
use super::stacks::{Namers, Reading, stack};
use crate::labels::{Known, Labels};
use crate::processes::Process;
use crate::sample::Sample;
use crate::upload::Sampled;

/// Samples of one batch, 16 bytes of memory each and what their stacks take: 256 processors at 19 Hz make 49,000 in 10 s. Beyond it the batch is
/// sent early.
const SAMPLES_MAX: usize = 1 << 16;
/// Frames of all its different stacks together: 4 MiB, and a message of about as many bytes.
const STACK_FRAMES_MAX: usize = 1 << 20;
/// Bytes of names that the kernel and runtimes gave: those of 50,000 functions.
const TEXT_BYTES_MAX: usize = 4 << 20;

/// Who takes the samples, as the message says.
const AGENT: &str = "unhex-agent";
const CPU: &str = "cpu";
const NANOSECONDS: &str = "nanoseconds";

/// Samples that are sent together.
#[derive(Debug, Default)]
pub struct Batch {
    frames: Frames,
    series: BTreeMap<Labels, FxHashMap<StackId, Observations>>,
    samples: usize,
    stack_frames: usize,
}

/// All samples of one stack of one label set.
#[derive(Debug, Default)]
struct Observations {
    times_unix_nanos: Vec<u64>,
    cpu_nanos: Vec<i64>,
}

/// Whose sample it is.
#[derive(Clone, Copy, Debug)]
pub struct Whose<'a> {
    /// What its process has mapped, if anything was seen of it.
    pub process: Option<&'a Process>,
    /// What is known of it.
    pub known: &'a Known,
    /// When it is looked at.
    pub now: Instant,
    /// What is to be added to `CLOCK_MONOTONIC` to get the time of day, in nanoseconds.
    pub unix_offset_nanos: u64,
}

/// The time that a batch is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// From when, in nanoseconds since 1970.
    pub start_unix_nanos: u64,
    /// For how long.
    pub duration_nanos: u64,
    /// The time between two samples of a processor that was asked for.
    pub sampling_nanos: u64,
}

impl Batch {
    /// An empty one, in which files are called so.
    pub fn new(file_names: FileNames) -> Self {
        Self {
            frames: Frames::new(file_names),
            ..Self::default()
        }
    }

    /// Adds a sample.
    pub fn add(&mut self, sample: &Sample, whose: Whose<'_>, namers: &mut Namers) {
        let mut reading = Reading {
            namers,
            process: whose.process,
            runtime: whose.known.runtime,
            now: whose.now,
        };
        let frames = stack(&mut self.frames, sample, &mut reading);
        let stacks_before = self.frames.builder.model().stack_count();
        let stack = self.frames.stack(&frames);
        if self.frames.builder.model().stack_count() > stacks_before {
            self.stack_frames += frames.len();
        }
        let labels = &whose.known.labels;
        if !self.series.contains_key(labels) {
            self.series.insert(labels.clone(), FxHashMap::default());
        }
        if let Some(stacks) = self.series.get_mut(labels) {
            let observations = stacks.entry(stack).or_default();
            let time = sample
                .time_monotonic_nanos
                .wrapping_add(whose.unix_offset_nanos);
            observations.times_unix_nanos.push(time);
            let nanos = i64::try_from(sample.period_nanos).unwrap_or(i64::MAX);
            observations.cpu_nanos.push(nanos);
        }
        self.samples += 1;
    }

    /// How many samples it has.
    pub fn len(&self) -> usize {
        self.samples
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.samples == 0
    }

    /// The binaries that were sampled, and a process that has each mapped.
    pub fn binaries(&self) -> &[Sampled] {
        self.frames.binaries()
    }

    /// Whether it is to be sent before its time.
    pub fn is_full(&self) -> bool {
        self.samples >= SAMPLES_MAX
            || self.stack_frames >= STACK_FRAMES_MAX
            || self.frames.text_bytes >= TEXT_BYTES_MAX
    }

    /// All samples, as a profile for each label set, which is its resource.
    pub fn into_profiles(self, period: Period) -> Profiles<'static> {
        let Self {
            mut frames, series, ..
        } = self;
        let cpu = frames.value_type(CPU, NANOSECONDS);
        for (labels, stacks) in series {
            let attributes = frames.attributes(&labels);
            let resource = frames.builder.attribute_list(&attributes);
            let profile = frames.profile(resource, vec![cpu], period);
            frames.builder.profile(profile);
            for (stack, observations) in sorted(stacks) {
                frames.builder.sample(NewSample {
                    stack,
                    values: &observations.cpu_nanos,
                    timestamps: &observations.times_unix_nanos,
                    ..NewSample::default()
                });
            }
        }
        frames.builder.finish()
    }

    /// All samples in one profile, with their labels on each: what a file of one host is.
    pub fn into_one_profile(self, period: Period) -> Profiles<'static> {
        let Self {
            mut frames, series, ..
        } = self;
        let counted = [
            frames.value_type("samples", "count"),
            frames.value_type(CPU, NANOSECONDS),
        ];
        let profile = frames.profile(Span::default(), counted.to_vec(), period);
        frames.builder.profile(profile);
        for (labels, stacks) in series {
            let attributes = frames.attributes(&labels);
            for (stack, observations) in sorted(stacks) {
                let rows = observations.cpu_nanos.iter();
                let values: Vec<i64> = rows.flat_map(|nanos| [1, *nanos]).collect();
                frames.builder.sample(NewSample {
                    stack,
                    attributes: &attributes,
                    values: &values,
                    ..NewSample::default()
                });
            }
        }
        frames.builder.finish()
    }
}

impl Frames {
    fn attributes(&mut self, labels: &Labels) -> Vec<AttributeId> {
        let mut attributes = Vec::new();
        for (key, value) in labels.iter() {
            let key = self.builder.string(key.to_owned());
            let value = Value::Text(self.builder.string(value.to_owned()));
            attributes.push(self.builder.attribute(Attribute {
                key,
                value,
                unit: StringId::EMPTY,
            }));
        }
        attributes
    }

    fn value_type(&mut self, name: &'static str, unit: &'static str) -> ValueType {
        ValueType {
            name: self.builder.string(name),
            unit: self.builder.string(unit),
        }
    }

    fn profile(&mut self, resource: Span, value_types: Vec<ValueType>, period: Period) -> Profile {
        Profile {
            value_types,
            period_type: Some(self.value_type(CPU, NANOSECONDS)),
            period: i64::try_from(period.sampling_nanos).unwrap_or_default(),
            time_unix_nanos: period.start_unix_nanos,
            duration_nanos: period.duration_nanos,
            resource,
            origin: ProfileOrigin {
                name: self.builder.string(AGENT),
                version: self.builder.string(env!("CARGO_PKG_VERSION")),
                attributes: Span::default(),
            },
            ..Profile::default()
        }
    }
}

/// In the order of the stacks' numbers, so that equal samples give equal bytes.
fn sorted(stacks: FxHashMap<StackId, Observations>) -> Vec<(StackId, Observations)> {
    let mut stacks: Vec<_> = stacks.into_iter().collect();
    stacks.sort_unstable_by_key(|(stack, _)| *stack);
    stacks
}
