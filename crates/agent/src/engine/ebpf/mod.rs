//! Takes samples by a program in the kernel that unwinds by tables: whole stacks at once, however deep, and no stack is copied.
//!
//! At each tick the program (`bpf/unwind.bpf.c`) follows the stack of whoever runs on its processor, and puts addresses into a
//! ring. What it needs to know is written into its maps from here: what processes have mapped (`mappings`), as [`Sideband`]
//! tells of it, and how to unwind through each binary (`tables`), which is found out on a thread of its own (`builder`)
//! when a process is sampled that has the binary mapped. Of a stack that comes too early for that, as of a process that began since
//! the last poll, the first pages are copied and unwound here, as the other engine does it.

mod blocks;
mod builder;
mod deny_list;
mod kernel;
mod mappings;
mod record;
#[cfg(test)]
mod replay;
mod slot;
mod tables;
mod tree;

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use kernel::Kernel;
use mappings::Mappings;
use record::StackCopy;
use tables::{Asked, Tables};
use unhex_symbols::address::ProcessAddress;

use crate::clock::monotonic_nanos;
use crate::engine::perf_copy::{PerfCopySettings, Stacks};
use crate::engine::{Counters, Engine, EngineError};
use crate::perf_events::{SampleRecord, online_processors, refused};
use crate::processes::{Processes, Region};
use crate::sample::{FrameKind, ProcessId, Sample, Stop, UserFrame};
use crate::sideband::Sideband;

/// How often it is looked what else is to be done.
const TIDY_NANOS: u64 = 10_000_000_000;
/// For how many times its usual span a sample may stand: beyond that, the processor was taken away, and nothing ran.
const SPANS_MAX: u64 = 4;
const SECOND_NANOS: u64 = 1_000_000_000;
/// How long copies are unwound in one poll, before samples are handed out with the reason that the kernel found: when
/// large binaries begin to run, the ring fills while their unwind information is read.
const COPIES_NANOS_MAX: u64 = 100_000_000;
/// Frames of a stack that was copied; `USER_FRAMES_MAX` in `bpf/unwind.h`.
const FRAMES_MAX: usize = 512;
/// Bytes of unwind information that are kept for stacks that are copied: there are few of them, and the largest compiler
/// has 8 MB.
const COPIES_UNWIND_BYTES_MAX: usize = 24 << 20;

/// What can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EbpfSettings {
    /// Samples of each processor in a second.
    pub samples_per_second: u32,
    /// Rows of unwind tables at most, 8 bytes of the kernel's memory each. A host that compiles with everything needs 3
    /// million.
    pub table_rows_max: usize,
}

impl Default for EbpfSettings {
    fn default() -> Self {
        Self {
            // A prime, so that it is in step with nothing.
            samples_per_second: 19,
            table_rows_max: 8 << 20,
        }
    }
}

/// The engine.
#[derive(Debug)]
pub struct Ebpf {
    kernel: Kernel,
    sideband: Sideband,
    tables: Tables,
    mappings: Mappings,
    /// Unwinds copies, in this poll up to a time.
    stacks: Stacks,
    copies_until_nanos: u64,
    /// Samples that are newer than what is known of processes.
    waiting: VecDeque<(Sample, Option<StackCopy>)>,
    counters: Counters,
    samples_per_second: u32,
    tidied_nanos: u64,
}

impl Ebpf {
    /// Loads the program and begins to take samples.
    ///
    /// # Errors
    /// If this kernel has not what is needed (Linux 5.17 with BTF), does not allow it, or might not survive it.
    pub fn start(settings: EbpfSettings, processes: &mut Processes) -> Result<Self, EngineError> {
        deny_list::check()?;
        let processors = processors()?;
        let samples_per_second = settings.samples_per_second.max(1);
        let of_all = u64::try_from(processors.len()).unwrap_or(u64::MAX);
        let mut kernel = Kernel::load(of_all.saturating_mul(samples_per_second.into()))?;
        let sideband = Sideband::open(processes)?;
        let now = monotonic_nanos();
        let mut tables = Tables::new(&mut kernel, settings.table_rows_max)?;
        let mut mappings = Mappings::new();
        for (id, process) in processes.iter() {
            mappings.write(&mut kernel, &mut tables, (id, process), now)?;
        }
        kernel.run_on(&processors, samples_per_second)?;
        Ok(Self {
            kernel,
            sideband,
            tables,
            mappings,
            stacks: Stacks::new(PerfCopySettings {
                frames_max: FRAMES_MAX,
                unwind_bytes_max: COPIES_UNWIND_BYTES_MAX,
                ..PerfCopySettings::default()
            }),
            copies_until_nanos: 0,
            waiting: VecDeque::new(),
            counters: Counters::default(),
            samples_per_second,
            tidied_nanos: now,
        })
    }

