//! Which nodes stay, and the order in which they are shown.

use std::cmp::Reverse;

use super::build::RawNode;
use super::{Label, Node};

/// The nodes that stay, in the order of a walk, with what was cut as nodes of their own.
pub(super) fn nodes(raw: &[RawNode], nodes_max: Option<usize>) -> Vec<Node> {
    let kept = match nodes_max {
        Some(max) if raw.len() > max => kept(raw, max),
        _ => vec![true; raw.len()],
    };
    walk(raw, &kept)
}

/// The nodes with the largest totals, as many as there is room for, each parent among them, since its total is never less than a child's. Room is also for the node
/// of what is cut, which each node needs that does not keep all of its children.
fn kept(raw: &[RawNode], nodes_max: usize) -> Vec<bool> {
    let by_total = |place: &usize| (Reverse(total(raw, *place)), *place);
    let mut order: Vec<usize> = (0..raw.len()).collect();
    if order.len() > nodes_max {
        order.select_nth_unstable_by_key(nodes_max, by_total);
        order.truncate(nodes_max);
    }
    order.sort_unstable_by_key(by_total);
    let mut missing = children(raw);
    let (mut nodes, mut stay) = (0, 0);
    for (count, place) in (1..).zip(&order) {
        let has_children = missing.get(*place).is_some_and(|missing| *missing > 0);
        nodes += 1 + usize::from(has_children);
        let parent = raw.get(*place).map_or(0, |node| node.parent as usize);
        if *place > 0
            && let Some(missing) = missing.get_mut(parent)
        {
            *missing -= 1;
            nodes -= usize::from(*missing == 0);
        }
        if nodes <= nodes_max {
            stay = count;
        }
    }
    let mut kept = vec![false; raw.len()];
    for place in order.iter().take(stay) {
        if let Some(is_kept) = kept.get_mut(*place) {
            *is_kept = true;
        }
    }
    kept
}

fn total(raw: &[RawNode], place: usize) -> i128 {
    raw.get(place).map_or(0, |node| node.total)
}

/// How many children each node has.
fn children(raw: &[RawNode]) -> Vec<u32> {
    let mut children = vec![0; raw.len()];
    for node in raw.iter().skip(1) {
        if let Some(count) = children.get_mut(node.parent as usize) {
            *count += 1;
        }
    }
    children
}

/// What is still to be shown.
#[derive(Clone, Copy, Debug)]
enum Step {
    Kept { place: usize, depth: u32 },
    Cut { total: i128, depth: u32 },
}

fn walk(raw: &[RawNode], kept: &[bool]) -> Vec<Node> {
    let families = Families::of(raw, kept);
    let mut nodes = Vec::new();
    let mut steps = vec![Step::Kept { place: 0, depth: 0 }];
    while let Some(step) = steps.pop() {
        let (place, depth) = match step {
            Step::Kept { place, depth } => (place, depth),
            Step::Cut { total, depth } => {
                nodes.push(Node {
                    label: Label::Other,
                    depth,
                    total,
                    own: total,
                });
                continue;
            }
        };
        let Some(node) = raw.get(place) else {
            continue;
        };
        let label = match place {
            0 => Label::Root,
            _ => Label::Function(node.rank),
        };
        let RawNode { total, own, .. } = *node;
        nodes.push(Node {
            label,
            depth,
            total,
            own,
        });
        let depth = depth + 1;
        // What is pushed last is shown first.
        if let Some(total) = families.cut(place) {
            steps.push(Step::Cut { total, depth });
        }
        let children = families.children(place).iter().rev();
        steps.extend(children.map(|place| Step::Kept {
            place: *place as usize,
            depth,
        }));
    }
    nodes
}

/// Which children each node keeps, the largest first, and what it loses.
#[derive(Debug)]
struct Families {
    /// Where the children of each node begin; one more for the end of the last.
    starts: Vec<usize>,
    children: Vec<u32>,
    /// Of nodes that lose children, the sum of their totals.
    cut: Vec<Option<i128>>,
}

impl Families {
    fn of(raw: &[RawNode], kept: &[bool]) -> Self {
        let is_kept = |place: usize| kept.get(place).copied().unwrap_or_default();
        let mut starts = vec![0_usize; raw.len() + 1];
        let mut cut = vec![None; raw.len()];
        for (place, node) in raw.iter().enumerate().skip(1) {
            let parent = node.parent as usize;
            if is_kept(place) {
                if let Some(count) = starts.get_mut(parent + 1) {
                    *count += 1;
                }
            } else if is_kept(parent)
                && let Some(sum) = cut.get_mut(parent)
            {
                *sum = Some(sum.unwrap_or(0_i128).saturating_add(node.total));
            }
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        let mut next = starts.clone();
        let mut children = vec![0_u32; sum];
        for (place, node) in raw
            .iter()
            .enumerate()
            .skip(1)
            .filter(|(at, _)| is_kept(*at))
        {
            let Some(at) = next.get_mut(node.parent as usize) else {
                continue;
            };
            if let (Some(child), Ok(place)) = (children.get_mut(*at), u32::try_from(place)) {
                *child = place;
            }
            *at += 1;
        }
        for family in starts.windows(2) {
            if let [start, end] = family
                && let Some(family) = children.get_mut(*start..*end)
            {
                family.sort_unstable_by_key(|&of| (Reverse(total(raw, of as usize)), of));
            }
        }
        Self {
            starts,
            children,
            cut,
        }
    }

    fn children(&self, place: usize) -> &[u32] {
        let start = self.starts.get(place).copied().unwrap_or_default();
        let end = self.starts.get(place + 1).copied().unwrap_or_default();
        self.children.get(start..end).unwrap_or_default()
    }

    fn cut(&self, place: usize) -> Option<i128> {
        self.cut.get(place).copied().flatten()
    }
}
