//! The debuginfod protocol: GET and HEAD of debuginfo, executables, sources and sections.
//!
//! Clients take every status but 200 and 406 for "does not exist" and remember it for ten minutes;
//! a body that breaks off leaves a damaged file in their cache. So nothing is answered with 200
//! before the complete, verified file is open and its first piece is read, and clients are held while
//! nothing is known ([`hold`]).

use axum::extract::{Request, State};
use axum::response::Response;
use http::Method;
use http::request::Parts;
use tokio::time::Instant;

use super::build_path::{self, ArtifactQuestion, Wanted};
use super::download::Download;
use super::error::{ApiError, ApiErrorKind};
use super::hold::{self, Hold};
use super::outlet::Outlet;
use super::peer::Peer;
use crate::app::App;
use crate::artifacts::{ArtifactKind, Asker};
use crate::metrics::DebuginfodResult;
use crate::queue::ClientKey;

/// A debug file or an executable, whole. GET and HEAD of everything under `/buildid` come here.
#[utoipa::path(
    get,
    path = "/buildid/{id}/{artifact_type}",
    tag = "debuginfod",
    params(
        ("id" = String, Path, description = "The identity of the build, by default a GNU build ID in hex"),
        ("artifact_type" = String, Path, description = "`debuginfo` or `executable`; whatever follows is ignored"),
        ("id_kind" = Option<String>, Query, description = "gnu (default), go, htlhash, pdb, macho"),
        ("X-DEBUGINFOD-MAXSIZE" = Option<u64>, Header, description = "Largest answer wanted"),
    ),
    responses(
        (status = 200, description = "The file", content_type = "application/octet-stream",
         headers(
            ("X-DEBUGINFOD-SIZE" = u64, description = "Its size"),
            ("X-DEBUGINFOD-FILE" = String, description = "The name that its uploader gave"),
            ("ETag" = String, description = "Of its bytes"),
         )),
        (status = 206, description = "The range that was asked for"),
        (status = 304, description = "The client has it"),
        (status = 400, description = "No build ID, or no artifact type", content_type = "text/plain"),
        (status = 404, description = "Not there, definitely", content_type = "text/plain"),
        (status = 406, description = "Larger than X-DEBUGINFOD-MAXSIZE", content_type = "text/plain"),
        (status = 416, description = "No byte of the range exists", content_type = "text/plain"),
        (status = 503, description = "Not known within --hold-deadline, for who comes through a proxy or over HTTP/2 or with HEAD; the connection of others is reset", content_type = "text/plain"),
    )
)]
pub(super) async fn get_artifact(State(app): State<App>, request: Request) -> Response {
    let (request, _empty) = request.into_parts();
    let peer = request.extensions.get::<Peer>().copied();
    let question = build_path::question(&request.uri);
    let artifact_type = question.as_ref().map_or("invalid", |q| q.wanted.as_str());
    let answered = match question {
        Ok(question) => held(&app, &question, peer, &request).await,
        Err(error) => Err(error.into()),
    };
    let (result, response) = match answered {
        Ok(response) => (DebuginfodResult::Found, response),
        Err(error) => {
            let is_held =
                error.kind() == ApiErrorKind::Unavailable && request.method == Method::GET;
            let result = result_of(&error);
            let response = if is_held {
                hold::give_up(error, peer.as_ref(), &app.metrics)
            } else {
                error.into_text_response()
            };
            (result, response)
        }
    };
    app.metrics.debuginfod(artifact_type, result);
    if let Some(scan) = &app.scan {
        scan.answered(response.status().as_u16(), artifact_type);
    }
    response
}

/// The answer, for which a GET is held; debuginfod clients send nothing else, and who sends HEAD
/// wants to know what there is now.
async fn held(
    app: &App,
    question: &ArtifactQuestion,
    peer: Option<Peer>,
    request: &Parts,
) -> Result<Response, ApiError> {
    let (method, headers) = (&request.method, &request.headers);
    let outlet = request.extensions.get::<Outlet>();
    let asker = peer.map_or_else(Asker::nobody, |peer| peer.asker(headers));
    let queue = app.debuginfod_fetches.clone();
    let asker = asker.in_turn(queue, peer.map_or(ClientKey::SERVER, |peer| peer.key()));
    let attempt = || async {
        let found = find(app, question, &asker).await?;
        found.answer(method, headers, outlet).await
    };
    let hold = Hold {
        deadline: Instant::now() + app.config.limits.hold_deadline,
        stopping: &app.background.stopping,
        metrics: &app.metrics,
    };
    if *method == Method::GET {
        hold.until_answered(attempt).await
    } else {
        hold.once(attempt()).await
    }
}

