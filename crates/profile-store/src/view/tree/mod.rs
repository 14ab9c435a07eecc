//! Calls from the root: every stack is a path, and what stacks have in common is there once.
//!
//! Nothing here recurses: stacks may be 16,384 frames deep. The same stacks give the same tree, in whichever order and by whatever numbers they came.

mod build;
mod cut;

use super::merged::{Merged, NamesLacking};
use super::names::Names;
use super::profile_type::ProfileType;
use super::shown::{ShownFunction, Weight};

/// The fewest nodes that a tree is cut to: the root, and one for all the rest.
pub const NODES_MIN: usize = 2;

/// A tree of calls.
#[derive(Clone, Debug)]
pub struct Tree {
    profile_type: ProfileType,
    total: Weight,
    functions: Vec<ShownFunction>,
    nodes: Vec<Node>,
    cut_nodes: usize,
    names_lacking: Option<NamesLacking>,
}

/// A function on the path to it from the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// What it is.
    pub label: Label,
    /// Calls from the root, whose depth is 0.
    pub depth: u32,
    /// The place of the parent before anything was cut; the root is its own.
    parent: u32,
    /// What was counted here and below: its own and the totals of its children, exactly.
    pub total: i128,
    /// What was counted in stacks that end here.
    pub own: i128,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Label {
    /// All stacks.
    Root,
    /// A function, by its place in [`Tree::functions`].
    Function(u32),
    /// What was cut of its parent.
    Other,
}

impl Tree {
    /// The tree of all stacks, in order of the names.
    pub fn whole(merged: &Merged) -> Self {
        let names = Names::of(merged);
        let nodes = build::nodes(merged, &names.ranks);
        Self {
            profile_type: merged.profile_type().clone(),
            total: merged.total(),
            functions: names.functions,
            nodes,
            cut_nodes: 0,
            names_lacking: merged.names_lacking().cloned(),
        }
    }

    /// The nodes with the largest totals, at most so many (but [`NODES_MIN`] always are), the largest child first. What is cut of a node is in one more
    /// child of it, [`Label::Other`], so that all totals stay.
    #[must_use]
    pub fn cut_to(self, nodes_max: usize) -> Self {
        let nodes = cut::nodes(&self.nodes, nodes_max.max(NODES_MIN));
        let left = nodes.iter().filter(|node| node.label != Label::Other);
        Self {
            cut_nodes: self.nodes.len().saturating_sub(left.count()),
            nodes,
            ..self
        }
    }

    /// The nodes, each before its children.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// How many nodes were cut.
    pub fn cut_nodes(&self) -> usize {
        self.cut_nodes
    }

    /// The functions that labels refer to, with names that tell apart what was never added up.
    pub fn functions(&self) -> &[ShownFunction] {
        &self.functions
    }

    /// The name of a node for people.
    pub fn name(&self, label: Label) -> &str {
        match label {
            Label::Root => "total",
            Label::Other => "(other)",
            Label::Function(place) => {
                let function = self.functions.get(place as usize);
                function.map_or("", |function| &function.name)
            }
        }
    }

    /// What is counted.
    pub fn profile_type(&self) -> &ProfileType {
        &self.profile_type
    }

    /// The sum over all stacks.
    pub fn total(&self) -> Weight {
        self.total
    }

    /// Why names are not complete, if they are not.
    pub fn names_lacking(&self) -> Option<&NamesLacking> {
        self.names_lacking.as_ref()
    }
}

#[cfg(test)]
mod tests;
