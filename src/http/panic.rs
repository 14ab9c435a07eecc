//! A panic in a handler is a mistake of ours: 500, logged with its message, the server lives on.

use std::any::Any;

use axum::response::{IntoResponse as _, Response};

use super::error::ApiError;

/// What a handler said when it panicked.
#[derive(Debug, thiserror::Error)]
#[error("panic: {0}")]
struct Panicked(String);

/// The answer to the request whose handler panicked.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the layer hands over the box that the panic left"
)]
pub(super) fn answer(payload: Box<dyn Any + Send + 'static>) -> Response {
    let message = payload
        .downcast_ref::<&'static str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a message".to_owned());
    ApiError::internal(Panicked(message)).into_response()
}
