//! From trees of inlined calls and tables of lines to flat rows: at each address the innermost call
//! and its line.

use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;

use super::functions::{Found, FunctionRange, Interval, index};
use super::{Context, UnitError};
use crate::convert::{LineRow, Piece};
use crate::model::{NONE, Row};

/// A range of code with one innermost call.
#[derive(Clone, Copy)]
struct Stretch {
    start: u64,
    end: u64,
    node: u32,
}

impl Found {
    /// Makes the pieces of the unit, and keeps the lines that belong to no function.
    pub(super) fn flatten(&mut self, context: &Context<'_>) -> Result<(), UnitError> {
        let ranges = std::mem::take(&mut self.ranges);
        let mut intervals = std::mem::take(&mut self.intervals);
        intervals.sort_unstable_by_key(|i| (i.function, i.start, i.order));
        let mut stretches = Vec::new();
        let mut clones = FxHashMap::default();
        for range in &ranges {
            let from = intervals.partition_point(|i| i.function < range.function);
            let to = intervals.partition_point(|i| i.function <= range.function);
            let own = intervals.get(from..to).unwrap_or_default();
            context.budget.spend(own.len() as u64)?;
            paint(range, own, &mut stretches);
            if range.root != range.first_root {
                self.move_below(context, range, &mut stretches, &mut clones)?;
            }
            self.emit(context, range, &stretches)?;
        }
        self.keep_orphans(&ranges);
        self.ranges = ranges;
        self.intervals = intervals;
        Ok(())
    }

    /// Moves calls below the root of this range: the calls were attached to the first root.
    fn move_below(
        &mut self,
        context: &Context<'_>,
        range: &FunctionRange,
        stretches: &mut [Stretch],
        clones: &mut FxHashMap<(u32, u32), u32>,
    ) -> Result<(), UnitError> {
        let mut chain = Vec::new();
        for stretch in stretches {
            chain.clear();
            let mut node = stretch.node;
            while node != range.root && node != range.first_root {
                chain.push(node);
                let Some(call) = self.draft.nodes.get(index(node)) else {
                    break;
                };
                node = call.parent;
            }
            let mut parent = range.root;
            while let Some(node) = chain.pop() {
                context.budget.spend(1)?;
                if let Some(&known) = clones.get(&(range.root, node)) {
                    parent = known;
                    continue;
                }
                let Some(call) = self.draft.nodes.get(index(node)).copied() else {
                    break;
                };
                let call = crate::model::CallNode { parent, ..call };
                parent = self.push_node(context, call)?;
                clones.insert((range.root, node), parent);
            }
            stretch.node = parent;
        }
        Ok(())
    }

    /// Adds the rows of one range: stretches crossed with lines.
    fn emit(
        &mut self,
        context: &Context<'_>,
        range: &FunctionRange,
        stretches: &[Stretch],
    ) -> Result<(), UnitError> {
        let first = self.draft.rows.len();
        let mut at = self
            .lines
            .rows
            .partition_point(|line| line.end <= range.start);
        for stretch in stretches {
            let mut position = stretch.start;
            while position < stretch.end {
                let line = self
                    .lines
                    .rows
                    .get(at)
                    .filter(|line| line.start < stretch.end);
                let (row, end) = match line {
                    Some(line) if line.end <= position => {
                        at = at.saturating_add(1);
                        continue;
                    }
                    Some(line) if line.start <= position => {
                        (row(position, stretch, line), line.end)
                    }
                    Some(line) => (bare_row(position, stretch), line.start),
                    None => (bare_row(position, stretch), stretch.end),
                };
                self.push_row(first, row);
                position = end.min(stretch.end);
            }
            context.budget.spend(1)?;
            context.budget.rows(self.draft.rows.len())?;
        }
        let count = self.draft.rows.len().saturating_sub(first);
        self.draft.pieces.push(Piece {
            start: range.start,
            end: range.end,
            first_row: u32::try_from(first).unwrap_or(NONE),
            rows: u32::try_from(count).unwrap_or(0),
        });
        Ok(())
    }

    /// Adds a row unless the one before, from `first` on, says the same.
    fn push_row(&mut self, first: usize, row: Row) {
        let is_first = self.draft.rows.len() == first;
        let same = |last: &Row| {
            Row {
                address: row.address,
                ..*last
            } == row
        };
        if is_first || !self.draft.rows.last().is_some_and(same) {
            self.draft.rows.push(row);
        }
    }

    /// Keeps the lines outside of all functions: assembler code, whose names are symbols.
    fn keep_orphans(&mut self, ranges: &[FunctionRange]) {
        let mut covered: Vec<(u64, u64)> = ranges.iter().map(|r| (r.start, r.end)).collect();
        covered.sort_unstable();
        let mut covered = covered.into_iter().peekable();
        for line in &self.lines.rows {
            let mut start = line.start;
            while let Some(&(from, to)) = covered.peek() {
                if to <= start {
                    covered.next();
                    continue;
                }
                if from >= line.end {
                    break;
                }
                if from > start {
                    self.draft.orphans.push(LineRow {
                        start,
                        end: from,
                        ..*line
                    });
                }
                start = to;
                if to >= line.end {
                    break;
                }
                covered.next();
            }
            if start < line.end {
                self.draft.orphans.push(LineRow { start, ..*line });
            }
        }
    }
}

/// At each address of a range the inlined call that comes last in the walk, which is the innermost
/// one when they nest, as they should.
fn paint(range: &FunctionRange, intervals: &[Interval], stretches: &mut Vec<Stretch>) {
    stretches.clear();
    let mut active: BinaryHeap<(u32, u64, u32)> = BinaryHeap::new();
    let mut position = range.start;
    let mut coming = intervals
        .iter()
        .filter(|i| i.end > range.start && i.start < range.end)
        .peekable();
    while position < range.end {
        while let Some(interval) = coming.next_if(|i| i.start <= position) {
            active.push((interval.order, interval.end, interval.node));
        }
        while active.peek().is_some_and(|&(_, end, _)| end <= position) {
            active.pop();
        }
        let next = coming.peek().map_or(range.end, |interval| interval.start);
        let (node, end) = match active.peek() {
            Some(&(_, end, node)) => (node, end.min(next)),
            None => (range.root, next),
        };
        let end = end.min(range.end);
        match stretches.last_mut() {
            Some(last) if last.node == node => last.end = end,
            _ => stretches.push(Stretch {
                start: position,
                end,
                node,
            }),
        }
        position = end;
    }
}

fn row(address: u64, stretch: &Stretch, line: &LineRow) -> Row {
    Row {
        address,
        node: stretch.node,
        file: line.file,
        line: line.line,
        column: line.column,
    }
}

fn bare_row(address: u64, stretch: &Stretch) -> Row {
    Row {
        address,
        node: stretch.node,
        file: NONE,
        line: 0,
        column: 0,
    }
}
