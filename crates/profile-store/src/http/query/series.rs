//! `GET /query/series`: how much was counted over time, by labels.

use axum::extract::State;
use axum::response::Response;

use super::asking::{Asking, Common, count, filter, step, words};
use super::failure::answered;
use super::{Parameters, json, lacking, parameters, seconds};
use crate::answers::questions::SeriesQuestion;
use crate::answers::{SeriesAnswer, SeriesLine};
use crate::app::App;
use crate::http::error::{ApiError, Problem};
use crate::query::{Line, LinesBy, Window};

/// Lines that are told if nobody says how many: more cannot be told apart in a graph.
const LINES: usize = 100;
/// Lines that are told at most.
const LINES_MAX: usize = 10_000;
/// Labels that lines are made by at most: people name one or two.
const GROUP_BY_MAX: usize = 8;
/// Steps of a window: a pixel each on a large screen.
const STEPS_MAX: i64 = 11_000;
/// The steps that are chosen among, in seconds, so that a window has at most 300.
const STEPS: [u32; 10] = [
    60, 300, 900, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400, 604_800,
];
/// Steps of a window if nobody says how long they are.
const STEPS_WANTED: i64 = 300;

/// CPU seconds, or what the type counts, over time: one line, or lines by labels; of everything, or of one function.
#[utoipa::path(
    get,
    path = "/query/series",
    tag = "query",
    params(SeriesQuestion),
    responses(
        (status = 200, description = "Lines, the largest first", body = SeriesAnswer),
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
pub(in crate::http) async fn get_series(
    State(app): State<App>,
    asked: Parameters<SeriesQuestion>,
) -> Result<Response, ApiError> {
    let asked = parameters(asked)?;
    let common = Common {
        query: asked.query.as_deref(),
        from: asked.from.as_deref(),
        to: asked.to.as_deref(),
        profile_type: asked.profile_type.as_deref(),
    };
    let Asking {
        question,
        asked: told,
    } = Asking::read("/query/series", common, (&asked, app.clock.now()))?;
    let filter = filter(asked.function.as_deref(), asked.binary.as_deref())?;
    let by = lines_by(&asked, &question.window)?;
    let limit = count("limit", asked.limit.as_deref(), (LINES, LINES_MAX))?;
    let series = app.queries.series(&question, &filter, &by);
    let found = answered(&app, question.window, series).await?;
    let is_cpu = question.profile_type.is_cpu();
    let all = found.lines.len();
    let lines = found.lines.iter().take(limit);
    let answer = SeriesAnswer {
        asked: told.clone(),
        unit: if is_cpu {
            "seconds".to_owned()
        } else {
            question.profile_type.unit().to_owned()
        },
        step_seconds: by.step_seconds.into(),
        lines: lines.map(|line| shown(line, &by, is_cpu)).collect(),
        group_by: by.labels,
        function: asked.function,
        left_out: u64::try_from(all.saturating_sub(limit)).unwrap_or(u64::MAX),
        names_lacking: found.names_lacking.as_ref().map(lacking),
    };
    Ok(json(&answer, &told))
}

fn lines_by(asked: &SeriesQuestion, window: &Window) -> Result<LinesBy, ApiError> {
    let mut labels = words(asked.group_by.as_deref().unwrap_or_default());
    labels.dedup();
    if labels.len() > GROUP_BY_MAX {
        let detail = format!("group_by: {} labels, at most {GROUP_BY_MAX}", labels.len());
        return Err(ApiError::bad_request(detail));
    }
    let length = window.length().as_secs();
    let chosen = || {
        let mut enough = STEPS.iter();
        let enough = enough.find(|step| length / i64::from(**step) <= STEPS_WANTED);
        enough.or(STEPS.last()).copied().unwrap_or_default()
    };
    let step_seconds = step(asked.step.as_deref())?.unwrap_or_else(chosen);
    if length / i64::from(step_seconds) > STEPS_MAX {
        let detail =
            format!("step: the window has more than {STEPS_MAX} steps of {step_seconds} s");
        return Err(ApiError::bad_request(detail));
    }
    Ok(LinesBy {
        labels,
        step_seconds,
    })
}

fn shown(line: &Line, by: &LinesBy, is_cpu: bool) -> SeriesLine {
    let names = by.labels.iter().cloned();
    let values = line.labels.iter().map(ToString::to_string);
    let number = |value: i128| {
        if is_cpu {
            seconds(value)
        } else {
            seconds(value.saturating_mul(1_000_000_000))
        }
    };
    let points = line.points.iter();
    SeriesLine {
        labels: names.zip(values).collect(),
        total: number(line.total()),
        points: points.map(|(at, value)| (*at, number(*value))).collect(),
    }
}
