//! The JSON of `/query/*`: types that the handlers fill, the command line reads and openapi.yaml is made of.
//!
//! Counts and values are whole numbers and exact. Values may be beyond 2^53, where readers that know only doubles (JavaScript) round the last digits: 104
//! days of CPU time in nanoseconds. CPU time that is only to be looked at is in seconds.

mod coverage;
mod flame_graph;
mod labels;
pub mod questions;
mod segments;
mod series;
mod top;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use coverage::{CoverageAnswer, CoverageRow, Outcome};
pub use flame_graph::{FlameGraphAnswer, FlameNodes};
pub use labels::{LabelName, LabelNamesAnswer, LabelValuesAnswer};
pub use segments::{FilesOfHour, SegmentHour, SegmentsAnswer};
pub use series::{SeriesAnswer, SeriesLine};
pub use top::{TopAnswer, TopFunction};

/// What was asked, with everything that the request left open filled in: the same request at any later time is the same question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Asked {
    /// The selector in its canonical form, as `{service="checkout"}`.
    pub query: String,
    /// What is counted: `cpu`, or `name:unit`.
    #[serde(rename = "type")]
    pub profile_type: String,
    /// The first moment, RFC 3339.
    pub from: String,
    /// The first moment after it, RFC 3339.
    pub to: String,
    /// Path and query of this request with its window absolute, to be kept or sent to somebody.
    pub permalink: String,
}

/// Samples, and their value in the unit of the type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Amount {
    /// Samples.
    #[schema(value_type = i64)]
    pub count: i128,
    /// Their value, as nanoseconds of CPU time.
    #[schema(value_type = i64)]
    pub value: i128,
}

/// Why names are missing that may be there a moment later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Lacking {
    /// Frames that nobody answered for.
    pub frames: u64,
    /// Why, in words.
    pub detail: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_beyond_64_bits_come_back_exactly() {
        let value = i128::from(i64::MAX) * 1_000 + 7;
        let answer = TopAnswer {
            total: Amount { count: 1, value },
            functions: vec![TopFunction::default()],
            ..TopAnswer::default()
        };
        let text = serde_json::to_string(&answer).unwrap();
        assert!(text.contains(&value.to_string()), "{text}");
        assert_eq!(serde_json::from_str::<TopAnswer>(&text).unwrap(), answer);
    }

    #[test]
    fn outcomes_are_the_words_that_they_say_they_are() {
        for outcome in [
            Outcome::NoDebugInfo,
            Outcome::MissingUnwinder,
            Outcome::NoIdentity,
        ] {
            let json = serde_json::to_string(&outcome).unwrap();
            assert_eq!(json, format!("\"{}\"", outcome.as_str()));
        }
    }
}
