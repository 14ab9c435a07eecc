//! Which tables are kept when there are more than there is room for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use unhex_build_id::Identity;
use unhex_testkit::fixture::Program;
use unhex_testkit::run;

use super::*;
use crate::engine::ebpf::tree::Node;

const SECOND: u64 = 1_000_000_000;
/// Tables of one node that there is room for.
const ROOM: u64 = 512;

/// What was written.
#[derive(Debug, Default)]
struct Written {
    shards: u32,
    nodes: BTreeMap<u32, Node>,
    ways: BTreeMap<u32, Way>,
}

impl TableMaps for Written {
    fn grow(&mut self) -> Result<(), EngineError> {
        self.shards += 1;
        Ok(())
    }

    fn put_node(&mut self, number: u32, node: &Node) -> Result<(), EngineError> {
        assert!(number < self.shards * NODES_PER_SHARD, "{number}");
        self.nodes.insert(number, *node);
        Ok(())
    }

    fn put_table(&mut self, slot: u32, way: Way) -> Result<(), EngineError> {
        self.ways.insert(slot, way);
        Ok(())
    }
}

impl Written {
    /// The nodes of tables that are there.
    fn roots(&self) -> Vec<u32> {
        let roots = self.ways.values().filter_map(|way| match way {
            Way::Rows { root, .. } => Some(root.node),
            _ => None,
        });
        roots.collect()
    }
}

/// One small program, that stands for many: each with an identity of its own.
struct Binaries {
    bytes: Arc<[u8]>,
    segments: unhex_symbols::segments::LoadSegments,
}

impl Binaries {
    fn new() -> Self {
        let program = Program::c("int main(void) { return 0; }")
            .flags(&["-O2"])
            .build();
        let bytes: Arc<[u8]> = program.bytes().into();
        let segments = BinaryFile::of_memory(Arc::clone(&bytes))
            .unwrap()
            .segments();
        Self { bytes, segments }
    }

    fn binary(&self, number: u64) -> Binary {
        let id = format!("{number:040x}").parse().unwrap();
        Binary {
            name: format!("/program-{number}"),
            identity: Some(Identity::Gnu(id)),
            segments: self.segments.clone(),
            kind: BinaryKind::File,
        }
    }

    fn open(&self) -> Option<BinaryFile> {
        BinaryFile::of_memory(Arc::clone(&self.bytes))
    }

    /// Asks for a table at a time.
    fn ask(&self, tables: &mut Tables, maps: &mut Written, number: u64, now_nanos: u64) -> u32 {
        let binary = self.binary(number);
        let slot = tables.acquire(maps, &binary, now_nanos).unwrap();
        tables.touch(slot, now_nanos);
        let asked = tables.ask(slot, now_nanos, &binary, || self.open());
        assert_eq!(asked, Asked::Done);
        slot
    }

    /// Asks for a table at a time, and waits until there is one, or none to be had.
    fn have(&self, tables: &mut Tables, maps: &mut Written, number: u64, now_nanos: u64) -> u32 {
        let slot = self.ask(tables, maps, number, now_nanos);
        settle(tables, maps, now_nanos);
        slot
    }

    /// Has as many tables as there is room for, each asked for some seconds after the one before.
    fn fill(&self, tables: &mut Tables, maps: &mut Written, time: impl Fn(u64) -> u64) -> Vec<u32> {
        let mut slots = Vec::new();
        for number in 0..ROOM {
            slots.push(self.ask(tables, maps, number, time(number)));
            if number % 32 == 31 {
                settle(tables, maps, time(number));
            }
        }
        slots
    }
}

/// Waits for all tables that were asked for; one that waits for a node that rests is put by a later poll.
fn settle(tables: &mut Tables, maps: &mut Written, now_nanos: u64) {
    run::poll("tables", Duration::from_mins(1), || {
        tables.install(maps, now_nanos).unwrap();
        (tables.orders == 0 || tables.waiting.is_some()).then_some(())
    });
}

