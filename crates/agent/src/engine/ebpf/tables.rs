//! Which binaries have an unwind table in the kernel: made when first sampled, put away when not sampled for longest.
//!
//! Each binary has a slot, which mappings of processes refer to; what is in the slot may change at any time, so that a
//! table that comes or goes is one write however many processes have the binary mapped.

use rustc_hash::FxHashMap;

use super::blocks::Nodes;
use super::builder::{Builder, Finished, Order, Outcome};
use super::kernel::{NODES_PER_SHARD, SHARDS_MAX, TABLES_MAX, TableMaps, Way};
use super::slot::{Content, Key, Slot, code};
use super::tree::{self, NODE_ENTRIES};
use crate::engine::{Counters, EngineError};
use crate::processes::{Binary, BinaryFile, BinaryKind};

/// The slot of binaries that nothing is known of.
pub(super) const SLOT_UNKNOWN: u32 = 0;
/// The slot of code that was made while a process ran.
pub(super) const SLOT_JIT: u32 = 1;

/// Tables that are made at one time; each has a file open.
const ORDERS_AT_ONCE: usize = 64;
/// How long a table that is used is kept, whoever needs room.
const KEPT_NANOS: u64 = 10_000_000_000;
/// How long a binary that could not be opened is not tried again: the next process that has it mapped may last longer.
const UNOPENED_NANOS: u64 = 1_000_000_000;
/// How long a table that could not be had is not tried again.
const RETRY_NANOS: u64 = 60_000_000_000;

/// Whether a table that is asked for is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// It is there, or will be, or cannot be.
    Done,
    /// Too many others are being made: ask again.
    Later,
}

/// The tables of all binaries.
#[derive(Debug)]
pub(super) struct Tables {
    by_key: FxHashMap<Key, u32>,
    slots: Vec<Slot>,
    nodes: Nodes,
    builder: Builder,
    orders: usize,
    /// A table that waits for nodes that rest.
    waiting: Option<Finished>,
    tokens: u64,
    rows: u64,
    binaries: u64,
    evicted: u64,
}

impl Tables {
    /// None yet, and never more than so many rows, rounded up to a shard.
    pub(super) fn new(maps: &mut dyn TableMaps, rows_max: usize) -> Result<Self, EngineError> {
        let nodes = u32::try_from(rows_max.div_ceil(NODE_ENTRIES)).unwrap_or(u32::MAX);
        let shards = nodes.div_ceil(NODES_PER_SHARD).clamp(1, SHARDS_MAX);
        let fixed = |content| Slot {
            key: None,
            token: 0,
            content,
            used_nanos: 0,
            processes: 1,
        };
        maps.put_table(SLOT_UNKNOWN, Way::Absent)?;
        maps.put_table(SLOT_JIT, Way::Jit)?;
        Ok(Self {
            by_key: FxHashMap::default(),
            slots: vec![fixed(Content::Settled), fixed(Content::Settled)],
            nodes: Nodes::new(shards * NODES_PER_SHARD),
            builder: Builder::start()?,
            orders: 0,
            waiting: None,
            tokens: 0,
            rows: 0,
            binaries: 0,
            evicted: 0,
        })
    }

    /// The slot of a binary, which one more process has mapped.
    pub(super) fn acquire(
        &mut self,
        maps: &mut dyn TableMaps,
        binary: &Binary,
        now_nanos: u64,
    ) -> Result<u32, EngineError> {
        let slot = self.slot_of(maps, binary, now_nanos)?;
        if let Some(slot) = self.slot_mut(slot) {
            slot.processes += 1;
        }
        Ok(slot)
    }

    /// One process less has the binary of a slot mapped.
    pub(super) fn release(&mut self, slot: u32) {
        if let Some(slot) = self.slot_mut(slot) {
            slot.processes = slot.processes.saturating_sub(1);
        }
    }

    /// A sample went through the binary of a slot.
    pub(super) fn touch(&mut self, slot: u32, now_nanos: u64) {
        if let Some(slot) = self.slot_mut(slot) {
            slot.used_nanos = now_nanos;
        }
    }

