//! `GET /query/*`: questions of people, tools and the command line.
//!
//! Each handler reads its parameters as a question ([`asking`]), has it answered in its turn (`crate::query::Turns`), and writes the answer in the form that was asked for. A
//! connection that closes drops its handler, and with it the work. Windows that are relative to now are told back as absolute ones: in the
//! answer, and as `Content-Location` where the form has no room for it.

mod asking;
pub(super) mod coverage;
mod failure;
pub(super) mod labels;
mod moment;
pub(super) mod profile;
pub(super) mod segments;
pub(super) mod series;
pub(super) mod top;

use axum::Json;
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::response::{IntoResponse as _, Response};
use http::HeaderValue;
use http::header;
use serde::Serialize;

use super::error::ApiError;
use crate::answers::{Asked, Lacking};
use crate::view::NamesLacking;

/// What axum made of the parameters.
type Parameters<T> = Result<Query<T>, QueryRejection>;

fn parameters<T>(parameters: Parameters<T>) -> Result<T, ApiError> {
    match parameters {
        Ok(Query(parameters)) => Ok(parameters),
        Err(rejected) => Err(ApiError::bad_request(rejected.body_text())),
    }
}

/// JSON, and where to ask the same again.
fn json(answer: &impl Serialize, asked: &Asked) -> Response {
    located(Json(answer).into_response(), asked)
}

/// Says where to ask the same again.
fn located(mut response: Response, asked: &Asked) -> Response {
    let headers = response.headers_mut();
    if let Ok(link) = HeaderValue::from_str(&asked.permalink) {
        headers.insert(header::CONTENT_LOCATION, link);
    }
    // Late symbols and late profiles change answers about the past.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn lacking(lacking: &NamesLacking) -> Lacking {
    Lacking {
        frames: lacking.frames,
        detail: lacking.detail.to_string(),
    }
}

/// CPU time in seconds, for people; sums are made before.
#[expect(
    clippy::cast_precision_loss,
    reason = "a sum of nanoseconds is shown, of which the first 15 digits are more than enough"
)]
fn seconds(nanos: i128) -> f64 {
    nanos as f64 / 1e9
}
