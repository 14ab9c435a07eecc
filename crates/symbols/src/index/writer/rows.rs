//! Packs rows: segments of 4 GiB, blocks of 32, addresses by Elias-Fano, the rest in bits.

use super::offset_in;
use crate::index::bits::{BitWriter, low8, low32, mask, put_varint, width_of};
use crate::index::error::WriteError;
use crate::index::layout::PADDING_BYTES;
use crate::index::reader::BLOCK_ROWS;
use crate::model::{NONE, Row};

/// The sections that hold rows.
#[derive(Default)]
pub(super) struct PackedRows {
    pub(super) segments: Vec<u8>,
    pub(super) starts: Vec<u8>,
    pub(super) offsets: Vec<u8>,
    pub(super) data: Vec<u8>,
    /// Rows that were written.
    pub(super) rows: u64,
}

/// Packs `rows`, of which no neighbours are equal; `own` are the own files of the nodes.
///
/// A row begins a new segment unless it ends within 4 GiB of the base. The last row of the model,
/// should it be in a function, and any other that is longer, are cut at 4 GiB.
pub(super) fn pack(rows: &[Row], own: &[u32]) -> Result<PackedRows, WriteError> {
    let mut packer = Packer {
        own,
        out: PackedRows::default(),
        block: Vec::new(),
        segment: None,
    };
    let ends = rows
        .iter()
        .skip(1)
        .map(|row| row.address - 1)
        .chain([u64::MAX]);
    let mut gap = None;
    for (row, last) in rows.iter().zip(ends) {
        if row.node == NONE {
            gap = Some(row);
            continue;
        }
        if packer.reach(last).is_none() {
            packer.end_segment()?;
            packer.begin_segment(row.address)?;
        } else if let Some(gap) = gap {
            packer.push(gap)?;
        }
        gap = None;
        packer.push(row)?;
        packer.set_last(last);
    }
    packer.end_segment()?;
    let mut out = packer.out;
    out.offsets.extend(offset_in("bytes of rows", &out.data)?);
    out.data.extend([0; PADDING_BYTES]);
    Ok(out)
}

/// A row with its offset from the segment's base.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Item {
    node: u32,
    /// 0 for the own file of the node, 1 for none, else the file and 2.
    file: u64,
    line: u32,
    column: u32,
}

impl Item {
    /// Where an item like this is looked for first.
    fn slot(&self) -> usize {
        let mixed = self.line ^ (self.column << 12) ^ self.node.wrapping_mul(0x9e37_79b1);
        mixed.wrapping_mul(0x9e37_79b1) as usize >> (u32::BITS - SLOTS.trailing_zeros())
    }
}

struct Segment {
    base: u64,
    last: u32,
    first_block: u32,
}

struct Packer<'a> {
    own: &'a [u32],
    out: PackedRows,
    block: Vec<(u32, Item)>,
    segment: Option<Segment>,
}

impl Packer<'_> {
    /// The offset of `last` from the base of the segment, if it is open and reaches so far.
    fn reach(&self, last: u64) -> Option<u32> {
        let segment = self.segment.as_ref()?;
        u32::try_from(last.checked_sub(segment.base)?).ok()
    }

    fn begin_segment(&mut self, base: u64) -> Result<(), WriteError> {
        let blocks = self.out.starts.len() / 4;
        let first_block = u32::try_from(blocks).map_err(|_error| WriteError::TooLarge {
            what: "row blocks",
            limit: u64::from(u32::MAX),
        })?;
        self.segment = Some(Segment {
            base,
            last: 0,
            first_block,
        });
        Ok(())
    }

    fn end_segment(&mut self) -> Result<(), WriteError> {
        self.flush()?;
        if let Some(segment) = self.segment.take() {
            self.out.segments.extend(segment.base.to_le_bytes());
            self.out.segments.extend(segment.first_block.to_le_bytes());
            self.out.segments.extend(segment.last.to_le_bytes());
        }
        Ok(())
    }

    fn set_last(&mut self, last: u64) {
        let reach = self.reach(last).unwrap_or(u32::MAX);
        if let Some(segment) = &mut self.segment {
            segment.last = reach;
        }
    }

    fn push(&mut self, row: &Row) -> Result<(), WriteError> {
        let offset = self.reach(row.address).unwrap_or(u32::MAX);
        let own = self.own.get(row.node as usize).copied();
        let file = match row.file {
            _ if row.node == NONE || own == Some(row.file) => 0,
            NONE => 1,
            file => u64::from(file) + 2,
        };
        let item = Item {
            node: row.node,
            file,
            line: row.line,
            column: row.column,
        };
        self.block.push((offset, item));
        self.out.rows += 1;
        if self.block.len() == BLOCK_ROWS {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self) -> Result<(), WriteError> {
        if let Some(&(start, _)) = self.block.first() {
            self.out.starts.extend(start.to_le_bytes());
            self.out
                .offsets
                .extend(offset_in("bytes of rows", &self.out.data)?);
            write_block(&self.block, start, &mut self.out.data);
            self.block.clear();
        }
        Ok(())
    }
}

