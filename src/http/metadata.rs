//! Which builds have a file of a name: elfutils' metadata query, over the names that uploaders gave and
//! the paths of scanned files.
//!
//! It reads the state of every build, page by page, so it is bounded in time and in results and
//! says `complete: false` when it stopped before the end; the client then knows that more may exist.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, Uri};
use percent_encoding::percent_decode_str;
use serde::Serialize;
use tokio::time::Instant;
use unhex_build_id::BuildId;

use super::download::check_size;
use super::error::ApiError;
use crate::app::App;
use crate::artifacts::{ArtifactKind, Listed, state};
use crate::glob::{Dialect, Glob};

/// Builds that are read at once.
const PAGE: usize = 500;
/// The longest name or pattern: `PATH_MAX` of Linux.
const VALUE_BYTES_MAX: usize = 4096;

/// What a query asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Query {
    /// Exactly this name.
    File(String),
    /// Names that match this pattern.
    Glob(Glob),
}

impl Query {
    fn asks_for(&self, file: &str) -> bool {
        match self {
            Self::File(name) => name == file,
            Self::Glob(pattern) => pattern.matches(file),
        }
    }
}

/// The answer, in the shape that elfutils 0.192 gave it.
#[derive(Debug, Default, Serialize, utoipa::ToSchema)]
pub(super) struct Metadata {
    /// One entry for each type of artifact of each file.
    results: Vec<MetadataResult>,
    /// Whether these are all.
    complete: bool,
}

/// One artifact whose file name was asked for.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct MetadataResult {
    /// `debuginfo` or `executable`.
    r#type: &'static str,
    /// The build ID, in lower-case hex.
    buildid: String,
    /// The file name that its uploader gave; of a scanned file its path, in an archive that of the
    /// member.
    file: String,
    /// The path of the scanned archive that has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    archive: Option<String>,
}

/// Which builds have a file of this name.
#[utoipa::path(
    get,
    path = "/metadata",
    tag = "debuginfod",
    params(
        ("key" = String, Query, description = "`file` (exact) or `glob` (`*`, `?`, `[...]`, none matches `/`)"),
        ("value" = String, Query, description = "The name or the pattern, percent-encoded; `+` is a plus"),
    ),
    responses(
        (status = 200, description = "What was found", body = Metadata),
        (status = 400, description = "No such key, or no value", content_type = "text/plain"),
        (status = 406, description = "Larger than X-DEBUGINFOD-MAXSIZE", content_type = "text/plain"),
        (status = 503, description = "Not known now; ask again", content_type = "text/plain"),
    )
)]
pub(super) async fn get_metadata(State(app): State<App>, uri: Uri, headers: HeaderMap) -> Response {
    let answered = async {
        let query = Arc::new(query(&uri)?);
        let mut found = search(&app, &query).await?;
        found.add_scanned(&app, query).await?;
        let response = Json(found).into_response();
        let size = http_body::Body::size_hint(response.body()).lower();
        check_size(size, &headers)?;
        Ok(response)
    };
    answered.await.unwrap_or_else(ApiError::into_text_response)
}

fn query(uri: &Uri) -> Result<Query, ApiError> {
    let key = parameter(uri, "key")?;
    let value = parameter(uri, "value")?;
    match (key.as_deref(), value) {
        (_, Some(value)) if value.len() > VALUE_BYTES_MAX => Err(ApiError::bad_request(format!(
            "the value has {} bytes, at most {VALUE_BYTES_MAX} are taken",
            value.len()
        ))),
        (Some("file"), Some(value)) => Ok(Query::File(value)),
        (Some("glob"), Some(value)) => Ok(Query::Glob(Glob::new(&value, Dialect::Fnmatch))),
        _ => Err(ApiError::bad_request(
            "need /metadata?key=file&value=NAME or key=glob&value=PATTERN",
        )),
    }
}

/// The first parameter of a name, decoded.
fn parameter(uri: &Uri, name: &str) -> Result<Option<String>, ApiError> {
    let mut pairs = uri.query().unwrap_or_default().split('&');
    let value = pairs.find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    let Some(value) = value else {
        return Ok(None);
    };
    match percent_decode_str(value).decode_utf8() {
        Ok(text) => Ok(Some(text.into_owned())),
        Err(_not_utf8) => Err(ApiError::bad_request(format!("{name} is not UTF-8"))),
    }
}

impl Metadata {
    /// Adds the scanned files that are asked for.
    async fn add_scanned(&mut self, app: &App, query: Arc<Query>) -> Result<(), ApiError> {
        let Some(scan) = app.scan.clone() else {
            return Ok(());
        };
        let limits = &app.config.limits;
        let results_max = limits.metadata_results_max;
        let deadline = std::time::Instant::now() + limits.metadata_seconds_max;
        let looking = tokio::task::spawn_blocking(move || {
            scan.files_named(|file| query.asks_for(file), (results_max, deadline))
        });
        let (named, is_complete) = looking.await.map_err(ApiError::internal)?;
        self.complete &= is_complete;
        self.results
            .extend(named.into_iter().map(|named| MetadataResult {
                r#type: named.kind.as_str(),
                buildid: named.build_id,
                file: named.file,
                archive: named.archive,
            }));
        if self.results.len() > results_max {
            self.results.truncate(results_max);
            self.complete = false;
        }
        Ok(())
    }
}

async fn search(app: &App, query: &Query) -> Result<Metadata, ApiError> {
    let limits = &app.config.limits;
    let deadline = Instant::now() + limits.metadata_seconds_max;
    let mut found = Metadata::default();
    let mut after: Option<BuildId> = None;
    let mut complete = true;
    loop {
        let page = app.artifacts.list(after.as_ref(), PAGE);
        let Ok(page) = tokio::time::timeout_at(deadline, page).await else {
            return Ok(found);
        };
        let page = page?;
        for Listed { id, state } in &page {
            complete &= state
                .as_ref()
                .is_ok_and(|state| state.check_readable().is_ok());
            let state = state.iter();
            let results = state.flat_map(|state| results(id, state, query));
            found.results.extend(results);
        }
        if found.results.len() > limits.metadata_results_max {
            found.results.truncate(limits.metadata_results_max);
            return Ok(found);
        }
        match page.last() {
            Some(last) if page.len() >= PAGE => after = Some(last.id.clone()),
            _ => break,
        }
    }
    found.complete = complete;
    Ok(found)
}

/// What of one build the query asks for.
fn results(id: &BuildId, state: &state::State, query: &Query) -> Vec<MetadataResult> {
    [ArtifactKind::Executable, ArtifactKind::Debuginfo]
        .into_iter()
        .filter_map(|kind| {
            let file = state.best(kind)?.body.provenance.file_name.as_deref()?;
            query.asks_for(file).then(|| MetadataResult {
                r#type: kind.as_str(),
                buildid: id.to_string(),
                file: file.to_owned(),
                archive: None,
            })
        })
        .collect()
}
