//! Routes for those who run the store: banner, health, readiness, metrics.

use std::io;
use std::path::Path;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::header;
use serde::Serialize;

use super::error::{ApiError, Problem};
use crate::app::App;
use crate::metrics::{Scraped, VERSION};

/// How long the folder or bucket may take to answer.
const STORE_SECONDS_MAX: u64 = 5;

/// What answers here, and in which version: a person's first question.
#[utoipa::path(
    get,
    path = "/",
    tag = "operation",
    responses(
        (status = 200, description = "A line of text with the version", content_type = "text/plain"),
    )
)]
pub(super) async fn get_banner() -> Response {
    let text = format!("unhex-store {VERSION}, a profile store; see /openapi.yaml\n");
    plain(text)
}

/// The process runs and answers. It says nothing of the store: a restart would not mend that.
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "operation",
    responses((status = 200, description = "`ok`", content_type = "text/plain"))
)]
pub(super) async fn get_healthz() -> Response {
    plain("ok\n".to_owned())
}

/// What `/readyz` found.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct Readiness {
    /// Always true here; otherwise the answer is a problem.
    ready: bool,
    /// Bytes that are free on the disk of the data folder; absent over a bucket.
    #[serde(skip_serializing_if = "Option::is_none")]
    free_disk_bytes: Option<u64>,
}

/// Whether requests should be sent here: the table can be listed, its disk has room, and no stop is under way.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "operation",
    responses(
        (status = 200, description = "Send requests here", body = Readiness),
        (status = 503, description = "Send none, and why", body = Problem,
         content_type = "application/problem+json"),
    )
)]
pub(super) async fn get_readyz(State(app): State<App>) -> Result<Json<Readiness>, ApiError> {
    let unready = |detail: &str| ApiError::unavailable(detail);
    if app.background.draining.is_cancelled() {
        return Err(unready("the server is stopping"));
    }
    let patience = Duration::from_secs(STORE_SECONDS_MAX);
    match tokio::time::timeout(patience, app.objects.folders("")).await {
        Ok(Ok(_)) => {}
        Ok(Err(source)) => {
            return Err(unready("the table cannot be listed; the log says why").with_source(source));
        }
        Err(elapsed) => {
            return Err(unready("the table does not answer in 5 s").with_source(elapsed));
        }
    }
    let free_disk_bytes = match &app.config.s3 {
        Some(_) => None,
        None => Some(free_bytes(&app.config.data).map_err(|source| {
            unready("nothing is known of the disk of the data folder").with_source(source)
        })?),
    };
    let least = app.config.limits.free_disk_bytes_min;
    if let Some(free) = free_disk_bytes.filter(|free| *free < least) {
        let detail = format!(
            "{free} bytes are free on the disk of the data folder, at least {least} are wanted \
             (--free-disk-bytes-min)"
        );
        return Err(unready(&detail));
    }
    Ok(Json(Readiness {
        ready: true,
        free_disk_bytes,
    }))
}

fn free_bytes(folder: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(folder)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// All metrics in Prometheus's text format, version 0.0.4.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "operation",
    responses(
        (status = 200, description = "docs/metrics.md lists them", content_type = "text/plain"),
    )
)]
pub(super) async fn get_metrics(State(app): State<App>) -> Result<Response, ApiError> {
    let maintained = app.maintenance.counters().read();
    let rendered = app.metrics.render(&Scraped {
        maintained: Some(&maintained),
        queries_running: app.turns.running() as u64,
        query_memory_bytes: app.queries.memory_bytes() as u64,
        name_bytes: app.queries.symbols().remembered_bytes(),
        names: Some(app.queries.symbols().counters()),
        exports: app.exports.as_deref(),
    });
    let text = rendered.map_err(ApiError::internal)?;
    let content_type = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    Ok((content_type, text).into_response())
}

fn plain(text: String) -> Response {
    ([(header::CONTENT_TYPE, "text/plain")], text).into_response()
}
