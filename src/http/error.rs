//! What a failed request is told: the one place that knows status codes.
//!
//! The public text says what was wrong and what would be right; the source is for the log and never
//! leaves. The JSON API answers RFC 9457 problems, debuginfod paths short plain text, since gdb and
//! `debuginfod-find` show nothing and `curl` shows all.

use std::error::Error as StdError;
use std::fmt::Write as _;
use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{self, HeaderName, HeaderValue};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::artifacts::LocateError;

/// The media type of RFC 9457.
const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");
const TEXT_PLAIN: HeaderValue = HeaderValue::from_static("text/plain");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
/// When to come again for what is not known now, in seconds: stores and disks recover in seconds or
/// in hours, and clients double their waits themselves.
const COME_AGAIN: HeaderValue = HeaderValue::from_static("5");

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
    /// 406: larger than the client's `X-DEBUGINFOD-MAXSIZE`.
    LargerThanAsked,
    /// 409: it contradicts what is stored.
    Conflict,
    /// 413: it exceeds a limit.
    TooLarge,
    /// 415: an encoding or media type that is not understood.
    UnsupportedMediaType,
    /// 416: a range outside the file.
    RangeNotSatisfiable,
    /// 422: well-formed, but the file in it cannot be used.
    Unprocessable,
    /// 408: the body stopped coming.
    BodyStalled,
    /// 500: a mistake of ours.
    Internal,
    /// 503: it is not known now; never remembered as absence. Says when to come again.
    Unavailable,
    /// 507: the disk is full.
    StorageFull,
}

impl ApiErrorKind {
    fn status(self) -> StatusCode {
        match self {
            Self::BadRequest => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::LargerThanAsked => StatusCode::NOT_ACCEPTABLE,
            Self::Conflict => StatusCode::CONFLICT,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::RangeNotSatisfiable => StatusCode::RANGE_NOT_SATISFIABLE,
            Self::Unprocessable => StatusCode::UNPROCESSABLE_ENTITY,
            Self::BodyStalled => StatusCode::REQUEST_TIMEOUT,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::StorageFull => StatusCode::INSUFFICIENT_STORAGE,
        }
    }

    /// The last part of the problem's `type`, and its `title`.
    fn name_and_title(self) -> (&'static str, &'static str) {
        match self {
            Self::BadRequest => ("bad-request", "The request is wrong"),
            Self::Unauthorized => ("unauthorized", "Writing needs the write token"),
            Self::NotFound => ("not-found", "Not found"),
            Self::MethodNotAllowed => ("method-not-allowed", "This path has no such method"),
            Self::LargerThanAsked => ("larger-than-asked", "Larger than the client wants"),
            Self::Conflict => ("conflict", "It contradicts what is stored"),
            Self::TooLarge => ("too-large", "A limit is exceeded"),
            Self::UnsupportedMediaType => ("unsupported-media-type", "Encoding not understood"),
            Self::RangeNotSatisfiable => ("range-not-satisfiable", "Range outside the file"),
            Self::Unprocessable => ("unprocessable", "The file cannot be used"),
            Self::BodyStalled => ("body-stalled", "The request's body stopped coming"),
            Self::Internal => ("internal", "A mistake of the server"),
            Self::Unavailable => ("unavailable", "Not known now"),
            Self::StorageFull => ("storage-full", "The server's disk is full"),
        }
    }
}

/// A failed request: what the client is told, and what the log is told.
#[derive(Clone, Debug)]
pub struct ApiError {
    kind: ApiErrorKind,
    detail: String,
    lasts: bool,
    source: Option<Source>,
    members: Map<String, Value>,
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
            lasts: false,
            source: None,
            members: Map::new(),
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

    /// A mistake of ours; the client learns nothing of the source.
    pub fn internal(source: impl StdError + Send + Sync + 'static) -> Self {
        Self::new(ApiErrorKind::Internal, "the server's log says more").with_source(source)
    }

