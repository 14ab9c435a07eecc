//! Address ranges of at most 4 GiB, inside which 32 bits say where a row begins.

use super::rows::Rows;
use crate::index::bits::{Bytes, low32};

/// Bytes of a segment in the table: base, number of the first row block, offset of the last byte.
pub(in crate::index) const SEGMENT_BYTES: usize = 16;

/// The table of segments, in order of their bases.
#[derive(Clone, Copy, Debug)]
pub(in crate::index) struct Segments<'a> {
    pub(super) table: &'a [[u8; SEGMENT_BYTES]],
    /// Row blocks in the whole index.
    pub(super) blocks: usize,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(in crate::index) struct Segment {
    pub(in crate::index) base: u64,
    /// Offset of the last byte that a row covers.
    pub(in crate::index) last: u32,
    /// Row blocks: the first, and one past the last.
    pub(in crate::index) blocks: (usize, usize),
}

impl Segments<'_> {
    /// How many there are.
    pub(in crate::index) fn len(self) -> usize {
        self.table.len()
    }

    /// The segment that covers `address`, and the address as an offset from its base.
    #[inline]
    pub(in crate::index) fn find(self, address: u64) -> Option<(Segment, u32)> {
        let behind = self
            .table
            .partition_point(|entry| Self::base(entry) <= address);
        let segment = self.segment(behind.checked_sub(1)?)?;
        segment.offset_of(address).map(|offset| (segment, offset))
    }

    /// The `number`th segment.
    #[inline]
    pub(in crate::index) fn segment(self, number: usize) -> Option<Segment> {
        let entry = self.table.get(number)?;
        let first_block =
            |entry: &[u8; SEGMENT_BYTES]| u32::from_le_bytes(Bytes::new(entry, 8).chunk()) as usize;
        let end = self.table.get(number + 1).map_or(self.blocks, first_block);
        Some(Segment {
            base: Self::base(entry),
            last: u32::from_le_bytes(Bytes::new(entry, 12).chunk()),
            blocks: (first_block(entry).min(self.blocks), end.min(self.blocks)),
        })
    }

    #[inline]
    fn base(entry: &[u8; SEGMENT_BYTES]) -> u64 {
        u64::from_le_bytes(Bytes::new(entry, 0).chunk())
    }
}

impl Segment {
    /// The address as an offset from the base, when this segment covers it.
    #[inline]
    pub(in crate::index) fn offset_of(&self, address: u64) -> Option<u32> {
        let offset = address.checked_sub(self.base)?;
        (offset <= u64::from(self.last)).then_some(low32(offset))
    }

    /// First addresses of its blocks.
    #[inline]
    pub(in crate::index) fn starts<'a>(&self, rows: Rows<'a>) -> &'a [[u8; 4]] {
        rows.starts()
            .get(self.blocks.0..self.blocks.1)
            .unwrap_or_default()
    }

    /// The block whose rows cover `offset`.
    #[inline]
    pub(in crate::index) fn block_of(&self, rows: Rows<'_>, offset: u32) -> Option<usize> {
        let behind = self
            .starts(rows)
            .partition_point(|start| u32::from_le_bytes(*start) <= offset);
        Some(self.blocks.0 + behind.checked_sub(1)?)
    }
}
