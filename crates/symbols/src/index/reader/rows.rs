//! Which row covers an address: row blocks of 32, bit-packed, their addresses by Elias-Fano.
//!
//! A row's address is split into its low bits and an upper part; the upper parts of all rows are
//! one 64-bit word with the bit `upper + number of the row` set. Counting in that word finds the
//! row, and at most a few low parts are read.

use crate::index::bits::{Bytes, bits_at, low32, mask, select, u32_at};
use crate::index::error::IndexError;
use crate::index::layout::{PADDING_BYTES, Section};
use crate::model::NONE;

/// Rows in a block.
pub(in crate::index) const BLOCK_ROWS: usize = 32;

/// What a row says; the file only where it is not the node's own one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::index) struct Hit {
    /// Innermost call node, or [`NONE`].
    pub(in crate::index) node: u32,
    /// Where in the source.
    pub(in crate::index) place: Place,
}

/// A place in the source: of a row, or of a call in the code of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::index) struct Place {
    /// The file.
    pub(in crate::index) file: RowFile,
    /// Line, or 0.
    pub(in crate::index) line: u32,
    /// Column, or 0.
    pub(in crate::index) column: u32,
}

/// The file of a row or of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::index) enum RowFile {
    /// The own file of the node that the code belongs to.
    Own,
    /// Another one, or [`NONE`].
    Other(u32),
}

impl RowFile {
    /// The file, given the own one.
    #[inline]
    pub(in crate::index) fn or_own(self, own: u32) -> u32 {
        match self {
            Self::Own => own,
            Self::Other(file) => file,
        }
    }
}

/// The sections that hold rows.
#[derive(Clone, Copy, Debug)]
pub(in crate::index) struct Rows<'a> {
    pub(super) starts: &'a [u8],
    pub(super) offsets: &'a [u8],
    pub(super) data: &'a [u8],
}

impl<'a> Rows<'a> {
    /// First addresses of the blocks, as offsets from their segment's base.
    #[inline]
    pub(in crate::index) fn starts(self) -> &'a [[u8; 4]] {
        self.starts.as_chunks().0
    }

    /// Decodes the head of a block.
    #[inline]
    pub(in crate::index) fn block(self, number: usize) -> Result<RowBlock<'a>, IndexError> {
        let missing = || damaged(number as u64 * 4, "no such row block");
        let start = u32_at(self.starts, number).ok_or_else(missing)?;
        let from = u32_at(self.offsets, number).ok_or_else(missing)? as usize;
        let to = u32_at(self.offsets, number + 1).ok_or_else(missing)? as usize;
        let bytes = self.data.get(from..to.saturating_add(PADDING_BYTES));
        let bytes = bytes.ok_or_else(|| damaged(from as u64, "row block outside the section"))?;
        RowBlock::parse(bytes, start).ok_or_else(|| damaged(from as u64, "row block cut short"))
    }
}

#[cold]
fn damaged(offset: u64, what: &'static str) -> IndexError {
    IndexError::Damaged {
        section: Section::Rows,
        offset,
        what,
    }
}

/// One block, its head decoded.
#[derive(Clone, Copy, Debug)]
pub(in crate::index) struct RowBlock<'a> {
    bytes: &'a [u8],
    start: u32,
    rows: u32,
    /// One bit for each row, at the upper part of its address and its number.
    upper: u64,
    low_width: u32,
    node_width: u32,
    line_width: u32,
    column_width: u32,
    /// Width of an index into the dictionary; items are as many as rows without one.
    index_width: u32,
    has_dictionary: bool,
    has_exceptions: bool,
    items: u32,
    lowest_node: u32,
    lowest_line: u32,
    /// First bit of the low parts.
    packed: usize,
}

/// A row that was found.
#[derive(Clone, Copy, Debug)]
pub(in crate::index) struct FoundRow {
    /// Number in the block.
    pub(in crate::index) row: u32,
    /// First address of the next row as an offset from the segment's base, `u64::MAX` when this
    /// is the last of the block.
    pub(in crate::index) next: u64,
    /// The next row's bit in the upper parts, 64 or more when this is the last.
    next_bit: u32,
}

impl<'a> RowBlock<'a> {
    #[inline]
    fn parse(bytes: &'a [u8], start: u32) -> Option<Self> {
        let mut reader = Bytes::new(bytes, 0);
        let [low, middle, high] = reader.chunk::<3>();
        let head = u32::from_le_bytes([low, middle, high, 0]);
        let has_dictionary = head >> 21 & 1 != 0;
        let entries = if has_dictionary {
            u32::from(reader.byte()) + 1
        } else {
            0
        };
        let lowest_node = reader.varint32();
        let lowest_line = reader.varint32();
        let upper = u64::from_le_bytes(reader.chunk());
        let rows = upper.count_ones();
        let block = Self {
            bytes,
            start,
            rows,
            upper,
            low_width: head & 31,
            node_width: head >> 5 & 31,
            line_width: head >> 10 & 31,
            column_width: head >> 15 & 31,
            index_width: u32::BITS - entries.saturating_sub(1).leading_zeros(),
            has_dictionary,
            has_exceptions: head >> 20 & 1 != 0,
            items: if has_dictionary { entries } else { rows },
            lowest_node,
            lowest_line,
            packed: reader.position() * 8,
        };
        let sound = (1..=32).contains(&rows) && block.items <= 32;
        let end = block.exceptions();
        (sound && end.saturating_add(PADDING_BYTES) <= bytes.len()).then_some(block)
    }

