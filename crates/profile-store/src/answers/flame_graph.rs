//! `GET /query/profile` with `format=json`: a tree of calls in columns.
//!
//! Nodes stand in the order of a walk that visits a node before its children and the largest child first; `depth` says how deep each is, so that the
//! parent is the last node before it whose depth is one less. Node 0 is the root.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Amount, Asked, Lacking};

/// A merged profile as a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlameGraphAnswer {
    /// The question.
    pub asked: Asked,
    /// The unit of the values, as `nanoseconds`.
    pub unit: String,
    /// What was counted in all.
    pub total: Amount,
    /// Texts that functions refer to by their place; the first is empty.
    pub strings: Vec<String>,
    /// Functions that nodes refer to by their place, each as places of its name, source file, binary and kind in `strings`. Kinds are
    /// `native`, `unresolved`, `vdso`, `named`, `kernel`, `missing_unwinder`, `truncated`, `unplaced`, and two that are no functions:
    /// `root`, and `other` for what `max_nodes` has cut.
    pub functions: Vec<[u32; 4]>,
    /// The tree.
    pub nodes: FlameNodes,
    /// Nodes that `max_nodes` has put into those of kind `other`.
    pub cut_nodes: u64,
    /// Why names are not complete, if they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names_lacking: Option<Lacking>,
}

/// The nodes, a column each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlameNodes {
    /// Calls from the root, which has 0.
    pub depth: Vec<u32>,
    /// The place of the function in `functions`.
    pub function: Vec<u32>,
    /// The value of the node with all below it: its own and the totals of its children, exactly.
    #[schema(value_type = Vec<i64>)]
    pub total: Vec<i128>,
    /// The value of stacks that end here.
    #[serde(rename = "self")]
    #[schema(value_type = Vec<i64>)]
    pub own: Vec<i128>,
}
