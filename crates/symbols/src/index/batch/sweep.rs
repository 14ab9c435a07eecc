//! The sweep: sorted addresses against the row blocks, each row's chain built once.

use std::ops::Deref;

use super::{Batch, BatchFrame, FRAMES_MAX, FileEntry, FunctionEntry, INLINED, Slot, Span};
use crate::address::LinkAddress;
use crate::index::error::IndexError;
use crate::index::layout::Section;
use crate::index::radix;
use crate::index::reader::{
    Call, DEPTH_MAX, FoundRow, Hit, NodeBlock, Nodes, Place, RowBlock, RowFile, Rows, Segment,
    SymbolIndex,
};
use crate::model::NONE;

/// Chains that are remembered: neighbouring rows belong to the same few nodes.
const MEMO_BITS: u32 = 10;

/// Memory of the sweep, kept between batches.
#[derive(Clone, Debug, Default)]
pub(super) struct Work {
    keys: Vec<u64>,
    spare: Vec<u64>,
    /// Addresses with their places, for an index of several segments.
    sorted: Vec<(u64, u32)>,
    memo: Vec<Memo>,
    /// For each function of the index its place in the answer and one, 0 when it is not there.
    /// All zero between batches.
    function_slots: Vec<u32>,
    /// The same for files.
    file_slots: Vec<u32>,
}

/// Where the frames of a node's chain lie. All but the file, line and column of the first frame,
/// which are those of the row or of the call, depend on the node alone.
#[derive(Clone, Copy, Debug)]
struct Memo {
    node: u32,
    start: u32,
    length: u32,
    own_file: Slot,
}

const NO_MEMO: Memo = Memo {
    node: NONE,
    start: 0,
    length: 0,
    own_file: NONE,
};

impl Work {
    /// Function and file slots of the index, all empty.
    fn begin(&mut self, counts: Counts) {
        self.memo.clear();
        self.memo.resize(1 << MEMO_BITS, NO_MEMO);
        self.function_slots.resize(counts.functions as usize, 0);
        self.file_slots.resize(counts.files as usize, 0);
    }

    /// Empties the slots that were used.
    pub(super) fn clear_slots(&mut self, functions: &[FunctionEntry], files: &[FileEntry]) {
        for entry in functions {
            if let Some(slot) = self.function_slots.get_mut(entry.id as usize) {
                *slot = 0;
            }
        }
        for entry in files {
            if let Some(slot) = self.file_slots.get_mut(entry.id as usize) {
                *slot = 0;
            }
        }
    }

    /// Functions of the index with their places in the answer, in the order of the index.
    pub(super) fn functions_in_order(&self) -> impl Iterator<Item = (u32, Slot)> {
        let numbered = (0u32..).zip(&self.function_slots);
        numbered.filter_map(|(id, slot)| Some((id, slot.checked_sub(1)?)))
    }
}

#[derive(Clone, Copy, Debug)]
struct Counts {
    functions: u32,
    files: u32,
}

/// Builds spans and frames of all addresses.
pub(super) fn sweep<D: Deref<Target = [u8]>>(
    index: &SymbolIndex<D>,
    addresses: &[LinkAddress],
    batch: &mut Batch,
) -> Result<(), IndexError> {
    let counts = Counts {
        functions: index.names().count(),
        files: index.files().count(),
    };
    batch.work.begin(counts);
    let mut keys = std::mem::take(&mut batch.work.keys);
    let mut spare = std::mem::take(&mut batch.work.spare);
    let segments = index.segments();
    let swept = match (segments.len(), segments.segment(0)) {
        (0, _) | (_, None) => Ok(()),
        (1, Some(segment)) => {
            keys.clear();
            let places = addresses.iter().zip(0u32..);
            keys.extend(places.filter_map(|(address, place)| {
                Some(radix::key(segment.offset_of(address.0)?, place))
            }));
            radix::sort(&mut keys, &mut spare);
            Sweep::new(index, batch).segment(segment, &keys)
        }
        _ => sweep_segments(index, addresses, batch, &mut keys),
    };
    batch.work.keys = keys;
    batch.work.spare = spare;
    swept
}

