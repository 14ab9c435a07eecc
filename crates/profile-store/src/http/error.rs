//! What a failed request is told: the one place that knows status codes, of HTTP and of gRPC.
//!
//! The public text says what was wrong and what would be right; the source is for the log and never leaves. The JSON API answers RFC
//! 9457 problems; OTLP over HTTP a `google.rpc.Status` in the media type of the request, and gRPC a status in trailers, as their specifications have it.

use std::error::Error as StdError;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{self, HeaderName, HeaderValue};
use serde::Serialize;
use serde_json::json;
use tonic::{Code, Status};

use super::wire;

/// The media type of RFC 9457.
const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
/// When to come again where nobody knows better.
const COME_AGAIN: Duration = Duration::from_secs(5);

type Source = Arc<dyn StdError + Send + Sync>;

/// The ways in which a request fails; each has one status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApiErrorKind {
    /// 400: the request itself is wrong, whatever is stored.
    BadRequest,
    /// 401: a write without the token.
    Unauthorized,
    /// 404: it does not exist, definitely.
    NotFound,
    /// 405: the path exists, the method does not.
    MethodNotAllowed,
    /// 408: the body stopped coming, or came too slowly.
    BodyStalled,
    /// 413: it exceeds a limit.
    TooLarge,
    /// 415: an encoding or media type that is not understood.
    UnsupportedMediaType,
    /// 422: well-formed, but more than can be answered.
    Unprocessable,
    /// 429: no room for it at the moment. Says when to come again.
    Busy,
    /// 500: a mistake of ours.
    Internal,
    /// 500: something stored cannot be read, now or later. The text names it.
    Damaged,
    /// 503: it cannot be done now. Says when to come again.
    Unavailable,
    /// 504: it takes longer than anybody waits.
    Timeout,
}

impl ApiErrorKind {
    fn status(self) -> StatusCode {
        match self {
            Self::BadRequest => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::BodyStalled => StatusCode::REQUEST_TIMEOUT,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Unprocessable => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Busy => StatusCode::TOO_MANY_REQUESTS,
            Self::Internal | Self::Damaged => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Timeout => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// OTLP's clients send again what failed by `Unavailable`, and by `ResourceExhausted` with a time.
    fn grpc_code(self) -> Code {
        match self {
            Self::BadRequest | Self::Unprocessable => Code::InvalidArgument,
            Self::Unauthorized => Code::Unauthenticated,
            Self::NotFound => Code::NotFound,
            Self::MethodNotAllowed | Self::UnsupportedMediaType => Code::Unimplemented,
            Self::BodyStalled | Self::Timeout => Code::DeadlineExceeded,
            Self::TooLarge | Self::Busy => Code::ResourceExhausted,
            Self::Internal => Code::Internal,
            Self::Damaged => Code::DataLoss,
            Self::Unavailable => Code::Unavailable,
        }
    }

    /// The last part of the problem's `type`, and its `title`.
    fn name_and_title(self) -> (&'static str, &'static str) {
        match self {
            Self::BadRequest => ("bad-request", "The request is wrong"),
            Self::Unauthorized => ("unauthorized", "Writing needs the write token"),
            Self::NotFound => ("not-found", "Not found"),
            Self::MethodNotAllowed => ("method-not-allowed", "This path has no such method"),
            Self::BodyStalled => ("body-stalled", "The request's body stopped coming"),
            Self::TooLarge => ("too-large", "A limit is exceeded"),
            Self::UnsupportedMediaType => ("unsupported-media-type", "Encoding not understood"),
            Self::Unprocessable => ("unprocessable", "It cannot be answered"),
            Self::Busy => ("busy", "No room at the moment"),
            Self::Internal => ("internal", "A mistake of the server"),
            Self::Damaged => ("damaged", "Something stored is damaged"),
            Self::Unavailable => ("unavailable", "Not possible now"),
            Self::Timeout => ("timeout", "It takes too long"),
        }
    }

    fn passes(self) -> bool {
        matches!(self, Self::Busy | Self::Unavailable)
    }
}

/// In which form a client understands errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorForm {
    /// RFC 9457.
    Problem,
    /// `google.rpc.Status` as protobuf.
    StatusProtobuf,
    /// The same as JSON.
    StatusJson,
    /// Trailers of gRPC.
    Grpc,
}

/// A failed request: what the client is told, and what the log is told.
#[derive(Clone, Debug)]
pub struct ApiError {
    kind: ApiErrorKind,
    detail: String,
    source: Option<Source>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// What the request log says of a failed request; it travels in the response's extensions.
#[derive(Clone, Debug)]
pub struct LoggedError {
    /// The public text and the chain of sources behind it.
    pub text: String,
}

impl ApiError {
    /// A failure of a kind; `detail` is public: what was found, and what would be right.
    pub fn new(kind: ApiErrorKind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            source: None,
            headers: Vec::new(),
        }
    }

