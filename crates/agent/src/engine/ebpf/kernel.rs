//! The program in the kernel and its maps: the only place that knows how they are loaded and written.
//!
//! Values of maps are arrays of integers, laid out as the structures of `bpf/unwind.h`; what is written by one system
//! call is read whole or not at all wherever that matters, for the writer orders its writes: nodes before the table
//! that points to them, blocks of mappings before the process that has them.

use std::collections::BTreeMap;
use std::error::Error;
use std::{fmt, io};

use aya::maps::{Array, ArrayOfMaps, HashMap, Map, MapData, MapError, PerCpuArray, RingBuf};
use aya::programs::ProgramError;
use aya::programs::perf_event::{
    PerfEvent, PerfEventConfig, PerfEventLinkId, PerfEventScope, SamplePolicy, SoftwareEvent,
};
use aya::{Ebpf, EbpfLoader};

use super::record::{self, Record, StackCopy};
use super::tree::Node;
use crate::engine::EngineError;
use crate::sample::Sample;

/// Built from `bpf/unwind.bpf.c` by `bpf/build.sh`.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../../../bpf/unwind.x86_64.o");

/// Nodes of a shard, 2 MiB; as in `bpf/unwind.h`.
pub(super) const NODES_PER_SHARD: u32 = 512;
/// Shards, 512 MiB; as in `bpf/unwind.h`.
pub(super) const SHARDS_MAX: u32 = 256;
/// Mappings of a block; as in `bpf/unwind.h`.
pub(super) const BLOCK_MAPPINGS: usize = 8;
/// Binaries that have a table, or a reason for none; as in `bpf/unwind.h`.
pub(super) const TABLES_MAX: u32 = 16_384;
/// Blocks of mappings, as a power of two; as in `bpf/unwind.h`.
pub(super) const BLOCKS_POWER: u32 = 15;
/// Processes; as in `bpf/unwind.h`.
pub(super) const PROCESSES_MAX: usize = 16_384;

/// Bytes of a block in the map.
const BLOCK_BYTES: u64 = 256;

/// Bytes of a copied stack with its sample, about.
const COPY_BYTES: u64 = 18 << 10;
/// For how long the ring holds samples, if all stacks are copied, as they are when much begins at once.
const RING_MILLIS: u64 = 400;
/// Bytes of the ring at least.
const RING_BYTES_MIN: u64 = 1 << 20;
/// Bytes of the ring at most: at that, hundreds of processors lose no samples, but copies.
const RING_BYTES_MAX: u64 = 16 << 20;

/// Lines of what the kernel explains that are passed on: the reason is in the last ones.
const LOG_LINES_MAX: usize = 12;

/// Places in the map `counts`.
const COUNT_LOST: u32 = 0;

/// Mappings as the kernel program reads them: start, end, origin and table of each.
pub(super) type Block = [u64; BLOCK_MAPPINGS * 4];

/// How the kernel program is to go on at code of a binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Not at all: there is no table, or not yet.
    Absent,
    /// By a table.
    Rows {
        root: super::tree::Root,
        /// Code that the table has nothing for has frame pointers.
        frame_pointers_in_gaps: FramePointersInGaps,
    },
    /// By frame pointers.
    FramePointers,
    /// By frame pointers, through code that was made while the process ran.
    Jit,
}

/// Where tables are written: the kernel's maps, or those of a test.
pub(super) trait TableMaps {
    /// Makes room for [`NODES_PER_SHARD`] more nodes.
    fn grow(&mut self) -> Result<(), EngineError>;

    fn put_node(&mut self, number: u32, node: &Node) -> Result<(), EngineError>;

    fn put_table(&mut self, slot: u32, way: Way) -> Result<(), EngineError>;
}

/// Whether code without unwind information is taken to have frame pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FramePointersInGaps {
    Yes,
    No,
}

impl Way {
    /// As `struct table` has it.
    pub(super) fn packed(self) -> u64 {
        let bytes = |state: u8, levels: u8, gaps: u8| {
            u64::from(state) << 32 | u64::from(levels) << 40 | u64::from(gaps) << 48
        };
        match self {
            Self::Absent => bytes(0, 0, 0),
            Self::Rows {
                root,
                frame_pointers_in_gaps,
            } => {
                let gaps = u8::from(frame_pointers_in_gaps == FramePointersInGaps::Yes);
                u64::from(root.node) | bytes(1, root.levels, gaps)
            }
            Self::FramePointers => bytes(2, 0, 0),
            Self::Jit => bytes(3, 0, 0),
        }
    }
}

