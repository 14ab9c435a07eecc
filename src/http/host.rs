//! A request over HTTP/1.1 names its host, once: another one is refused (RFC 9112 §3.2).

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use http::{Version, header};

use super::build_path;
use super::error::ApiError;

/// Why a request is refused that does not name its host as its version of HTTP has it.
pub(super) fn refusal(request: &Request) -> Option<Response> {
    let named = request.headers().get_all(header::HOST).iter().count();
    let detail = match (request.version(), named) {
        (_, 2..) => "the request has several Host headers",
        (Version::HTTP_11, 0) => "a request over HTTP/1.1 needs a Host header",
        _ => return None,
    };
    let refusal = ApiError::bad_request(detail);
    Some(if build_path::is_build_path(request.uri().path()) {
        refusal.into_text_response()
    } else {
        refusal.into_response()
    })
}
