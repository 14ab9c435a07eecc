//! Which piece of code an address belongs to when several functions claim it.
//!
//! Identical code that a linker folded has one address and several names; a function that was
//! dropped may have left a range in the midst of another. A piece that starts where a symbol is
//! beats one that does not; then the later start wins, as the inner one; of equal ranges the one
//! whose name is the best symbol there, then the first in order of bytes.

use super::{Piece, Symbols};

/// A part of a piece that is left when overlaps are settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// First address.
    pub(super) start: u64,
    /// One past the last address.
    pub(super) end: u64,
    /// Index of the piece.
    pub(super) piece: u32,
}

/// The parts by address, disjoint. `name` gives the linkage name of a piece.
pub(super) fn settle<'a>(
    pieces: &[Piece],
    symbols: &Symbols<'_>,
    name: impl Fn(&Piece) -> &'a str,
) -> Vec<Part> {
    let mut order: Vec<u32> = (0_u32..).take(pieces.len()).collect();
    let piece = |number: u32| usize::try_from(number).ok().and_then(|n| pieces.get(n));
    let extent = |number: &u32| piece(*number).map_or((0, 0), |p| (p.start, p.end));
    // Of equal starts the longer comes first, so that the shorter lies on it.
    order.sort_unstable_by_key(|number| {
        let (start, end) = extent(number);
        (start, u64::MAX - end, *number)
    });
    order.dedup_by(|b, a| {
        let same = extent(a) == extent(b);
        if let (true, Some(kept), Some(other)) = (same, piece(*a), piece(*b)) {
            let rank = |piece: &Piece| {
                let best = symbols.at(piece.start).first();
                let is_best = best.is_some_and(|best| best.name == name(piece).as_bytes());
                (!is_best, name(piece))
            };
            if rank(other) < rank(kept) {
                *a = *b;
            }
        }
        same
    });
    let mut parts = Vec::with_capacity(order.len());
    let mut open: Vec<Part> = Vec::new();
    for number in order {
        let (start, end) = extent(&number);
        close(&mut parts, &mut open, start);
        let under = open.last().copied();
        if let Some(under) = under {
            let has_symbol = |at: u64| !symbols.at(at).is_empty();
            let under_start = extent(&under.piece).0;
            if !has_symbol(start) && has_symbol(under_start) {
                // Only what reaches beyond the piece below is left of it; that comes later, if at
                // all, from the symbols.
                continue;
            }
            push(
                &mut parts,
                Part {
                    end: start,
                    ..under
                },
            );
            if let Some(under) = open.last_mut() {
                under.start = start;
            }
        }
        open.push(Part {
            start,
            end,
            piece: number,
        });
    }
    close(&mut parts, &mut open, u64::MAX);
    parts
}

/// Ends the open pieces that end before `address`; what lies below goes on from there.
fn close(parts: &mut Vec<Part>, open: &mut Vec<Part>, address: u64) {
    while let Some(&part) = open.last() {
        if part.end > address {
            return;
        }
        push(parts, part);
        open.pop();
        if let Some(under) = open.last_mut() {
            under.start = under.start.max(part.end);
        }
    }
}

fn push(parts: &mut Vec<Part>, part: Part) {
    if part.start < part.end {
        parts.push(part);
    }
}
