//! Bodies of profiles: received into bounded room, within the limit, and not for ever.
//!
//! Room is taken for what is announced before anything is read, and for the rest as it comes. A body that stalls is cut by [`super::stall`]; one that is only
//! slow holds its room for a stated time.

use std::io;

use axum::body::Body;
use futures_util::StreamExt as _;
use http::HeaderMap;
use tokio::time::timeout;

use super::content_encoding::declared_length;
use super::error::{ApiError, ApiErrorKind};
use crate::app::App;
use crate::ingest;
use crate::metrics::{MessageOutcome, Protocol};

/// What a message has beside its bytes at most: the prefix of gRPC.
const BESIDE_BYTES: u64 = 5;

/// The body of a message.
///
/// # Errors
/// If it is too large, there is no room, or it does not come.
pub(super) async fn receive(
    app: &App,
    protocol: Protocol,
    headers: &HeaderMap,
    body: Body,
) -> Result<ingest::Body, ApiError> {
    let limits = &app.config.limits;
    let receiving = receive_all(app, headers, body);
    let received = match timeout(limits.body_seconds_max, receiving).await {
        Ok(received) => received,
        Err(elapsed) => {
            let detail = format!(
                "the body took longer than body_seconds_max, {} s",
                limits.body_seconds_max.as_secs()
            );
            let stalled = ApiError::new(ApiErrorKind::BodyStalled, detail);
            Err(stalled.with_source(elapsed))
        }
    };
    received.inspect_err(|error| {
        let outcome = match error.kind() {
            ApiErrorKind::TooLarge => MessageOutcome::TooLarge,
            ApiErrorKind::Busy => MessageOutcome::Busy,
            _ => MessageOutcome::Cut,
        };
        app.ingest.not_received(protocol, outcome);
    })
}

async fn receive_all(app: &App, headers: &HeaderMap, body: Body) -> Result<ingest::Body, ApiError> {
    // Compressed or not: what is longer as it is sent is longer when it is unpacked, too, but for a few bytes.
    let max = app.config.limits.message_bytes_max;
    let sent_max = max.saturating_add(BESIDE_BYTES);
    let mut received = app.ingest.body();
    if let Some(length) = declared_length(headers) {
        if length > sent_max {
            return Err(too_large(max));
        }
        received.reserve(length).map_err(busy)?;
    }
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        received.push(&piece.map_err(broken_off)?).map_err(busy)?;
        if received.len() > sent_max {
            return Err(too_large(max));
        }
    }
    Ok(received)
}

fn busy(_no_room: ingest::NoRoom) -> ApiError {
    let detail = "too many bodies are being received at the moment (body_bytes_total_max)";
    ApiError::new(ApiErrorKind::Busy, detail)
}

fn too_large(max: u64) -> ApiError {
    ApiError::too_large(format!(
        "the message has more than message_bytes_max, {max} bytes: send less at a time"
    ))
}

/// A body that stopped coming, or whose connection ended.
fn broken_off(error: axum::Error) -> ApiError {
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
