//! Uploads: PUT of a file whose build ID and kind the path names, POST of any file, and the question
//! whether a file is needed at all.
//!
//! A declared length beyond the limit is answered before the body is read; the body goes to disk as
//! it comes, in constant memory.

use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
use http::header::USER_AGENT;
use http::{HeaderMap, StatusCode, Uri};
use percent_encoding::percent_decode_str;
use unhex_api::artifacts::{UploadAnswer, UploadPlan, UploadQuestion};
use unhex_build_id::{BuildId, Identity};

use super::auth::Writer;
use super::error::{ApiError, ApiErrorKind, Problem};
use super::{Peer, build_path, content_encoding, json_body, wire};
use crate::app::App;
use crate::artifacts::record::Provenance;
use crate::artifacts::{
    ArtifactKind, Completer, Completion, ContentEncoding, ContentHash, IngestError, Offer, Origin,
    Parcel, Received, Target, Upload, UploadId,
};
use crate::queue::{ClientKey, Place};

/// The header with the name of an uploaded file; bytes that no header may carry are percent-encoded.
const FILE_NAME: &str = "x-file-name";

/// The longest file name that is kept, which is what file systems allow.
const FILE_NAME_BYTES_MAX: usize = 255;

/// The longest `User-Agent` that is kept.
const USER_AGENT_BYTES_MAX: usize = 255;