/// An index of several segments: all addresses are sorted first, then each segment gets its run.
fn sweep_segments<D: Deref<Target = [u8]>>(
    index: &SymbolIndex<D>,
    addresses: &[LinkAddress],
    batch: &mut Batch,
    keys: &mut Vec<u64>,
) -> Result<(), IndexError> {
    let mut sorted = std::mem::take(&mut batch.work.sorted);
    sorted.clear();
    sorted.extend(addresses.iter().map(|address| address.0).zip(0u32..));
    sorted.sort_unstable();
    let segments = index.segments();
    let mut sweep = Sweep::new(index, batch);
    let mut rest = sorted.as_slice();
    let mut swept = Ok(());
    while let (Some(&(address, _)), true) = (rest.first(), swept.is_ok()) {
        let Some((segment, _)) = segments.find(address) else {
            rest = rest.get(1..).unwrap_or_default();
            continue;
        };
        let covered = rest.partition_point(|&(address, _)| segment.offset_of(address).is_some());
        let (run, behind) = rest.split_at(covered.max(1));
        rest = behind;
        keys.clear();
        keys.extend(
            run.iter().filter_map(|&(address, place)| {
                Some(radix::key(segment.offset_of(address)?, place))
            }),
        );
        swept = sweep.segment(segment, keys);
    }
    batch.work.sorted = sorted;
    swept
}

struct Sweep<'a> {
    rows: Rows<'a>,
    nodes: Nodes<'a>,
    node_block: Option<NodeBlock<'a>>,
    batch: &'a mut Batch,
}

/// A row block, and how far the row that was found last reaches.
#[derive(Clone, Copy)]
struct Cursor<'a> {
    block: RowBlock<'a>,
    found: FoundRow,
    /// Offset of the first address behind the block.
    end: u64,
}

impl<'a> Sweep<'a> {
    fn new<D: Deref<Target = [u8]>>(index: &'a SymbolIndex<D>, batch: &'a mut Batch) -> Self {
        Self {
            rows: index.rows(),
            nodes: index.nodes(),
            node_block: None,
            batch,
        }
    }

    /// Answers the keys of one segment, which are sorted.
    fn segment(&mut self, segment: Segment, keys: &[u64]) -> Result<(), IndexError> {
        let starts = segment.starts(self.rows);
        let mut behind = 0;
        let mut cursor: Option<Cursor<'a>> = None;
        let mut span = Span::default();
        let mut until = 0; // the first offset that `span` does not answer
        for &key in keys {
            let (offset, place) = radix::parts(key);
            if u64::from(offset) >= until {
                cursor = match cursor {
                    Some(held) if u64::from(offset) < held.end => Some(Cursor {
                        found: held.block.advance(held.found, offset),
                        ..held
                    }),
                    _ => {
                        behind = gallop(starts, behind, offset);
                        until = start_of(starts, behind);
                        self.open(segment, behind, offset, until)
                    }
                };
                span = Span::default();
                if let Some(held) = &cursor {
                    until = held.found.next.min(held.end);
                    span = self.span_of(held.block.hit(held.found.row))?;
                }
            }
            if let Some(slot) = self.batch.spans.get_mut(place as usize) {
                *slot = span;
            }
        }
        Ok(())
    }

    /// Opens the block before `behind`; `None` when it is damaged or there is none.
    #[inline]
    fn open(
        &mut self,
        segment: Segment,
        behind: usize,
        offset: u32,
        end: u64,
    ) -> Option<Cursor<'a>> {
        match self.rows.block(segment.blocks.0 + behind.checked_sub(1)?) {
            Ok(block) => Some(Cursor {
                found: block.find(offset),
                block,
                end,
            }),
            Err(error) => {
                self.batch.note_damage(error);
                None
            }
        }
    }

    /// Appends the frames of a row.
    #[inline]
    fn span_of(&mut self, hit: Hit) -> Result<Span, IndexError> {
        if hit.node == NONE {
            return Ok(Span::default());
        }
        let start = self.batch.frames.len();
        if start > FRAMES_MAX {
            return Err(IndexError::TooLarge {
                what: "frames",
                limit: FRAMES_MAX,
            });
        }
        if let Err(error) = self.chain(hit) {
            self.batch.note_damage(error);
            self.batch.frames.truncate(start);
            self.batch.work.memo.fill(NO_MEMO);
            return Ok(Span::default());
        }
        let length = self.batch.frames.len() - start;
        Ok(Span {
            start: narrow(start),
            length: narrow(length),
        })
    }

    /// Appends the chain of a row; every node is decoded once or copied from where it was met.
    fn chain(&mut self, hit: Hit) -> Result<(), IndexError> {
        let Hit {
            mut node,
            mut place,
        } = hit;
        let first = self.batch.frames.len();
        let mut fresh = [NO_MEMO; FRESH_MEMOS];
        let mut fresh_slots = fresh.iter_mut();
        for _ in 0..DEPTH_MAX {
            if node == NONE {
                break;
            }
            let memo = self.memo(node);
            if memo.node == node {
                self.batch.copy_chain(memo, place);
                break;
            }
            let decoded = self.node_block_of(node)?.node(node);
            let function = self.batch.function_slot(decoded.function)?;
            let own_file = self.batch.file_slot(decoded.own_file);
            let mut frame = self.batch.frame_at(place, own_file);
            frame.function = function;
            if let Some(slot) = fresh_slots.next() {
                let start = narrow(self.batch.frames.len());
                *slot = Memo {
                    node,
                    start,
                    length: 0,
                    own_file,
                };
            }
            node = match decoded.call {
                Call::Root { entry, .. } => {
                    frame.entry = entry;
                    NONE
                }
                Call::Inlined {
                    parent,
                    place: call,
                } => {
                    place = call;
                    parent
                }
            };
            self.batch.frames.push(frame);
        }
        if self.batch.frames.len() - first >= DEPTH_MAX {
            // Cut short: what lies behind the inner frames is not their whole chain.
            self.batch.frames.truncate(first + DEPTH_MAX);
            return Ok(());
        }
        let end = narrow(self.batch.frames.len());
        for memo in fresh.into_iter().take_while(|memo| memo.node != NONE) {
            let length = end.saturating_sub(memo.start);
            self.batch.remember(Memo { length, ..memo });
        }
        Ok(())
    }

    #[inline]
    fn memo(&self, node: u32) -> Memo {
        self.batch
            .work
            .memo
            .get(memo_place(node))
            .copied()
            .unwrap_or(NO_MEMO)
    }

    #[inline]
    fn node_block_of(&mut self, node: u32) -> Result<NodeBlock<'a>, IndexError> {
        if let Some(held) = self.node_block.filter(|block| block.has(node)) {
            return Ok(held);
        }
        let block = self.nodes.block_of(node)?;
        self.node_block = Some(block);
        Ok(block)
    }
}

