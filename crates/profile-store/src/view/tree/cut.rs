//! Which nodes stay, and the order in which they are shown.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

use super::{Label, Node};

/// The nodes that stay: those with the largest totals, as many as there is room for, each parent among them, since its total is never less than a child's. Room is
/// also for the node of what is cut, which each node needs that loses something. In the order of a walk, the largest child first, what is cut last.
pub(super) fn nodes(all: &[Node], nodes_max: usize) -> Vec<Node> {
    let largest = largest(all, nodes_max);
    let stay = how_many_stay(all, &largest, nodes_max);
    let kept = largest.get(..stay).unwrap_or_default();
    walk(all, kept)
}

/// So large that it goes before others: of equal ones the first of the walk, so that a parent is before its children.
type Size = (Reverse<i128>, u32);

/// The largest nodes, in order. Looks at each node once, and keeps at most twice as many as are wanted.
fn largest(all: &[Node], count: usize) -> Vec<Size> {
    let mut largest: Vec<Size> = Vec::with_capacity(count.saturating_mul(2).min(all.len()));
    let mut least = None;
    for (place, node) in (0..).zip(all) {
        // Nodes come in order of their places: an equal one is behind those that are there.
        if least.is_some_and(|least| node.total <= least) {
            continue;
        }
        largest.push((Reverse(node.total), place));
        if largest.len() >= count.saturating_mul(2) {
            largest.select_nth_unstable(count);
            largest.truncate(count);
            least = largest.iter().map(|(Reverse(total), _)| *total).min();
        }
    }
    largest.sort_unstable();
    largest.truncate(count);
    largest
}

/// How many of the largest fit, together with nodes for what is cut of them.
fn how_many_stay(all: &[Node], largest: &[Size], nodes_max: usize) -> usize {
    // What is cut of each node that stays.
    let mut rest: FxHashMap<u32, i128> = FxHashMap::default();
    let (mut nodes, mut stay) = (0, 0);
    for (count, (Reverse(total), place)) in (1..).zip(largest) {
        let Some(node) = all.get(*place as usize) else {
            continue;
        };
        let of_children = total.saturating_sub(node.own);
        rest.insert(*place, of_children);
        nodes += 1 + usize::from(of_children != 0);
        if *place != 0
            && let Some(rest) = rest.get_mut(&node.parent)
        {
            let was_cut = *rest != 0;
            *rest = rest.saturating_sub(*total);
            nodes -= usize::from(was_cut && *rest == 0);
        }
        if nodes <= nodes_max {
            stay = count;
        }
    }
    stay
}

/// What is still to be shown.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A node that stays, by its number among them.
    Kept(usize),
    /// What was cut of one.
    Cut(Node),
}

/// The nodes that stay, which are given in order of their totals.
fn walk(all: &[Node], kept: &[Size]) -> Vec<Node> {
    let families = Families::of(all, kept);
    let mut nodes = Vec::with_capacity(kept.len());
    let mut steps = vec![Step::Kept(0)];
    while let Some(step) = steps.pop() {
        let number = match step {
            Step::Kept(number) => number,
            Step::Cut(node) => {
                nodes.push(node);
                continue;
            }
        };
        let Some(family) = families.all.get(number) else {
            continue;
        };
        let node = family.node;
        nodes.push(node);
        // What is pushed last is shown first.
        if family.rest != 0 {
            steps.push(Step::Cut(Node {
                label: Label::Other,
                depth: node.depth.saturating_add(1),
                total: family.rest,
                own: family.rest,
                ..node
            }));
        }
        steps.extend(family.children.iter().rev().map(|child| Step::Kept(*child)));
    }
    nodes
}

/// The nodes that stay, by their order among them, with their children.
#[derive(Debug)]
struct Families {
    all: Vec<Family>,
}

#[derive(Debug)]
struct Family {
    node: Node,
    /// The largest first.
    children: Vec<usize>,
    /// What is cut.
    rest: i128,
}

impl Families {
    fn of(all: &[Node], kept: &[Size]) -> Self {
        let mut numbers: FxHashMap<u32, usize> = FxHashMap::default();
        let mut families: Vec<Family> = Vec::with_capacity(kept.len());
        for (_, place) in kept {
            let Some(node) = all.get(*place as usize) else {
                continue;
            };
            let number = families.len();
            numbers.insert(*place, number);
            let parent = numbers.get(&node.parent).filter(|_| *place != 0);
            if let Some(parent) = parent.and_then(|parent| families.get_mut(*parent)) {
                parent.children.push(number);
                parent.rest = parent.rest.saturating_sub(node.total);
            }
            families.push(Family {
                node: *node,
                children: Vec::new(),
                rest: node.total.saturating_sub(node.own),
            });
        }
        Self { all: families }
    }
}