    /// Has a table made if there is none.
    pub(super) fn ask(
        &mut self,
        slot: u32,
        now_nanos: u64,
        binary: &Binary,
        open: impl FnOnce() -> Option<BinaryFile>,
    ) -> Asked {
        let is_full = self.orders >= ORDERS_AT_ONCE;
        let Some(entry) = self.slot_mut(slot) else {
            return Asked::Done;
        };
        match entry.content {
            Content::Idle => {}
            Content::Refused { until_nanos } if now_nanos >= until_nanos => {}
            _ => return Asked::Done,
        }
        if is_full {
            return Asked::Later;
        }
        entry.used_nanos = now_nanos;
        let (Some(file), Some(base)) = (open(), binary.segments.image_base()) else {
            let until_nanos = now_nanos.saturating_add(UNOPENED_NANOS);
            entry.content = Content::Refused { until_nanos };
            return Asked::Done;
        };
        entry.content = Content::Ordered;
        let token = entry.token;
        self.orders += 1;
        self.builder.order(Order {
            slot,
            token,
            file,
            code: code(binary),
            base: base.0,
        });
        Asked::Done
    }

    /// Takes over the tables that were made since.
    pub(super) fn install(
        &mut self,
        maps: &mut dyn TableMaps,
        now_nanos: u64,
    ) -> Result<(), EngineError> {
        self.nodes.wake(now_nanos);
        while let Some(finished) = self.waiting.take().or_else(|| self.builder.finished()) {
            let slot = self.slots.get(index(finished.slot));
            if slot.is_none_or(|slot| slot.token != finished.token) {
                self.orders = self.orders.saturating_sub(1);
                continue;
            }
            match self.put(maps, finished, now_nanos)? {
                None => self.orders = self.orders.saturating_sub(1),
                Some(unfinished) => {
                    self.waiting = Some(unfinished);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Adds what is held to counters.
    pub(super) fn count(&self, counters: &mut Counters) {
        counters.table_rows = self.rows;
        counters.binaries = self.binaries;
        counters.evicted = self.evicted;
    }

    fn put(
        &mut self,
        maps: &mut dyn TableMaps,
        finished: Finished,
        now_nanos: u64,
    ) -> Result<Option<Finished>, EngineError> {
        let slot = finished.slot;
        let (table, frame_pointers_in_gaps) = match &finished.outcome {
            Outcome::Table {
                table,
                frame_pointers_in_gaps,
            } => (table, *frame_pointers_in_gaps),
            Outcome::Bare => {
                maps.put_table(slot, Way::FramePointers)?;
                self.set(slot, Content::Settled);
                return Ok(None);
            }
            Outcome::Refused(reason) => {
                tracing::warn!(%reason, "a binary is not unwound through: {reason}");
                self.refuse(slot, now_nanos);
                return Ok(None);
            }
        };
        let count = tree::nodes(table.rows().len());
        let nodes = match self.room(maps, count, now_nanos)? {
            Room::Here(nodes) => nodes,
            Room::Soon => return Ok(Some(finished)),
            Room::None => {
                self.refuse(slot, now_nanos);
                return Ok(None);
            }
        };
        let rows = u64::try_from(table.rows().len()).unwrap_or(u64::MAX);
        let root = tree::write(table.rows(), &nodes, |number, node| {
            maps.put_node(number, node)
        })?;
        let Some(root) = root else {
            return Ok(None);
        };
        let way = Way::Rows {
            root,
            frame_pointers_in_gaps,
        };
        maps.put_table(slot, way)?;
        self.rows += rows;
        self.binaries += 1;
        self.set(slot, Content::Rows { rows, nodes });
        Ok(None)
    }

    fn room(
        &mut self,
        maps: &mut dyn TableMaps,
        count: usize,
        now_nanos: u64,
    ) -> Result<Room, EngineError> {
        loop {
            if let Some(nodes) = self.nodes.take(count) {
                return Ok(Room::Here(nodes));
            }
            if self.nodes.left() > 0 {
                maps.grow()?;
                self.nodes.add(NODES_PER_SHARD);
                continue;
            }
            if self.nodes.free_or_resting() >= count {
                return Ok(Room::Soon);
            }
            let is_spare = |slot: &&Slot| {
                matches!(slot.content, Content::Rows { .. })
                    && now_nanos.saturating_sub(slot.used_nanos) >= KEPT_NANOS
            };
            let spare = (0..).zip(&self.slots).filter(|(_, slot)| is_spare(slot));
            let Some((oldest, _)) = spare.min_by_key(|(_, slot)| slot.used_nanos) else {
                return Ok(Room::None);
            };
            self.evict(maps, oldest, now_nanos)?;
        }
    }

    /// Puts a table away.
    fn evict(
        &mut self,
        maps: &mut dyn TableMaps,
        slot: u32,
        now_nanos: u64,
    ) -> Result<(), EngineError> {
        maps.put_table(slot, Way::Absent)?;
        let Some(entry) = self.slot_mut(slot) else {
            return Ok(());
        };
        let content = std::mem::replace(&mut entry.content, Content::Idle);
        if let Content::Rows { rows, nodes } = content {
            self.nodes.give_back(nodes, now_nanos);
            self.rows = self.rows.saturating_sub(rows);
            self.binaries = self.binaries.saturating_sub(1);
            self.evicted += 1;
        }
        Ok(())
    }

    fn slot_of(
        &mut self,
        maps: &mut dyn TableMaps,
        binary: &Binary,
        now_nanos: u64,
    ) -> Result<u32, EngineError> {
        if binary.kind == BinaryKind::Anonymous {
            return Ok(SLOT_JIT);
        }
        let Some(key) = Key::of(binary) else {
            return Ok(SLOT_UNKNOWN);
        };
        if let Some(&slot) = self.by_key.get(&key) {
            return Ok(slot);
        }
        self.tokens += 1;
        let new = Slot {
            key: Some(key.clone()),
            token: self.tokens,
            content: Content::Idle,
            used_nanos: now_nanos,
            processes: 0,
        };
        let Some(slot) = self.free_slot(maps, now_nanos)? else {
            return Ok(SLOT_UNKNOWN);
        };
        match self.slot_mut(slot) {
            Some(place) => *place = new,
            None => self.slots.push(new),
        }
        self.by_key.insert(key, slot);
        Ok(slot)
    }

    /// A slot that nobody uses: a new one, or that of the binary that nobody has mapped for longest.
    fn free_slot(
        &mut self,
        maps: &mut dyn TableMaps,
        now_nanos: u64,
    ) -> Result<Option<u32>, EngineError> {
        let next = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        if next < TABLES_MAX {
            return Ok(Some(next));
        }
        let unused = (0..)
            .zip(&self.slots)
            .filter(|(_, slot)| slot.processes == 0);
        let Some((slot, _)) = unused.min_by_key(|(_, slot)| slot.used_nanos) else {
            return Ok(None);
        };
        self.evict(maps, slot, now_nanos)?;
        if let Some(key) = self.slot_mut(slot).and_then(|slot| slot.key.take()) {
            self.by_key.remove(&key);
        }
        Ok(Some(slot))
    }

    fn refuse(&mut self, slot: u32, now_nanos: u64) {
        let until_nanos = now_nanos.saturating_add(RETRY_NANOS);
        self.set(slot, Content::Refused { until_nanos });
    }

    fn set(&mut self, slot: u32, content: Content) {
        if let Some(slot) = self.slot_mut(slot) {
            slot.content = content;
        }
    }

    fn slot_mut(&mut self, slot: u32) -> Option<&mut Slot> {
        self.slots.get_mut(index(slot))
    }
}

/// What there is of room for a table.
enum Room {
    Here(Vec<u32>),
    /// It was just made, and rests.
    Soon,
    /// All tables are in use.
    None,
}

fn index(slot: u32) -> usize {
    usize::try_from(slot).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