#[test]
fn tables_that_were_not_sampled_for_longest_give_way() {
    let (binaries, mut maps) = (Binaries::new(), Written::default());
    let mut tables = Tables::new(&mut maps, 1).unwrap();
    // Three seconds each: time enough for a node to rest before the next one is wanted.
    let time = |number| (number + 100) * 3 * SECOND;
    let mut slots = binaries.fill(&mut tables, &mut maps, time);
    for number in ROOM..ROOM + 20 {
        let now = time(number);
        slots.push(binaries.have(&mut tables, &mut maps, number, now));
        tables.install(&mut maps, now + 2 * SECOND).unwrap();
        let roots = maps.roots();
        let distinct: BTreeSet<u32> = roots.iter().copied().collect();
        assert_eq!(roots.len(), distinct.len(), "two tables share a node");
    }
    let mut counters = Counters::default();
    tables.count(&mut counters);
    assert_eq!((counters.binaries, counters.evicted), (ROOM, 20));
    assert_eq!(maps.shards, 1);
    let is_there = |slot: &u32| matches!(maps.ways.get(slot), Some(Way::Rows { .. }));
    let there: Vec<bool> = slots.iter().map(is_there).collect();
    assert!(
        !there[..20].contains(&true) && !there[20..].contains(&false),
        "{there:?}"
    );
    // What was put away comes back when it is sampled again.
    let now = time(ROOM + 100);
    let slot = binaries.have(&mut tables, &mut maps, 0, now);
    tables.install(&mut maps, now + 2 * SECOND).unwrap();
    assert_eq!(slot, slots[0]);
    assert!(matches!(maps.ways.get(&slot), Some(Way::Rows { .. })));
}

#[test]
fn tables_in_use_do_not_give_way() {
    let (binaries, mut maps) = (Binaries::new(), Written::default());
    let mut tables = Tables::new(&mut maps, 1).unwrap();
    let now = 1000 * SECOND;
    binaries.fill(&mut tables, &mut maps, |_| now);
    let slot = binaries.have(&mut tables, &mut maps, ROOM, now);
    assert_eq!(maps.ways.get(&slot), None);
    assert_eq!((tables.binaries, tables.evicted), (ROOM, 0));
    // It is not tried again at once, but later.
    binaries.have(&mut tables, &mut maps, ROOM, now + 20 * SECOND);
    assert_eq!(tables.evicted, 0);
    let later = now + 70 * SECOND;
    binaries.have(&mut tables, &mut maps, ROOM, later);
    tables.install(&mut maps, later + 2 * SECOND).unwrap();
    assert!(matches!(maps.ways.get(&slot), Some(Way::Rows { .. })));
}

#[test]
fn a_binary_that_could_not_be_opened_is_tried_again_soon() {
    let (binaries, mut maps) = (Binaries::new(), Written::default());
    let mut tables = Tables::new(&mut maps, 1).unwrap();
    let (binary, now) = (binaries.binary(7), 1000 * SECOND);
    let slot = tables.acquire(&mut maps, &binary, now).unwrap();
    assert_eq!(tables.ask(slot, now, &binary, || None), Asked::Done);
    let mut is_opened = false;
    let open = || {
        is_opened = true;
        None
    };
    tables.ask(slot, now + SECOND / 2, &binary, open);
    assert!(!is_opened);
    let had = binaries.have(&mut tables, &mut maps, 7, now + SECOND);
    assert_eq!(had, slot);
    assert!(matches!(maps.ways.get(&slot), Some(Way::Rows { .. })));
}

#[test]
fn memory_without_a_file_and_files_without_an_identity_have_slots_of_their_own() {
    let mut maps = Written::default();
    let mut tables = Tables::new(&mut maps, 1).unwrap();
    let jit = Binary::anonymous();
    assert_eq!(tables.acquire(&mut maps, &jit, 0).unwrap(), SLOT_JIT);
    let unknown = Binary {
        kind: BinaryKind::File,
        ..Binary::anonymous()
    };
    assert_eq!(
        tables.acquire(&mut maps, &unknown, 0).unwrap(),
        SLOT_UNKNOWN
    );
    assert_eq!(maps.ways.get(&SLOT_JIT), Some(&Way::Jit));
    assert_eq!(maps.ways.get(&SLOT_UNKNOWN), Some(&Way::Absent));
}
