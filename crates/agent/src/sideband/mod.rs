//! What processes do, as the kernel tells it: they begin, map files, run other programs, end.
//!
//! Each processor has a ring of such records. They are collected from all of them and handed to [`Processes`] in the
//! order of their times, up to the time of the sample that is looked at next, so that a sample meets the mappings that
//! its process had then. What a ring could not hold is mended by reading `/proc` anew.

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::monotonic_nanos;
use crate::perf_events::{PerProcessor, Record, SampledRegisters, Settings, Stamped, refused};
use crate::processes::{Backing, MappedFile, Processes};
use crate::refusal::EngineError;
use crate::sample::ProcessId;

/// Bytes of a ring: 4000 records of mappings with usual paths, as a storm of processes makes them in half a second on
/// one processor.
const RING_BYTES: usize = 512 << 10;

/// How much later than its time a record may show up: it is made with the time, then copied into the ring.
const LATE_NANOS: u64 = 1_000_000;

/// How often changes are followed at most: until they are, stacks of a process that began end at code that nobody knows.
const WAIT_LEAST: Duration = Duration::from_millis(20);

/// How often it is looked whether processors were switched on or off.
const PROCESSORS_NANOS: u64 = 10_000_000_000;

/// How often all of `/proc` may be read because records were lost.
const MEND_NANOS: u64 = 2_000_000_000;

/// Follows all processes of the host.
#[derive(Debug)]
pub struct Sideband {
    events: PerProcessor,
    /// In the order of their times, but for the newest ones.
    waiting: VecDeque<(u64, Change)>,
    lost: u64,
    /// Whether records were lost since `/proc` was read.
    is_torn: bool,
    mended_nanos: u64,
    processors_nanos: u64,
}

/// A record, as it is kept until its time has come.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    Mapped {
        process: ProcessId,
        file: MappedFile,
    },
    Executed(ProcessId),
    Forked {
        parent: ProcessId,
        child: ProcessId,
    },
    Ended(ProcessId),
}

impl Sideband {
    /// Begins to follow, and reads what there is already. Whatever happens while that is read is told afterwards.
    ///
    /// # Errors
    /// If the kernel refuses, or `/proc` cannot be read.
    pub fn open(processes: &mut Processes) -> Result<Self, EngineError> {
        let opened = PerProcessor::open(Settings::changes(), RING_BYTES);
        let events = opened.map_err(|error| refused("to follow processes", error))?;
        for event in events.events() {
            event
                .enable()
                .map_err(|error| refused("to follow processes", error))?;
        }
        let now = monotonic_nanos();
        let read = processes.scan(now);
        read.map_err(|error| refused("to read /proc", error))?;
        Ok(Self {
            events,
            waiting: VecDeque::new(),
            lost: 0,
            is_torn: false,
            mended_nanos: now,
            processors_nanos: now,
        })
    }

