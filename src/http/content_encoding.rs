//! How a request's body is encoded: gzip or zstd, at most one of them, and within a limit.

use std::io::{self, Read};

use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};

use super::error::{ApiError, ApiErrorKind};
use crate::artifacts::{ContentEncoding, ZSTD_WINDOW_LOG_MAX};

/// What the headers say (RFC 9110 §8.4).
///
/// # Errors
/// 415 if it is another encoding, or several.
pub(super) fn of(headers: &HeaderMap) -> Result<ContentEncoding, ApiError> {
    let mut codings = headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .flat_map(|value| value.to_str().unwrap_or("?").split(','))
        .map(str::trim)
        .filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity"));
    let coding = codings.next();
    let encoding = match coding.map(str::to_ascii_lowercase).as_deref() {
        None => Some(ContentEncoding::Identity),
        Some("gzip" | "x-gzip") => Some(ContentEncoding::Gzip),
        Some("zstd") => Some(ContentEncoding::Zstd),
        Some(_) => None,
    };
    encoding
        .filter(|_| codings.next().is_none())
        .ok_or_else(|| {
            let detail =
                "send the body as it is, or with Content-Encoding gzip or zstd, one of them";
            ApiError::new(ApiErrorKind::UnsupportedMediaType, detail)
        })
}

/// The length of the body as it is sent, if the headers say it.
pub(super) fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Why a body cannot be had as it was before it was encoded.
#[derive(Debug)]
pub(super) enum DecodeError {
    /// It is larger than the limit.
    TooLarge,
    /// It is not what the headers say.
    Damaged(io::Error),
}

impl DecodeError {
    /// The error of the request, if `too_large` is that of one beyond the limit.
    pub(super) fn into_api_error(self, too_large: impl FnOnce() -> ApiError) -> ApiError {
        match self {
            Self::TooLarge => too_large(),
            Self::Damaged(error) => {
                ApiError::bad_request(format!("the body cannot be decompressed: {error}"))
            }
        }
    }
}

/// `sent` as it was before it was encoded, at most `bytes_max` bytes. Takes CPU time.
pub(super) fn decode(
    sent: &[u8],
    encoding: ContentEncoding,
    bytes_max: u64,
) -> Result<Vec<u8>, DecodeError> {
    match encoding {
        ContentEncoding::Identity => read(sent, bytes_max),
        ContentEncoding::Gzip => read(flate2::bufread::MultiGzDecoder::new(sent), bytes_max),
        ContentEncoding::Zstd => {
            let decoder = zstd::stream::read::Decoder::with_buffer(sent);
            let mut decoder = decoder.map_err(DecodeError::Damaged)?;
            decoder
                .window_log_max(ZSTD_WINDOW_LOG_MAX)
                .map_err(DecodeError::Damaged)?;
            read(decoder, bytes_max)
        }
    }
}

fn read(decoder: impl Read, bytes_max: u64) -> Result<Vec<u8>, DecodeError> {
    let mut bytes = Vec::new();
    decoder
        .take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(DecodeError::Damaged)?;
    match u64::try_from(bytes.len()) {
        Ok(length) if length <= bytes_max => Ok(bytes),
        _ => Err(DecodeError::TooLarge),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn one_known_coding_is_accepted() {
        let coding = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_ENCODING, value.parse().unwrap());
            of(&headers).ok()
        };
        assert_eq!(coding("gzip"), Some(ContentEncoding::Gzip));
        assert_eq!(coding("X-Gzip"), Some(ContentEncoding::Gzip));
        assert_eq!(coding("identity, ZSTD"), Some(ContentEncoding::Zstd));
        assert_eq!(coding(""), Some(ContentEncoding::Identity));
        assert_eq!(coding("br"), None);
        assert_eq!(coding("gzip, zstd"), None);
        let none = of(&HeaderMap::new()).ok();
        assert_eq!(none, Some(ContentEncoding::Identity));
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_body_is_decoded_up_to_its_limit() {
        let plain = vec![b'a'; 1_000];
        for (encoding, sent) in [
            (ContentEncoding::Identity, plain.clone()),
            (ContentEncoding::Gzip, gzip(&plain)),
            (ContentEncoding::Zstd, zstd::encode_all(&*plain, 1).unwrap()),
        ] {
            assert_eq!(decode(&sent, encoding, 1_000).unwrap(), plain);
            let above = decode(&sent, encoding, 999);
            assert!(matches!(above, Err(DecodeError::TooLarge)), "{encoding:?}");
        }
        let damaged = decode(b"no gzip", ContentEncoding::Gzip, 1_000);
        assert!(matches!(damaged, Err(DecodeError::Damaged(_))));
    }
}
