//! OTLP over gRPC: one method, whose message goes to our own decoder as the bytes that it is.
//!
//! A call of one message is a request with a prefix of five bytes (gRPC over HTTP/2, "Length-Prefixed-Message"). It is read here, past tonic's server, so that the bytes
//! are bounded, decompressed and read as those by HTTP are; statuses and their trailers are tonic's.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http_body::Frame;
use http_body_util::StreamBody;
use tonic::{Code, Status};

use super::content_encoding::named;
use super::error::{ApiError, ApiErrorKind, ErrorForm};
use super::ingest::refusal;
use super::receive::receive;
use super::wire;
use crate::app::App;
use crate::ingest::{ContentEncoding, Incoming, Ingested};
use crate::metrics::Protocol;

/// The path of the method.
pub(super) const EXPORT: &str =
    "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export";

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const ACCEPTED: HeaderValue = HeaderValue::from_static("identity,gzip,zstd");
const ACCEPT_ENCODING: &str = "grpc-accept-encoding";
/// Flag and length.
const PREFIX_BYTES: usize = 5;

/// Whether a request speaks gRPC.
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    let media_type = headers.get(CONTENT_TYPE);
    media_type.is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

/// The answer to a method that there is not.
pub(super) fn unknown_method(path: &str) -> Response {
    Status::new(Code::Unimplemented, format!("there is no method {path}")).into_http::<Body>()
}

/// `ProfilesService/Export`.
pub(super) async fn post_export(State(app): State<App>, request: Request) -> Response {
    if !is_grpc(request.headers()) {
        let detail = "this path speaks gRPC; OTLP over HTTP goes to /v1development/profiles";
        let error = ApiError::new(ApiErrorKind::UnsupportedMediaType, detail);
        return error.into_response_as(ErrorForm::Problem);
    }
    match export(&app, request).await {
        Ok(ingested) => answer(&ingested),
        Err(error) => {
            let mut response = error.into_response_as(ErrorForm::Grpc);
            response.headers_mut().insert(ACCEPT_ENCODING, ACCEPTED);
            response
        }
    }
}

async fn export(app: &App, request: Request) -> Result<Ingested, ApiError> {
    let (parts, body) = request.into_parts();
    let encoding = match parts.headers.get("grpc-encoding") {
        None => Some(ContentEncoding::Identity),
        Some(word) => word.to_str().ok().and_then(named),
    };
    let Some(encoding) = encoding else {
        let detail = "send messages as they are, or with grpc-encoding gzip or zstd";
        return Err(ApiError::new(ApiErrorKind::UnsupportedMediaType, detail));
    };
    let protocol = Protocol::OtlpGrpc;
    let mut body = receive(app, protocol, &parts.headers, body).await?;
    let prefix = body.split_front(PREFIX_BYTES);
    let encoding = message_encoding(&prefix, body.len(), encoding)?;
    let incoming = Incoming {
        protocol,
        encoding,
        body,
        labels: Vec::new(),
    };
    app.ingest.take(incoming).await.map_err(refusal)
}

/// How the one message of a call is encoded, by its prefix.
fn message_encoding(
    prefix: &[u8],
    bytes: u64,
    encoding: ContentEncoding,
) -> Result<ContentEncoding, ApiError> {
    let refused = |detail: &str| Err(ApiError::bad_request(detail));
    let &[flag, a, b, c, d] = prefix else {
        return refused("the call has no message");
    };
    if u64::from(u32::from_be_bytes([a, b, c, d])) != bytes {
        return refused("the call has not one message, whole");
    }
    match flag {
        0 => Ok(ContentEncoding::Identity),
        1 if encoding == ContentEncoding::Identity => {
            refused("the message says that it is compressed, and grpc-encoding does not say how")
        }
        1 => Ok(encoding),
        _ => refused("the flag of the message is neither 0 nor 1"),
    }
}

/// The message, and the trailers that say that it went well.
fn answer(ingested: &Ingested) -> Response {
    let rejections = ingested.rejections.as_deref();
    let message = wire::export_response(rejections.map(|why| (ingested.rejected, why)));
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let mut framed = vec![0];
    framed.extend(length.to_be_bytes());
    framed.extend(message);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let frames = [Frame::data(Bytes::from(framed)), Frame::trailers(trailers)];
    let frames = frames.map(Ok::<_, std::convert::Infallible>);
    let mut response = Response::new(Body::new(StreamBody::new(stream::iter(frames))));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, GRPC);
    headers.insert(ACCEPT_ENCODING, ACCEPTED);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_says_how_long_and_how_encoded_the_message_is() {
        use ContentEncoding::{Gzip, Identity};
        let read = |prefix: &[u8], bytes, encoding| message_encoding(prefix, bytes, encoding).ok();
        assert_eq!(read(&[0, 0, 0, 1, 0], 256, Gzip), Some(Identity));
        assert_eq!(read(&[1, 0, 0, 0, 7], 7, Gzip), Some(Gzip));
        assert_eq!(read(&[1, 0, 0, 0, 7], 7, Identity), None);
        assert_eq!(read(&[0, 0, 0, 0, 7], 8, Identity), None);
        assert_eq!(read(&[2, 0, 0, 0, 7], 7, Gzip), None);
        assert_eq!(read(&[0, 0], 0, Identity), None);
    }
}