/// The loaded program.
pub(super) struct Kernel {
    bpf: Ebpf,
    shards: ArrayOfMaps<MapData, Array<MapData, Node>>,
    shard: Vec<Array<MapData, Node>>,
    tables: Array<MapData, u64>,
    blocks: Array<MapData, Block>,
    processes: HashMap<MapData, u32, u64>,
    samples: RingBuf<MapData>,
    counts: PerCpuArray<MapData, u64>,
    /// Copies whose samples come next, by processor.
    copies: BTreeMap<u32, StackCopy>,
    /// By processor.
    ticks: BTreeMap<u32, PerfEventLinkId>,
    samples_per_second: u32,
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel")
            .field("shards", &self.shard.len())
            .field("ticks", &self.ticks)
            .field("samples_per_second", &self.samples_per_second)
            .finish_non_exhaustive()
    }
}

impl Kernel {
    /// Loads the program, for so many samples a second of all processors together; it does not run yet.
    pub(super) fn load(samples_per_second: u64) -> Result<Self, EngineError> {
        let mut loader = EbpfLoader::new();
        if let Ok(bytes) = u32::try_from(ring_bytes(samples_per_second)) {
            loader.map_max_entries("samples", bytes);
        }
        let loaded = loader.load(OBJECT);
        let mut bpf = loaded.map_err(|error| refused("load the maps of the unwinder", &error))?;
        program(&mut bpf)?.load().map_err(not_loaded)?;
        let map_error = |error: MapError| refused("open the maps of the unwinder", &error);
        Ok(Self {
            shards: ArrayOfMaps::try_from(map(&mut bpf, "shards")?).map_err(map_error)?,
            shard: Vec::new(),
            tables: Array::try_from(map(&mut bpf, "tables")?).map_err(map_error)?,
            blocks: Array::try_from(map(&mut bpf, "blocks")?).map_err(map_error)?,
            processes: HashMap::try_from(map(&mut bpf, "processes")?).map_err(map_error)?,
            samples: RingBuf::try_from(map(&mut bpf, "samples")?).map_err(map_error)?,
            counts: PerCpuArray::try_from(map(&mut bpf, "counts")?).map_err(map_error)?,
            bpf,
            copies: BTreeMap::new(),
            ticks: BTreeMap::new(),
            samples_per_second: 0,
        })
    }

