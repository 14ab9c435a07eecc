//! Small JSON requests: read within their limit, and errors in words.

use std::io;

use axum::body::Body;
use futures_util::StreamExt as _;
use serde::de::DeserializeOwned;

use super::error::{ApiError, ApiErrorKind};
use crate::app::App;

/// The JSON in a body.
///
/// # Errors
/// If it is too large, breaks off, or is not what is expected.
pub(super) async fn read<T: DeserializeOwned>(app: &App, body: Body) -> Result<T, ApiError> {
    let bytes_max = app.config.limits.json_body_bytes_max;
    let mut bytes = Vec::new();
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        bytes.extend_from_slice(&piece.map_err(broken_off)?);
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > bytes_max {
            let detail = format!("the JSON body has more than {bytes_max} bytes");
            return Err(ApiError::too_large(detail));
        }
    }
    serde_json::from_slice(&bytes)
        .map_err(|error| ApiError::bad_request(format!("the JSON is not understood: {error}")))
}

/// A body that stopped coming, or whose connection ended.
pub(super) fn broken_off(error: axum::Error) -> ApiError {
    let mut source = Some(&error as &dyn std::error::Error);
    while let Some(cause) = source {
        let cause_io = cause.downcast_ref::<io::Error>();
        if cause_io.is_some_and(|cause| cause.kind() == io::ErrorKind::TimedOut) {
            let detail = cause.to_string();
            return ApiError::new(ApiErrorKind::BodyStalled, detail).with_source(error);
        }
        source = cause.source();
    }
    ApiError::bad_request("the body broke off before its end").with_source(error)
}
