//! A sample's stack as frames: the kernel's first, then the process's, then why it ends.

use std::path::PathBuf;
use std::time::Instant;

use unhex_pprof::FrameId;
use unhex_symbols::address::{ProcessAddress, ReturnAddress};

use super::KernelSymbols;
use super::frames::Frames;
use crate::processes::{Binary, BinaryKind, Process, Region};
use crate::runtimes::{Folded, LoopCache, PerfMaps, Runtime, Seen, fold};
use crate::sample::{FrameKind, Sample, UserFrame};

/// How memory is called that no file on a disk lies behind; runtimes keep code there that they map twice.
const MEMORY_PREFIXES: [&str; 5] = ["/memfd:", "/dev/zero", "/SYSV", "/anon_hugepage", "[anon"];

/// Who has names for code that the symbol server cannot know.
#[derive(Debug)]
pub struct Namers {
    /// The kernel's functions.
    pub kernel: KernelSymbols,
    /// What runtimes wrote of the code that they made.
    pub perf_maps: PerfMaps,
    /// Which functions interpret code.
    pub loops: LoopCache,
    /// Whether an address of the kernel was seen that has no name: a module was loaded since, perhaps.
    pub kernel_lacks: bool,
}

impl Namers {
    /// Nothing known yet of the processes under a folder, `/proc` but in tests.
    pub fn new(proc: impl Into<PathBuf>, kernel: KernelSymbols) -> Self {
        let proc = proc.into();
        Self {
            kernel,
            perf_maps: PerfMaps::new(proc.clone()),
            loops: LoopCache::new(proc),
            kernel_lacks: false,
        }
    }
}

/// What a stack is read with.
pub(super) struct Reading<'r> {
    pub(super) namers: &'r mut Namers,
    pub(super) process: Option<&'r Process>,
    pub(super) runtime: Option<Runtime>,
    pub(super) now: Instant,
}

/// The frames of a sample, leaf first.
pub(super) fn stack(
    frames: &mut Frames,
    sample: &Sample,
    reading: &mut Reading<'_>,
) -> Vec<FrameId> {
    let mut stack = Vec::with_capacity(sample.kernel.len() + sample.user.len() + 1);
    for (depth, address) in sample.kernel.iter().enumerate() {
        let address = if depth == 0 {
            *address
        } else {
            address.saturating_sub(1)
        };
        let symbol = reading.namers.kernel.at(address);
        stack.push(frames.kernel(symbol));
        reading.namers.kernel_lacks |= symbol.is_none();
    }
    let process = reading.process;
    let seen: Vec<Seen<Option<(&Region, ProcessAddress)>>> = sample
        .user
        .iter()
        .map(|frame| {
            let address = code_address(*frame);
            let region = process.and_then(|process| process.region_at(address));
            reading.seen(sample, address, region)
        })
        .collect();
    for frame in fold(seen, reading.runtime) {
        stack.push(match frame {
            Folded::Native(Some(place)) => frames.native(sample.process, place),
            Folded::Native(None) => frames.unplaced(),
            Folded::Named(name) => frames.named(reading.runtime, &name),
            Folded::Missing(runtime) => frames.missing(runtime),
        });
    }
    if !sample.stop.is_complete() {
        stack.push(frames.stopped(sample.stop));
    }
    stack
}

/// A byte of the instruction that ran, or of the call.
fn code_address(frame: UserFrame) -> ProcessAddress {
    match frame.kind {
        FrameKind::Exact => frame.address,
        FrameKind::Return => ReturnAddress(frame.address).call_site(),
    }
}

impl Reading<'_> {
    fn seen<'p>(
        &mut self,
        sample: &Sample,
        address: ProcessAddress,
        region: Option<&'p Region>,
    ) -> Seen<Option<(&'p Region, ProcessAddress)>> {
        let Some(region) = region else {
            return Seen::Native(None);
        };
        if was_made_by_process(&region.binary) {
            let name = self
                .namers
                .perf_maps
                .name(sample.process, address.0, self.now);
            return Seen::JustInTime(name.map(str::to_owned));
        }
        let linked = region.link_address(address);
        let interprets = self.runtime.zip(linked).is_some_and(|(runtime, linked)| {
            let whose = (sample.process, runtime);
            self.namers.loops.interprets(whose, &region.binary, linked)
        });
        if interprets {
            return Seen::InterpreterLoop;
        }
        Seen::Native(Some((region, address)))
    }
}

/// Whether code was written while the process ran.
fn was_made_by_process(binary: &Binary) -> bool {
    let is_memory = || {
        MEMORY_PREFIXES
            .iter()
            .any(|prefix| binary.name.starts_with(prefix))
    };
    match binary.kind {
        BinaryKind::Anonymous => true,
        // A program that runs from memory is one all the same.
        BinaryKind::File => binary.identity.is_none() && is_memory(),
        BinaryKind::Vdso => false,
    }
}