/// A source file that was uploaded for this build, or that an upstream server has; headers and errors as of the other artifacts.
#[utoipa::path(
    get,
    path = "/buildid/{id}/source/{path}",
    tag = "debuginfod",
    params(
        ("id" = String, Path, description = "The identity of the build"),
        ("path" = String, Path, description = "Absolute, as in the debug information; `//`, `.` and `..` may stay"),
    ),
    responses(
        (status = 200, description = "The source", content_type = "application/octet-stream"),
        (status = 206, description = "The range that was asked for"),
        (status = 304, description = "The client has it"),
        (status = 400, description = "No build ID, or no path", content_type = "text/plain"),
        (status = 404, description = "Not there, definitely", content_type = "text/plain"),
        (status = 406, description = "Larger than X-DEBUGINFOD-MAXSIZE", content_type = "text/plain"),
        (status = 416, description = "No byte of the range exists", content_type = "text/plain"),
        (status = 503, description = "Not known within --hold-deadline, for who comes through a proxy or over HTTP/2 or with HEAD; the connection of others is reset", content_type = "text/plain"),
    )
)]
#[expect(dead_code, reason = "described apart, answered by get_artifact")]
pub(super) fn get_source() {}

/// The bytes of an ELF section, of the debug file first, else of the executable.
#[utoipa::path(
    get,
    path = "/buildid/{id}/section/{name}",
    tag = "debuginfod",
    params(
        ("id" = String, Path, description = "The identity of the build"),
        ("name" = String, Path, description = "With its dot: `.debug_line`"),
    ),
    responses(
        (status = 200, description = "As in the file, compressed if it is compressed there",
         content_type = "application/octet-stream"),
        (status = 206, description = "The range that was asked for"),
        (status = 304, description = "The client has it"),
        (status = 400, description = "No build ID, or no name", content_type = "text/plain"),
        (status = 404, description = "Not there, definitely", content_type = "text/plain"),
        (status = 406, description = "Larger than X-DEBUGINFOD-MAXSIZE", content_type = "text/plain"),
        (status = 416, description = "No byte of the range exists", content_type = "text/plain"),
        (status = 503, description = "Not known within --hold-deadline, for who comes through a proxy or over HTTP/2 or with HEAD; the connection of others is reset", content_type = "text/plain"),
    )
)]
#[expect(dead_code, reason = "described apart, answered by get_artifact")]
pub(super) fn get_section() {}

fn result_of(error: &ApiError) -> DebuginfodResult {
    match error.kind() {
        ApiErrorKind::NotFound => DebuginfodResult::Absent,
        ApiErrorKind::Unavailable | ApiErrorKind::Internal => DebuginfodResult::Unavailable,
        _ => DebuginfodResult::Refused,
    }
}

/// What the question asks for, if the store or an upstream server has it.
async fn find(app: &App, question: &ArtifactQuestion, asker: &Asker) -> Result<Download, ApiError> {
    let absent = || ApiError::not_found("not found");
    let id = app.artifacts.resolve(&question.identity).await?;
    let id = id.ok_or_else(absent)?;
    let artifacts = &app.artifacts;
    let found = match &question.wanted {
        Wanted::Debuginfo => artifacts
            .locate_or_fetch((&id, ArtifactKind::Debuginfo), asker)
            .await?
            .map(Download::file),
        Wanted::Executable => artifacts
            .locate_or_fetch((&id, ArtifactKind::Executable), asker)
            .await?
            .map(Download::file),
        Wanted::Section(name) => artifacts
            .section_or_fetch((&id, name), asker)
            .await?
            .map(Download::section),
        Wanted::Source(path) => artifacts
            .source_or_fetch((&id, path), asker)
            .await?
            .map(Download::source),
    };
    found.ok_or_else(absent)
}
