//! The functions, source files or binaries with the most.

use std::cmp::Reverse;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::merged::Merged;
use super::names::{FrameFunctions, Names};
use super::shown::{ShownFunction, ShownKind, Weight};
use crate::answers::{Asked, TopAnswer, TopFunction};

/// What is listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TopBy {
    /// Functions.
    #[default]
    Function,
    /// Source files.
    File,
    /// Binaries.
    Binary,
}

/// By what the list is in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TopOrder {
    /// What was counted in stacks that end there.
    #[default]
    Own,
    /// What was counted in stacks that it is in.
    Total,
}

/// How a list is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopOptions {
    /// What is listed.
    pub by: TopBy,
    /// In which order.
    pub order: TopOrder,
    /// How many are listed.
    pub limit: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Line {
    own: Weight,
    total: Weight,
    /// The stack that was counted last, and one more.
    last_stack: usize,
}

/// The list. A stack counts once for each function in it, however often it is there.
pub fn top(merged: &Merged, options: TopOptions, asked: Asked) -> TopAnswer {
    let names = Names::of(merged);
    let (mut groups, group_of) = groups(&names, options.by);
    let group = |rank: &u32| group_of.get(*rank as usize).copied().unwrap_or(u32::MAX);
    let numbers: Vec<u32> = names.ranks.iter().map(group).collect();
    let frames = FrameFunctions::of(merged, &numbers);
    let stackless = u32::try_from(groups.len()).unwrap_or(u32::MAX);
    groups.push(no_stack());
    let mut lines = vec![Line::default(); groups.len()];
    for (stack, number) in merged.stacks().zip(1..) {
        let places = stack
            .frames
            .iter()
            .flat_map(|frame| frames.of_frame(*frame));
        let mut places = places.peekable();
        // Else the own weights would be less than all.
        let instead = places.peek().is_none().then_some(&stackless);
        for (depth, place) in places.chain(instead).enumerate() {
            let Some(line) = lines.get_mut(*place as usize) else {
                continue;
            };
            if depth == 0 {
                line.own += stack.weight;
            }
            if line.last_stack != number {
                line.last_stack = number;
                line.total += stack.weight;
            }
        }
    }
    let mut order: Vec<(Line, ShownFunction)> = lines.into_iter().zip(groups).collect();
    order.retain(|(line, _)| line.last_stack > 0);
    // Groups are in order of their names, and a stable sort leaves it.
    order.sort_by_key(|(line, _)| match options.order {
        TopOrder::Own => Reverse((line.own.value, line.total.value)),
        TopOrder::Total => Reverse((line.total.value, line.own.value)),
    });
    let left_out = order.len().saturating_sub(options.limit);
    order.truncate(options.limit);
    TopAnswer {
        asked,
        unit: merged.profile_type().unit().to_owned(),
        total: merged.total().into(),
        functions: order.into_iter().map(in_answer).collect(),
        left_out: left_out as u64,
        names_lacking: merged.names_lacking().map(Into::into),
    }
}

fn in_answer((line, of): (Line, ShownFunction)) -> TopFunction {
    TopFunction {
        function: of.name.to_string(),
        file: of.file.to_string(),
        binary: of.binary.to_string(),
        kind: of.kind.word().to_owned(),
        own: line.own.into(),
        total: line.total.into(),
    }
}

/// What samples without a single frame are counted at.
fn no_stack() -> ShownFunction {
    ShownFunction {
        name: "[no stack]".into(),
        file: "".into(),
        binary: "".into(),
        kind: ShownKind::Unplaced,
    }
}

/// What is listed, and the place of each function in it by the function's rank.
fn groups(names: &Names, by: TopBy) -> (Vec<ShownFunction>, Vec<u32>) {
    let mut places: FxHashMap<ShownFunction, u32> = FxHashMap::default();
    let mut groups = Vec::new();
    let mut of = Vec::with_capacity(names.functions.len());
    for function in &names.functions {
        let group = match by {
            TopBy::Function => function.clone(),
            TopBy::File => of_name(function, &function.file),
            TopBy::Binary => of_name(function, &function.binary),
        };
        let next = u32::try_from(groups.len()).unwrap_or(u32::MAX);
        let place = *places.entry(group.clone()).or_insert_with(|| {
            groups.push(group);
            next
        });
        of.push(place);
    }
    (groups, of)
}

/// A file or binary; where it is not known, what the function is.
fn of_name(function: &ShownFunction, name: &Arc<str>) -> ShownFunction {
    let kind = match function.kind {
        ShownKind::Unresolved => ShownKind::Native,
        kind => kind,
    };
    let name = if name.is_empty() {
        format!("[{}]", kind.word()).into()
    } else {
        Arc::clone(name)
    };
    ShownFunction {
        name,
        file: "".into(),
        binary: "".into(),
        kind,
    }
}