    /// Runs the program so often a second on each of these processors, and no others.
    pub(super) fn run_on(
        &mut self,
        processors: &[u32],
        samples_per_second: u32,
    ) -> Result<(), EngineError> {
        let program = program(&mut self.bpf)?;
        let is_other_rate = self.samples_per_second != samples_per_second;
        let stale: Vec<u32> = self
            .ticks
            .keys()
            .filter(|cpu| is_other_rate || !processors.contains(cpu))
            .copied()
            .collect();
        for processor in stale {
            if let Some(tick) = self.ticks.remove(&processor) {
                let detached = program.detach(tick);
                detached.map_err(|error| refused("end samples of a processor", &error))?;
            }
        }
        self.samples_per_second = samples_per_second;
        for &cpu in processors {
            if self.ticks.contains_key(&cpu) {
                continue;
            }
            let attached = program.attach(
                PerfEventConfig::Software(SoftwareEvent::CpuClock),
                PerfEventScope::AllProcessesOneCpu { cpu },
                SamplePolicy::Frequency(samples_per_second.into()),
                false,
            );
            match attached {
                Ok(tick) => drop(self.ticks.insert(cpu, tick)),
                Err(error) => {
                    let error = refused("take samples of a processor", &error);
                    if !is_gone(&error) {
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }

    /// Bytes that all nodes and mappings take.
    pub(super) fn table_bytes(&self) -> u64 {
        let nodes = u64::try_from(self.shard.len()).unwrap_or(0) * u64::from(NODES_PER_SHARD);
        let node_bytes = u64::try_from(size_of::<Node>()).unwrap_or(0);
        nodes * node_bytes + (BLOCK_BYTES << BLOCKS_POWER)
    }

    pub(super) fn put_block(&mut self, number: u32, block: &Block) -> Result<(), EngineError> {
        let set = self.blocks.set(number, block, 0);
        set.map_err(|error| refused("write the mappings of a process", &error))
    }

    /// From now on a process has so many mappings, in blocks from one on.
    pub(super) fn put_process(
        &mut self,
        id: u32,
        first_block: u32,
        mappings: u32,
    ) -> Result<(), EngineError> {
        let slice = u64::from(first_block) | u64::from(mappings) << 32;
        let set = self.processes.insert(id, slice, 0);
        set.map_err(|error| refused("write the mappings of a process", &error))
    }

    pub(super) fn remove_process(&mut self, id: u32) -> Result<(), EngineError> {
        match self.processes.remove(&id) {
            Ok(()) | Err(MapError::KeyNotFound) => Ok(()),
            Err(error) => Err(refused("remove the mappings of a process", &error)),
        }
    }

    /// All samples that are in the ring, with copies of their stacks where there are some.
    pub(super) fn drain(&mut self, mut sink: impl FnMut(Sample, Option<StackCopy>)) {
        while let Some(bytes) = self.samples.next() {
            match record::record(&bytes) {
                Some(Record::Copy(copy)) => drop(self.copies.insert(copy.processor, copy)),
                Some(Record::Sample { sample, has_copy }) => {
                    let copy = self.copies.remove(&sample.processor);
                    let is_its = |copy: &StackCopy| {
                        has_copy && copy.time_nanos == sample.time_monotonic_nanos
                    };
                    let copy = copy.filter(is_its);
                    sink(sample, copy);
                }
                None => {}
            }
        }
    }

    /// Samples that the ring had no room for.
    pub(super) fn lost(&self) -> u64 {
        let counts = self.counts.get(&COUNT_LOST, 0);
        counts.map_or(0, |of_processors| of_processors.iter().sum())
    }
}

impl TableMaps for Kernel {
    fn grow(&mut self) -> Result<(), EngineError> {
        let place = u32::try_from(self.shard.len()).unwrap_or(u32::MAX);
        let made = Array::create(NODES_PER_SHARD, 0);
        let shard = made.map_err(|error| refused("make room for unwind tables", &error))?;
        let set = self.shards.set(place, &shard, 0);
        set.map_err(|error| refused("make room for unwind tables", &error))?;
        self.shard.push(shard);
        Ok(())
    }

    fn put_node(&mut self, number: u32, node: &Node) -> Result<(), EngineError> {
        let shard = usize::try_from(number / NODES_PER_SHARD).ok();
        let Some(shard) = shard.and_then(|shard| self.shard.get_mut(shard)) else {
            return Err(EngineError::Load(format!("there is no node {number}")));
        };
        let set = shard.set(number % NODES_PER_SHARD, node, 0);
        set.map_err(|error| refused("write unwind tables", &error))
    }

    fn put_table(&mut self, slot: u32, way: Way) -> Result<(), EngineError> {
        let set = self.tables.set(slot, way.packed(), 0);
        set.map_err(|error| refused("write unwind tables", &error))
    }
}

/// Bytes of the ring: a power of two, and whole pages.
fn ring_bytes(samples_per_second: u64) -> u64 {
    let copies = samples_per_second.saturating_mul(RING_MILLIS) / 1000;
    let bytes = copies.saturating_mul(COPY_BYTES);
    bytes
        .clamp(RING_BYTES_MIN, RING_BYTES_MAX)
        .next_power_of_two()
}

fn map(bpf: &mut Ebpf, name: &'static str) -> Result<Map, EngineError> {
    let map = bpf.take_map(name);
    map.ok_or_else(|| EngineError::Load(format!("it has no map `{name}`")))
}

fn program(bpf: &mut Ebpf) -> Result<&mut PerfEvent, EngineError> {
    let program = bpf.program_mut("sample_processor");
    let program = program.ok_or_else(|| EngineError::Load("it has no program".to_owned()))?;
    let program: Result<&mut PerfEvent, _> = program.try_into();
    program.map_err(|error| refused("load the unwinder", &error))
}

/// Why the program was not loaded: the kernel may not allow it, or not like it, and then it explains itself at length.
fn not_loaded(error: ProgramError) -> EngineError {
    match error {
        ProgramError::LoadError {
            io_error,
            verifier_log,
        } if !verifier_log.to_string().trim().is_empty() => {
            let log = verifier_log.to_string();
            let lines: Vec<&str> = log.lines().rev().take(LOG_LINES_MAX).collect();
            let end: Vec<&str> = lines.into_iter().rev().collect();
            EngineError::Load(format!("{io_error}: {}", end.join("; ")))
        }
        error => refused("load the unwinder", &error),
    }
}

/// Whether a processor was switched off meanwhile.
fn is_gone(error: &EngineError) -> bool {
    matches!(error, EngineError::Refused { source, .. } if source.raw_os_error() == Some(libc::ENODEV))
}

/// What the kernel said is at the end of a chain of errors.
fn refused(action: &'static str, error: &(dyn Error + 'static)) -> EngineError {
    let mut said = error.to_string();
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(code) = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::raw_os_error)
        {
            return EngineError::Refused {
                action,
                source: io::Error::from_raw_os_error(code),
                advice: matches!(code, libc::EACCES | libc::EPERM)
                    .then_some("it needs CAP_BPF and CAP_PERFMON, or root"),
            };
        }
        cause = error.source();
        if let Some(cause) = cause {
            said = format!("{said}: {cause}");
        }
    }
    EngineError::Load(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_is_as_large_as_the_rate_needs() {
        assert_eq!(ring_bytes(2 * 19), 1 << 20);
        assert_eq!(ring_bytes(2 * 99), 2 << 20);
        assert_eq!(ring_bytes(64 * 19), 16 << 20);
        assert_eq!(ring_bytes(u64::MAX), 16 << 20);
    }
}
