//! Chains of frames: built from nodes once, copied where the same node comes again.
//!
//! Neighbouring rows belong to the same few nodes, and inlined calls share their callers, so most
//! chains end in one that was built a moment ago.

use super::sweep::Sweep;
use super::work::{Memo, NO_MEMO};
use super::{Batch, BatchFrame, FileEntry, FunctionEntry, INLINED, Slot};
use crate::index::error::IndexError;
use crate::index::layout::Section;
use crate::index::reader::{Call, DEPTH_MAX, Hit, NodeBlock, Place, RowFile};
use crate::model::NONE;

impl<'a> Sweep<'a> {
    /// Appends the chain of a row; every node is decoded once or copied from where it was met.
    pub(super) fn chain(&mut self, hit: Hit) -> Result<(), IndexError> {
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
            if let Some(memo) = self.batch.work.memo_of(node) {
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
            self.batch.work.remember(Memo { length, ..memo });
        }
        Ok(())
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

/// Sizes of an answer are below 2^32: frames are limited.
#[inline]
pub(super) fn narrow(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

impl Batch {
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
