//! `GET /query/series`: how much was counted over time, by labels.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Asked, Lacking};

/// Lines over time, the largest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SeriesAnswer {
    /// The question.
    pub asked: Asked,
    /// What the numbers of the points are: `seconds` of CPU time, or the unit of the type.
    pub unit: String,
    /// Seconds from one point to the next. Points lie at whole multiples of it since 1970.
    pub step_seconds: u64,
    /// The labels that lines are made by.
    pub group_by: Vec<String>,
    /// The function whose total the lines are, if one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The lines.
    pub lines: Vec<SeriesLine>,
    /// Lines beyond the limit, which are not listed.
    pub left_out: u64,
    /// Why names are not complete, if they are not and a function was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names_lacking: Option<Lacking>,
}

/// One line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SeriesLine {
    /// The labels of `group_by`; one that series lack is `""`.
    pub labels: BTreeMap<String, String>,
    /// The sum of its points.
    pub total: f64,
    /// Start of the step in seconds since 1970, and what was counted in it. Steps without samples have no point.
    pub points: Vec<(i64, f64)>,
}
