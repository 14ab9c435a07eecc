//! The answer that something found gets: headers, conditions, range, body.
//!
//! The same for every artifact, so that a section behaves as the file that it is a part of.

use std::ops::Range;
use std::time::SystemTime;

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, StatusCode};
use httpdate::fmt_http_date;
use sha2::{Digest as _, Sha256};
use unhex_build_id::Hex;

use super::conditions::{Part, Validators};
use super::error::{ApiError, ApiErrorKind};
use super::file_body::{FileBody, Pace};
use super::outlet::Outlet;
use super::sent_file::SentFile;
use crate::artifacts::{Artifact, Origin, Section, Source};

const OCTET_STREAM: HeaderValue = HeaderValue::from_static("application/octet-stream");
/// Never `immutable`: a better artifact replaces a worse one under the same build ID.
const CACHE_CONTROL: HeaderValue = HeaderValue::from_static("max-age=3600");
const BYTES: HeaderValue = HeaderValue::from_static("bytes");
/// From this length on it is cheaper to have the kernel send a file than to read and write it.
const SENT_BYTES_MIN: u64 = 32 << 10;
const X_DEBUGINFOD_SIZE: HeaderName = HeaderName::from_static("x-debuginfod-size");
const X_DEBUGINFOD_FILE: HeaderName = HeaderName::from_static("x-debuginfod-file");
const X_DEBUGINFOD_ARCHIVE: HeaderName = HeaderName::from_static("x-debuginfod-archive");
const X_DEBUGINFOD_MAXSIZE: HeaderName = HeaderName::from_static("x-debuginfod-maxsize");

/// What is served, before conditions and ranges.
pub(super) struct Download {
    content: Content,
    size_bytes: u64,
    etag: String,
    modified: SystemTime,
    file_name: Option<FileName>,
    archive: Option<String>,
}

/// How much of a name is shown.
enum FileName {
    /// Its last part: folders of the uploader's machine are nobody's business.
    Last(String),
    /// The path of a scanned file, as the reference server shows it.
    Whole(String),
}

impl FileName {
    fn of(artifact: &Artifact) -> Option<Self> {
        let name = artifact.file_name.clone()?;
        Some(match artifact.origin {
            Origin::Scanned => Self::Whole(name),
            Origin::Upload | Origin::Upstream => Self::Last(name),
        })
    }

    fn shown(&self) -> Option<HeaderValue> {
        match self {
            Self::Last(name) => base_name(name),
            Self::Whole(path) => visible(path),
        }
    }
}

enum Content {
    /// A range of a file on this disk, which starts at `offset_bytes`.
    File {
        artifact: Artifact,
        offset_bytes: u64,
    },
    Memory(Bytes),
}

impl Download {
    pub(super) fn file(artifact: Artifact) -> Self {
        Self {
            size_bytes: artifact.size_bytes,
            etag: format!("\"{}\"", Hex(&artifact.tag)),
            modified: artifact.modified,
            file_name: FileName::of(&artifact),
            archive: artifact.archive.clone(),
            content: Content::File {
                artifact,
                offset_bytes: 0,
            },
        }
    }

    /// A section has its parent's name and date, as the reference server does it.
    pub(super) fn section(section: Section) -> Self {
        let Section {
            artifact,
            offset_bytes,
            size_bytes,
        } = section;
        Self {
            size_bytes,
            etag: format!("\"{}-{offset_bytes}-{size_bytes}\"", Hex(&artifact.tag)),
            modified: artifact.modified,
            file_name: FileName::of(&artifact),
            archive: artifact.archive.clone(),
            content: Content::File {
                artifact,
                offset_bytes,
            },
        }
    }

    pub(super) fn source(source: Source) -> Self {
        Self {
            size_bytes: u64::try_from(source.bytes.len()).unwrap_or(u64::MAX),
            etag: format!("\"{}\"", Hex(&Sha256::digest(&source.bytes))),
            modified: source.modified,
            file_name: Some(FileName::Last(source.path)),
            archive: None,
            content: Content::Memory(source.bytes),
        }
    }

    /// The answer to a request with these headers for what was self.
    ///
    /// # Errors
    /// If it is larger than the client wants, the range is outside of it, or it cannot be read now.
    pub(super) async fn answer(
        self,
        method: &Method,
        headers: &HeaderMap,
        outlet: Option<&Outlet>,
    ) -> Result<Response, ApiError> {
        check_size(self.size_bytes, headers)?;
        let size_bytes = self.size_bytes;
        let validators = Validators {
            etag: &self.etag,
            modified: self.modified,
            size_bytes,
        };
        let part = match *method {
            Method::HEAD if validators.not_modified(headers) => Part::NotModified,
            Method::HEAD => Part::Whole,
            _ => validators.part(headers),
        };
        let mut answer = self.headers()?;
        let (status, range) = match part {
            Part::Whole => (StatusCode::OK, 0..size_bytes),
            Part::Range(range) => {
                let last = range.end.saturating_sub(1);
                let content_range = format!("bytes {}-{last}/{size_bytes}", range.start);
                answer.insert(header::CONTENT_RANGE, header_value(&content_range)?);
                (StatusCode::PARTIAL_CONTENT, range)
            }
            Part::NotModified => return Ok((StatusCode::NOT_MODIFIED, answer).into_response()),
            Part::Unsatisfiable => return Err(unsatisfiable(size_bytes)?),
        };
        answer.insert(header::CONTENT_TYPE, OCTET_STREAM);
        answer.insert(
            header::CONTENT_LENGTH,
            range.end.saturating_sub(range.start).into(),
        );
        let body = match *method {
            Method::HEAD => Body::empty(),
            _ => self.body(range, outlet).await?,
        };
        Ok((status, answer, body).into_response())
    }

