//! An engine that needs nothing of the kernel but perf: it has a part of the stack copied with each sample, and unwinds
//! the copy here, by framehop.
//!
//! What it costs is the copying, and memory for the unwind information of what runs. A copy has at most 65,000 bytes:
//! deeper stacks are truncated, and say so.

mod arch;
mod data_cache;
mod row;
mod stack;
mod stacks;
mod unwind_data;

use std::time::Duration;

use super::{Counters, Engine, EngineError};
use crate::clock::monotonic_nanos;
use crate::perf_events::{
    Event, PerProcessor, Record, Ring, SampledRegisters, Settings, Stamped, refused,
};
use crate::processes::Processes;
use crate::sample::Sample;
use crate::sideband::Sideband;
pub(in crate::engine) use stacks::Stacks;

/// Largest copy of a stack: a record has at most 65,535 bytes with all that it consists of.
pub const COPIED_STACK_BYTES_MAX: u32 = 65_000;

/// What a record has beside the copy: some 130 addresses of the kernel.
const RECORD_BYTES: u64 = 1200;

/// Largest ring of a processor: at a thousand samples a second.
const RING_BYTES_MAX: usize = 64 << 20;

/// How long samples can stay in their rings until they are lost.
const RING_MILLIS: u64 = 600;

/// How often it is looked whether processors were switched on or off.
const PROCESSORS_NANOS: u64 = 10_000_000_000;

/// How an engine takes samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerfCopySettings {
    /// Samples a second of each processor that works; 1 to 10,000.
    pub samples_per_second: u32,
    /// Bytes of the stack that are copied, at most [`COPIED_STACK_BYTES_MAX`].
    pub stack_bytes: u32,
    /// Frames of a stack, at most.
    pub frames_max: usize,
    /// Bytes of unwind information that are kept.
    pub unwind_bytes_max: usize,
}

impl Default for PerfCopySettings {
    /// 19 Hz is in step with nothing. With 32 KiB one of 500 stacks is truncated, except those of compilers, of which
    /// half are also with 64 KiB. The unwind information of all that a busy host runs has 60 MB.
    fn default() -> Self {
        Self {
            samples_per_second: 19,
            stack_bytes: 32 << 10,
            frames_max: 512,
            unwind_bytes_max: 128 << 20,
        }
    }
}

/// The engine.
#[derive(Debug)]
pub struct PerfCopy {
    settings: PerfCopySettings,
    sideband: Sideband,
    samples: PerProcessor,
    processors_nanos: u64,
    stacks: Stacks,
}

impl PerfCopy {
    /// Reads what runs, then begins to take samples.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn open(
        settings: PerfCopySettings,
        processes: &mut Processes,
    ) -> Result<Self, EngineError> {
        let settings = PerfCopySettings {
            samples_per_second: settings.samples_per_second.clamp(1, 10_000),
            // The kernel wants multiples of 8.
            stack_bytes: settings.stack_bytes.min(COPIED_STACK_BYTES_MAX) & !7,
            ..settings
        };
        let sideband = Sideband::open(processes)?;
        Ok(Self {
            settings,
            sideband,
            samples: open_samples(settings)?,
            processors_nanos: monotonic_nanos(),
            stacks: Stacks::new(settings),
        })
    }
}

impl Engine for PerfCopy {
    fn name(&self) -> &'static str {
        "perf_copy"
    }

    fn poll(
        &mut self,
        processes: &mut Processes,
        sink: &mut dyn FnMut(&Processes, Sample),
    ) -> Result<(), EngineError> {
        let until = self.sideband.collect()?;
        if until.saturating_sub(self.processors_nanos) >= PROCESSORS_NANOS {
            self.processors_nanos = until;
            let followed = self.samples.follow_processors();
            followed.map_err(|error| refused("to take samples of a new processor", error))?;
        }
        let Self {
            sideband,
            samples,
            stacks,
            ..
        } = self;
        samples.rings().for_each(Ring::update);
        while let Some((time, ring)) = samples.earliest(until) {
            sideband.advance(processes, time, |processes, id| {
                stacks.follow(processes, id);
            });
            let Some(bytes) = ring.peek() else {
                continue;
            };
            let size = bytes.len();
            match Stamped::parse(bytes, SampledRegisters::TO_UNWIND).map(|stamped| stamped.record) {
                Some(Record::Sampled(record)) => {
                    let sample = stacks.sample(processes, record, time);
                    sink(processes, sample);
                }
                Some(Record::Lost(count)) => stacks.counters.lost += count,
                _ => {}
            }
            ring.skip(size);
        }
        samples.rings().for_each(Ring::release);
        sideband.advance(processes, until, |processes, id| {
            stacks.follow(processes, id);
        });
        sideband.tidy(processes, |processes, id| stacks.follow(processes, id));
        stacks.counters.lost_events = sideband.lost();
        Ok(())
    }

    fn wait(&self, at_most: Duration) -> Result<(), EngineError> {
        self.sideband.wait(at_most).map(drop)
    }

    fn set_rate(&mut self, samples_per_second: u32) -> Result<(), EngineError> {
        let settings = PerfCopySettings {
            samples_per_second: samples_per_second.clamp(1, 10_000),
            ..self.settings
        };
        // Rings of another size are other rings: what is in these is left out.
        self.samples = open_samples(settings)?;
        self.settings = settings;
        self.stacks.settings = settings;
        Ok(())
    }

    fn counters(&self) -> Counters {
        self.stacks.counters()
    }
}

fn period_nanos(settings: PerfCopySettings) -> u64 {
    1_000_000_000 / u64::from(settings.samples_per_second.max(1))
}

/// Events that take samples from now on.
fn open_samples(settings: PerfCopySettings) -> Result<PerProcessor, EngineError> {
    let record_bytes = u64::from(settings.stack_bytes) + RECORD_BYTES;
    let ring_bytes =
        record_bytes * (u64::from(settings.samples_per_second) * RING_MILLIS / 1000 + 2);
    let ring_bytes = usize::try_from(ring_bytes)
        .unwrap_or(RING_BYTES_MAX)
        .min(RING_BYTES_MAX);
    let event = Settings::samples(
        period_nanos(settings),
        SampledRegisters::TO_UNWIND,
        settings.stack_bytes,
    );
    let opened = PerProcessor::open(event, ring_bytes).and_then(|samples| {
        samples.events().try_for_each(Event::enable)?;
        Ok(samples)
    });
    opened.map_err(|error| refused("to take samples", error))
}