    /// Hands out a sample, and has done what it shows to be missing.
    fn deliver(
        &mut self,
        processes: &mut Processes,
        (mut sample, copy): (Sample, Option<StackCopy>),
        now_nanos: u64,
    ) -> Result<Sample, EngineError> {
        sample.period_nanos = self.span(sample.period_nanos);
        if !sample.user.is_empty() {
            self.complete(processes, &mut sample, copy.as_ref(), now_nanos)?;
        }
        self.counters.count(sample.stop);
        Ok(sample)
    }

    /// Looks at a stack: were its mappings those of its process, and which tables did it use, or lack?
    fn complete(
        &mut self,
        processes: &mut Processes,
        sample: &mut Sample,
        copy: Option<&StackCopy>,
        now_nanos: u64,
    ) -> Result<(), EngineError> {
        let id = sample.process;
        if processes.ensure(id, now_nanos) && sample.stop == Stop::NoMapping {
            processes.refresh(id, now_nanos);
        }
        let Some(process) = processes.get(id) else {
            return Ok(());
        };
        self.mappings
            .write(&mut self.kernel, &mut self.tables, (id, process), now_nanos)?;
        let Some(written) = self.mappings.current(id, process) else {
            return Ok(());
        };
        if !written.is_of(process, sample.time_monotonic_nanos) {
            sample.user.truncate(1);
            sample.stop = Stop::NoMapping;
        }
        if let Some(copy) = copy
            && monotonic_nanos() < self.copies_until_nanos
        {
            unwind_copy(&mut self.stacks, processes, sample, copy);
        }
        self.note_use(processes, sample, now_nanos);
        Ok(())
    }

    /// Which tables a stack went through, and which it lacked.
    fn note_use(&mut self, processes: &Processes, sample: &Sample, now_nanos: u64) {
        let id = sample.process;
        let Some(process) = processes.get(id) else {
            return;
        };
        let Some(written) = self.mappings.current(id, process) else {
            return;
        };
        written.touch(now_nanos);
        for frame in &sample.user {
            if let Some((slot, _)) = written.slot_at(process, looked_up(*frame)) {
                self.tables.touch(slot, now_nanos);
            }
        }
        let mut ask = |slot, region: &Region| {
            let open = || processes.open(id, region);
            self.tables.ask(slot, now_nanos, &region.binary, open)
        };
        if !written.is_asked {
            let asked = written
                .slots(process)
                .map(|(slot, region)| ask(slot, region));
            let later = asked.filter(|&asked| asked == Asked::Later).count();
            written.is_asked = later == 0;
        }
        for frame in &sample.user {
            if let Some((slot, region)) = written.slot_at(process, looked_up(*frame)) {
                // Put away since, perhaps; where there is no room for a question the next sample asks.
                ask(slot, region);
            }
        }
    }

    /// For how long a sample stands: since the processor was looked at before, busy or not.
    fn span(&self, since_nanos: u64) -> u64 {
        let usual = SECOND_NANOS / u64::from(self.samples_per_second);
        match since_nanos {
            0 => usual,
            since => since.min(usual.saturating_mul(SPANS_MAX)),
        }
    }

