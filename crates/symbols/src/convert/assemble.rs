//! The model from a draft: pieces in order of address, symbols in the gaps, numbers without holes.

use super::draft::{Draft, LineRow, Piece};
use super::overlap::{Part, settle};
use super::symbols::{Cover, Symbols};
use super::{Budget, ConvertError, names};
use crate::model::{CallNode, Function, Model, ModelHeader, NONE, Provenance, Row};
use crate::quality::Quality;

/// What is being put together.
struct Assembly<'a, 'b> {
    symbols: &'a Symbols<'a>,
    budget: &'a Budget<'b>,
    functions: Vec<Function>,
    nodes: Vec<CallNode>,
    orphans: Vec<LineRow>,
    rows: Vec<Row>,
    /// Covers and orphans before these are done with.
    next_cover: usize,
    next_orphan: usize,
    /// The last cover that was used, with its node.
    last_cover: Option<(Cover, u32)>,
}

/// Makes the model.
pub(super) fn assemble(
    draft: Draft,
    functions: Vec<Function>,
    header: ModelHeader,
    symbols: &Symbols<'_>,
    budget: &Budget<'_>,
) -> Result<Model, ConvertError> {
    let Draft {
        rows: drafted,
        pieces,
        mut orphans,
        nodes,
        files,
    } = draft;
    orphans.sort_by_key(|line| line.start);
    let parts = settle(&pieces, symbols, |piece| {
        name_of(piece, &drafted, &nodes, &functions)
    });
    let mut assembly = Assembly {
        symbols,
        budget,
        functions,
        nodes,
        orphans,
        rows: Vec::with_capacity(drafted.len()),
        next_cover: 0,
        next_orphan: 0,
        last_cover: None,
    };
    let mut position = 0;
    for part in &parts {
        assembly.fill_gap(position, part.start)?;
        if let Some(piece) = pieces.get(index(part.piece)) {
            assembly.copy(part, piece, &drafted);
        }
        position = part.end;
    }
    assembly.fill_gap(position, u64::MAX)?;
    drop((drafted, pieces, parts));
    let mut model = Model {
        header,
        files,
        ..Model::default()
    };
    assembly.number(&mut model);
    model.header.quality = quality(&model);
    Ok(model)
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The linkage name of the function that a piece belongs to.
fn name_of<'a>(
    piece: &Piece,
    rows: &[Row],
    nodes: &[CallNode],
    functions: &'a [Function],
) -> &'a str {
    let mut node = rows
        .get(index(piece.first_row))
        .map_or(NONE, |row| row.node);
    let mut function = NONE;
    // Parents come before their children, so this ends.
    while let Some(call) = nodes.get(index(node)) {
        function = call.function;
        node = call.parent;
    }
    functions
        .get(index(function))
        .map_or("", |function| &function.linkage_name)
}

impl Assembly<'_, '_> {
    fn push(&mut self, row: Row) {
        let same = |last: &Row| {
            Row {
                address: row.address,
                ..*last
            } == row
        };
        if !self.rows.last().is_some_and(same) {
            self.rows.push(row);
        }
    }

    fn push_gap(&mut self, address: u64) {
        if !self.rows.is_empty() {
            self.push(Row {
                address,
                node: NONE,
                file: NONE,
                line: 0,
                column: 0,
            });
        }
    }

    /// Copies the rows of a part.
    fn copy(&mut self, part: &Part, piece: &Piece, drafted: &[Row]) {
        let from = index(piece.first_row);
        let rows = drafted
            .get(from..from.saturating_add(index(piece.rows)))
            .unwrap_or_default();
        let first = rows
            .partition_point(|row| row.address <= part.start)
            .saturating_sub(1);
        for row in rows.get(first..).unwrap_or_default() {
            if row.address >= part.end {
                break;
            }
            self.push(Row {
                address: row.address.max(part.start),
                ..*row
            });
        }
    }

    /// Fills a gap between pieces with what the symbols cover of it.
    fn fill_gap(&mut self, start: u64, end: u64) -> Result<(), ConvertError> {
        let mut position = start;
        while position < end {
            let Some(&cover) = self.symbols.covers().get(self.next_cover) else {
                break;
            };
            if cover.end <= position {
                self.next_cover = self.next_cover.saturating_add(1);
                continue;
            }
            if cover.start >= end {
                break;
            }
            self.budget.spend(1)?;
            let from = cover.start.max(position);
            let to = cover.end.min(end);
            if from > position {
                self.push_gap(position);
            }
            let node = self.node_of(&cover)?;
            self.symbol_rows(node, from, to);
            position = to;
        }
        if position < end {
            self.push_gap(position);
        }
        Ok(())
    }

