//! `GET /query/coverage`: how much of the CPU time has its names, and why the rest has not.

use axum::extract::State;
use axum::response::Response;

use super::asking::{Asking, Common, count, step, words};
use super::failure::answered;
use super::{Parameters, json, parameters, seconds};
use crate::answers::questions::CoverageQuestion;
use crate::answers::{CoverageAnswer, CoverageRow};
use crate::app::App;
use crate::http::error::{ApiError, Problem};
use crate::query::{CoverageBy, CoverageLine};

/// Rows that are listed if nobody says how many.
const ROWS: usize = 1_000;
/// Rows that are listed at most.
const ROWS_MAX: usize = 100_000;

/// CPU seconds by outcome: what has names, of which quality, and what is missing that somebody could upload, or unwind. The `self_seconds` of all rows
/// add up to `total_seconds`.
#[utoipa::path(
    get,
    path = "/query/coverage",
    tag = "query",
    params(CoverageQuestion),
    responses(
        (status = 200, description = "The most seconds first", body = CoverageAnswer),
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
pub(in crate::http) async fn get_coverage(
    State(app): State<App>,
    asked: Parameters<CoverageQuestion>,
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
    } = Asking::read("/query/coverage", common, (&asked, app.clock.now()))?;
    let by = by(asked.group_by.as_deref())?;
    let step = step(asked.step.as_deref())?;
    let limit = count("limit", asked.limit.as_deref(), (ROWS, ROWS_MAX))?;
    let coverage = app.queries.coverage(&question, by, step);
    let coverage = answered(&app, question.window, coverage).await?;
    let all = coverage.rows.len();
    let answer = CoverageAnswer {
        asked: told.clone(),
        total_seconds: seconds(coverage.total.value),
        whole_seconds: seconds(coverage.whole.value),
        rows: coverage.rows.iter().take(limit).map(row).collect(),
        left_out: u64::try_from(all.saturating_sub(limit)).unwrap_or(u64::MAX),
    };
    Ok(json(&answer, &told))
}

fn by(text: Option<&str>) -> Result<CoverageBy, ApiError> {
    let mut by = CoverageBy {
        labels: [text.is_none(); 3],
        binary: text.is_none(),
    };
    let [service, version, deployment] = &mut by.labels;
    for word in words(text.unwrap_or_default()) {
        match word.as_str() {
            "service" => *service = true,
            "version" => *version = true,
            "deployment" => *deployment = true,
            "binary" => by.binary = true,
            other => {
                let detail = format!(
                    "group_by: {other:?} is none of service, version, deployment and binary"
                );
                return Err(ApiError::bad_request(detail));
            }
        }
    }
    Ok(by)
}

fn row(line: &CoverageLine) -> CoverageRow {
    let [service, version, deployment] = line.labels.each_ref().map(ToString::to_string);
    let class = &line.class;
    let all = seconds(line.of.value);
    let of_all = seconds(line.weight.value);
    CoverageRow {
        service,
        version,
        deployment,
        time: line.step.map(|micros| micros.div_euclid(1_000_000)),
        binary: class.binary.to_string(),
        build_id: class.identity.as_ref().map(ToString::to_string),
        id_kind: class.identity.as_ref().map(unhex_build_id::Identity::kind),
        outcome: class.outcome,
        quality: class.quality,
        detail: class.detail.to_string(),
        seconds: of_all,
        self_seconds: seconds(line.own.value),
        share: if all > 0.0 { of_all / all } else { 0.0 },
    }
}
