//! New numbers for everything: near things get near numbers, and what nothing refers to gets none.
//!
//! Nodes are numbered by first use in address order, parents first, so that the nodes of one block
//! of rows are neighbours; functions by linkage name and files by path, so that neighbours share
//! prefixes.

use super::POSITION_MAX;
use crate::index::NAME_BYTES_MAX;
use crate::index::error::WriteError;
use crate::model::{CallNode, Function, Model, NONE, Row, SourcePath};

/// A model with its new numbers.
pub(super) struct Numbered {
    /// Neighbours differ; rows without a function say nothing else either.
    pub(super) rows: Vec<Row>,
    /// A parent comes before its children.
    pub(super) nodes: Vec<CallNode>,
    /// By linkage name.
    pub(super) functions: Vec<Function>,
    /// By directory and name.
    pub(super) files: Vec<SourcePath>,
}

/// Whether every reference leads to something, and rows and nodes are in order.
pub(super) fn check(model: &Model) -> Result<(), WriteError> {
    let fault = |what, index, fault| Err(WriteError::Model { what, index, fault });
    let there = |number: u32, length: usize| number == NONE || (number as usize) < length;
    let mut next_address = Some(0);
    for (index, row) in model.rows.iter().enumerate() {
        if !there(row.node, model.nodes.len()) {
            return fault("row", index, "no such node");
        }
        if !there(row.file, model.files.len()) {
            return fault("row", index, "no such file");
        }
        if next_address.is_none_or(|next| row.address < next) {
            return fault("row", index, "address not above the one before");
        }
        next_address = row.address.checked_add(1);
    }
    for (index, node) in model.nodes.iter().enumerate() {
        if node.function as usize >= model.functions.len() {
            return fault("node", index, "no such function");
        }
        if !there(node.call_file, model.files.len()) {
            return fault("node", index, "no such file");
        }
        if node.parent != NONE && node.parent as usize >= index {
            return fault("node", index, "its parent does not come before it");
        }
    }
    for (index, function) in model.functions.iter().enumerate() {
        if !there(function.declaration_file, model.files.len()) {
            return fault("function", index, "no such file");
        }
    }
    Ok(())
}

/// Numbers everything anew. References were checked.
pub(super) fn number(model: Model) -> Numbered {
    let Model {
        mut rows,
        nodes,
        functions,
        files,
        ..
    } = model;
    for row in &mut rows {
        if row.node == NONE {
            *row = Row {
                address: row.address,
                node: NONE,
                file: NONE,
                line: 0,
                column: 0,
            };
        }
    }
    let mut nodes = number_nodes(&mut rows, &nodes);
    let mut functions = number_functions(&mut nodes, functions);
    let files = number_files(&mut rows, &mut nodes, &mut functions, files);
    for row in &mut rows {
        row.line = row.line.min(POSITION_MAX);
        row.column = row.column.min(POSITION_MAX);
    }
    rows.dedup_by(|row, before| {
        Row {
            address: before.address,
            ..*row
        } == *before
    });
    Numbered {
        rows,
        nodes,
        functions,
        files,
    }
}

/// The number that `numbers` gives to `old`, or [`NONE`].
fn renumbered(numbers: &[u32], old: u32) -> u32 {
    numbers.get(old as usize).copied().unwrap_or(NONE)
}

fn number_nodes(rows: &mut [Row], nodes: &[CallNode]) -> Vec<CallNode> {
    let mut numbers = vec![NONE; nodes.len()];
    let mut numbered: Vec<CallNode> = Vec::with_capacity(nodes.len());
    let mut path = Vec::new();
    for row in rows {
        let mut node = row.node;
        while node != NONE && renumbered(&numbers, node) == NONE {
            path.push(node);
            node = nodes.get(node as usize).map_or(NONE, |node| node.parent);
        }
        while let Some(old) = path.pop() {
            let (Some(node), Some(number)) =
                (nodes.get(old as usize), numbers.get_mut(old as usize))
            else {
                continue;
            };
            *number = u32::try_from(numbered.len()).unwrap_or(NONE);
            let parent = renumbered(&numbers, node.parent);
            numbered.push(tidy(CallNode { parent, ..*node }));
        }
        row.node = renumbered(&numbers, row.node);
    }
    numbered.shrink_to_fit();
    numbered
}

/// A node without what its kind does not have.
fn tidy(node: CallNode) -> CallNode {
    if node.parent == NONE {
        return CallNode {
            call_file: NONE,
            call_line: 0,
            call_column: 0,
            ..node
        };
    }
    CallNode {
        call_line: node.call_line.min(POSITION_MAX),
        call_column: node.call_column.min(POSITION_MAX),
        entry: 0,
        size_bytes: 0,
        ..node
    }
}

