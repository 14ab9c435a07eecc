//! The line program of a unit as ranges: sorted, disjoint, and only where code is.

use std::rc::Rc;

use gimli::{ColumnType, Endianity};

use super::unit::OpenUnit;
use super::units::Units;
use super::{Context, UnitError};
use crate::convert::LineRow;
use crate::model::NONE;

/// The lines of one unit.
#[derive(Default)]
pub(super) struct Lines {
    /// By address, disjoint.
    pub(super) rows: Vec<LineRow>,
    /// Whether the program could not be read to its end; what was read before stays.
    pub(super) failed: bool,
}

/// One row of the state machine.
#[derive(Clone, Copy)]
struct State {
    address: u64,
    file: u64,
    line: u32,
    column: u32,
}

impl<'a, E: Endianity> Units<'a, E> {
    /// Reads the lines of a unit into `lines`, whose memory is reused.
    pub(super) fn read_lines<'u>(
        &mut self,
        context: &Context<'a>,
        unit: &Rc<OpenUnit<'u, E>>,
        lines: &mut Lines,
    ) -> Result<(), UnitError>
    where
        'a: 'u,
    {
        lines.rows.clear();
        lines.failed = false;
        let Some(program) = unit.with_lines().unit.line_program.clone() else {
            return Ok(());
        };
        let mut rows = program.rows();
        let mut sequence: Option<Sequence> = None;
        let mut last_file = (u64::MAX, NONE);
        loop {
            let (state, ends) = match rows.next_row() {
                Ok(Some((_, row))) => (state(row), row.end_sequence()),
                Ok(None) => break,
                Err(_damage) => {
                    lines.failed = true;
                    break;
                }
            };
            context.budget.spend(1)?;
            let Some(open) = &mut sequence else {
                let section_end = context.code.end_after(state.address);
                sequence = (!ends).then_some(Sequence { state, section_end });
                continue;
            };
            if let Some(limit) = open.section_end
                && state.address > open.state.address
            {
                let before = open.state;
                if before.file != last_file.0 {
                    let file = self
                        .files
                        .of(&self.sources, unit, before.file, context.budget)?;
                    last_file = (before.file, file);
                }
                lines.push(LineRow {
                    start: before.address,
                    end: state.address.min(limit),
                    file: last_file.1,
                    line: before.line,
                    column: before.column,
                });
                context.budget.rows(lines.rows.len())?;
            }
            if state.address >= open.state.address {
                open.state = state;
            }
            if ends {
                sequence = None;
            }
        }
        lines.settle();
        Ok(())
    }
}

/// A sequence that is being read; a buried one has no end of its section.
struct Sequence {
    state: State,
    section_end: Option<u64>,
}

fn state(row: &gimli::LineRow) -> State {
    let number = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    State {
        address: row.address(),
        file: row.file_index(),
        line: row.line().map_or(0, |line| number(line.get())),
        column: match row.column() {
            ColumnType::LeftEdge => 0,
            ColumnType::Column(column) => number(column.get()),
        },
    }
}

impl Lines {
    /// Adds a range, or lengthens the last one when it says the same.
    fn push(&mut self, row: LineRow) {
        if row.start >= row.end {
            return;
        }
        if let Some(last) = self.rows.last_mut()
            && last.end == row.start
            && (last.file, last.line, last.column) == (row.file, row.line, row.column)
        {
            last.end = row.end;
            return;
        }
        self.rows.push(row);
    }

    /// Sorts the sequences; where two overlap, the one that starts first wins.
    fn settle(&mut self) {
        self.rows.sort_by_key(|row| row.start);
        let mut end = 0;
        self.rows.retain_mut(|row| {
            row.start = row.start.max(end);
            let keeps = row.start < row.end;
            if keeps {
                end = row.end;
            }
            keeps
        });
    }
}