    /// The request itself is wrong, whatever is stored.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(ApiErrorKind::BadRequest, detail)
    }

    /// It does not exist, definitely.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(ApiErrorKind::NotFound, detail)
    }

    /// A limit is exceeded; `detail` names the limit.
    pub fn too_large(detail: impl Into<String>) -> Self {
        Self::new(ApiErrorKind::TooLarge, detail)
    }

    /// It cannot be done now.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(ApiErrorKind::Unavailable, detail)
    }

    /// A mistake of ours; the client learns nothing of the source.
    pub fn internal(source: impl StdError + Send + Sync + 'static) -> Self {
        Self::new(ApiErrorKind::Internal, "the server's log says more").with_source(source)
    }

    /// Adds what the log should say; it never reaches the client.
    #[must_use]
    pub fn with_source(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// The kind of this failure.
    pub fn kind(&self) -> ApiErrorKind {
        self.kind
    }

    /// The answer in the form that the client understands.
    pub(super) fn into_response_as(self, form: ErrorForm) -> Response {
        match form {
            ErrorForm::Problem => {
                let body = serde_json::to_string(&self.problem()).unwrap_or_default();
                self.respond(PROBLEM_JSON, Body::from(body))
            }
            ErrorForm::StatusProtobuf => {
                let body = self.status_message();
                self.respond(wire::PROTOBUF, Body::from(body))
            }
            ErrorForm::StatusJson => {
                let code = i32::from(self.kind.grpc_code());
                let body = json!({ "code": code, "message": self.detail }).to_string();
                self.respond(wire::JSON, Body::from(body))
            }
            ErrorForm::Grpc => {
                let details = bytes::Bytes::from(self.status_message());
                let status = Status::with_details(self.kind.grpc_code(), &self.detail, details);
                let mut response = status.into_http::<Body>();
                response.extensions_mut().insert(self.logged());
                response
            }
        }
    }

    fn status_message(&self) -> Vec<u8> {
        let wait = self.kind.passes().then_some(COME_AGAIN);
        wire::status(self.kind.grpc_code().into(), &self.detail, wait)
    }

    fn problem(&self) -> Problem {
        let (name, title) = self.kind.name_and_title();
        Problem {
            r#type: format!("urn:unhex:problem:{name}"),
            title,
            status: self.kind.status().as_u16(),
            detail: self.detail.clone(),
        }
    }

    fn respond(self, content_type: HeaderValue, body: Body) -> Response {
        let mut response = (self.kind.status(), body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, content_type);
        headers.insert(header::CACHE_CONTROL, NO_STORE);
        if self.kind.passes() {
            headers.insert(header::RETRY_AFTER, COME_AGAIN.as_secs().into());
        }
        headers.extend(self.headers.iter().cloned());
        response.extensions_mut().insert(self.logged());
        response
    }

    fn logged(&self) -> LoggedError {
        let mut text = self.detail.clone();
        let mut next = self.source.as_deref().map(|source| source as &dyn StdError);
        while let Some(source) = next {
            let _infallible = write!(text, ": {source}");
            next = source.source();
        }
        LoggedError { text }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        self.into_response_as(ErrorForm::Problem)
    }
}

/// An RFC 9457 problem document.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub struct Problem {
    /// `urn:unhex:problem:` and a name that never changes: what programs should look at.
    #[schema(example = "urn:unhex:problem:bad-request")]
    r#type: String,
    /// The kind of failure in words.
    title: &'static str,
    /// The status of the answer.
    #[schema(example = 400)]
    status: u16,
    /// What was found, and what would be right.
    detail: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_says_when_to_come_again_in_every_form() {
        let busy = || ApiError::new(ApiErrorKind::Busy, "full");
        for form in [
            ErrorForm::Problem,
            ErrorForm::StatusProtobuf,
            ErrorForm::StatusJson,
        ] {
            let answer = busy().into_response_as(form);
            assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS, "{form:?}");
            assert_eq!(answer.headers()[header::RETRY_AFTER], "5", "{form:?}");
        }
        let answer = busy().into_response_as(ErrorForm::Grpc);
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.headers()["grpc-status"], "8");
        assert!(answer.headers().contains_key("grpc-status-details-bin"));
        let definite = ApiError::bad_request("wrong").into_response();
        assert!(!definite.headers().contains_key(header::RETRY_AFTER));
    }
}
