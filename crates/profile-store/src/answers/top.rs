//! `GET /query/top`: the functions with the most.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Amount, Asked, Lacking};

/// Functions, the most first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TopAnswer {
    /// The question.
    pub asked: Asked,
    /// The unit of the values, as `nanoseconds`.
    pub unit: String,
    /// What was counted in all.
    pub total: Amount,
    /// The functions.
    pub functions: Vec<TopFunction>,
    /// Functions beyond the limit, which are not listed.
    pub left_out: u64,
    /// Why names are not complete, if they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names_lacking: Option<Lacking>,
}

/// One function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TopFunction {
    /// Its name, or what stands for one: `binary+0x1a2b`, `[python]`.
    pub function: String,
    /// The source file, empty if unknown.
    pub file: String,
    /// The binary, empty if there is none.
    pub binary: String,
    /// What it is, as in the flame graph.
    pub kind: String,
    /// Of stacks that end in it.
    #[serde(rename = "self")]
    pub own: Amount,
    /// Of stacks that it is in, each counted once however often it is there.
    pub total: Amount,
}
