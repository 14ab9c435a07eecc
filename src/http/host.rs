//! A request over HTTP/1.1 names its host, once: another one is refused (RFC 9112 §3.2).

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::{Version, header};

use super::build_path;
use super::error::ApiError;

/// Lets a request through that names its host as its version of HTTP has it.
pub(super) async fn require(request: Request, next: Next) -> Response {
    let named = request.headers().get_all(header::HOST).iter().count();
    let detail = match (request.version(), named) {
        (_, 2..) => "the request has several Host headers",
        (Version::HTTP_11, 0) => "a request over HTTP/1.1 needs a Host header",
        _ => return next.run(request).await,
    };
    let refusal = ApiError::bad_request(detail);
    if build_path::is_build_path(request.uri().path()) {
        refusal.into_text_response()
    } else {
        refusal.into_response()
    }
}
