//! `GET /build-ids?status=unknown`: which build IDs have no symbols, who sends them, what would mend it; and those that are ignored.

use std::cmp::Reverse;
use std::str::FromStr as _;
use std::time::{Duration, UNIX_EPOCH};

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use http::{HeaderMap, StatusCode, Uri};
use unhex_api::artifacts::ArtifactKind;
use unhex_api::observe::{
    IgnoreRequest, IgnoredBuildId, IgnoredBuildIdList, IgnoredEntry, UnknownBuildId,
    UnknownBuildIdList, UnknownSeenBy,
};
use unhex_build_id::{IdKind, Identity};

use super::build_ids::Page;
use super::error::{ApiError, ApiErrorKind, Problem};
use super::uploads::{Client, provenance};
use super::{build_path, json_body};
use crate::app::App;
use crate::artifacts::store::StoreError;
use crate::signal::{
    IgnoreDecision, IgnoreRecord, IgnoredBecause, LedgerError, Missing, MissingBuildId,
    MissingQuery, Standing, ledger,
};

/// Build IDs in a page that does not say how many.
const PAGE_ENTRIES: usize = 100;
/// The most build IDs in a page: each takes a look at the ledger.
const PAGE_ENTRIES_MAX: usize = 1_000;

/// One page of the build IDs without symbols.
pub(super) fn list(app: &App, page: Page) -> Result<UnknownBuildIdList, ApiError> {
    if let Some(build_id) = &page.build_id {
        let identity = parse(page.id_kind.as_deref().unwrap_or("gnu"), build_id)?;
        let found = app.signal.missing_one(&identity);
        return Ok(UnknownBuildIdList {
            build_ids: found.into_iter().map(shown).collect(),
            next: None,
        });
    }
    let limit = limit(&page)?;
    let found = app.signal.missing(&MissingQuery {
        service: page.service,
        version: page.version,
        deployment: page.deployment,
        after: page.after.as_deref().map(behind).transpose()?,
        limit,
    });
    let last = found.last().filter(|_| found.len() >= limit);
    Ok(UnknownBuildIdList {
        next: last.map(|last| next(&last.identity)),
        build_ids: found.into_iter().map(shown).collect(),
    })
}

/// One page of the build IDs that are ignored by a decision.
pub(super) fn list_ignored(app: &App, page: &Page) -> Result<IgnoredBuildIdList, ApiError> {
    let limit = limit(page)?;
    let after = page.after.as_deref().map(behind).transpose()?;
    let found = app.signal.all_ignored(after.as_ref(), limit);
    let last = found.last().filter(|_| found.len() >= limit);
    Ok(IgnoredBuildIdList {
        next: last.map(|(last, _)| next(&last.identity)),
        build_ids: found.into_iter().map(ignored_entry).collect(),
    })
}

fn ignored_entry((record, missing): (IgnoreRecord, Option<MissingBuildId>)) -> IgnoredEntry {
    let entry = missing.map(|missing| missing.entry);
    IgnoredEntry {
        build_id: record.identity.to_string(),
        id_kind: record.identity.kind(),
        last_seen: entry.as_ref().map(|entry| rfc3339(entry.last_seen)),
        name: entry.and_then(|entry| Some(entry.name?.to_string())),
        ignored: ignored(record),
    }
}

fn limit(page: &Page) -> Result<usize, ApiError> {
    let limit = page.limit.unwrap_or(PAGE_ENTRIES);
    if !(1..=PAGE_ENTRIES_MAX).contains(&limit) {
        let detail = format!("limit has to be from 1 to {PAGE_ENTRIES_MAX}");
        return Err(ApiError::bad_request(detail));
    }
    Ok(limit)
}

fn next(last: &Identity) -> String {
    format!("{}:{last}", last.kind())
}

/// The `next` of a page before: the kind of the identity, a colon, the identity.
fn behind(after: &str) -> Result<Identity, ApiError> {
    let (kind, text) = after.split_once(':').unwrap_or(("gnu", after));
    parse(kind, text)
}

