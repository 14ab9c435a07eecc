//! From records to samples, with what is kept for the processes that are sampled again and again.

use rustc_hash::FxHashMap;

use super::data_cache::DataCache;
use super::stack::{Copied, Modules, Unwinding};
use super::{PerfCopySettings, period_nanos};
use crate::engine::Counters;
use crate::perf_events::SampleRecord;
use crate::processes::Processes;
use crate::sample::{FrameKind, ProcessId, Sample, Stop, UserFrame};

/// Processes that are ready to be unwound; what is sampled of others is made ready again, in some microseconds.
const READY_PROCESSES_MAX: usize = 1024;

/// Unwinds, and keeps what the next stack of a process needs.
pub(in crate::engine) struct Stacks {
    pub(super) settings: PerfCopySettings,
    pub(super) counters: Counters,
    unwinding: Unwinding,
    ready: FxHashMap<ProcessId, Modules>,
    data: DataCache,
    /// Stacks since the start.
    taken: u64,
    /// Evictions that the modules of processes know of.
    evictions: u64,
}

impl std::fmt::Debug for Stacks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stacks")
            .field("ready", &self.ready.len())
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}

impl Stacks {
    pub(in crate::engine) fn new(settings: PerfCopySettings) -> Self {
        Self {
            settings,
            counters: Counters::default(),
            unwinding: Unwinding::default(),
            ready: FxHashMap::default(),
            data: DataCache::new(settings.unwind_bytes_max),
            taken: 0,
            evictions: 0,
        }
    }

    /// What was counted, and what is held now.
    pub(in crate::engine) fn counters(&self) -> Counters {
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        Counters {
            table_bytes: number(self.data.size_bytes()),
            binaries: number(self.data.len()),
            evicted: self.data.evicted(),
            ..self.counters.clone()
        }
    }

    /// A process has changed: if it is gone, nothing is kept for it.
    pub(in crate::engine) fn follow(&mut self, processes: &Processes, id: ProcessId) {
        let generation = processes.get(id).map(crate::processes::Process::generation);
        if let Some(modules) = self.ready.get(&id)
            && generation.is_none_or(|generation| generation != modules.generation)
        {
            self.ready.remove(&id);
        }
    }

    /// The stack of a record.
    pub(in crate::engine) fn sample(
        &mut self,
        processes: &mut Processes,
        record: SampleRecord<'_>,
        time_nanos: u64,
    ) -> Sample {
        let (user, stop) = match record.registers {
            None => (Vec::new(), Stop::NoUserStack),
            Some(registers) => {
                let copied = Copied {
                    registers,
                    stack: record.stack,
                    is_cut: record.stack.len() == record.stack_room_bytes,
                };
                self.user_stack(processes, record.process, copied, time_nanos)
            }
        };
        self.counters.count(stop);
        Sample {
            time_monotonic_nanos: time_nanos,
            period_nanos: period_nanos(self.settings),
            process: record.process,
            thread: record.thread,
            processor: record.processor,
            kernel: record.kernel,
            user,
            stop,
        }
    }

    fn user_stack(
        &mut self,
        processes: &mut Processes,
        id: ProcessId,
        copied: Copied<'_>,
        time_nanos: u64,
    ) -> (Vec<UserFrame>, Stop) {
        processes.ensure(id, time_nanos);
        let found = self.frames(processes, id, copied);
        // A mapping that no record told of: one that was moved, say.
        if found.1 == Stop::NoMapping && processes.refresh(id, time_nanos) {
            return self.frames(processes, id, copied);
        }
        found
    }

    fn frames(
        &mut self,
        processes: &Processes,
        id: ProcessId,
        copied: Copied<'_>,
    ) -> (Vec<UserFrame>, Stop) {
        let Some(process) = processes.get(id) else {
            let address = super::arch::Start::of(&copied.registers).instruction;
            let only = UserFrame {
                address: unhex_symbols::address::ProcessAddress(address),
                kind: FrameKind::Exact,
            };
            return (vec![only], Stop::NoMapping);
        };
        self.let_go();
        self.taken = self.taken.wrapping_add(1);
        let modules = self.ready.entry(id).or_default();
        if modules.generation != process.generation() {
            *modules = Modules::of(process.generation());
        }
        modules.used = self.taken;
        let mut source = self.data.of_process(processes, id);
        self.unwinding.frames(
            process,
            modules,
            &mut source,
            copied,
            self.settings.frames_max,
        )
    }

    /// Lets go of processes that were not sampled for long, and of all where they hold what the cache let go of.
    fn let_go(&mut self) {
        if self.evictions != self.data.evicted() {
            self.evictions = self.data.evicted();
            self.ready.clear();
            self.unwinding = Unwinding::default();
        }
        if self.ready.len() >= READY_PROCESSES_MAX {
            let mut used: Vec<u64> = self.ready.values().map(|modules| modules.used).collect();
            let (_, &mut median, _) = used.select_nth_unstable(READY_PROCESSES_MAX / 2);
            self.ready.retain(|_, modules| modules.used > median);
        }
    }
}
