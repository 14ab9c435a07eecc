//! Stacks to nodes: sorted, so that what two stacks have in common is what neighbours have in common.

use super::{Label, Node};
use crate::view::merged::Merged;
use crate::view::names::FrameFunctions;

/// The nodes of all stacks, the root first, each before its children and these by rank.
pub(super) fn nodes(merged: &Merged, ranks: &[u32]) -> Vec<Node> {
    let paths = Paths::of(merged, ranks);
    let mut nodes = Nodes::new(paths.pool.len());
    let mut before: &[u32] = &[];
    for place in paths.sorted() {
        let path = paths.path(place);
        let in_common = before.iter().zip(path).take_while(|(a, b)| a == b).count();
        nodes.leave(in_common);
        for rank in path.get(in_common..).unwrap_or_default() {
            nodes.enter(*rank);
        }
        nodes.count(paths.value(place));
        before = path;
    }
    nodes.leave(0);
    nodes.finish()
}

/// A walk in the making. What was counted on the way is kept beside it until a node is left, so that each is written once.
#[derive(Debug)]
struct Nodes {
    done: Vec<Node>,
    root: Open,
    /// The nodes on the path below the root.
    open: Vec<Open>,
}

/// A node that the walk has not left.
#[derive(Clone, Copy, Debug, Default)]
struct Open {
    place: u32,
    total: i128,
    own: i128,
}

impl Nodes {
    fn new(capacity: usize) -> Self {
        let mut done = Vec::with_capacity(capacity.saturating_add(1));
        done.push(Node {
            label: Label::Root,
            depth: 0,
            parent: 0,
            total: 0,
            own: 0,
        });
        Self {
            done,
            root: Open::default(),
            open: Vec::new(),
        }
    }

    fn last(&mut self) -> &mut Open {
        self.open.last_mut().unwrap_or(&mut self.root)
    }

    fn enter(&mut self, rank: u32) {
        let parent = self.last().place;
        // A query's frames are bounded far below 2^32.
        let place = u32::try_from(self.done.len()).unwrap_or(u32::MAX);
        let depth = u32::try_from(self.open.len()).unwrap_or(u32::MAX);
        self.done.push(Node {
            label: Label::Function(rank),
            depth: depth.saturating_add(1),
            parent,
            total: 0,
            own: 0,
        });
        self.open.push(Open {
            place,
            ..Open::default()
        });
    }

    fn count(&mut self, value: i128) {
        let last = self.last();
        last.own = last.own.saturating_add(value);
    }

    /// Goes up until the path has this length.
    fn leave(&mut self, length: usize) {
        while self.open.len() > length {
            let Some(left) = self.open.pop() else { return };
            let total = left.total.saturating_add(left.own);
            self.write(left, total);
            let parent = self.last();
            parent.total = parent.total.saturating_add(total);
        }
    }

    fn write(&mut self, open: Open, total: i128) {
        if let Some(node) = self.done.get_mut(open.place as usize) {
            node.total = total;
            node.own = open.own;
        }
    }

    fn finish(mut self) -> Vec<Node> {
        let root = self.root;
        self.write(root, root.total.saturating_add(root.own));
        self.done
    }
}

/// The stacks as ranks, root first, in one pool.
#[derive(Debug)]
struct Paths {
    pool: Vec<u32>,
    /// Start and end in the pool, and the value.
    stacks: Vec<(usize, usize, i128)>,
}

impl Paths {
    fn of(merged: &Merged, ranks: &[u32]) -> Self {
        let frames = FrameFunctions::of(merged, ranks);
        let mut paths = Self {
            pool: Vec::new(),
            stacks: Vec::with_capacity(merged.stacks().len()),
        };
        for stack in merged.stacks() {
            let start = paths.pool.len();
            for frame in stack.frames.iter().rev() {
                paths.pool.extend(frames.of_frame(*frame).iter().rev());
            }
            let end = paths.pool.len();
            paths.stacks.push((start, end, stack.weight.value));
        }
        paths
    }

    fn path(&self, place: usize) -> &[u32] {
        let (start, end, _) = self.stacks.get(place).copied().unwrap_or_default();
        self.pool.get(start..end).unwrap_or_default()
    }

    fn value(&self, place: usize) -> i128 {
        self.stacks.get(place).map_or(0, |(_, _, value)| *value)
    }

    fn sorted(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.stacks.len()).collect();
        order.sort_unstable_by(|one, other| self.path(*one).cmp(self.path(*other)));
        order
    }
}