    /// The same, of something that does not pass by itself.
    #[must_use]
    pub fn lasting(mut self) -> Self {
        self.lasts = true;
        self
    }

    /// Whether the same request may fare better in a moment.
    pub fn may_pass(&self) -> bool {
        self.kind == ApiErrorKind::Unavailable && !self.lasts
    }

    /// Adds what the log should say; it never reaches the client.
    #[must_use]
    pub fn with_source(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Adds a member to the problem document (RFC 9457 §3.2).
    #[must_use]
    pub fn with_member(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.members.insert(name.to_owned(), value.into());
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

    /// The public text.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The answer on a debuginfod path: the public text, plain.
    pub fn into_text_response(self) -> Response {
        let body = self.detail.clone();
        self.respond(TEXT_PLAIN, body)
    }

    fn problem(&self) -> Problem {
        let (name, title) = self.kind.name_and_title();
        Problem {
            r#type: format!("urn:unhex:problem:{name}"),
            title,
            status: self.kind.status().as_u16(),
            detail: self.detail.clone(),
            members: self.members.clone(),
        }
    }

    fn respond(self, content_type: HeaderValue, body: String) -> Response {
        let mut response = (self.kind.status(), body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, content_type);
        headers.insert(header::CACHE_CONTROL, NO_STORE);
        if self.kind == ApiErrorKind::Unavailable {
            headers.insert(header::RETRY_AFTER, COME_AGAIN);
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
        let body = serde_json::to_string(&self.problem()).unwrap_or_default();
        self.respond(PROBLEM_JSON, body)
    }
}

impl From<LocateError> for ApiError {
    fn from(error: LocateError) -> Self {
        let detail = match &error {
            LocateError::Damaged { .. } => "a stored object is damaged; the server's log names it",
            LocateError::Upstream { .. } | LocateError::UpstreamDown { .. } => {
                "upstream servers cannot say now; ask again later"
            }
            LocateError::NoRoom { .. } => "the disk of this server is full; ask again later",
            LocateError::InPlace { .. } => {
                "the scanned files are not all known now; ask again later"
            }
            _ => "the object store cannot be read now; ask again later",
        };
        let lasts = matches!(
            error,
            LocateError::Damaged { .. } | LocateError::UpstreamDown { .. }
        );
        let unavailable = Self::new(ApiErrorKind::Unavailable, detail).with_source(error);
        if lasts {
            unavailable.lasting()
        } else {
            unavailable
        }
    }
}

/// An RFC 9457 problem document.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub struct Problem {
    /// `urn:unhex:problem:` and a name that never changes: what programs should look at.
    #[schema(example = "urn:unhex:problem:not-found")]
    r#type: String,
    /// The kind of failure in words.
    title: &'static str,
    /// The status of the answer.
    #[schema(example = 404)]
    status: u16,
    /// What was found, and what would be right.
    detail: String,
    /// More members, by kind.
    #[serde(flatten)]
    #[schema(value_type = std::collections::BTreeMap<String, Object>)]
    members: Map<String, Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_held_for_what_does_not_pass_soon() {
        let detail = String::new;
        let may_pass = |error| ApiError::from(error).may_pass();
        assert!(may_pass(LocateError::Upstream { detail: detail() }));
        assert!(!may_pass(LocateError::UpstreamDown { detail: detail() }));
        let (key, detail) = (detail(), detail());
        assert!(!may_pass(LocateError::Damaged { key, detail }));
    }

    #[test]
    fn what_is_not_known_now_says_when_to_come_again_in_either_form() {
        let error = || ApiError::new(ApiErrorKind::Unavailable, "not now");
        for answer in [error().into_response(), error().into_text_response()] {
            assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(answer.headers()[header::RETRY_AFTER], "5");
        }
        let definite = ApiError::not_found("not there").into_response();
        assert!(!definite.headers().contains_key(header::RETRY_AFTER));
    }
}
