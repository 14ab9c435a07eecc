//! The kernel program as a usual one, under sanitizers: over snapshots of processes, made-up ones, and hostile tables.
//!
//! `bpf/replay.c` is the same source with memory in place of maps. So the unwinder is tested without root, and a read beyond
//! the end of anything ends the test.

mod made_up;
mod recorded;

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use unhex_testkit::{repository, run, tools};

use super::kernel::{
    BLOCK_MAPPINGS, BLOCKS_POWER, Block, NODES_PER_SHARD, PROCESSES_MAX, SHARDS_MAX, TABLES_MAX,
    Way,
};
use super::tree::{self, Node};
use crate::sample::Stop;
use crate::table::Row;

/// The program, compiled once for all tests of this process.
fn program() -> PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let output =
            repository::target_tmp("replay").join(format!("replay-{}", std::process::id()));
        let mut compiler = Command::new(tools::GCC.path());
        compiler.current_dir(repository::root().join("crates/agent/bpf"));
        compiler.args([
            "-g",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Wno-unknown-pragmas",
            "-Werror",
        ]);
        compiler.args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]);
        // As clang does for BPF, where loads and stores are of any type.
        compiler.args(["-fno-strict-aliasing", "replay.c", "-o"]);
        run::succeed(compiler.arg(&output));
        output
    };
    PROGRAM.get_or_init(build).clone()
}

fn replay(arguments: &[&str]) -> String {
    let mut command = Command::new(program());
    // What it allocates is there until it ends.
    command
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .args(arguments);
    run::succeed(&mut command).text()
}

/// A process at one moment, with all that the kernel program would have of it.
#[derive(Clone, Debug, Default)]
struct Snapshot {
    address: u64,
    stack: u64,
    frame: u64,
    memory: Vec<(u64, Vec<u8>)>,
    nodes: Vec<Node>,
    tables: Vec<Way>,
    /// Start, end, origin and table of each.
    mappings: Vec<[u64; 4]>,
    hit: Hit,
}

/// Where the sample hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Hit {
    #[default]
    User,
    Kernel,
}

/// What came out: why it ends, how many frames of the kernel, and addresses with their marks.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Unwound {
    stop: Stop,
    kernel_frames: usize,
    addresses: Vec<u64>,
    /// Whether the stack was copied, for the engine to try again.
    is_copied: bool,
}

/// The mark of addresses that ran or were interrupted.
const EXACT: u64 = 1 << 63;

impl Snapshot {
    /// Adds a table; returns its number.
    fn add_rows(&mut self, rows: &[Row], way: impl FnOnce(tree::Root) -> Way) -> u64 {
        let first = u32::try_from(self.nodes.len()).unwrap();
        let numbers: Vec<u32> = (first..).take(tree::nodes(rows.len())).collect();
        let nodes = &mut self.nodes;
        let root = tree::write(rows, &numbers, |number, node| {
            assert_eq!(usize::try_from(number), Ok(nodes.len()));
            nodes.push(*node);
            Ok::<_, std::convert::Infallible>(())
        });
        let root = root.unwrap().unwrap();
        self.add_table(way(root))
    }

    fn add_table(&mut self, way: Way) -> u64 {
        self.tables.push(way);
        u64::try_from(self.tables.len() - 1).unwrap()
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut put =
            |numbers: &[u64]| bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        let count = |length: usize| u64::try_from(length).unwrap();
        let user_segment = 0x33;
        put(&[self.address, self.stack, self.frame, user_segment]);
        put(&[u64::from(self.hit == Hit::Kernel), count(self.memory.len())]);
        for (start, content) in &self.memory {
            bytes.extend(
                [*start, count(content.len())]
                    .iter()
                    .flat_map(|number| number.to_le_bytes()),
            );
            bytes.extend(content);
        }
        bytes.extend(count(self.nodes.len()).to_le_bytes());
        bytes.extend(
            self.nodes
                .iter()
                .flatten()
                .flat_map(|number| number.to_le_bytes()),
        );
        let mut put =
            |numbers: &[u64]| bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        put(&[count(self.tables.len())]);
        for way in &self.tables {
            put(&[way.packed()]);
        }
        put(&[
            count(self.mappings.len()),
            count(self.mappings.len().div_ceil(BLOCK_MAPPINGS)),
        ]);
        for chunk in self.mappings.chunks(BLOCK_MAPPINGS) {
            let mut block: Block = [0; BLOCK_MAPPINGS * 4];
            for (place, mapping) in block.chunks_exact_mut(4).zip(chunk) {
                place.copy_from_slice(mapping);
            }
            put(&block);
        }
        bytes
    }

    fn unwound(&self) -> Unwound {
        let folder = repository::target_tmp("replay");
        let file = tempfile::NamedTempFile::new_in(folder).unwrap();
        std::fs::write(file.path(), self.bytes()).unwrap();
        let said = replay(&["stack", file.path().to_str().unwrap()]);
        let mut lines = said.lines();
        let mut counts = lines
            .next()
            .unwrap()
            .split(' ')
            .map(|number| number.parse::<usize>().unwrap());
        Unwound {
            stop: Stop::ALL[counts.next().unwrap()],
            kernel_frames: counts.next().unwrap(),
            is_copied: counts.nth(1) == Some(1),
            addresses: lines
                .map(|line| u64::from_str_radix(line, 16).unwrap())
                .collect(),
        }
    }
}

#[test]
fn the_engine_and_the_kernel_program_agree_on_what_lies_where() {
    let layout = replay(&["layout"]);
    let limits = crate::limits::Limits::default();
    let expected = [
        "addresses_offset 40".to_owned(),
        "copied_stack_offset 64".to_owned(),
        format!("node_bytes {}", size_of::<Node>()),
        format!("nodes_per_shard {NODES_PER_SHARD}"),
        format!("shards_max {SHARDS_MAX}"),
        format!("block_bytes {}", size_of::<Block>()),
        format!("blocks_max {}", 1 << BLOCKS_POWER),
        format!("processes_max {PROCESSES_MAX}"),
        format!("mappings_max {}", limits.mappings_per_process_max),
        format!("table_bytes {}", size_of::<u64>()),
        format!("tables_max {TABLES_MAX}"),
        format!("process_bytes {}", size_of::<u64>()),
        format!("stops {}", Stop::ALL.len()),
    ];
    for line in expected {
        assert!(
            layout.lines().any(|said| said == line),
            "{line} is not in:\n{layout}"
        );
    }
}

#[test]
fn hostile_tables_mappings_and_stacks_end_every_stack_with_a_reason() {
    let mut stops = vec![0_u64; Stop::ALL.len()];
    for seed in ["1", "77", "4242", "900719"] {
        let said = replay(&["hostile", seed, "50000"]);
        for (all, line) in stops.iter_mut().zip(said.lines()) {
            *all += line.parse::<u64>().unwrap();
        }
    }
    assert_eq!(stops.iter().sum::<u64>(), 200_000);
    // Nothing is copied that could be cut short, and by chance no stack goes on for 512 frames.
    for (stop, count) in Stop::ALL.iter().zip(&stops) {
        let can_happen = !matches!(stop, Stop::Truncated | Stop::NoUserStack | Stop::Depth);
        assert_eq!(*count > 0, can_happen, "{stop:?} in {stops:?}");
    }
}
