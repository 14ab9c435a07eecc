//! What a batch works with between reading addresses and giving the answer, kept for the next one.

use super::{FileEntry, FunctionEntry, Slot};
use crate::model::NONE;

/// Chains that are remembered: neighbouring rows belong to the same few nodes.
const MEMO_BITS: u32 = 10;

/// Memory of the sweep, kept between batches.
#[derive(Clone, Debug, Default)]
pub(super) struct Work {
    pub(super) keys: Vec<u64>,
    pub(super) spare: Vec<u64>,
    /// Addresses with their places, for an index of several segments.
    pub(super) sorted: Vec<(u64, u32)>,
    pub(super) memo: Vec<Memo>,
    /// For each function of the index its place in the answer and one, 0 when it is not there.
    /// All zero between batches.
    pub(super) function_slots: Vec<u32>,
    /// The same for files.
    pub(super) file_slots: Vec<u32>,
}

impl Work {
    /// Function and file slots of the index, all empty.
    pub(super) fn begin(&mut self, counts: Counts) {
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

    /// Where the chain of `node` lies, if it is remembered.
    #[inline]
    pub(super) fn memo_of(&self, node: u32) -> Option<Memo> {
        let memo = self.memo.get(memo_place(node)).copied();
        memo.filter(|memo| memo.node == node)
    }

    /// Remembers a chain, and forgets another one.
    #[inline]
    pub(super) fn remember(&mut self, memo: Memo) {
        if let Some(slot) = self.memo.get_mut(memo_place(memo.node)) {
            *slot = memo;
        }
    }

    /// Forgets all chains.
    pub(super) fn forget(&mut self) {
        self.memo.fill(NO_MEMO);
    }
}

/// Sizes of the tables of slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    pub(super) functions: u32,
    pub(super) files: u32,
}

/// Where the frames of a node's chain lie. All but the file, line and column of the first frame,
/// which are those of the row or of the call, depend on the node alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memo {
    pub(super) node: u32,
    pub(super) start: u32,
    pub(super) length: u32,
    pub(super) own_file: Slot,
}

pub(super) const NO_MEMO: Memo = Memo {
    node: NONE,
    start: 0,
    length: 0,
    own_file: NONE,
};

#[inline]
fn memo_place(node: u32) -> usize {
    (node.wrapping_mul(0x9e37_79b1) >> (u32::BITS - MEMO_BITS)) as usize
}