/// Nodes of one chain whose own chains are remembered.
const FRESH_MEMOS: usize = 8;

#[inline]
fn memo_place(node: u32) -> usize {
    (node.wrapping_mul(0x9e37_79b1) >> (u32::BITS - MEMO_BITS)) as usize
}

/// Sizes of an answer are below 2^32: frames are limited.
#[inline]
fn narrow(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

impl Batch {
    #[inline]
    fn remember(&mut self, memo: Memo) {
        if let Some(slot) = self.work.memo.get_mut(memo_place(memo.node)) {
            *slot = memo;
        }
    }

    /// Appends a chain that is there already, its first frame at another place in the code.
    #[inline]
    fn copy_chain(&mut self, memo: Memo, place: Place) {
        let start = memo.start as usize;
        let Some(&BatchFrame {
            function, entry, ..
        }) = self.frames.get(start)
        else {
            return;
        };
        let frame = self.frame_at(place, memo.own_file);
        self.frames.push(BatchFrame {
            function,
            entry,
            ..frame
        });
        let end = start + memo.length as usize;
        if start + 1 < end && end <= self.frames.len() {
            self.frames.extend_from_within(start + 1..end);
        }
    }

    /// A frame at `place`, its function still to be filled in.
    #[inline]
    fn frame_at(&mut self, place: Place, own_file: Slot) -> BatchFrame {
        let Place { file, line, column } = place;
        let file = match file {
            RowFile::Own => own_file,
            RowFile::Other(file) => self.file_slot(file),
        };
        BatchFrame {
            function: NONE,
            file,
            line,
            column,
            entry: INLINED,
        }
    }

    #[inline]
    fn function_slot(&mut self, function: u32) -> Result<Slot, IndexError> {
        let slot = self.work.function_slots.get_mut(function as usize);
        let slot = slot.ok_or(IndexError::Damaged {
            section: Section::Nodes,
            offset: 0,
            what: "a node of a function that is not there",
        })?;
        if *slot == 0 {
            self.functions.push(FunctionEntry::new(function));
            *slot = narrow(self.functions.len());
        }
        Ok(*slot - 1)
    }

    /// The place of a file in the answer; [`NONE`] for those that are not there.
    #[inline]
    fn file_slot(&mut self, file: u32) -> Slot {
        let Some(slot) = self.work.file_slots.get_mut(file as usize) else {
            return NONE;
        };
        if *slot == 0 {
            self.files.push(FileEntry::new(file));
            *slot = narrow(self.files.len());
        }
        *slot - 1
    }
}

/// The first block that begins behind `offset`, looked for from `from` on in growing steps.
#[inline]
fn gallop(starts: &[[u8; 4]], from: usize, offset: u32) -> usize {
    let mut low = from;
    let mut step = 1;
    while start_of(starts, low + step) <= u64::from(offset) {
        low += step;
        step *= 2;
    }
    let window = starts
        .get(low..starts.len().min(low + step))
        .unwrap_or_default();
    low + window.partition_point(|start| u32::from_le_bytes(*start) <= offset)
}

/// The first offset of a block; beyond all offsets behind the last one.
#[inline]
fn start_of(starts: &[[u8; 4]], number: usize) -> u64 {
    starts
        .get(number)
        .map_or(u64::MAX, |start| u64::from(u32::from_le_bytes(*start)))
}
