//! How a request's body is encoded: gzip or zstd, at most one of them.

use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};

use super::error::{ApiError, ApiErrorKind};
use crate::ingest::ContentEncoding;

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
    let encoding = codings
        .next()
        .map_or(Some(ContentEncoding::Identity), named);
    encoding
        .filter(|_| codings.next().is_none())
        .ok_or_else(|| {
            let detail =
                "send the body as it is, or with Content-Encoding gzip or zstd, one of them";
            ApiError::new(ApiErrorKind::UnsupportedMediaType, detail)
        })
}

/// The encoding that a word stands for.
pub(super) fn named(word: &str) -> Option<ContentEncoding> {
    match word.to_ascii_lowercase().as_str() {
        "identity" => Some(ContentEncoding::Identity),
        "gzip" | "x-gzip" => Some(ContentEncoding::Gzip),
        "zstd" => Some(ContentEncoding::Zstd),
        _ => None,
    }
}

/// The length of the body as it is sent, if the headers say it.
pub(super) fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
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
}