fn number_functions(nodes: &mut [CallNode], mut functions: Vec<Function>) -> Vec<Function> {
    let mut used = vec![false; functions.len()];
    for node in nodes.iter() {
        if let Some(used) = used.get_mut(node.function as usize) {
            *used = true;
        }
    }
    for function in &mut functions {
        cut(function);
    }
    let used = (0u32..).zip(used).filter(|(_, used)| *used);
    let mut order: Vec<(u128, u32)> = used.map(|(old, _)| (0, old)).collect();
    sort_functions(&functions, &mut order);
    let mut numbers = vec![NONE; functions.len()];
    let mut sorted = Vec::with_capacity(order.len());
    for ((_, old), new) in order.iter().zip(0u32..) {
        if let (Some(number), Some(function)) = (
            numbers.get_mut(*old as usize),
            functions.get_mut(*old as usize),
        ) {
            *number = new;
            sorted.push(std::mem::take(function));
        }
    }
    for node in nodes {
        node.function = renumbered(&numbers, node.function);
    }
    sorted
}

/// Bytes of a name that are compared at once.
const CHUNK_BYTES: usize = 16;

/// Sorts functions by linkage name, then what else tells them apart; `order` has their numbers, and
/// room for the part of the name that is being compared.
///
/// Names stand all over the memory and most begin as their neighbours do, so that comparing them
/// one with another would read each of them again and again. Here all are read up to the sixteenth
/// byte and sorted by that; then up to the thirty-second those that are the same so far.
fn sort_functions(functions: &[Function], order: &mut [(u128, u32)]) {
    let function = |old: &u32| functions.get(*old as usize);
    let rest = |old: &u32| {
        function(old).map(|f| {
            (
                &f.linkage_name,
                &f.full_name,
                f.declaration_line,
                f.declaration_file,
            )
        })
    };
    let mut same = vec![(0..order.len(), 0)];
    while let Some((range, chunk)) = same.pop() {
        let start = range.start;
        let Some(group) = order.get_mut(range) else {
            continue;
        };
        for (bytes, old) in group.iter_mut() {
            *bytes = chunk_of(function(old).map_or("", |f| &f.linkage_name), chunk);
        }
        group.sort_unstable();
        let mut position = start;
        for equal in group.chunk_by_mut(|(a, _), (b, _)| a == b) {
            let range = position..position + equal.len();
            position = range.end;
            // A name that ends here has a zero behind it.
            let has_ended = equal
                .first()
                .is_some_and(|(bytes, _)| bytes.to_be_bytes().last() == Some(&0));
            if equal.len() > 1 && has_ended {
                equal.sort_unstable_by(|(_, a), (_, b)| {
                    rest(a).cmp(&rest(b)).then_with(|| a.cmp(b))
                });
            } else if equal.len() > 1 {
                same.push((range, chunk + 1));
            }
        }
    }
}

/// A part of a name as a number that sorts as its bytes do.
fn chunk_of(name: &str, chunk: usize) -> u128 {
    let mut bytes = [0; CHUNK_BYTES];
    let part = name.as_bytes().get(chunk * CHUNK_BYTES..);
    for (byte, of_name) in bytes.iter_mut().zip(part.unwrap_or_default()) {
        *byte = *of_name;
    }
    u128::from_be_bytes(bytes)
}

/// Names no longer than the limit, cut at a character.
fn cut(function: &mut Function) {
    for name in [
        &mut function.linkage_name,
        &mut function.full_name,
        &mut function.short_name,
    ] {
        cut_name(name);
    }
    function.declaration_line = function.declaration_line.min(POSITION_MAX);
}

/// Text from debug information ends at its first NUL; FSST relies on there being none.
fn cut_name(name: &mut String) {
    if let Some(nul) = name.find('\0') {
        name.truncate(nul);
    }
    name.truncate(name.floor_char_boundary(NAME_BYTES_MAX));
}

fn number_files(
    rows: &mut [Row],
    nodes: &mut [CallNode],
    functions: &mut [Function],
    files: Vec<SourcePath>,
) -> Vec<SourcePath> {
    let mut used = vec![false; files.len()];
    let mut refer = |file: u32| {
        if let Some(used) = used.get_mut(file as usize) {
            *used = true;
        }
    };
    for row in rows.iter() {
        refer(row.file);
    }
    for node in nodes.iter() {
        refer(node.call_file);
    }
    for function in functions.iter() {
        refer(function.declaration_file);
    }

    let mut numbers = vec![NONE; files.len()];
    let kept = files
        .into_iter()
        .zip(0u32..)
        .zip(used)
        .filter(|(_, used)| *used);
    let mut sorted: Vec<(SourcePath, u32)> = kept
        .map(|((mut path, old), _)| {
            cut_name(&mut path.directory);
            cut_name(&mut path.name);
            (path, old)
        })
        .collect();
    sorted.sort_by(|(a, _), (b, _)| (&a.directory, &a.name).cmp(&(&b.directory, &b.name)));
    let mut numbered: Vec<SourcePath> = Vec::with_capacity(sorted.len());
    for (path, old) in sorted {
        if numbered.last() != Some(&path) {
            numbered.push(path);
        }
        if let Some(number) = numbers.get_mut(old as usize) {
            *number = u32::try_from(numbered.len() - 1).unwrap_or(NONE);
        }
    }
    for row in rows {
        row.file = renumbered(&numbers, row.file);
    }
    for node in nodes {
        node.call_file = renumbered(&numbers, node.call_file);
    }
    for function in functions {
        function.declaration_file = renumbered(&numbers, function.declaration_file);
    }
    numbered
}
