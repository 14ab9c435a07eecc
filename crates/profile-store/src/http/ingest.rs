//! Profiles by HTTP: OTLP as `POST /v1development/profiles`, pprof as `POST /profiles` with labels in the query.

use axum::Json;
use axum::body::Body;
use axum::extract::{Query, Request, State};
use axum::response::{IntoResponse as _, Response};
use http::header::{CONTENT_TYPE, HeaderMap};
use serde::Serialize;
use serde_json::json;

use super::content_encoding;
use super::error::{ApiError, ApiErrorKind, ErrorForm, Problem};
use super::receive::receive;
use super::{grpc, wire};
use crate::app::App;
use crate::append::{AppendError, Appended};
use crate::ingest::{Incoming, IngestError, Ingested, is_limit};
use crate::metrics::Protocol;

/// Labels of one request: more than the store keeps of a series by far.
const LABELS_MAX: usize = 128;

/// Takes profiles as OTLP has them, `ExportProfilesServiceRequest`, and answers when they are durable.
///
/// Protobuf or JSON by its media type, gzip or zstd. What was sent before, byte for byte within ten minutes, is kept once. The answer is an
/// `ExportProfilesServiceResponse`, with `partial_success` where single profiles were not kept.
#[utoipa::path(
    post,
    path = "/v1development/profiles",
    tag = "ingest",
    request_body(
        description = "`ExportProfilesServiceRequest`",
        content(("application/x-protobuf"), ("application/json"))
    ),
    responses(
        (status = 200, description = "All that is not in `partial_success` is durable"),
        (status = 400, description = "It is no such message, as `google.rpc.Status`"),
        (status = 401, description = "It needs the write token, as `google.rpc.Status`"),
        (status = 408, description = "The body stopped coming"),
        (status = 413, description = "It exceeds a limit, which the message names"),
        (status = 415, description = "Neither protobuf nor JSON, or an encoding that is not understood"),
        (status = 429, description = "No room at the moment; `Retry-After` says when to come again"),
        (status = 503, description = "It cannot be stored now; `Retry-After` says when to come again"),
    )
)]
pub(super) async fn post_otlp(State(app): State<App>, request: Request) -> Response {
    let form = error_form(&request);
    let (parts, body) = request.into_parts();
    match otlp(&app, &parts.headers, body).await {
        Ok((protocol, ingested)) => export_answer(protocol, &ingested),
        Err(error) => error.into_response_as(form),
    }
}

async fn otlp(
    app: &App,
    headers: &HeaderMap,
    body: Body,
) -> Result<(Protocol, Ingested), ApiError> {
    let protocol = match media_type(headers).as_str() {
        "application/x-protobuf" | "application/protobuf" => Protocol::OtlpHttp,
        "application/json" => Protocol::OtlpJson,
        other => {
            let detail = format!(
                "the media type {other:?} is not understood; send application/x-protobuf or application/json"
            );
            return Err(ApiError::new(ApiErrorKind::UnsupportedMediaType, detail));
        }
    };
    let encoding = content_encoding::of(headers)?;
    let body = receive(app, protocol, headers, body).await?;
    let incoming = Incoming {
        protocol,
        encoding,
        body,
        labels: Vec::new(),
    };
    let ingested = app.ingest.take(incoming).await.map_err(refusal)?;
    Ok((protocol, ingested))
}

fn export_answer(protocol: Protocol, ingested: &Ingested) -> Response {
    let rejections = ingested.rejections.as_deref();
    if protocol == Protocol::OtlpJson {
        let answer = match rejections {
            // 64-bit numbers are strings in the JSON of protobuf.
            Some(why) => json!({ "partialSuccess": {
                "rejectedProfiles": ingested.rejected.to_string(), "errorMessage": why,
            }}),
            None => json!({}),
        };
        return ([(CONTENT_TYPE, wire::JSON)], answer.to_string()).into_response();
    }
    let answer = wire::export_response(rejections.map(|why| (ingested.rejected, why)));
    ([(CONTENT_TYPE, wire::PROTOBUF)], answer).into_response()
}

/// What became of a pprof.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct PprofAnswer {
    /// Rows that are durable.
    rows: usize,
    /// Whether it was stored before, within ten minutes and with the same labels.
    resent: bool,
}