    /// The headers of every answer that is about this.
    fn headers(&self) -> Result<HeaderMap, ApiError> {
        let mut headers = HeaderMap::new();
        let modified = HeaderValue::from_str(&fmt_http_date(self.modified));
        headers.insert(header::LAST_MODIFIED, modified.map_err(ApiError::internal)?);
        let etag = HeaderValue::from_str(&self.etag);
        headers.insert(header::ETAG, etag.map_err(ApiError::internal)?);
        headers.insert(header::CACHE_CONTROL, CACHE_CONTROL);
        headers.insert(header::ACCEPT_RANGES, BYTES);
        headers.insert(X_DEBUGINFOD_SIZE, self.size_bytes.into());
        if let Some(name) = self.file_name.as_ref().and_then(FileName::shown) {
            headers.insert(X_DEBUGINFOD_FILE, name);
        }
        if let Some(path) = self.archive.as_deref().and_then(visible) {
            headers.insert(X_DEBUGINFOD_ARCHIVE, path);
        }
        Ok(headers)
    }

    /// The bytes of `range`, the first of them already read.
    async fn body(self, range: Range<u64>, outlet: Option<&Outlet>) -> Result<Body, ApiError> {
        let unreadable = |error| {
            let detail = "the file cannot be read now; ask again later";
            ApiError::new(ApiErrorKind::Unavailable, detail).with_source(error)
        };
        match self.content {
            Content::Memory(bytes) => {
                let start = usize::try_from(range.start).map_err(ApiError::internal)?;
                let end = usize::try_from(range.end).map_err(ApiError::internal)?;
                Ok(Body::from(bytes.slice(start..end)))
            }
            Content::File {
                artifact,
                offset_bytes,
            } => {
                let range = range.start.saturating_add(offset_bytes)
                    ..range.end.saturating_add(offset_bytes);
                let (file, size_bytes) = (artifact.file, artifact.size_bytes);
                let is_long = range.end.saturating_sub(range.start) >= SENT_BYTES_MIN;
                // What others may write to is looked at before its last piece goes out.
                let is_stored = artifact.unchanged.is_none();
                let (lease, opened) = (artifact.lease, (size_bytes, artifact.unchanged));
                // Over HTTP/2 a connection has no outlet.
                let pace = outlet.map_or(Pace::Stream, |_own| Pace::Connection);
                match outlet.filter(|_| is_long && is_stored) {
                    Some(outlet) => SentFile::open(file, size_bytes, range, outlet.clone())
                        .await
                        .map(|body| Body::new(body.under(lease))),
                    None => FileBody::open(file, opened, range, pace)
                        .await
                        .map(|body| Body::new(body.under(lease))),
                }
                .map_err(unreadable)
            }
        }
    }
}

fn unsatisfiable(size_bytes: u64) -> Result<ApiError, ApiError> {
    let detail = format!("no byte of that range exists: the file has {size_bytes}");
    Ok(
        ApiError::new(ApiErrorKind::RangeNotSatisfiable, detail).with_header(
            header::CONTENT_RANGE,
            header_value(&format!("bytes */{size_bytes}"))?,
        ),
    )
}

/// Refuses what is larger than the client's limit. As in the reference server, a limit that is no
/// positive number is none.
pub(super) fn check_size(size_bytes: u64, headers: &HeaderMap) -> Result<(), ApiError> {
    let asked = headers
        .get(X_DEBUGINFOD_MAXSIZE)
        .and_then(|value| value.to_str().ok())
        .and_then(leading_number);
    match asked {
        Some(most @ 1..) if size_bytes > most => Err(ApiError::new(
            ApiErrorKind::LargerThanAsked,
            format!("File too large, max size={most}"),
        )),
        _ => Ok(()),
    }
}

/// The number that a text starts with, as atol(3) reads it; digits beyond 64 bits are no limit.
fn leading_number(text: &str) -> Option<u64> {
    let text = text.trim_start();
    let behind = text.trim_start_matches(|c: char| c.is_ascii_digit());
    text.strip_suffix(behind)?.parse().ok()
}

fn header_value(text: &str) -> Result<HeaderValue, ApiError> {
    HeaderValue::from_str(text).map_err(ApiError::internal)
}

