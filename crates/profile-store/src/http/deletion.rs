//! Profiles that should not be there: `DELETE /profiles?query={...}&from=...&to=...`.
//!
//! Deletion is by the labels that are columns of every file, and by whole hours, as the table has it: a tombstone of each hour. What comes later of the same is
//! deleted, too, so that a resend brings nothing back.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::extract::{Query, State};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use tracing::info;

use super::error::{ApiError, ApiErrorKind, Problem};
use crate::app::App;
use crate::maintain::MaintainError;
use crate::reading::HourRange;
use crate::selector::{Operation, Selector};
use crate::table::names::{FileKind, Hour};
use crate::table::record::{Label, RowSelector};

/// What is to be deleted.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct DeletionQuery {
    /// Whose: `=` matchers of service, version and deployment, at least one, as `{service="checkout",version="2.4"}`.
    query: String,
    /// The first hour, RFC 3339 or seconds since 1970: a whole hour in UTC.
    from: String,
    /// The end, which is not deleted any more: a whole hour in UTC.
    to: String,
    /// One type of profile, as `cpu`; all without it.
    r#type: Option<String>,
}

/// What was deleted.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct DeletionAnswer {
    /// Hours of which rows are left out from now on, those that were deleted before among them.
    hours: Vec<String>,
    /// How many of them were deleted before.
    hours_before: usize,
}

/// Deletes profiles by label, of whole hours. Queries miss them within seconds; the files lose them when they are compacted anew.
///
/// It cannot be undone. What comes later with the same labels and of the same hours is deleted, too.
#[utoipa::path(
    delete,
    path = "/profiles",
    tag = "ingest",
    params(DeletionQuery),
    responses(
        (status = 200, description = "They are deleted", body = DeletionAnswer),
        (status = 400, description = "It is not understood, or would delete other rows than it says",
         body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "It needs the write token", body = Problem,
         content_type = "application/problem+json"),
        (status = 422, description = "An hour has too many deletions already", body = Problem,
         content_type = "application/problem+json"),
        (status = 503, description = "The table cannot be read now; earlier hours may be deleted: do it again",
         body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn delete_profiles(
    State(app): State<App>,
    query: Result<Query<DeletionQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<DeletionAnswer>, ApiError> {
    let Query(query) = query.map_err(|error| ApiError::bad_request(error.body_text()))?;
    let rows = RowSelector::Matching(labels(&query)?);
    let range = range(&query)?;
    let kinds = BTreeSet::from(FileKind::ALL);
    let deleted = app.maintenance.delete(range, &kinds, &rows).await;
    let deleted = deleted.map_err(refusal)?;
    info!(
        query = query.query,
        from = query.from,
        to = query.to,
        "deleted {} from {} to {}",
        query.query,
        query.from,
        query.to
    );
    let hours: BTreeSet<&Hour> = deleted.hours.iter().chain(&deleted.hours_before).collect();
    Ok(Json(DeletionAnswer {
        hours: hours.into_iter().map(Hour::to_string).collect(),
        hours_before: deleted.hours_before.len(),
    }))
}

fn labels(query: &DeletionQuery) -> Result<BTreeMap<Label, String>, ApiError> {
    let selector: Selector = query
        .query
        .parse()
        .map_err(|error| ApiError::bad_request(format!("query is no selector: {error}")))?;
    let mut labels = BTreeMap::new();
    for matcher in selector.matchers() {
        let label = match matcher.name() {
            "service" => Label::Service,
            "version" => Label::Version,
            "deployment" => Label::Deployment,
            other => {
                let detail =
                    format!("deletion is by service, version and deployment, not by {other}");
                return Err(ApiError::bad_request(detail));
            }
        };
        let Operation::Equal(value) = matcher.operation() else {
            let detail = "deletion takes = alone: name each service, version or deployment";
            return Err(ApiError::bad_request(detail));
        };
        if labels.insert(label, value.to_string()).is_some() {
            return Err(ApiError::bad_request("the query has one label twice"));
        }
    }
    if labels.is_empty() {
        let detail =
            "say which profiles: query={service=\"...\"}; all of them go with their retention";
        return Err(ApiError::bad_request(detail));
    }
    labels.extend(query.r#type.clone().map(|of| (Label::Type, of)));
    Ok(labels)
}

fn range(query: &DeletionQuery) -> Result<HourRange, ApiError> {
    let from = whole_hour("from", &query.from)?;
    let end = whole_hour("to", &query.to)?;
    let last = Hour::of(end.start() - SignedDuration::from_hours(1));
    let range = last.ok().map(|last| HourRange::new(from, last));
    match range {
        Some(Ok(range)) => Ok(range),
        Some(Err(error)) => Err(ApiError::bad_request(error.to_string())),
        None => Err(ApiError::bad_request("to is not behind from")),
    }
}

fn whole_hour(name: &str, text: &str) -> Result<Hour, ApiError> {
    let time: Option<Timestamp> = match text.parse::<i64>() {
        Ok(seconds) => Timestamp::from_second(seconds).ok(),
        Err(_) => text.parse().ok(),
    };
    let hour = time.and_then(|time| Some((time, Hour::of(time).ok()?)));
    let Some((time, hour)) = hour else {
        let detail = format!("{name} is no time like 2026-12-01T13:00:00Z or 1796130000");
        return Err(ApiError::bad_request(detail));
    };
    if hour.start() != time {
        let detail = format!(
            "deletion is by whole hours, and {name} is none: {} is",
            hour.start()
        );
        return Err(ApiError::bad_request(detail));
    }
    Ok(hour)
}

fn refusal(error: MaintainError) -> ApiError {
    match &error {
        MaintainError::TooManyDeletions(..) => {
            ApiError::new(ApiErrorKind::Unprocessable, error.to_string())
        }
        MaintainError::Hour { hour, .. } => {
            let detail = format!("hour {hour} cannot be read; the log says why");
            ApiError::unavailable(detail).with_source(error)
        }
        _ => ApiError::unavailable("the table cannot be read or written now").with_source(error),
    }
}