    /// The rows of a function without DWARF: with lines, where a line program has them.
    fn symbol_rows(&mut self, node: u32, start: u64, end: u64) {
        let mut position = start;
        while position < end {
            let line = self.orphans.get(self.next_orphan).copied();
            let (row, until) = match line {
                Some(line) if line.end <= position => {
                    self.next_orphan = self.next_orphan.saturating_add(1);
                    continue;
                }
                Some(line) if line.start <= position => {
                    ((line.file, line.line, line.column), line.end)
                }
                Some(line) => ((NONE, 0, 0), line.start),
                None => ((NONE, 0, 0), end),
            };
            let (file, line, column) = row;
            self.push(Row {
                address: position,
                node,
                file,
                line,
                column,
            });
            position = until.min(end);
        }
    }

    fn node_of(&mut self, cover: &Cover) -> Result<u32, ConvertError> {
        if let Some((last, node)) = self.last_cover
            && last.symbol == cover.symbol
        {
            return Ok(node);
        }
        let Some(symbol) = self.symbols.of(cover) else {
            return Ok(NONE);
        };
        let function = u32::try_from(self.functions.len()).unwrap_or(NONE);
        self.budget.functions(self.functions.len())?;
        self.functions.push(names::of_symbol(
            symbol.name,
            symbol.provenance,
            self.budget,
        )?);
        let node = u32::try_from(self.nodes.len()).unwrap_or(NONE);
        self.budget.nodes(self.nodes.len())?;
        self.nodes.push(CallNode {
            function,
            parent: NONE,
            call_file: NONE,
            call_line: 0,
            call_column: 0,
            entry: symbol.address,
            size_bytes: symbol.size().max(cover.end - cover.start),
        });
        self.last_cover = Some((*cover, node));
        Ok(node)
    }

    /// Moves rows, nodes and functions into the model: only those in use, in order of first use,
    /// parents before their children.
    fn number(mut self, model: &mut Model) {
        let mut numbers = vec![NONE; self.nodes.len()];
        let mut function_numbers = vec![NONE; self.functions.len()];
        let mut chain = Vec::new();
        for row in &mut self.rows {
            let mut node = row.node;
            while numbers.get(index(node)) == Some(&NONE) {
                chain.push(node);
                node = self.nodes.get(index(node)).map_or(NONE, |call| call.parent);
            }
            while let Some(node) = chain.pop() {
                let Some(&call) = self.nodes.get(index(node)) else {
                    continue;
                };
                let parent = numbers.get(index(call.parent)).copied().unwrap_or(NONE);
                let Some(function) = function_numbers.get_mut(index(call.function)) else {
                    continue;
                };
                if *function == NONE {
                    *function = u32::try_from(model.functions.len()).unwrap_or(NONE);
                    let moved = self
                        .functions
                        .get_mut(index(call.function))
                        .map(std::mem::take);
                    model.functions.extend(moved);
                }
                if let Some(number) = numbers.get_mut(index(node)) {
                    *number = u32::try_from(model.nodes.len()).unwrap_or(NONE);
                }
                model.nodes.push(CallNode {
                    function: *function,
                    parent,
                    ..call
                });
            }
            row.node = numbers.get(index(row.node)).copied().unwrap_or(NONE);
        }
        model.rows = self.rows;
    }
}

/// What the symbols are good for.
fn quality(model: &Model) -> Quality {
    let has = |provenance| model.functions.iter().any(|f| f.provenance == provenance);
    if model.nodes.iter().any(|node| node.parent != NONE) {
        Quality::DwarfInlines
    } else if model.rows.iter().any(|row| row.line != 0) {
        Quality::DwarfLines
    } else if has(Provenance::Pclntab) {
        Quality::GoPclntab
    } else if has(Provenance::Symtab) || has(Provenance::Minidebuginfo) || has(Provenance::Dwarf) {
        Quality::Symtab
    } else if has(Provenance::Dynsym) {
        Quality::Dynsym
    } else {
        Quality::None
    }
}
