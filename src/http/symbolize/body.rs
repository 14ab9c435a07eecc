//! The body of `POST /symbolize`: read, decompressed and parsed within the limits.
//!
//! Nothing is allocated in proportion to a number that a stranger wrote: the decompressed bytes are
//! bounded while they come, and what they would unfold to is counted before they are parsed.

use std::io::{self, Read};
use std::sync::Arc;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use unhex_api::symbolize::SymbolizeRequest;

use crate::app::App;
use crate::artifacts::ZSTD_WINDOW_LOG_MAX;
use crate::http::error::{ApiError, ApiErrorKind};
use crate::limits::Limits;

/// Program headers of a module that may be written out: linkers make 4 to 12.
const SEGMENTS_PER_MODULE_MAX: usize = 16;
/// Bodies up to this are parsed in less time than another thread takes to wake up.
const PARSED_HERE_BYTES_MAX: usize = 16 << 10;
/// Fields of a module or a segment, generously.
const FIELDS_PER_OBJECT_MAX: usize = 12;

/// How a request's body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentEncoding {
    Identity,
    Gzip,
    Zstd,
}

impl ContentEncoding {
    /// What the headers say.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        let Some(value) = headers.get(CONTENT_ENCODING) else {
            return Ok(Self::Identity);
        };
        let word = value.to_str().unwrap_or_default().trim();
        match word.to_ascii_lowercase().as_str() {
            "" | "identity" => Ok(Self::Identity),
            "gzip" | "x-gzip" => Ok(Self::Gzip),
            "zstd" => Ok(Self::Zstd),
            _ => Err(ApiError::new(
                ApiErrorKind::UnsupportedMediaType,
                format!("Content-Encoding {word:?} is not understood: gzip or zstd"),
            )),
        }
    }
}

/// The length of the body after decompression, where it is known before it is read.
pub(super) fn length(headers: &HeaderMap, encoding: ContentEncoding) -> Option<u64> {
    declared(headers).filter(|_length| encoding == ContentEncoding::Identity)
}

fn declared(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The bytes of the body as they were sent, at most `limits.symbolize_body_bytes_max`.
pub(super) async fn read(
    headers: &HeaderMap,
    body: Body,
    limits: &Limits,
) -> Result<Bytes, ApiError> {
    let limit = usize::try_from(limits.symbolize_body_bytes_max).unwrap_or(usize::MAX);
    if declared(headers).is_some_and(|length| length > limits.symbolize_body_bytes_max) {
        return Err(body_too_large(limits));
    }
    let mut stream = body.into_data_stream();
    let mut whole = BytesMut::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(broken_body)?;
        if whole.len().saturating_add(chunk.len()) > limit {
            return Err(body_too_large(limits));
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole.freeze())
}

/// Why no more of a body came, told by the error at the bottom of the chain.
fn broken_body(error: axum::Error) -> ApiError {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    let mut stalled = false;
    while let Some(cause) = source {
        stalled |= cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::TimedOut);
        source = cause.source();
    }
    let kind = if stalled {
        ApiErrorKind::BodyStalled
    } else {
        ApiErrorKind::BadRequest
    };
    ApiError::new(kind, "the body ended before it was complete").with_source(error)
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
    match encoding {
        ContentEncoding::Identity => parse_json(sent, limits),
        ContentEncoding::Gzip => {
            let decoder = flate2::bufread::MultiGzDecoder::new(sent.as_ref());
            parse_json(&decompressed(decoder, limits)?, limits)
        }
        ContentEncoding::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(sent.as_ref())
                .map_err(not_decompressed)?;
            decoder
                .window_log_max(ZSTD_WINDOW_LOG_MAX)
                .map_err(not_decompressed)?;
            parse_json(&decompressed(decoder, limits)?, limits)
        }
    }
}

fn decompressed(decoder: impl Read, limits: &Limits) -> Result<Vec<u8>, ApiError> {
    let limit = limits.symbolize_body_bytes_max;
    let mut bytes = Vec::new();
    decoder
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(not_decompressed)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > limit) {
        return Err(body_too_large(limits));
    }
    Ok(bytes)
}

#[expect(clippy::needless_pass_by_value, reason = "as map_err hands it over")]
fn not_decompressed(error: io::Error) -> ApiError {
    ApiError::bad_request(format!("the body cannot be decompressed: {error}"))
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
        return Err(too_many_modules(limits));
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
