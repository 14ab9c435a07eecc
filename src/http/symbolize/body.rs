//! The body of `POST /symbolize`: read, decompressed and parsed within the limits.
//!
//! Nothing is allocated in proportion to a number that a stranger wrote: the decompressed bytes are
//! bounded while they come, and what they would unfold to is counted before they are parsed.

use std::sync::Arc;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use http::HeaderMap;
use unhex_api::symbolize::SymbolizeRequest;

use crate::app::App;
use crate::artifacts::ContentEncoding;
use crate::http::content_encoding::{declared_length, decode};
use crate::http::error::ApiError;
use crate::http::json_body::broken_off;
use crate::limits::Limits;

/// Program headers of a module that may be written out: linkers make 4 to 12.
const SEGMENTS_PER_MODULE_MAX: usize = 16;
/// Bodies up to this are parsed in less time than another thread takes to wake up.
const PARSED_HERE_BYTES_MAX: usize = 16 << 10;
/// Fields of a module or a segment, generously.
const FIELDS_PER_OBJECT_MAX: usize = 12;

/// The length of the body after decompression, where it is known before it is read.
pub(super) fn length(headers: &HeaderMap, encoding: ContentEncoding) -> Option<u64> {
    declared_length(headers).filter(|_length| encoding == ContentEncoding::Identity)
}

/// The bytes of the body as they were sent, at most `limits.symbolize_body_bytes_max`.
pub(super) async fn read(
    headers: &HeaderMap,
    body: Body,
    limits: &Limits,
) -> Result<Bytes, ApiError> {
    let limit = usize::try_from(limits.symbolize_body_bytes_max).unwrap_or(usize::MAX);
    if declared_length(headers).is_some_and(|length| length > limits.symbolize_body_bytes_max) {
        return Err(body_too_large(limits));
    }
    let mut stream = body.into_data_stream();
    let mut whole = BytesMut::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(broken_off)?;
        if whole.len().saturating_add(chunk.len()) > limit {
            return Err(body_too_large(limits));
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole.freeze())
}

fn body_too_large(limits: &Limits) -> ApiError {
    ApiError::too_large(format!(
        "the body is larger than symbolize_body_bytes_max, {} bytes after decompression",
        limits.symbolize_body_bytes_max
    ))
}

/// The request in the body; large ones are parsed off the async threads.
pub(super) async fn parse(
    sent: Bytes,
    encoding: ContentEncoding,
    app: &App,
) -> Result<SymbolizeRequest, ApiError> {
    if encoding == ContentEncoding::Identity && sent.len() <= PARSED_HERE_BYTES_MAX {
        return parse_json(&sent, &app.config.limits);
    }
    let config = Arc::clone(&app.config);
    let parsing = move || decompress_and_parse(&sent, encoding, &config.limits);
    app.symbolizer
        .pool()
        .run(parsing)
        .await
        .map_err(ApiError::internal)?
}

fn decompress_and_parse(
    sent: &Bytes,
    encoding: ContentEncoding,
    limits: &Limits,
) -> Result<SymbolizeRequest, ApiError> {
    if encoding == ContentEncoding::Identity {
        return parse_json(sent, limits);
    }
    let bytes = decode(sent, encoding, limits.symbolize_body_bytes_max);
    let bytes = bytes.map_err(|error| error.into_api_error(|| body_too_large(limits)))?;
    parse_json(&bytes, limits)
}

fn parse_json(bytes: &[u8], limits: &Limits) -> Result<SymbolizeRequest, ApiError> {
    count_before(bytes, limits)?;
    let request: SymbolizeRequest = serde_json::from_slice(bytes)
        .map_err(|error| ApiError::bad_request(format!("the body is not understood: {error}")))?;
    check_counts(&request, limits)?;
    Ok(request)
}

/// Refuses bodies that cannot be within the limits, before parsing turns their two bytes an element
/// into thirty: each element but the first of a list follows a comma, each object opens a brace.
fn count_before(bytes: &[u8], limits: &Limits) -> Result<(), ApiError> {
    #[expect(
        clippy::naive_bytecount,
        reason = "the compiler vectorises it; a crate for it is not worth its review"
    )]
    let count = |wanted: u8| bytes.iter().filter(|byte| **byte == wanted).count();
    let objects_max = limits
        .symbolize_modules_max
        .saturating_mul(SEGMENTS_PER_MODULE_MAX + 2)
        .saturating_add(2);
    if count(b'{') > objects_max {
        return Err(ApiError::too_large(format!(
            "more objects in the body than modules up to symbolize_modules_max, {}, have",
            limits.symbolize_modules_max
        )));
    }
    // An address may have a weight beside it.
    let commas_max = objects_max
        .saturating_mul(FIELDS_PER_OBJECT_MAX)
        .saturating_add(limits.symbolize_addresses_max.saturating_mul(2));
    if count(b',') > commas_max {
        return Err(too_many_addresses(limits));
    }
    Ok(())
}

fn check_counts(request: &SymbolizeRequest, limits: &Limits) -> Result<(), ApiError> {
    if request.modules.len() > limits.symbolize_modules_max {
        return Err(too_many_modules(limits));
    }
    let addresses: usize = request.modules.iter().map(|m| m.addresses.len()).sum();
    if addresses > limits.symbolize_addresses_max {
        return Err(too_many_addresses(limits));
    }
    Ok(())
}

fn too_many_modules(limits: &Limits) -> ApiError {
    ApiError::too_large(format!(
        "more modules than symbolize_modules_max, {}; send them in several requests",
        limits.symbolize_modules_max
    ))
}

fn too_many_addresses(limits: &Limits) -> ApiError {
    ApiError::too_large(format!(
        "more addresses than symbolize_addresses_max, {}; send them in several requests",
        limits.symbolize_addresses_max
    ))
}