/// Slots in which the items of a block are found again: twice as many as a block has rows.
const SLOTS: usize = 2 * BLOCK_ROWS;

/// Distinct items in order of first use, and the place of each row's item among them.
fn dictionary(block: &[(u32, Item)]) -> (Vec<Item>, Vec<u64>) {
    let mut items: Vec<Item> = Vec::with_capacity(block.len());
    let mut places = Vec::with_capacity(block.len());
    let mut slots = [u8::MAX; SLOTS];
    for (_, item) in block {
        let first = item.slot();
        let chain = (first..SLOTS).chain(0..first);
        for slot in chain {
            let Some(place) = slots.get_mut(slot) else {
                break;
            };
            match items.get(usize::from(*place)) {
                Some(known) if known != item => continue,
                Some(_) => {}
                None => {
                    *place = low8(items.len() as u64);
                    items.push(*item);
                }
            }
            places.push(u64::from(*place));
            break;
        }
    }
    (items, places)
}

/// Numbers relative to the lowest of a block, and their widths.
struct Scale {
    lowest_node: u32,
    lowest_line: u32,
    node_width: u32,
    line_width: u32,
    column_width: u32,
}

impl Scale {
    fn of(items: &[Item]) -> Self {
        let nodes = items
            .iter()
            .map(|item| item.node)
            .filter(|node| *node != NONE);
        let lines = items.iter().map(|item| item.line).filter(|line| *line != 0);
        let mut scale = Self {
            lowest_node: nodes.min().unwrap_or(0),
            lowest_line: lines.min().unwrap_or(0),
            node_width: 0,
            line_width: 0,
            column_width: 0,
        };
        // All bits of all numbers are as wide as the greatest of them.
        let (mut nodes, mut lines, mut columns) = (0, 0, 0);
        for item in items {
            nodes |= scale.node(item);
            lines |= scale.line(item);
            columns |= u64::from(item.column);
        }
        scale.node_width = width_of(nodes);
        scale.line_width = width_of(lines);
        scale.column_width = width_of(columns);
        scale
    }

    fn node(&self, item: &Item) -> u64 {
        if item.node == NONE {
            0
        } else {
            u64::from(item.node - self.lowest_node) + 1
        }
    }

    fn line(&self, item: &Item) -> u64 {
        if item.line == 0 {
            0
        } else {
            u64::from(item.line - self.lowest_line) + 1
        }
    }

    fn item_width(&self) -> usize {
        (self.node_width + self.line_width + self.column_width) as usize
    }
}

fn write_block(block: &[(u32, Item)], start: u32, out: &mut Vec<u8>) {
    const DICTIONARY_HEAD_BITS: usize = 8;
    let (distinct, places) = dictionary(block);
    let scale = Scale::of(&distinct);
    let place_width = width_of(distinct.len() as u64 - 1);
    let with_dictionary = block.len() * place_width as usize
        + distinct.len() * scale.item_width()
        + DICTIONARY_HEAD_BITS;
    let has_dictionary = with_dictionary < block.len() * scale.item_width();
    let all = || block.iter().map(|(_, item)| *item).collect();
    let items: Vec<Item> = if has_dictionary { distinct } else { all() };

    let span = block.last().map_or(0, |(offset, _)| offset - start);
    let low_width = (0..32).find(|width| span >> width <= 31).unwrap_or(31);
    let has_exceptions = items.iter().any(|item| item.file != 0);
    let head = low_width
        | scale.node_width << 5
        | scale.line_width << 10
        | scale.column_width << 15
        | u32::from(has_exceptions) << 20
        | u32::from(has_dictionary) << 21;
    let [low, middle, high, _] = head.to_le_bytes();
    out.extend([low, middle, high]);
    if has_dictionary {
        out.push(low8(items.len() as u64 - 1));
    }
    put_varint(out, u64::from(scale.lowest_node));
    put_varint(out, u64::from(scale.lowest_line));
    let upper = block
        .iter()
        .zip(0u32..)
        .fold(0u64, |upper, ((offset, _), row)| {
            upper | 1 << (((offset - start) >> low_width) + row)
        });
    out.extend(upper.to_le_bytes());

    let mut bits = BitWriter::new(out);
    for (offset, _) in block {
        bits.put(u64::from(offset - start) & mask(low_width), low_width);
    }
    if has_dictionary {
        for place in &places {
            bits.put(*place, place_width);
        }
    }
    for item in &items {
        bits.put(scale.node(item), scale.node_width);
    }
    for item in &items {
        bits.put(scale.line(item), scale.line_width);
    }
    for item in &items {
        bits.put(u64::from(item.column), scale.column_width);
    }
    bits.finish();
    if has_exceptions {
        let exceptions = items.iter().zip(0u8..).filter(|(item, _)| item.file != 0);
        put_varint(out, exceptions.clone().count() as u64);
        for (item, place) in exceptions {
            out.push(place);
            put_varint(out, u64::from(low32(item.file)));
        }
    }
}
