//! The debuginfod protocol: GET and HEAD of debuginfo, executables, sources and sections.
//!
//! Clients take every status but 200 and 406 for "does not exist" and remember it for ten minutes;
//! a body that breaks off leaves a damaged file in their cache. So nothing is answered with 200
//! before the complete, verified file is open and its first piece is read.

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, StatusCode, Uri};
use httpdate::fmt_http_date;
use sha2::{Digest as _, Sha256};
use unhex_build_id::{BuildId, Identity};

use super::build_path::{self, ArtifactQuestion, Wanted};
use super::conditions::{Part, Validators};
use super::error::{ApiError, ApiErrorKind};
use super::file_body::FileBody;
use crate::app::App;
use crate::artifacts::{Artifact, ArtifactKind, Section, Source};
use crate::metrics::DebuginfodResult;

const OCTET_STREAM: HeaderValue = HeaderValue::from_static("application/octet-stream");
/// Never `immutable`: a better artifact replaces a worse one under the same build ID.
const CACHE_CONTROL: HeaderValue = HeaderValue::from_static("max-age=3600");
const BYTES: HeaderValue = HeaderValue::from_static("bytes");
const X_DEBUGINFOD_SIZE: HeaderName = HeaderName::from_static("x-debuginfod-size");
const X_DEBUGINFOD_FILE: HeaderName = HeaderName::from_static("x-debuginfod-file");
const X_DEBUGINFOD_MAXSIZE: HeaderName = HeaderName::from_static("x-debuginfod-maxsize");

/// What is served, before conditions and ranges.
struct Found {
    content: Content,
    size_bytes: u64,
    etag: String,
    modified: std::time::SystemTime,
    file_name: Option<String>,
}

enum Content {
    /// A range of a file on this disk, which starts at `offset_bytes`.
    File {
        artifact: Artifact,
        offset_bytes: u64,
    },
    Memory(bytes::Bytes),
}

/// GET and HEAD of everything under `/buildid`.
pub(super) async fn get_artifact(
    State(app): State<App>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let question = build_path::question(&uri);
    let artifact_type = question.as_ref().map_or("invalid", |q| q.wanted.as_str());
    let answered = async {
        let found = find(&app, &question?).await?;
        respond(found, &method, &headers).await
    };
    let (result, response) = match answered.await {
        Ok(response) => (DebuginfodResult::Found, response),
        Err(error) => (result_of(&error), error.into_text_response()),
    };
    app.metrics.debuginfod(artifact_type, result);
    response
}

fn result_of(error: &ApiError) -> DebuginfodResult {
    match error.kind() {
        ApiErrorKind::NotFound => DebuginfodResult::Absent,
        ApiErrorKind::Unavailable | ApiErrorKind::Internal => DebuginfodResult::Unavailable,
        _ => DebuginfodResult::Refused,
    }
}

/// What the question asks for, if the store has it.
async fn find(app: &App, question: &ArtifactQuestion) -> Result<Found, ApiError> {
    let absent = || ApiError::not_found("not found");
    let id = gnu_id(app, &question.identity).await?.ok_or_else(absent)?;
    let artifacts = &app.artifacts;
    let found = match &question.wanted {
        Wanted::Debuginfo => artifacts
            .locate(&id, ArtifactKind::Debuginfo)
            .await?
            .map(Found::file),
        Wanted::Executable => artifacts
            .locate(&id, ArtifactKind::Executable)
            .await?
            .map(Found::file),
        Wanted::Section(name) => artifacts.section(&id, name).await?.map(Found::section),
        Wanted::Source(path) => artifacts.source(&id, path).await?.map(Found::source),
    };
    found.ok_or_else(absent)
}

/// The build ID that an identity leads to.
#[expect(clippy::unused_async, reason = "aliases are read from the store")]
async fn gnu_id(_app: &App, identity: &Identity) -> Result<Option<BuildId>, ApiError> {
    match identity {
        Identity::Gnu(id) => Ok(Some(id.clone())),
        _ => Ok(None),
    }
}

impl Found {
    fn file(artifact: Artifact) -> Self {
        Self {
            size_bytes: artifact.size_bytes,
            etag: format!("\"{}\"", hex(&artifact.sha256)),
            modified: artifact.modified,
            file_name: artifact.file_name.clone(),
            content: Content::File {
                artifact,
                offset_bytes: 0,
            },
        }
    }

    /// A section has its parent's name and date, as the reference server does it.
    fn section(section: Section) -> Self {
        let Section {
            artifact,
            offset_bytes,
            size_bytes,
        } = section;
        Self {
            size_bytes,
            etag: format!("\"{}-{offset_bytes}-{size_bytes}\"", hex(&artifact.sha256)),
            modified: artifact.modified,
            file_name: artifact.file_name.clone(),
            content: Content::File {
                artifact,
                offset_bytes,
            },
        }
    }

    fn source(source: Source) -> Self {
        Self {
            size_bytes: u64::try_from(source.bytes.len()).unwrap_or(u64::MAX),
            etag: format!("\"{}\"", hex(&Sha256::digest(&source.bytes))),
            modified: source.modified,
            file_name: Some(source.path),
            content: Content::Memory(source.bytes),
        }
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
        if let Some(name) = self.file_name.as_deref().and_then(base_name) {
            headers.insert(X_DEBUGINFOD_FILE, name);
        }
        Ok(headers)
    }

    /// The bytes of `range`, the first of them already read.
    async fn body(self, range: std::ops::Range<u64>) -> Result<Body, ApiError> {
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
                FileBody::open(artifact.file, artifact.size_bytes, range)
                    .await
                    .map(Body::new)
                    .map_err(unreadable)
            }
        }
    }
}

/// The answer to a request with these headers for what was found.
async fn respond(found: Found, method: &Method, headers: &HeaderMap) -> Result<Response, ApiError> {
    check_size(&found, headers)?;
    let size_bytes = found.size_bytes;
    let validators = Validators {
        etag: &found.etag,
        modified: found.modified,
        size_bytes,
    };
    let part = match *method {
        Method::HEAD if validators.not_modified(headers) => Part::NotModified,
        Method::HEAD => Part::Whole,
        _ => validators.part(headers),
    };
    let mut answer = found.headers()?;
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
        _ => found.body(range).await?,
    };
    Ok((status, answer, body).into_response())
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
fn check_size(found: &Found, headers: &HeaderMap) -> Result<(), ApiError> {
    let asked = headers
        .get(X_DEBUGINFOD_MAXSIZE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.trim().parse::<u64>().ok());
    match asked {
        Some(most @ 1..) if found.size_bytes > most => Err(ApiError::new(
            ApiErrorKind::LargerThanAsked,
            format!("File too large, max size={most}"),
        )),
        _ => Ok(()),
    }
}

fn header_value(text: &str) -> Result<HeaderValue, ApiError> {
    HeaderValue::from_str(text).map_err(ApiError::internal)
}

/// The last part of a path, with `?` for what a header cannot carry. Folders of the uploader's
/// machine are nobody's business.
fn base_name(path: &str) -> Option<HeaderValue> {
    let name = path
        .rsplit(['/', '\\'])
        .next()
        .filter(|name| !name.is_empty())?;
    let shown: String = name
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    HeaderValue::from_bytes(shown.as_bytes()).ok()
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
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
}