    /// Writes what processes have mapped that changed.
    fn write_changed(
        &mut self,
        processes: &Processes,
        changed: &BTreeSet<ProcessId>,
        now_nanos: u64,
    ) -> Result<(), EngineError> {
        let (kernel, tables) = (&mut self.kernel, &mut self.tables);
        for &id in changed {
            self.stacks.follow(processes, id);
            match processes.get(id) {
                Some(process) => self
                    .mappings
                    .write(kernel, tables, (id, process), now_nanos)?,
                None => self.mappings.remove(kernel, tables, id, now_nanos)?,
            }
        }
        Ok(())
    }

    fn tidy(&mut self, processes: &Processes, now_nanos: u64) -> Result<(), EngineError> {
        self.mappings.wake(now_nanos);
        if now_nanos.saturating_sub(self.tidied_nanos) < TIDY_NANOS {
            return Ok(());
        }
        self.tidied_nanos = now_nanos;
        self.mappings
            .tidy(&mut self.kernel, &mut self.tables, processes, now_nanos)?;
        self.kernel.run_on(&processors()?, self.samples_per_second)
    }
}

impl Engine for Ebpf {
    fn name(&self) -> &'static str {
        "ebpf"
    }

    fn poll(
        &mut self,
        processes: &mut Processes,
        sink: &mut dyn FnMut(&Processes, Sample),
    ) -> Result<(), EngineError> {
        let until_nanos = self.sideband.collect()?;
        let now = monotonic_nanos();
        self.copies_until_nanos = now.saturating_add(COPIES_NANOS_MAX);
        let waiting = &mut self.waiting;
        self.kernel
            .drain(|sample, copy| waiting.push_back((sample, copy)));
        waiting
            .make_contiguous()
            .sort_by_key(|(sample, _)| sample.time_monotonic_nanos);
        let mut changed = BTreeSet::new();
        let mut note = |_: &Processes, id| changed.extend([id]);
        while let Some(time_nanos) = self
            .waiting
            .front()
            .map(|(sample, _)| sample.time_monotonic_nanos)
            && time_nanos <= until_nanos
            && let Some(sample) = self.waiting.pop_front()
        {
            self.sideband.advance(processes, time_nanos, &mut note);
            let sample = self.deliver(processes, sample, now)?;
            sink(processes, sample);
        }
        self.sideband.advance(processes, until_nanos, &mut note);
        self.sideband.tidy(processes, &mut note);
        self.write_changed(processes, &changed, now)?;
        self.tables.install(&mut self.kernel, now)?;
        self.tidy(processes, now)
    }

    fn wait(&self, at_most: Duration) -> Result<(), EngineError> {
        self.sideband.wait(at_most).map(drop)
    }

    fn set_rate(&mut self, samples_per_second: u32) -> Result<(), EngineError> {
        self.samples_per_second = samples_per_second.max(1);
        self.kernel.run_on(&processors()?, self.samples_per_second)
    }

    fn counters(&self) -> Counters {
        let mut counters = self.counters.clone();
        counters.lost = self.kernel.lost();
        counters.lost_events = self.sideband.lost();
        counters.table_bytes = self.kernel.table_bytes();
        self.tables.count(&mut counters);
        counters
    }
}

/// Unwinds the copy of a stack by what is known by now, where that leads further than what was known in the kernel.
fn unwind_copy(
    stacks: &mut Stacks,
    processes: &mut Processes,
    sample: &mut Sample,
    copy: &StackCopy,
) {
    let record = SampleRecord {
        process: sample.process,
        thread: sample.thread,
        processor: sample.processor,
        kernel: Vec::new(),
        registers: Some(copy.registers),
        stack: &copy.stack,
        stack_room_bytes: copy.stack.len() + usize::from(!copy.is_cut),
    };
    let unwound = stacks.sample(processes, record, sample.time_monotonic_nanos);
    if unwound.stop.is_complete() || unwound.user.len() > sample.user.len() {
        sample.user = unwound.user;
        sample.stop = unwound.stop;
    }
}

fn processors() -> Result<Vec<u32>, EngineError> {
    online_processors().map_err(|error| refused("list the processors", error))
}

/// The address at which a frame's region is looked up.
fn looked_up(frame: UserFrame) -> ProcessAddress {
    match frame.kind {
        FrameKind::Exact => frame.address,
        FrameKind::Return => ProcessAddress(frame.address.0.saturating_sub(1)),
    }
}
