//! Small JSON requests: read and decompressed within their limit, and errors in words.

use std::io;

use axum::body::Body;
use futures_util::StreamExt as _;
use http::HeaderMap;
use serde::de::DeserializeOwned;

use super::content_encoding::{self, decode};
use super::error::{ApiError, ApiErrorKind};
use crate::app::App;
use crate::artifacts::ContentEncoding;

/// The JSON in a body, which may be gzip or zstd.
///
/// # Errors
/// If it is too large, breaks off, is encoded otherwise, or is not what is expected.
pub(super) async fn read<T: DeserializeOwned>(
    app: &App,
    headers: &HeaderMap,
    body: Body,
) -> Result<T, ApiError> {
    let encoding = content_encoding::of(headers)?;
    let bytes_max = app.config.limits.json_body_bytes_max;
    let bytes = read_encoded(body, bytes_max).await?;
    let bytes = if encoding == ContentEncoding::Identity {
        bytes
    } else {
        let decoding = tokio::task::spawn_blocking(move || decode(&bytes, encoding, bytes_max));
        let decoded = decoding.await.map_err(ApiError::internal)?;
        decoded.map_err(|error| error.into_api_error(|| too_large(bytes_max)))?
    };
    serde_json::from_slice(&bytes)
        .map_err(|error| ApiError::bad_request(format!("the JSON is not understood: {error}")))
}

async fn read_encoded(body: Body, bytes_max: u64) -> Result<Vec<u8>, ApiError> {
    let mut bytes = Vec::new();
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        bytes.extend_from_slice(&piece.map_err(broken_off)?);
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > bytes_max {
            return Err(too_large(bytes_max));
        }
    }
    Ok(bytes)
}

fn too_large(bytes_max: u64) -> ApiError {
    ApiError::too_large(format!(
        "the JSON body has more than json_body_bytes_max, {bytes_max} bytes after decompression"
    ))
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