/// Stores one file under its build ID.
#[utoipa::path(
    put,
    path = "/buildid/{id}/{kind}",
    tag = "uploads",
    params(
        ("id" = String, Path, description = "The identity of the build, which the file has to have itself"),
        ("kind" = String, Path, description = "`debuginfo`, `executable`, `dwp`, or `sources`: a zip whose keys are canonical absolute paths without the leading `/`"),
        ("id_kind" = Option<String>, Query, description = "gnu (default), go, htlhash"),
        ("Content-Encoding" = Option<String>, Header, description = "`gzip` or `zstd`"),
        ("X-File-Name" = Option<String>, Header, description = "The name of the file, percent-encoded where a header cannot carry it"),
    ),
    request_body(content = String, description = "The file, chunked or not", content_type = "application/octet-stream"),
    responses(
        (status = 201, description = "Durable, and the best of its kind", body = UploadAnswer),
        (status = 200, description = "Durable, but nothing better than before", body = UploadAnswer),
        (status = 400, description = "The path or the encoding is wrong", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "Without the write token", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "The path names another identity than a GNU build ID, and nothing is known of it", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "The body stopped coming", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "Other code under a known build ID; `difference` says how", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "Larger than the limit", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "Another Content-Encoding", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "Not a file that can be used, or of another build ID; `detail` says what was found", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "Not known now, or as many uploads as may are under way; come again after Retry-After", body = Problem, content_type = "application/problem+json"),
        (status = 507, description = "The disk is full", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn put_artifact(
    State(app): State<App>,
    client: Client,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let target = build_path::upload_target(&uri)?;
    let target = Target::Named {
        identity: target.identity,
        kind: target.kind,
    };
    take(&app, target, client, &headers, body).await
}

/// Stores any ELF file under the build ID and as the kind that it has itself.
#[utoipa::path(
    post,
    path = "/artifacts",
    tag = "uploads",
    params(
        ("Content-Encoding" = Option<String>, Header, description = "`gzip` or `zstd`"),
        ("X-File-Name" = Option<String>, Header, description = "The name of the file, percent-encoded where a header cannot carry it"),
    ),
    request_body(content = String, description = "The file, chunked or not", content_type = "application/octet-stream"),
    responses(
        (status = 201, description = "Durable, and the best of its kind", body = UploadAnswer),
        (status = 200, description = "Durable, but nothing better than before", body = UploadAnswer),
        (status = 400, description = "The encoding is wrong", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "Without the write token", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "The body stopped coming", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "Other code under a known build ID; `difference` says how", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "Larger than the limit", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "Another Content-Encoding", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "Not a file that can be used; `detail` says what was found", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "Not known now, or as many uploads as may are under way; come again after Retry-After", body = Problem, content_type = "application/problem+json"),
        (status = 507, description = "The disk is full", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn post_artifacts(
    State(app): State<App>,
    client: Client,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    take(&app, Target::FromFile, client, &headers, body).await
}

/// Asks whether a file is needed, and where to PUT it.
#[utoipa::path(
    post,
    path = "/uploads",
    tag = "uploads",
    request_body = UploadQuestion,
    responses(
        (status = 200, description = "Not needed, or where to send it", body = UploadPlan),
        (status = 400, description = "The question is wrong", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "Without the write token", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "The body stopped coming", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "Larger than the limit", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "Another Content-Encoding than gzip or zstd", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "Not known now; try again", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn post_uploads(
    State(app): State<App>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<UploadPlan>, ApiError> {
    let question: UploadQuestion = json_body::read(&app, &headers, body).await?;
    let build_id: BuildId = question.build_id.parse().map_err(bad_request)?;
    let sha256: ContentHash = question
        .sha256
        .to_ascii_lowercase()
        .parse()
        .map_err(bad_request)?;
    let kind = kind(question.kind)?;
    check_size(&app, Some(question.size_bytes))?;
    let offer = Offer {
        build_id,
        kind,
        sha256,
    };
    if let Some(known) = app.artifacts.known(&offer).await? {
        return Ok(Json(UploadPlan::NotNeeded {
            detail: "the same file is stored already".to_owned(),
            state: wire::upload_answer(known),
        }));
    }
    let parcel = Parcel {
        size_bytes: question.size_bytes,
        file_name: question.file_name.as_deref().and_then(kept_name),
    };
    let direct = if question.direct {
        app.artifacts.direct_put(&offer, &parcel).await?
    } else {
        None
    };
    if let Some(put) = direct {
        return Ok(Json(UploadPlan::Needed {
            upload_id: put.upload_id.to_string(),
            url: put.url,
            complete: true,
        }));
    }
    let url = format!("/buildid/{}/{}", offer.build_id, kind.as_str());
    let upload_id = app.artifacts.remember_offer(offer).to_string();
    Ok(Json(UploadPlan::Needed {
        upload_id,
        url,
        complete: false,
    }))
}

/// Publishes what was sent. Files that are PUT to this server are published by the PUT itself; then
/// this answers what they came to. What was PUT to a presigned URL is read back, decoded by the
/// `Content-Encoding` of that PUT, and compared with what was offered; it takes its turn among the
/// uploads for that. This goes on when the client leaves: who asks again waits for the same work, or
/// hears what it came to.
#[utoipa::path(
    post,
    path = "/uploads/{upload_id}/complete",
    tag = "uploads",
    params(("upload_id" = String, Path, description = "From `POST /uploads`")),
    responses(
        (status = 200, description = "It is durable", body = UploadAnswer),
        (status = 401, description = "Without the write token", body = Problem, content_type = "application/problem+json"),
        (status = 400, description = "The encoding is wrong", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "No such upload, or one of too long ago: a day; an hour where the file is PUT to this server", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "Nothing was sent yet, or other code under a known build ID; `difference` says how", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "Larger than the limit", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "Not what was offered, or not a file that can be used; `detail` says what was found", body = Problem, content_type = "application/problem+json"),
        (status = 507, description = "The disk is full", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "Not known now, or as many uploads as may are under way; come again after Retry-After", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn post_upload_complete(
    State(app): State<App>,
    client: Client,
    Path(upload_id): Path<String>,
    headers: HeaderMap,
) -> Result<Json<UploadAnswer>, ApiError> {
    let unknown = || ApiError::not_found("there is no such upload; ask POST /uploads again");
    let upload_id: UploadId = upload_id.parse().ok().ok_or_else(unknown)?;
    let completer = Completer {
        place: place(&app, &client),
        provenance: provenance(client, &headers),
    };
    match app.artifacts.complete(upload_id, completer).await? {
        Completion::Done(ingested) => Ok(Json(wire::upload_answer(ingested))),
        Completion::Unknown => Err(unknown()),
        Completion::NothingSent(offer) => {
            let (id, kind) = (&offer.build_id, offer.kind.as_str());
            let detail = format!(
                "the file is not here yet; PUT it to the URL that POST /uploads answered, or to \
                 /buildid/{id}/{kind}"
            );
            Err(ApiError::new(ApiErrorKind::Conflict, detail))
        }
    }
}

/// Who sends a request, as the layers around the handlers found out.
pub(super) type Client = (Option<Extension<Peer>>, Option<Extension<Writer>>);

async fn take(
    app: &App,
    target: Target,
    client: Client,
    headers: &HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let encoding = content_encoding::of(headers)?;
    check_size(app, content_encoding::declared_length(headers))?;
    // Its body is unread until then.
    let turn = place(app, &client).turn().await;
    let turn = turn.map_err(IngestError::NoTurn)?;
    let received = receive(app, encoding, body).await?.in_turn(turn);
    let provenance = Provenance {
        file_name: file_name(headers),
        ..provenance(client, headers)
    };
    let upload = Upload {
        target,
        origin: Origin::Upload,
        provenance,
    };
    let ingested = app.artifacts.ingest(received, upload).await?;
    let status = if ingested.changed {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok((status, Json(wire::upload_answer(ingested))).into_response())
}

/// Where this client waits for its turn to have a file taken in.
fn place(app: &App, (peer, _): &Client) -> Place {
    Place {
        queue: app.uploads.clone(),
        client: peer.map_or(ClientKey::SERVER, |Extension(peer)| peer.key()),
        patience: app.config.limits.upload_queue_seconds_max,
    }
}

async fn receive(app: &App, encoding: ContentEncoding, body: Body) -> Result<Received, ApiError> {
    let mut receiver = app.artifacts.receive(encoding);
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        receiver
            .write(piece.map_err(json_body::broken_off)?)
            .await?;
    }
    Ok(receiver.finish().await?)
}

/// Answers a length beyond the limit before anything of the body is read. An encoded body is
/// hardly longer than what is in it, so its length says enough.
fn check_size(app: &App, size_bytes: Option<u64>) -> Result<(), ApiError> {
    let bytes_max = app.config.limits.upload_bytes_max;
    match size_bytes {
        Some(size) if size > bytes_max => Err(IngestError::TooLarge { bytes_max }.into()),
        _ => Ok(()),
    }
}

/// Who it was, from where, with which program.
pub(super) fn provenance((peer, writer): Client, headers: &HeaderMap) -> Provenance {
    let agent = headers
        .get(USER_AGENT)
        .and_then(|agent| agent.to_str().ok());
    Provenance {
        who: writer.map(|Extension(writer)| writer.to_string()),
        from: peer.map(|Extension(peer)| peer.ip().to_string()),
        user_agent: agent.map(|agent| agent.chars().take(USER_AGENT_BYTES_MAX).collect()),
        ..Provenance::default()
    }
}

/// The name that the uploader gave.
fn file_name(headers: &HeaderMap) -> Option<String> {
    let coded = headers.get(FILE_NAME)?.to_str().ok()?;
    kept_name(&percent_decode_str(coded).decode_utf8_lossy())
}

/// The last part of a name, without characters that no name has; `None` when nothing is left.
fn kept_name(name: &str) -> Option<String> {
    let name = name.rsplit(['/', '\\']).next()?.trim();
    let mut kept = String::new();
    for c in name.chars().filter(|c| !c.is_control()) {
        if kept.len() + c.len_utf8() > FILE_NAME_BYTES_MAX {
            break;
        }
        kept.push(c);
    }
    (!kept.is_empty() && kept != "." && kept != "..").then_some(kept)
}

fn kind(kind: unhex_api::artifacts::ArtifactKind) -> Result<ArtifactKind, ApiError> {
    kind.as_str().parse().map_err(bad_request)
}

fn bad_request(error: impl std::fmt::Display) -> ApiError {
    ApiError::bad_request(error.to_string())
}

/// The build ID that an identity leads to.
pub(super) async fn resolve(app: &App, identity: &Identity) -> Result<BuildId, ApiError> {
    let unknown = || ApiError::not_found(format!("nothing is known of {identity}"));
    app.artifacts.resolve(identity).await?.ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        headers
    }

    #[test]
    fn a_file_name_loses_its_folders_and_what_no_name_has() {
        let named = |value: &str| file_name(&headers(FILE_NAME, value));
        assert_eq!(named("libc.so.6").as_deref(), Some("libc.so.6"));
        assert_eq!(named("/usr/lib/../x%20y").as_deref(), Some("x y"));
        assert_eq!(named("%0a%0dforged").as_deref(), Some("forged"));
        assert_eq!(named("C:\\x.exe").as_deref(), Some("x.exe"));
        assert_eq!(named(".."), None);
        assert_eq!(named("%FF").as_deref(), Some("\u{fffd}"));
        let long = "é".repeat(300);
        assert_eq!(named(&"%C3%A9".repeat(300)).unwrap().len(), 254);
        assert!(long.starts_with(&named(&"%C3%A9".repeat(300)).unwrap()));
    }
}
