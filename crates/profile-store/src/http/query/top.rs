//! `GET /query/top`: the functions with the most.

use axum::extract::State;
use axum::response::Response;

use super::asking::{Asking, Common, count, filter};
use super::failure::answered;
use super::{Parameters, json, parameters};
use crate::answers::TopAnswer;
use crate::answers::questions::TopQuestion;
use crate::app::App;
use crate::http::error::{ApiError, Problem};
use crate::view::{TopBy, TopOptions, TopOrder, top};

/// Functions that are listed if nobody says how many, and at most.
const LINES: usize = 100;
/// Functions that are listed at most: a list of more is a profile.
const LINES_MAX: usize = 100_000;

/// The functions, source files or binaries with the most: their own, and in total, where recursion counts once.
#[utoipa::path(
    get,
    path = "/query/top",
    tag = "query",
    params(TopQuestion),
    responses(
        (status = 200, description = "The most first", body = TopAnswer),
        (status = 400, description = "A parameter is wrong; the detail says which and where", body = Problem,
         content_type = "application/problem+json"),
        (status = 422, description = "It needs more memory than it may have, or has expired", body = Problem,
         content_type = "application/problem+json"),
        (status = 429, description = "Too many queries at once; come again after Retry-After", body = Problem,
         content_type = "application/problem+json"),
        (status = 503, description = "The table cannot be read now", body = Problem, content_type = "application/problem+json"),
        (status = 504, description = "It takes too long", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(in crate::http) async fn get_top(
    State(app): State<App>,
    asked: Parameters<TopQuestion>,
) -> Result<Response, ApiError> {
    let asked = parameters(asked)?;
    let common = Common {
        query: asked.query.as_deref(),
        from: asked.from.as_deref(),
        to: asked.to.as_deref(),
        profile_type: asked.profile_type.as_deref(),
    };
    let asking = Asking::read("/query/top", common, (&asked, app.clock.now()))?;
    let filter = filter(asked.function.as_deref(), asked.binary.as_deref())?;
    let options = options(&asked)?;
    let profile = app.queries.profile(&asking.question, &filter);
    let merged = answered(&app, asking.question.window, profile).await?;
    let told = asking.asked.clone();
    let answer = tokio::task::spawn_blocking(move || top(&merged, options, told));
    let answer = answer.await.map_err(ApiError::internal)?;
    Ok(json(&answer, &asking.asked))
}

fn options(asked: &TopQuestion) -> Result<TopOptions, ApiError> {
    let by = match asked.by.as_deref() {
        None | Some("function") => TopBy::Function,
        Some("file") => TopBy::File,
        Some("binary") => TopBy::Binary,
        Some(other) => {
            let detail = format!("by: {other:?} is none of function, file and binary");
            return Err(ApiError::bad_request(detail));
        }
    };
    let order = match asked.order.as_deref() {
        None | Some("self") => TopOrder::Own,
        Some("total") => TopOrder::Total,
        Some(other) => {
            let detail = format!("order: {other:?} is neither self nor total");
            return Err(ApiError::bad_request(detail));
        }
    };
    let limit = count("limit", asked.limit.as_deref(), (LINES, LINES_MAX))?;
    Ok(TopOptions { by, order, limit })
}
