//! Which call a node is: node blocks of 32, bit-packed, roots and inlined calls apart.
//!
//! A node's file is stored nowhere: it is the usual file of its function, and a call stands in the
//! own file of the node that calls. What differs is in a short list of exceptions.

use super::rows::{Place, RowFile};
use crate::index::bits::{Bytes, bits_at, low32, mask, u32_at, wide_bits_at};
use crate::index::error::IndexError;
use crate::index::layout::{PADDING_BYTES, Section};
use crate::model::NONE;

/// Nodes in a block.
pub(in crate::index) const BLOCK_NODES: u32 = 32;

/// The sections that hold call nodes.
#[derive(Clone, Copy, Debug)]
pub(in crate::index) struct Nodes<'a> {
    pub(super) count: u32,
    pub(super) offsets: &'a [u8],
    pub(super) data: &'a [u8],
    pub(super) usual: UsualFiles<'a>,
}

/// The usual file of each function: a table of u16, or of u32 where there are many files.
#[derive(Clone, Copy, Debug)]
pub(in crate::index) enum UsualFiles<'a> {
    /// Fewer than 65,535 files.
    Narrow(&'a [u8]),
    /// As many or more.
    Wide(&'a [u8]),
}

impl UsualFiles<'_> {
    /// The usual file of a function, or [`NONE`].
    #[inline]
    pub(in crate::index) fn of(self, function: u32) -> u32 {
        match self {
            Self::Narrow(table) => match table.as_chunks().0.get(function as usize) {
                None | Some([0xff, 0xff]) => NONE,
                Some(file) => u32::from(u16::from_le_bytes(*file)),
            },
            Self::Wide(table) => u32_at(table, function as usize).unwrap_or(NONE),
        }
    }
}

/// One node, decoded.
#[derive(Clone, Copy, Debug)]
pub(in crate::index) struct Node {
    pub(in crate::index) function: u32,
    /// The file that most of its own code is from.
    pub(in crate::index) own_file: u32,
    pub(in crate::index) call: Call,
}

/// Where a node was called from.
#[derive(Clone, Copy, Debug)]
pub(in crate::index) enum Call {
    /// By a real call: this is a function with code of its own.
    Root {
        /// Link address of the entry point.
        entry: u64,
        /// Bytes of code.
        size_bytes: u64,
    },
    /// Inlined into another node.
    Inlined {
        /// That node.
        parent: u32,
        /// Where the call stands.
        place: Place,
    },
}

impl<'a> Nodes<'a> {
    /// Decodes the head of the block that holds `node`.
    #[inline]
    pub(in crate::index) fn block_of(self, node: u32) -> Result<NodeBlock<'a>, IndexError> {
        let number = node / BLOCK_NODES;
        let missing = || damaged(u64::from(number) * 4, "no such node block");
        let first = number * BLOCK_NODES;
        let nodes = self
            .count
            .checked_sub(first)
            .filter(|n| *n > 0)
            .ok_or_else(missing)?;
        let from = u32_at(self.offsets, number as usize).ok_or_else(missing)? as usize;
        let bytes = self.data.get(from..).ok_or_else(missing)?;
        NodeBlock::parse(bytes, first, nodes.min(BLOCK_NODES), self.usual)
            .ok_or_else(|| damaged(from as u64, "node block cut short"))
    }
}

#[cold]
fn damaged(offset: u64, what: &'static str) -> IndexError {
    IndexError::Damaged {
        section: Section::Nodes,
        offset,
        what,
    }
}

/// One block, its head decoded.
#[derive(Clone, Copy, Debug)]
pub(in crate::index) struct NodeBlock<'a> {
    bytes: &'a [u8],
    usual: UsualFiles<'a>,
    first: u32,
    roots: u32,
    widths: Widths,
    lowest_function: u32,
    lowest_line: u32,
    lowest_entry: u64,
    /// First bits of the packed columns.
    functions: usize,
    parents: usize,
    lines: usize,
    columns: usize,
    entries: usize,
    sizes: usize,
    /// First byte of the exceptions.
    exceptions: usize,
}

#[derive(Clone, Copy, Debug)]
struct Widths {
    function: u32,
    parent: u32,
    line: u32,
    column: u32,
    entry: u32,
    size: u32,
    has_exceptions: bool,
}

