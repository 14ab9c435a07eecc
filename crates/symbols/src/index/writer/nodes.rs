//! Packs call nodes: blocks of 32, roots and inlined calls apart, all numbers in bits.

use super::offset_in;
use super::own_files::OwnFiles;
use crate::index::bits::{BitWriter, put_varint, width_of};
use crate::index::error::WriteError;
use crate::index::layout::PADDING_BYTES;
use crate::index::reader::BLOCK_NODES;
use crate::model::{CallNode, NONE};

/// The sections that hold call nodes.
pub(super) struct PackedNodes {
    pub(super) offsets: Vec<u8>,
    pub(super) data: Vec<u8>,
}

/// Packs `nodes`, parents before children.
pub(super) fn pack(nodes: &[CallNode], own: &OwnFiles) -> Result<PackedNodes, WriteError> {
    let mut packed = PackedNodes {
        offsets: Vec::new(),
        data: Vec::new(),
    };
    let mut first = 0;
    for block in nodes.chunks(BLOCK_NODES as usize) {
        packed
            .offsets
            .extend(offset_in("bytes of nodes", &packed.data)?);
        Block {
            nodes: block,
            first,
            own,
        }
        .write(&mut packed.data);
        first += block.len();
    }
    packed.data.extend([0; PADDING_BYTES]);
    Ok(packed)
}

struct Block<'a> {
    nodes: &'a [CallNode],
    /// Number of the first node.
    first: usize,
    own: &'a OwnFiles,
}

/// A column of numbers, each less the lowest.
struct Column {
    numbers: Vec<u64>,
    lowest: u64,
    width: u32,
}

impl Column {
    /// Numbers less the lowest of them.
    fn relative(mut numbers: Vec<u64>) -> Self {
        let lowest = numbers.iter().copied().min().unwrap_or(0);
        for number in &mut numbers {
            *number -= lowest;
        }
        Self {
            lowest,
            ..Self::plain(numbers)
        }
    }

    /// Numbers as they are.
    fn plain(numbers: Vec<u64>) -> Self {
        let width = width_of(numbers.iter().copied().max().unwrap_or(0));
        Self {
            numbers,
            lowest: 0,
            width,
        }
    }
}

impl Block<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        let numbered = || self.nodes.iter().zip(self.first as u64..);
        let of_inlined = |number: &dyn Fn(&CallNode, u64) -> u64| -> Vec<u64> {
            let inlined = numbered().filter(|(node, _)| node.parent != NONE);
            inlined.map(|(node, own)| number(node, own)).collect()
        };
        let of_roots = |number: &dyn Fn(&CallNode) -> u64| -> Vec<u64> {
            self.nodes
                .iter()
                .filter(|node| node.parent == NONE)
                .map(number)
                .collect()
        };
        let functions = self
            .nodes
            .iter()
            .map(|node| u64::from(node.function))
            .collect();
        let functions = Column::relative(functions);
        let parents = Column::plain(of_inlined(&|node, own| own - u64::from(node.parent)));
        let lines = Column::relative(of_inlined(&|node, _| u64::from(node.call_line)));
        let columns = Column::plain(of_inlined(&|node, _| u64::from(node.call_column)));
        let entries = Column::relative(of_roots(&|node| node.entry));
        let sizes = Column::plain(of_roots(&|node| node.size_bytes));
        let exceptions = self.exceptions();

        let roots = self
            .nodes
            .iter()
            .zip(0u32..)
            .filter(|(node, _)| node.parent == NONE);
        let roots = roots.fold(0u32, |map, (_, place)| map | 1 << place);
        out.extend(roots.to_le_bytes());
        let widths = u64::from(functions.width)
            | u64::from(parents.width) << 5
            | u64::from(lines.width) << 10
            | u64::from(columns.width) << 15
            | u64::from(entries.width) << 20
            | u64::from(sizes.width) << 27
            | u64::from(!exceptions.is_empty()) << 34;
        out.extend(widths.to_le_bytes().into_iter().take(5));
        put_varint(out, functions.lowest);
        put_varint(out, lines.lowest);
        put_varint(out, entries.lowest);
        let mut bits = BitWriter::new(out);
        for column in [&functions, &parents, &lines, &columns, &entries, &sizes] {
            for number in &column.numbers {
                bits.put(*number, column.width);
            }
        }
        bits.finish();
        if !exceptions.is_empty() {
            put_varint(out, exceptions.len() as u64);
            for (item, file) in exceptions {
                out.push(item);
                put_varint(out, if file == NONE { 0 } else { u64::from(file) + 1 });
            }
        }
    }

    /// Own files that are not usual for the function, and call files that are not the parent's own.
    fn exceptions(&self) -> Vec<(u8, u32)> {
        let mut exceptions = Vec::new();
        let of_nodes = |node: usize| self.own.of_nodes.get(node).copied().unwrap_or(NONE);
        let usual = |function: u32| self.own.of_functions.get(function as usize).copied();
        for ((node, place), number) in self.nodes.iter().zip(0u8..).zip(self.first..) {
            if node.parent != NONE && of_nodes(node.parent as usize) != node.call_file {
                exceptions.push((place, node.call_file));
            }
            if usual(node.function) != Some(of_nodes(number)) {
                exceptions.push((place | 32, of_nodes(number)));
            }
        }
        exceptions
    }
}
