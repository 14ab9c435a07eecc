//! `GET /query/labels`: which labels there are, and which values one of them has.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Asked;

/// The names of the labels that the selected series have in the window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LabelNamesAnswer {
    /// The question.
    pub asked: Asked,
    /// The types of profile that there are, `cpu` first.
    pub types: Vec<String>,
    /// Series with different labels.
    pub series: u64,
    /// In order of their names.
    pub labels: Vec<LabelName>,
}

/// One label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LabelName {
    /// Its name.
    pub name: String,
    /// How many different values it has.
    pub values: u64,
}

/// The values of one label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LabelValuesAnswer {
    /// The question.
    pub asked: Asked,
    /// The label.
    pub label: String,
    /// Its values, in their order; `""` where some series lack it.
    pub values: Vec<String>,
    /// Values beyond the limit, which are not listed.
    pub left_out: u64,
}
