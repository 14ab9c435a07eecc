//! From a row to its frames: the innermost call, then outwards through what it was inlined into.

pub(in crate::index) use super::nodes::Call;
use super::nodes::{NodeBlock, Nodes};
use super::rows::Hit;
use crate::address::LinkAddress;
use crate::index::error::IndexError;
use crate::index::{Frame, FunctionId, SourceFileId};
use crate::model::NONE;

/// Frames after which a chain ends: no compiler inlines so deep, and damage could make a cycle.
pub(in crate::index) const DEPTH_MAX: usize = 512;

/// Appends the frames of a row.
#[inline]
pub(super) fn frames_of(
    nodes: Nodes<'_>,
    hit: Hit,
    frames: &mut Vec<Frame>,
) -> Result<(), IndexError> {
    let mut block: Option<NodeBlock<'_>> = None;
    let Hit {
        mut node,
        mut place,
    } = hit;
    while node != NONE && frames.len() < DEPTH_MAX {
        let held = match block.filter(|block| block.has(node)) {
            Some(held) => held,
            None => nodes.block_of(node)?,
        };
        block = Some(held);
        let decoded = held.node(node);
        let at = place.file.or_own(decoded.own_file);
        let mut frame = Frame {
            function: FunctionId(decoded.function),
            file: (at != NONE).then_some(SourceFileId(at)),
            line: place.line,
            column: place.column,
            inlined: true,
            entry: None,
            size_bytes: 0,
        };
        node = match decoded.call {
            Call::Root { entry, size_bytes } => {
                frame.inlined = false;
                frame.entry = Some(LinkAddress(entry));
                frame.size_bytes = size_bytes;
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
        frames.push(frame);
    }
    Ok(())
}