    /// The row that covers `offset` (from the segment's base); the first row for offsets before.
    #[inline]
    pub(in crate::index) fn find(&self, offset: u32) -> FoundRow {
        let distance = offset.saturating_sub(self.start);
        let upper = distance.checked_shr(self.low_width).unwrap_or(0);
        if upper > 31 {
            return FoundRow {
                row: self.rows - 1,
                next: u64::MAX,
                next_bit: 64,
            };
        }
        // Behind the zero number `upper - 1` are the rows whose upper part is `upper`.
        let mut bit = if upper == 0 {
            0
        } else {
            select(!self.upper, upper - 1) + 1
        };
        let mut row = bit.saturating_sub(upper);
        let low = u64::from(distance) & mask(self.low_width);
        while self.bit(bit) && self.low_part(row) <= low {
            row += 1;
            bit += 1;
        }
        self.found(row.clamp(1, self.rows) - 1, bit)
    }

    /// The row that covers `offset`, which lies at or behind the end of `found`.
    ///
    /// Goes a few rows on, which is all that a dense sweep needs, before it searches.
    #[inline]
    pub(in crate::index) fn advance(&self, found: FoundRow, offset: u32) -> FoundRow {
        const STEPS: u32 = 4;
        let mut at = found;
        for _ in 0..STEPS {
            if at.next_bit > 63 {
                return at;
            }
            at = self.found(at.row + 1, at.next_bit + 1);
            if at.next > u64::from(offset) {
                return at;
            }
        }
        self.find(offset)
    }

    /// Row number `row`, its successor's bit being the first one at `bit` or behind.
    #[inline]
    fn found(&self, row: u32, bit: u32) -> FoundRow {
        let rest = self.upper.checked_shr(bit).unwrap_or(0);
        if rest == 0 {
            return FoundRow {
                row: row.min(self.rows - 1),
                next: u64::MAX,
                next_bit: 64,
            };
        }
        let next_bit = bit + rest.trailing_zeros();
        let upper = u64::from(next_bit.saturating_sub(row + 1));
        let distance = (upper << self.low_width) | self.low_part(row + 1);
        FoundRow {
            row,
            next: u64::from(self.start) + distance,
            next_bit,
        }
    }

    /// What row number `row` says.
    #[inline]
    pub(in crate::index) fn hit(&self, row: u32) -> Hit {
        let rows = self.rows as usize;
        let mut base = self.packed + rows * self.low_width as usize;
        let mut item = row as usize;
        if self.has_dictionary {
            let position = base + item * self.index_width as usize;
            item = low32(bits_at(self.bytes, position, self.index_width)) as usize;
            base += rows * self.index_width as usize;
        }
        let items = self.items as usize;
        let lines = base + items * self.node_width as usize;
        let columns = lines + items * self.line_width as usize;
        let number = |base: usize, width: u32| {
            low32(bits_at(self.bytes, base + item * width as usize, width))
        };
        let node = number(base, self.node_width);
        let line = number(lines, self.line_width);
        Hit {
            node: node
                .checked_sub(1)
                .map_or(NONE, |node| node.saturating_add(self.lowest_node)),
            place: Place {
                file: if self.has_exceptions {
                    self.file_of(item)
                } else {
                    RowFile::Own
                },
                line: line
                    .checked_sub(1)
                    .map_or(0, |line| line.saturating_add(self.lowest_line)),
                column: number(columns, self.column_width),
            },
        }
    }

    /// The list of exceptions: number of them, then for each {item, file + 2}.
    fn file_of(&self, item: usize) -> RowFile {
        let mut reader = Bytes::new(self.bytes, self.exceptions());
        let count = reader.varint().min(BLOCK_ROWS as u64);
        for _ in 0..count {
            let of = usize::from(reader.byte());
            let file = reader.varint32();
            if of == item {
                return RowFile::Other(file.checked_sub(2).unwrap_or(NONE));
            }
        }
        RowFile::Own
    }

    /// The first byte behind the packed numbers.
    #[inline]
    fn exceptions(&self) -> usize {
        let per_item = self.node_width + self.line_width + self.column_width;
        let per_row = self.low_width
            + if self.has_dictionary {
                self.index_width
            } else {
                0
            };
        let bits = self.rows as usize * per_row as usize + self.items as usize * per_item as usize;
        (self.packed + bits).div_ceil(8)
    }

    #[inline]
    fn bit(&self, bit: u32) -> bool {
        self.upper.checked_shr(bit).unwrap_or(0) & 1 != 0
    }

    #[inline]
    fn low_part(&self, row: u32) -> u64 {
        let position = self.packed + row as usize * self.low_width as usize;
        bits_at(self.bytes, position, self.low_width)
    }
}
