//! What is known of build IDs: the state of one, the list of all, and deletion.

use axum::Json;
use axum::extract::{Path, Query, State};
use http::{HeaderMap, StatusCode, Uri};
use serde::{Deserialize, Serialize};
use unhex_api::artifacts::{BuildIdList, BuildIdState};
use unhex_api::observe::{IgnoredBuildIdList, UnknownBuildIdList};
use unhex_build_id::BuildId;

use super::error::{ApiError, ApiErrorKind, Problem};
use super::uploads::{Client, provenance, resolve};
use super::{build_path, unknown, wire};
use crate::app::App;
use crate::artifacts::store::StoreError;
use crate::artifacts::{DeleteError, Deletion, PublishError};

/// Build IDs in a page that does not say how many.
const PAGE_ENTRIES: usize = 100;

/// The most build IDs in a page: each takes a look at its records.
const PAGE_ENTRIES_MAX: usize = 1_000;

/// Which page of which list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    pub(super) after: Option<String>,
    pub(super) limit: Option<usize>,
    pub(super) status: Option<Listed>,
    pub(super) service: Option<String>,
    pub(super) version: Option<String>,
    pub(super) deployment: Option<String>,
    pub(super) build_id: Option<String>,
    pub(super) id_kind: Option<String>,
}

/// The word of `status`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Listed {
    /// Build IDs that profiles had and that have no symbols.
    Unknown,
    /// Build IDs that are ignored by a decision.
    Ignored,
}

/// One page of what is stored, or with `status=unknown` of what is not, or of what is ignored.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(untagged)]
pub(super) enum BuildIdPage {
    Stored(BuildIdList),
    Unknown(UnknownBuildIdList),
    Ignored(IgnoredBuildIdList),
}

impl Page {
    /// Refuses filters of another list: who forgot `status` would take all for an answer.
    fn check_unfiltered(&self) -> Result<(), ApiError> {
        let filters = [
            ("service", &self.service),
            ("version", &self.version),
            ("deployment", &self.deployment),
            ("build_id", &self.build_id),
            ("id_kind", &self.id_kind),
        ];
        match filters.iter().find(|(_, value)| value.is_some()) {
            Some((name, _)) => Err(ApiError::bad_request(format!(
                "{name} needs status=unknown"
            ))),
            None => Ok(()),
        }
    }
}

