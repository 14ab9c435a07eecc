//! `GET /query/labels`: which labels there are, and which values one of them has.

use axum::extract::State;
use axum::response::Response;

use super::asking::{Asking, Common, count};
use super::failure::answered;
use super::{Parameters, json, parameters};
use crate::answers::questions::LabelsQuestion;
use crate::answers::{LabelName, LabelNamesAnswer, LabelValuesAnswer};
use crate::app::App;
use crate::http::error::{ApiError, Problem};

/// Values that are listed if nobody says how many.
const VALUES: usize = 1_000;
/// Values that are listed at most: a fleet has tens of thousands of containers a day.
const VALUES_MAX: usize = 100_000;

/// The names of labels and the types of profile, or with `label` the values of one.
#[utoipa::path(
    get,
    path = "/query/labels",
    tag = "query",
    params(LabelsQuestion),
    responses(
        (status = 200, description = "The names of labels; with `label` a `LabelValuesAnswer`", body = LabelNamesAnswer),
        (status = 400, description = "A parameter is wrong; the detail says which and where", body = Problem,
         content_type = "application/problem+json"),
        (status = 429, description = "Too many queries at once; come again after Retry-After", body = Problem,
         content_type = "application/problem+json"),
        (status = 503, description = "The table cannot be read now", body = Problem, content_type = "application/problem+json"),
        (status = 504, description = "It takes too long", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(in crate::http) async fn get_labels(
    State(app): State<App>,
    asked: Parameters<LabelsQuestion>,
) -> Result<Response, ApiError> {
    let asked = parameters(asked)?;
    let common = Common {
        query: asked.query.as_deref(),
        from: asked.from.as_deref(),
        to: asked.to.as_deref(),
        profile_type: None,
    };
    let Asking {
        question,
        asked: told,
    } = Asking::read("/query/labels", common, (&asked, app.clock.now()))?;
    let limit = count("limit", asked.limit.as_deref(), (VALUES, VALUES_MAX))?;
    let labels = app.queries.labels(&question);
    let labels = answered(&app, question.window, labels).await?;
    if let Some(label) = asked.label {
        let mut labels = labels;
        let values = labels.values.remove(&label).unwrap_or_default();
        let all = values.len();
        let answer = LabelValuesAnswer {
            values: values.into_iter().take(limit).collect(),
            left_out: u64::try_from(all.saturating_sub(limit)).unwrap_or(u64::MAX),
            asked: told.clone(),
            label,
        };
        return Ok(json(&answer, &told));
    }
    let types = app.queries.types(&question);
    let types = answered(&app, question.window, types).await?;
    let names = labels.values.iter().map(|(name, values)| LabelName {
        name: name.clone(),
        values: u64::try_from(values.len()).unwrap_or(u64::MAX),
    });
    let answer = LabelNamesAnswer {
        asked: told.clone(),
        types,
        series: labels.series,
        labels: names.collect(),
    };
    Ok(json(&answer, &told))
}