fn parse(kind: &str, text: &str) -> Result<Identity, ApiError> {
    let kind = IdKind::from_str(kind).map_err(|error| ApiError::bad_request(error.to_string()))?;
    Identity::parse(kind, text).map_err(|error| ApiError::bad_request(error.to_string()))
}

/// Ignores a build ID: no alert and no metric is about it any more. The reason is kept.
#[utoipa::path(
    put,
    path = "/build-ids/{id}/ignored",
    tag = "signal",
    params(
        ("id" = String, Path, description = "The identity of the build, by default a GNU build ID in hex"),
        ("id_kind" = Option<String>, Query, description = "gnu (default), go, htlhash, pdb, macho"),
    ),
    request_body = IgnoreRequest,
    responses(
        (status = 200, description = "It is ignored, on all replicas within seconds", body = IgnoredBuildId),
        (status = 400, description = "No identity, or no reason", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "Without the write token", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "The body stopped coming", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "The body is larger than the limit", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "Another Content-Encoding than gzip or zstd", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "Too many are ignored already", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "Not possible now; try again", body = Problem, content_type = "application/problem+json"),
        (status = 507, description = "The disk is full, and a decision has to be recorded", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn put_ignored(
    State(app): State<App>,
    Path(id): Path<String>,
    client: Client,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<IgnoredBuildId>, ApiError> {
    let identity = build_path::identity(&id, &uri)?;
    let IgnoreRequest { reason } = json_body::read(&app, &headers, body).await?;
    if reason.chars().all(|c| c.is_whitespace() || c.is_control()) {
        return Err(ApiError::bad_request(
            "say the reason: whoever wonders later reads it",
        ));
    }
    let who = provenance(client, &headers).who;
    let record = decide(&app, identity, Some(reason), who).await?;
    let record = record.ok_or_else(|| ApiError::internal(std::io::Error::other("undecided")))?;
    Ok(Json(ignored(record)))
}

/// Ignores a build ID no longer.
#[utoipa::path(
    delete,
    path = "/build-ids/{id}/ignored",
    tag = "signal",
    params(
        ("id" = String, Path, description = "The identity of the build, by default a GNU build ID in hex"),
        ("id_kind" = Option<String>, Query, description = "gnu (default), go, htlhash, pdb, macho"),
    ),
    responses(
        (status = 204, description = "It counts again"),
        (status = 400, description = "No identity", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "Without the write token", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "It was not ignored", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "Not possible now; try again", body = Problem, content_type = "application/problem+json"),
        (status = 507, description = "The disk is full, and a decision has to be recorded", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn delete_ignored(
    State(app): State<App>,
    Path(id): Path<String>,
    client: Client,
    uri: Uri,
    headers: HeaderMap,
) -> Result<StatusCode, ApiError> {
    let identity = build_path::identity(&id, &uri)?;
    let who = provenance(client, &headers).who;
    let detail = format!("{identity} is not ignored by a decision");
    let taken_back = decide(&app, identity, None, who).await?;
    taken_back.ok_or_else(|| ApiError::not_found(detail))?;
    Ok(StatusCode::NO_CONTENT)
}

async fn decide(
    app: &App,
    identity: Identity,
    reason: Option<String>,
    who: Option<String>,
) -> Result<Option<IgnoreRecord>, ApiError> {
    let decision = IgnoreDecision {
        identity,
        reason,
        who,
    };
    Ok(app.signal.decide(decision).await?)
}

impl From<LedgerError> for ApiError {
    fn from(error: LedgerError) -> Self {
        let (kind, detail) = match &error {
            LedgerError::Store(StoreError::Full { .. }) => (
                ApiErrorKind::StorageFull,
                "no room left to record the decision; nothing has changed",
            ),
            LedgerError::TooManyIgnored => (
                ApiErrorKind::Unprocessable,
                "too many build IDs are ignored already; ignore file names by a pattern instead",
            ),
            _ => (
                ApiErrorKind::Unavailable,
                "the object store cannot be read and written now; ask again later",
            ),
        };
        Self::new(kind, detail).with_source(error)
    }
}

fn shown(found: MissingBuildId) -> UnknownBuildId {
    let MissingBuildId {
        identity,
        missing,
        entry,
        standings,
        ignored: because,
    } = found;
    let seen_by = entry.seen_by.iter().zip(&standings);
    let mut seen_by: Vec<_> = seen_by.collect();
    seen_by.sort_by_key(|(by, _)| Reverse(by.last_seen));
    UnknownBuildId {
        build_id: identity.to_string(),
        id_kind: identity.kind(),
        status: missing.status(),
        detail: mending(missing, entry.name.as_deref()),
        mended_by: missing
            .is_definite()
            .then_some(ArtifactKind::Debuginfo)
            .into_iter()
            .collect(),
        alerting: standings.iter().any(|standing| standing.counts),
        first_seen: rfc3339(entry.first_seen),
        last_seen: rfc3339(entry.last_seen),
        profiles: entry.profiles,
        addresses: entry.addresses,
        weight: entry.weight,
        seen_by: seen_by.into_iter().map(shown_by).collect(),
        ignored: because.map(|because| match because {
            IgnoredBecause::Decision(record) => ignored(*record),
            IgnoredBecause::Name => IgnoredBuildId {
                reason: "its file name is ignored (--ignore-module, or the kernel's)".to_owned(),
                who: None,
                at: None,
            },
        }),
        name: entry.name.map(|name| name.to_string()),
    }
}

fn shown_by((by, standing): (&ledger::SeenBy, &Standing)) -> UnknownSeenBy {
    let [service, version, deployment] = by.labels.values().map(str::to_owned);
    UnknownSeenBy {
        service,
        version,
        deployment,
        first_seen: rfc3339(by.first_seen),
        last_seen: rfc3339(by.last_seen),
        profiles: by.profiles,
        share: standing.share,
        alerting: standing.counts,
    }
}

/// Which artifact would mend it, in words.
fn mending(missing: Missing, name: Option<&str>) -> String {
    let name = name.unwrap_or("the binary");
    match missing {
        Missing::UnknownBuildId => format!(
            "nothing is stored of it: upload the debug file of {name}, or {name} unstripped, with \
             `unhex upload PATH`"
        ),
        Missing::NoDebugInfo => format!(
            "what is stored has dynamic symbols at most: upload the debug file of {name}, or {name} \
             unstripped, with `unhex upload PATH`"
        ),
        Missing::Pending => "its debug file is there and waits to be converted".to_owned(),
        Missing::Unavailable => {
            "the server cannot say whether it has symbols; its log says why".to_owned()
        }
    }
}

fn ignored(record: IgnoreRecord) -> IgnoredBuildId {
    let at = record.decision.began().duration_since(UNIX_EPOCH);
    let millis = at.unwrap_or_default().as_millis();
    IgnoredBuildId {
        reason: record.reason.unwrap_or_default(),
        who: record.who,
        at: Some(rfc3339(u64::try_from(millis).unwrap_or(u64::MAX))),
    }
}

/// A time in milliseconds since 1970, to the second.
fn rfc3339(unix_millis: u64) -> String {
    let seconds = Duration::from_millis(unix_millis).as_secs();
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds)
        .unwrap_or(jiff::Timestamp::MAX)
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_from_a_store_that_is_away() {
        let kind = |error: std::io::ErrorKind| {
            let error = StoreError::from_io("writing", &"a key", error.into());
            ApiError::from(LedgerError::Store(error)).kind()
        };
        assert_eq!(
            kind(std::io::ErrorKind::StorageFull),
            ApiErrorKind::StorageFull
        );
        assert_eq!(
            kind(std::io::ErrorKind::TimedOut),
            ApiErrorKind::Unavailable
        );
    }
}