/// The state of one build ID, and why it is not better.
#[utoipa::path(
    get,
    path = "/build-ids/{id}",
    tag = "build-ids",
    params(
        ("id" = String, Path, description = "The identity of the build, by default a GNU build ID in hex"),
        ("id_kind" = Option<String>, Query, description = "gnu (default), go, htlhash, pdb, macho"),
    ),
    responses(
        (status = 200, description = "What is known", body = BuildIdState),
        (status = 400, description = "No identity", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "Nothing is known, definitely", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "Not known now; ask again", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn get_build_id(
    State(app): State<App>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Json<BuildIdState>, ApiError> {
    let id = resolve(&app, &build_path::identity(&id, &uri)?).await?;
    let state = app.artifacts.state(&id).await?;
    if state.is_empty() {
        state.check_readable()?;
        return Err(nothing_known(&id));
    }
    let version = app.artifacts.converter_version();
    let mut answer = wire::build_id_state(id.to_string(), &state, version);
    // Whoever asks wants the index; a newer converter makes it anew now.
    if let Err(error) = app.artifacts.index(&id).await {
        tracing::warn!(build_id = %id, %error, "the symbol index of {id} is not known now");
        let detail = answer.detail.get_or_insert_default();
        if !detail.is_empty() {
            detail.push_str("; ");
        }
        detail.push_str("the symbol index cannot be looked at or made now");
    }
    Ok(Json(answer))
}

/// Deletes everything that is stored of one build ID; what is uploaded later stays.
#[utoipa::path(
    delete,
    path = "/build-ids/{id}",
    tag = "build-ids",
    params(
        ("id" = String, Path, description = "The identity of the build, by default a GNU build ID in hex"),
        ("id_kind" = Option<String>, Query, description = "gnu (default), go, htlhash, pdb, macho"),
    ),
    responses(
        (status = 204, description = "It is deleted"),
        (status = 400, description = "No identity", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "Without the write token", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "Nothing was there", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "Not possible now; try again", body = Problem, content_type = "application/problem+json"),
        (status = 507, description = "The disk is full, and a deletion has to be recorded", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn delete_build_id(
    State(app): State<App>,
    Path(id): Path<String>,
    client: Client,
    uri: Uri,
    headers: HeaderMap,
) -> Result<StatusCode, ApiError> {
    let id = resolve(&app, &build_path::identity(&id, &uri)?).await?;
    match app
        .artifacts
        .delete(&id, provenance(client, &headers))
        .await?
    {
        Deletion::Deleted => Ok(StatusCode::NO_CONTENT),
        Deletion::NothingThere => Err(nothing_known(&id)),
    }
}

/// All build IDs of which something is stored, in order; with `status=unknown` those that profiles
/// had and that have no symbols, but for the ignored ones; with `status=ignored` those that somebody
/// ignored.
#[utoipa::path(
    get,
    path = "/build-ids",
    tag = "build-ids",
    params(
        ("after" = Option<String>, Query, description = "Only build IDs behind this one; `next` of the page before"),
        ("limit" = Option<u32>, Query, description = "At most so many, 100 by default, at most 1000"),
        ("status" = Option<String>, Query, description = "`unknown`: build IDs without symbols; `ignored`: those that somebody ignored"),
        ("service" = Option<String>, Query, description = "With status=unknown: only what this service sent"),
        ("version" = Option<String>, Query, description = "With status=unknown: only what this version sent"),
        ("deployment" = Option<String>, Query, description = "With status=unknown: only what was sent from here"),
        ("build_id" = Option<String>, Query, description = "With status=unknown: only this one, ignored or not"),
        ("id_kind" = Option<String>, Query, description = "The kind of build_id: gnu (default), go, htlhash, pdb, macho"),
    ),
    responses(
        (status = 200, description = "One page", body = BuildIdPage),
        (status = 400, description = "The question is wrong", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "Not known now; ask again", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn get_build_ids(
    State(app): State<App>,
    uri: Uri,
) -> Result<Json<BuildIdPage>, ApiError> {
    let wrong = |error: &dyn std::fmt::Display| ApiError::bad_request(error.to_string());
    let Query(page) = Query::<Page>::try_from_uri(&uri).map_err(|error| wrong(&error))?;
    if let Some(listed) = page.status {
        // A full ledger takes a while to look through.
        let listing = tokio::task::spawn_blocking(move || list_signal(&app, listed, page));
        return Ok(Json(listing.await.map_err(ApiError::internal)??));
    }
    page.check_unfiltered()?;
    let limit = page.limit.unwrap_or(PAGE_ENTRIES);
    if !(1..=PAGE_ENTRIES_MAX).contains(&limit) {
        let detail = format!("limit has to be from 1 to {PAGE_ENTRIES_MAX}");
        return Err(ApiError::bad_request(detail));
    }
    let after = page.after.as_deref().map(str::parse::<BuildId>).transpose();
    let after = after.map_err(|error| wrong(&error))?;
    let found = app.artifacts.list(after.as_ref(), limit).await?;
    let is_full = found.len() >= limit;
    let version = app.artifacts.converter_version();
    Ok(Json(BuildIdPage::Stored(BuildIdList {
        next: found
            .last()
            .filter(|_| is_full)
            .map(|listed| listed.id.to_string()),
        build_ids: found
            .iter()
            .map(|listed| wire::build_id_entry(listed, version))
            .collect(),
    })))
}

fn list_signal(app: &App, listed: Listed, page: Page) -> Result<BuildIdPage, ApiError> {
    match listed {
        Listed::Unknown => unknown::list(app, page).map(BuildIdPage::Unknown),
        Listed::Ignored => {
            page.check_unfiltered()?;
            unknown::list_ignored(app, &page).map(BuildIdPage::Ignored)
        }
    }
}

fn nothing_known(id: &BuildId) -> ApiError {
    ApiError::not_found(format!("nothing is stored of the build ID {id}"))
}

impl From<DeleteError> for ApiError {
    fn from(error: DeleteError) -> Self {
        let failed = |kind, detail: &str| Self::new(kind, detail);
        let answer = match error {
            DeleteError::Locate(error) => return error.into(),
            DeleteError::Publish(PublishError::Store(StoreError::Full { .. })) => failed(
                ApiErrorKind::StorageFull,
                "no room left to record the deletion; nothing is deleted",
            ),
            DeleteError::Publish(_) => failed(
                ApiErrorKind::Unavailable,
                "the object store cannot be written now; ask for the deletion again later",
            ),
        };
        answer.with_source(error)
    }
}
