//! `GET /query/segments`: what lies in the store, by hour, for those who read it themselves.

use axum::extract::State;
use axum::response::Response;

use super::asking::{Asking, Common};
use super::failure::answered;
use super::{Parameters, json, parameters};
use crate::answers::SegmentsAnswer;
use crate::answers::questions::SegmentsQuestion;
use crate::app::App;
use crate::http::error::{ApiError, Problem};

/// The files of each hour that together have each row once.
#[utoipa::path(
    get,
    path = "/query/segments",
    tag = "query",
    params(SegmentsQuestion),
    responses(
        (status = 200, description = "In order of the hours", body = SegmentsAnswer),
        (status = 400, description = "A parameter is wrong; the detail says which and where", body = Problem,
         content_type = "application/problem+json"),
        (status = 503, description = "The table cannot be read now", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(in crate::http) async fn get_segments(
    State(app): State<App>,
    asked: Parameters<SegmentsQuestion>,
) -> Result<Response, ApiError> {
    let asked = parameters(asked)?;
    let common = Common {
        query: asked.query.as_deref(),
        from: asked.from.as_deref(),
        to: asked.to.as_deref(),
        profile_type: None,
    };
    let asking = Asking::read("/query/segments", common, (&asked, app.clock.now()))?;
    let segments = app.queries.segments(asking.question.window);
    let answer = SegmentsAnswer {
        from: asking.asked.from.clone(),
        to: asking.asked.to.clone(),
        hours: answered(&app, asking.question.window, segments).await?,
    };
    Ok(json(&answer, &asking.asked))
}