impl Widths {
    #[inline]
    fn of_head(head: u64) -> Self {
        let field = |shift: u32, width: u32| low32(head >> shift & mask(width));
        Self {
            function: field(0, 5),
            parent: field(5, 5),
            line: field(10, 5),
            column: field(15, 5),
            entry: field(20, 7),
            size: field(27, 7),
            has_exceptions: field(34, 1) != 0,
        }
    }
}

impl<'a> NodeBlock<'a> {
    #[inline]
    fn parse(bytes: &'a [u8], first: u32, nodes: u32, usual: UsualFiles<'a>) -> Option<Self> {
        let mut reader = Bytes::new(bytes, 0);
        let roots = u32::from_le_bytes(reader.chunk());
        let low = u32::from_le_bytes(reader.chunk());
        let widths = Widths::of_head(u64::from(low) | u64::from(reader.byte()) << 32);
        let lowest_function = reader.varint32();
        let lowest_line = reader.varint32();
        let lowest_entry = reader.varint();
        let all = nodes as usize;
        let rooted = roots.count_ones() as usize;
        let inlined = all.checked_sub(rooted)?;
        let functions = reader.position() * 8;
        let parents = functions + all * widths.function as usize;
        let lines = parents + inlined * widths.parent as usize;
        let columns = lines + inlined * widths.line as usize;
        let entries = columns + inlined * widths.column as usize;
        let sizes = entries + rooted * widths.entry as usize;
        let exceptions = (sizes + rooted * widths.size as usize).div_ceil(8);
        (exceptions.saturating_add(PADDING_BYTES) <= bytes.len()).then_some(Self {
            bytes,
            usual,
            first,
            roots,
            widths,
            lowest_function,
            lowest_line,
            lowest_entry,
            functions,
            parents,
            lines,
            columns,
            entries,
            sizes,
            exceptions,
        })
    }

    /// Whether `node` is in this block.
    #[inline]
    pub(in crate::index) fn has(&self, node: u32) -> bool {
        node / BLOCK_NODES * BLOCK_NODES == self.first
    }

    /// Decodes a node of this block.
    #[inline]
    pub(in crate::index) fn node(&self, node: u32) -> Node {
        let item = node % BLOCK_NODES;
        let roots_before = (self.roots & low32(mask(item))).count_ones();
        let widths = &self.widths;
        let number = |base: usize, nth: u32, width: u32| {
            low32(bits_at(
                self.bytes,
                base + nth as usize * width as usize,
                width,
            ))
        };
        let function = number(self.functions, item, widths.function);
        let function = function.saturating_add(self.lowest_function);
        let (own_file, call_file) = self.files(item, function);
        let call = if self.roots >> item & 1 != 0 {
            let wide = |base: usize, width: u32| {
                wide_bits_at(
                    self.bytes,
                    base + roots_before as usize * width as usize,
                    width,
                )
            };
            let entry = wide(self.entries, widths.entry);
            Call::Root {
                entry: entry.wrapping_add(self.lowest_entry),
                size_bytes: wide(self.sizes, widths.size),
            }
        } else {
            let nth = item - roots_before;
            let distance = number(self.parents, nth, widths.parent);
            let line = number(self.lines, nth, widths.line);
            Call::Inlined {
                parent: node
                    .checked_sub(distance)
                    .filter(|_| distance > 0)
                    .unwrap_or(NONE),
                place: Place {
                    file: call_file,
                    line: line.saturating_add(self.lowest_line),
                    column: number(self.columns, nth, widths.column),
                },
            }
        };
        Node {
            function,
            own_file,
            call,
        }
    }

    /// Own file and call file: the usual ones, or those in the list of exceptions,
    /// {item, 32 more for the own file; file + 1}.
    #[inline]
    fn files(&self, item: u32, function: u32) -> (u32, RowFile) {
        let mut own = None;
        let mut call = RowFile::Own;
        if self.widths.has_exceptions {
            let mut reader = Bytes::new(self.bytes, self.exceptions);
            for _ in 0..reader.varint().min(u64::from(BLOCK_NODES) * 2) {
                let of = u32::from(reader.byte());
                let file = reader.varint32().checked_sub(1).unwrap_or(NONE);
                if of == item {
                    call = RowFile::Other(file);
                } else if of == item | BLOCK_NODES {
                    own = Some(file);
                }
            }
        }
        (own.unwrap_or_else(|| self.usual.of(function)), call)
    }
}