/// Takes a pprof, gzip or not, with labels in the query, and answers when it is durable.
///
/// `service`, `version`, `deployment` and `instance` are labels as all others: any name may stand in the query. Without them they
/// read `unlabelled`.
#[utoipa::path(
    post,
    path = "/profiles",
    tag = "ingest",
    params(
        ("service" = Option<String>, Query, description = "Whose profile it is"),
        ("version" = Option<String>, Query, description = "Of which version"),
        ("deployment" = Option<String>, Query, description = "Where it runs"),
        ("instance" = Option<String>, Query, description = "Which of them"),
    ),
    request_body(
        description = "google/pprof's `Profile`",
        content(("application/octet-stream"))
    ),
    responses(
        (status = 200, description = "It is durable", body = PprofAnswer),
        (status = 400, description = "It is no pprof, or of another time", body = Problem,
         content_type = "application/problem+json"),
        (status = 401, description = "It needs the write token", body = Problem,
         content_type = "application/problem+json"),
        (status = 408, description = "The body stopped coming", body = Problem,
         content_type = "application/problem+json"),
        (status = 413, description = "It exceeds a limit, which is named", body = Problem,
         content_type = "application/problem+json"),
        (status = 415, description = "An encoding that is not understood", body = Problem,
         content_type = "application/problem+json"),
        (status = 429, description = "No room at the moment; `Retry-After` says when to come again",
         body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "It cannot be stored now; `Retry-After` says when to come again",
         body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn post_pprof(
    State(app): State<App>,
    labels: Result<Query<Vec<(String, String)>>, axum::extract::rejection::QueryRejection>,
    request: Request,
) -> Result<Json<PprofAnswer>, ApiError> {
    let labels = labels.map_err(|error| ApiError::bad_request(error.body_text()))?;
    if labels.len() > LABELS_MAX {
        let detail = format!("the query has more than {LABELS_MAX} labels");
        return Err(ApiError::bad_request(detail));
    }
    let (parts, body) = request.into_parts();
    let encoding = content_encoding::of(&parts.headers)?;
    let body = receive(&app, Protocol::Pprof, &parts.headers, body).await?;
    let incoming = Incoming {
        protocol: Protocol::Pprof,
        encoding,
        body,
        labels: labels.0,
    };
    let ingested = app.ingest.take(incoming).await.map_err(refusal)?;
    // A pprof is one profile: kept as a whole, or not at all.
    if let Some(why) = ingested.rejections {
        return Err(ApiError::bad_request(why));
    }
    Ok(Json(PprofAnswer {
        rows: ingested.rows,
        resent: ingested.appended == Appended::Resent,
    }))
}

/// What whoever sent a message is told.
pub(super) fn refusal(error: IngestError) -> ApiError {
    let kind = match &error {
        IngestError::TooLarge { .. } => ApiErrorKind::TooLarge,
        IngestError::Malformed(malformed) if is_limit(malformed) => ApiErrorKind::TooLarge,
        IngestError::Encoding(_) | IngestError::Malformed(_) => ApiErrorKind::BadRequest,
        IngestError::Busy { .. } | IngestError::Append(AppendError::Busy) => ApiErrorKind::Busy,
        IngestError::Append(_) | IngestError::TooLong { .. } => {
            let detail = "the object store does not take it now; send it again, it is kept once";
            return ApiError::unavailable(detail).with_source(error);
        }
        IngestError::Panicked => return ApiError::internal(error),
    };
    ApiError::new(kind, error.to_string())
}

/// The media type of a request without its parameters.
fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
    let bare = value.unwrap_or_default().split(';').next();
    bare.unwrap_or_default().trim().to_ascii_lowercase()
}

/// The form of errors that whoever sends this request understands.
pub(super) fn error_form(request: &Request) -> ErrorForm {
    let headers = request.headers();
    if grpc::is_grpc(headers) {
        return ErrorForm::Grpc;
    }
    if request.uri().path() != "/v1development/profiles" {
        return ErrorForm::Problem;
    }
    // OTLP over HTTP: a Status in the media type of the request.
    match media_type(headers).as_str() {
        "application/json" => ErrorForm::StatusJson,
        _ => ErrorForm::StatusProtobuf,
    }
}
