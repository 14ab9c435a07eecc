//! The sweep: sorted addresses against the row blocks, each row's chain built once.

use std::ops::Deref;

use super::chains::narrow;
use super::work::Counts;
use super::{Batch, FRAMES_MAX, Span};
use crate::address::LinkAddress;
use crate::index::error::IndexError;
use crate::index::radix;
use crate::index::reader::{FoundRow, Hit, NodeBlock, Nodes, RowBlock, Rows, Segment, SymbolIndex};
use crate::model::NONE;

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

/// One pass over an index.
pub(super) struct Sweep<'a> {
    rows: Rows<'a>,
    pub(super) nodes: Nodes<'a>,
    /// The block that was decoded last.
    pub(super) node_block: Option<NodeBlock<'a>>,
    pub(super) batch: &'a mut Batch,
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
            self.batch.work.forget();
            return Ok(Span::default());
        }
        let length = self.batch.frames.len() - start;
        Ok(Span {
            start: narrow(start),
            length: narrow(length),
        })
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
