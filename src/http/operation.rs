//! Routes for those who run the server: banner, health, readiness, metrics.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde::Serialize;

use super::error::{ApiError, ApiErrorKind, Problem};
use crate::app::App;
use crate::metrics::VERSION;

/// How long the store may take to take and give a byte.
const STORE_SECONDS_MAX: Duration = Duration::from_secs(5);

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
    let text = format!("unhex {VERSION}, a symbol server; see /openapi.yaml\n");
    ([(header::CONTENT_TYPE, "text/plain")], text).into_response()
}

/// The process runs and answers. It says nothing of the store: a restart would not mend that.
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "operation",
    responses(
        (status = 200, description = "`ok`", content_type = "text/plain"),
    )
)]
pub(super) async fn get_healthz() -> Response {
    plain("ok\n")
}

/// What `/readyz` found.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct Readiness {
    /// Always true here; otherwise the answer is a problem.
    ready: bool,
    /// Bytes that are free on the disk of the data folder.
    free_disk_bytes: u64,
}

/// Whether requests should be sent here: the store takes and gives bytes, its disk has room, and
/// no stop is under way.
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
    let unready = |detail: &str| ApiError::new(ApiErrorKind::Unavailable, detail);
    if app.background.stopping.is_cancelled() {
        return Err(unready("the server is stopping"));
    }
    // A folder that took the place of the store could be written, too; its staging folder is only one.
    let staging = app.artifacts.staging_folder().to_owned();
    let probe = tokio::task::spawn_blocking(move || probe_store(&staging));
    let free_disk_bytes = match tokio::time::timeout(STORE_SECONDS_MAX, probe).await {
        Ok(Ok(Ok(free))) => free,
        Ok(Ok(Err(source))) => {
            return Err(unready("the data folder cannot be written and read").with_source(source));
        }
        Ok(Err(panic)) => return Err(ApiError::internal(panic)),
        Err(elapsed) => {
            return Err(unready("the data folder does not answer in 5 s").with_source(elapsed));
        }
    };
    let least = app.config.limits.free_disk_bytes_min;
    if free_disk_bytes < least {
        let detail = format!(
            "{free_disk_bytes} bytes are free on the disk of the data folder, at least {least} are \
             wanted (--free-disk-bytes-min)"
        );
        return Err(unready(&detail));
    }
    match tokio::time::timeout(STORE_SECONDS_MAX, app.artifacts.check_store()).await {
        Ok(Ok(())) => {}
        Ok(Err(source)) => {
            return Err(unready("the bucket cannot be read; the log says why").with_source(source));
        }
        Err(elapsed) => {
            return Err(unready("the bucket does not answer in 5 s").with_source(elapsed));
        }
    }
    Ok(Json(Readiness {
        ready: true,
        free_disk_bytes,
    }))
}

/// Writes and reads a file in the staging folder, and says how much room its disk has.
fn probe_store(staging: &Path) -> io::Result<u64> {
    let mut file = tempfile::NamedTempFile::new_in(staging)?;
    file.write_all(b"ready")?;
    if fs::read(file.path())? != b"ready" {
        return Err(io::Error::other("other bytes were read than written"));
    }
    let disk = rustix::fs::statvfs(staging)?;
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
    app.metrics.ledger_holds(app.signal.ledger_len());
    let signal = Arc::clone(&app.signal);
    // A full ledger takes a while to look through.
    let counting = tokio::task::spawn_blocking(move || signal.profile_counts());
    let profiles = counting.await.map_err(ApiError::internal)?;
    let text = app.metrics.render(&profiles).map_err(ApiError::internal)?;
    let content_type = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    Ok((StatusCode::OK, content_type, text).into_response())
}

fn plain(text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, "text/plain")], text).into_response()
}
