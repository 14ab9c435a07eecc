//! Who takes the samples: one seam, behind it what the kernel offers on this host.

#[cfg(target_arch = "x86_64")]
pub mod ebpf;
pub mod perf_copy;

use std::time::Duration;

pub use crate::refusal::EngineError;

use crate::processes::Processes;
use crate::sample::{Sample, Stop};

/// Takes samples of all processors until it is dropped.
///
/// An engine keeps its own tables of how to unwind, by the mappings that [`Processes`] has; it brings new processes,
/// mappings and ends of processes to it in the order in which they happened, with the samples between them.
pub trait Engine: std::fmt::Debug {
    /// A word for metrics and logs: `ebpf` or `perf_copy`.
    fn name(&self) -> &'static str;

    /// Hands out all samples that were taken since the last call, about in the order of their times, and does what is
    /// to be done for new mappings. Never waits; to be called every 100 to 500 ms, or the kernel's buffers run over.
    ///
    /// # Errors
    /// If the kernel's interface fails in a way that another call would not mend. What concerns one process or one
    /// binary is never an error but a [`Stop`] of its samples.
    fn poll(
        &mut self,
        processes: &mut Processes,
        sink: &mut dyn FnMut(&Processes, Sample),
    ) -> Result<(), EngineError>;

    /// Waits until there is something that [`Engine::poll`] should not let wait, as a process that began, but no longer than `at_most`: to be called
    /// between polls.
    ///
    /// # Errors
    /// As [`Engine::poll`].
    fn wait(&self, at_most: Duration) -> Result<(), EngineError>;

    /// Takes samples at another rate from now on.
    ///
    /// # Errors
    /// As [`Engine::poll`].
    fn set_rate(&mut self, samples_per_second: u32) -> Result<(), EngineError>;

    /// What it counted since its start.
    fn counters(&self) -> Counters;
}

/// What an engine counted since its start, and what it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Samples handed out, by the reason why their stacks end, in the order of [`Stop::ALL`].
    pub samples: [u64; Stop::ALL.len()],
    /// Samples that the kernel could not hand over.
    pub lost: u64,
    /// Records of new processes and mappings that the kernel could not hand over.
    pub lost_events: u64,
    /// Rows of unwind tables that are held, in all.
    pub table_rows: u64,
    /// Bytes that these tables take.
    pub table_bytes: u64,
    /// Binaries that have a table.
    pub binaries: u64,
    /// Tables that were put away for others, by a limit.
    pub evicted: u64,
}

impl Counters {
    /// Samples that end so.
    pub fn of(&self, stop: Stop) -> u64 {
        let counts = Stop::ALL.into_iter().zip(self.samples);
        let of_stop = counts.filter(|(other, _)| *other == stop);
        of_stop.map(|(_, count)| count).sum()
    }

    /// One more sample that ends so.
    pub fn count(&mut self, stop: Stop) {
        let place = Stop::ALL.iter().position(|&other| other == stop);
        if let Some(count) = place.and_then(|place| self.samples.get_mut(place)) {
            *count += 1;
        }
    }
}