    /// Waits until processes do something new, but no longer than `at_most`, and never shorter than 20 ms: a storm of processes is followed fifty times a
    /// second, and no more often. Whether there is something new.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn wait(&self, at_most: Duration) -> Result<bool, EngineError> {
        let least = WAIT_LEAST.min(at_most);
        std::thread::sleep(least);
        let waited = self.events.wait(at_most.saturating_sub(least));
        waited.map_err(|error| refused("to wait for what processes do", error))
    }

    /// Takes over what the kernel has told. Returns the time up to which that is all: what is later than that, another
    /// call may come in between of.
    ///
    /// # Errors
    /// If a processor that was switched on cannot be followed.
    pub fn collect(&mut self) -> Result<u64, EngineError> {
        let now = monotonic_nanos();
        if now.saturating_sub(self.processors_nanos) >= PROCESSORS_NANOS {
            self.processors_nanos = now;
            let followed = self.events.follow_processors();
            followed.map_err(|error| refused("to follow processes of a new processor", error))?;
        }
        for ring in self.events.rings() {
            ring.update();
            while let Some(bytes) = ring.peek() {
                let size = bytes.len();
                if let Some(stamped) = Stamped::parse(bytes, SampledRegisters(0)) {
                    if let Record::Lost(count) = stamped.record {
                        self.lost = self.lost.saturating_add(count);
                        self.is_torn = true;
                    }
                    let time = stamped.time_nanos;
                    self.waiting
                        .extend(change(stamped.record).map(|change| (time, change)));
                }
                ring.skip(size);
            }
            ring.release();
        }
        // Of two with the same time, from one ring, the first stays the first.
        self.waiting
            .make_contiguous()
            .sort_by_key(|&(time, _)| time);
        Ok(now.saturating_sub(LATE_NANOS))
    }

    /// Hands over all changes up to a time, which is to be one that [`Sideband::collect`] returned, or less. `changed`
    /// is called for each process that is another one, has other mappings or is gone since; [`Processes::get`] says
    /// which.
    pub fn advance(
        &mut self,
        processes: &mut Processes,
        until_nanos: u64,
        mut changed: impl FnMut(&Processes, ProcessId),
    ) {
        while let Some((time, _)) = self.waiting.front()
            && *time <= until_nanos
            && let Some((time, change)) = self.waiting.pop_front()
        {
            let process = apply(change, time, processes);
            changed(processes, process);
        }
    }

    /// Forgets processes that ended some time ago, and reads `/proc` anew if records were lost; `changed` as in
    /// [`Sideband::advance`]. To be called after it, once a poll.
    pub fn tidy(
        &mut self,
        processes: &mut Processes,
        mut changed: impl FnMut(&Processes, ProcessId),
    ) {
        let now = monotonic_nanos();
        let mut gone = Vec::new();
        processes.forget_ended(now, |id| gone.push(id));
        if self.is_torn && now.saturating_sub(self.mended_nanos) >= MEND_NANOS {
            self.is_torn = false;
            self.mended_nanos = now;
            let before: Vec<ProcessId> = processes.iter().map(|(id, _)| id).collect();
            if let Err(error) = processes.scan(now) {
                tracing::warn!(%error, "records of processes were lost, and /proc cannot be read: {error}");
            }
            // What was not read any more has ended without a record.
            for id in before {
                if processes
                    .get(id)
                    .is_some_and(|known| known.read_nanos() < now)
                {
                    processes.end(id, now);
                }
            }
            gone.extend(processes.iter().map(|(id, _)| id));
        }
        for id in gone {
            changed(processes, id);
        }
    }

    /// Records that the kernel could not hand over.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Bytes of memory that the rings take.
    pub fn ring_bytes(&self) -> usize {
        self.events.size_bytes()
    }
}

/// What a record means for what is known of processes; `None` for what changes nothing.
fn change(record: Record<'_>) -> Option<Change> {
    match record {
        // A process that the kernel has no number for any more is on its way out.
        Record::Mapped(mapped) if mapped.process.0 == u32::MAX => None,
        Record::Mapped(mapped) => Some(Change::Mapped {
            process: mapped.process,
            file: MappedFile {
                mapping: mapped.mapping,
                inode: mapped.inode,
                told: Some((mapped.device, mapped.generation)),
                backing: Backing::of_name(mapped.name),
            },
        }),
        Record::Executed(process) => Some(Change::Executed(process)),
        // Threads begin with a parent that is the same process, and end with other numbers than it.
        Record::Began(task) if task.process != task.parent => Some(Change::Forked {
            parent: task.parent,
            child: task.process,
        }),
        Record::Ended(task) if task.process.0 == task.thread.0 => Some(Change::Ended(task.process)),
        _ => None,
    }
}

/// Changes what is known; says of which process.
fn apply(change: Change, time: u64, processes: &mut Processes) -> ProcessId {
    match change {
        Change::Mapped { process, file } => {
            processes.map(process, &file, time);
            process
        }
        Change::Executed(process) => {
            processes.exec(process, time);
            process
        }
        Change::Forked { parent, child } => {
            processes.fork(parent, child, time);
            child
        }
        Change::Ended(process) => {
            processes.end(process, time);
            process
        }
    }
}

#[cfg(test)]
mod tests;