/// The last part of a path, with `?` for what a header cannot carry.
fn base_name(path: &str) -> Option<HeaderValue> {
    let name = path
        .rsplit(['/', '\\'])
        .next()
        .filter(|name| !name.is_empty())?;
    visible(name)
}

/// A text with `?` for what a header cannot carry.
fn visible(text: &str) -> Option<HeaderValue> {
    let shown: String = text
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    HeaderValue::from_bytes(shown.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn a_file_name_is_shown_without_its_folder_and_cannot_forge_headers() {
        let shown = |path| base_name(path).map(|value| value.as_bytes().to_vec());
        assert_eq!(shown("/home/ci/prog"), Some(b"prog".to_vec()));
        assert_eq!(shown("C:\\build\\prog.exe"), Some(b"prog.exe".to_vec()));
        assert_eq!(shown("a\r\nX-Evil: 1"), Some(b"a??X-Evil: 1".to_vec()));
        assert_eq!(shown("é"), Some("é".as_bytes().to_vec()));
        assert_eq!(shown("dir/"), None);
    }

    fn found() -> Download {
        use std::io::Write as _;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        Download::file(Artifact {
            file,
            path: "/nowhere".into(),
            lease: crate::artifacts::store::Lease::unlimited(),
            size_bytes: 10,
            tag: [0xab; 32],
            modified: SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(784_111_777),
            file_name: Some("/home/ci/prog".to_owned()),
            archive: None,
            unchanged: None,
            origin: Origin::Upload,
        })
    }

    async fn ask(method: Method, pairs: &[(&'static str, &str)]) -> (String, String) {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, value.parse().unwrap());
        }
        let answer = match found().answer(&method, &headers, None).await {
            Ok(answer) => answer,
            Err(error) => error.into_text_response(),
        };
        let mut head = format!("{}\n", answer.status());
        for (name, value) in answer.headers() {
            writeln!(head, "{name}: {}", value.to_str().unwrap()).unwrap();
        }
        let body = axum::body::to_bytes(answer.into_body(), 1 << 10)
            .await
            .unwrap();
        (head, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_file_comes_with_exactly_these_headers() {
        let (head, body) = ask(Method::GET, &[]).await;
        insta::assert_snapshot!(head, @r#"
        200 OK
        last-modified: Sun, 06 Nov 1994 08:49:37 GMT
        etag: "abababababababababababababababababababababababababababababababab"
        cache-control: max-age=3600
        accept-ranges: bytes
        x-debuginfod-size: 10
        x-debuginfod-file: prog
        content-type: application/octet-stream
        content-length: 10
        "#);
        assert_eq!(body, "0123456789");
        assert_eq!(ask(Method::HEAD, &[]).await, (head, String::new()));
    }

    #[tokio::test]
    async fn a_range_comes_as_206_and_one_outside_as_416() {
        let (head, body) = ask(Method::GET, &[("range", "bytes=2-4")]).await;
        insta::assert_snapshot!(head, @r#"
        206 Partial Content
        last-modified: Sun, 06 Nov 1994 08:49:37 GMT
        etag: "abababababababababababababababababababababababababababababababab"
        cache-control: max-age=3600
        accept-ranges: bytes
        x-debuginfod-size: 10
        x-debuginfod-file: prog
        content-range: bytes 2-4/10
        content-type: application/octet-stream
        content-length: 3
        "#);
        assert_eq!(body, "234");
        let (head, _) = ask(Method::GET, &[("range", "bytes=10-")]).await;
        insta::assert_snapshot!(head, @"
        416 Range Not Satisfiable
        content-type: text/plain
        cache-control: no-store
        content-range: bytes */10
        ");
    }

    #[tokio::test]
    async fn what_the_client_has_is_304_with_its_validators() {
        let tag = format!("\"{}\"", "ab".repeat(32));
        let (head, body) = ask(Method::GET, &[("if-none-match", &tag)]).await;
        insta::assert_snapshot!(head, @r#"
        304 Not Modified
        last-modified: Sun, 06 Nov 1994 08:49:37 GMT
        etag: "abababababababababababababababababababababababababababababababab"
        cache-control: max-age=3600
        accept-ranges: bytes
        x-debuginfod-size: 10
        x-debuginfod-file: prog
        "#);
        assert_eq!(body, "");
    }

    #[tokio::test]
    async fn a_file_above_the_clients_limit_is_406_with_the_limit() {
        let limit = |most| [("x-debuginfod-maxsize", most)];
        let (head, body) = ask(Method::GET, &limit("9")).await;
        assert!(
            head.starts_with("406") && head.contains("cache-control: no-store"),
            "{head}"
        );
        assert_eq!(body, "File too large, max size=9");
        assert!(ask(Method::HEAD, &limit("9")).await.0.starts_with("406"));
        assert!(ask(Method::GET, &limit(" 9abc")).await.0.starts_with("406"));
        for none in ["10", "0", "-1", "abc", "", "99999999999999999999"] {
            assert!(
                ask(Method::GET, &limit(none)).await.0.starts_with("200"),
                "{none:?}"
            );
        }
    }
}
