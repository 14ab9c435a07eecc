//! Stacks to nodes: sorted, so that what two stacks have in common is what neighbours have in common.

use crate::view::merged::Merged;

/// A node before anything is cut. Each stands behind its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RawNode {
    /// The rank of the function; of the root none's.
    pub(super) rank: u32,
    /// The root is its own.
    pub(super) parent: u32,
    pub(super) total: i128,
    pub(super) own: i128,
}

/// The nodes of all stacks, the root first, in the order of paths by rank.
pub(super) fn nodes(merged: &Merged, ranks: &[u32]) -> Vec<RawNode> {
    let paths = Paths::of(merged, ranks);
    let mut nodes = vec![RawNode {
        rank: 0,
        parent: 0,
        total: 0,
        own: 0,
    }];
    // The nodes on the path to the stack before, the root first.
    let mut on_path: Vec<u32> = vec![0];
    let mut before: &[u32] = &[];
    for place in paths.sorted() {
        let path = paths.path(place);
        let in_common = before.iter().zip(path).take_while(|(a, b)| a == b).count();
        on_path.truncate(in_common + 1);
        for rank in path.get(in_common..).unwrap_or_default() {
            let parent = on_path.last().copied().unwrap_or_default();
            // A query's frames are bounded far below 2^32.
            on_path.push(u32::try_from(nodes.len()).unwrap_or(u32::MAX));
            nodes.push(RawNode {
                rank: *rank,
                parent,
                total: 0,
                own: 0,
            });
        }
        let end = on_path.last().copied().unwrap_or_default();
        if let Some(node) = nodes.get_mut(end as usize) {
            node.own = node.own.saturating_add(paths.value(place));
        }
        before = path;
    }
    add_up(&mut nodes);
    nodes
}

/// Totals, from the last node to the first: children stand behind their parents.
fn add_up(nodes: &mut [RawNode]) {
    for place in (0..nodes.len()).rev() {
        let Some(node) = nodes.get_mut(place) else {
            continue;
        };
        node.total = node.total.saturating_add(node.own);
        let (total, parent) = (node.total, node.parent as usize);
        if place > 0
            && let Some(parent) = nodes.get_mut(parent)
        {
            parent.total = parent.total.saturating_add(total);
        }
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
        let mut paths = Self {
            pool: Vec::new(),
            stacks: Vec::with_capacity(merged.stacks().len()),
        };
        for stack in merged.stacks() {
            let start = paths.pool.len();
            for frame in stack.frames.iter().rev() {
                let calls = merged.calls(*frame).iter().rev();
                let of = calls.filter_map(|call| ranks.get(call.function.index()));
                paths.pool.extend(of);
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
