//! The whole route table, and the server that answers it.
//!
//! One file a resource; [`error`] alone knows status codes. Requests pass, from the outside in: the
//! request's line in the log and its metrics ([`request_log`]), its host ([`host`]), the name of the route
//! with a catch for panics ([`named`]), the write token where the table says `guarded` ([`auth`]), the handler.

pub mod auth;
mod build_ids;
pub mod build_path;
mod conditions;
mod content_encoding;
mod debuginfod;
mod download;
pub mod error;
mod file_body;
mod hold;
mod host;
mod idle;
mod json_body;
mod metadata;
mod named;
mod not_taken;
mod observe;
pub mod openapi;
mod operation;
mod outlet;
mod peer;
mod request_log;
mod sent_file;
mod serving;
mod socket;
mod stall;
mod symbolize;
mod taking;
mod unknown;
mod uploads;
mod wire;

pub use peer::Peer;
pub use serving::Server;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, delete, get, post, put};
use http::header::{self, HeaderValue};
use http::{Method, Uri};
use tower::ServiceExt as _;

use self::error::{ApiError, ApiErrorKind};
use self::named::RouteName;
use crate::app::App;

/// Every route. The first word of each is its name in metrics and logs.
fn routes(app: &App) -> Router<App> {
    Router::new()
        .route("/", open("root", get(operation::get_banner)))
        .route("/healthz", open("healthz", get(operation::get_healthz)))
        .route("/readyz", open("readyz", get(operation::get_readyz)))
        .route("/metrics", open("metrics", get(operation::get_metrics)))
        .route(
            "/buildid/{*path}",
            open("buildid", get(debuginfod::get_artifact)).merge(guarded(
                app,
                "upload",
                put(uploads::put_artifact),
            )),
        )
        .route(
            "/artifacts",
            guarded(app, "artifacts", post(uploads::post_artifacts)),
        )
        .route(
            "/uploads",
            guarded(app, "uploads", post(uploads::post_uploads)),
        )
        .route(
            "/uploads/{upload_id}/complete",
            guarded(app, "upload_complete", post(uploads::post_upload_complete)),
        )
        .route(
            "/build-ids",
            open("build_ids", get(build_ids::get_build_ids)),
        )
        .route(
            "/build-ids/{id}",
            open("build_id", get(build_ids::get_build_id)).merge(guarded(
                app,
                "delete",
                delete(build_ids::delete_build_id),
            )),
        )
        .route(
            "/build-ids/{id}/ignored",
            guarded(
                app,
                "ignored",
                put(unknown::put_ignored).delete(unknown::delete_ignored),
            ),
        )
        .route("/metadata", open("metadata", get(metadata::get_metadata)))
        .route("/openapi.yaml", open("openapi", get(openapi::get_openapi)))
        .route(
            "/symbolize",
            open("symbolize", post(symbolize::post_symbolize)),
        )
        .route("/observe", open("observe", post(observe::post_observe)))
        .fallback(unmatched)
        .method_not_allowed_fallback(method_not_allowed)
}

/// The answer to a request, with all that stands around its handler.
async fn answer(app: &App, router: Router, request: Request) -> Response {
    let answering = async |request: Request| match host::refusal(&request) {
        Some(refusal) => refusal,
        None => router
            .oneshot(request)
            .await
            .unwrap_or_else(|never| match never {}),
    };
    request_log::record(app, request, answering).await
}

/// A route that everybody may use.
fn open(name: &'static str, methods: MethodRouter<App>) -> MethodRouter<App> {
    methods.layer(RouteName(name))
}

/// A route that writes: only with the write token, where one is configured.
fn guarded(app: &App, name: &'static str, methods: MethodRouter<App>) -> MethodRouter<App> {
    let guard = from_fn_with_state(app.clone(), auth::require_write_token);
    open(name, methods.route_layer(guard))
}

/// A path of no route: a debuginfod path that is spelt in another way, or nothing.
async fn unmatched(State(app): State<App>, request: Request) -> Response {
    let path = request.uri().path();
    if !build_path::is_build_path(path) {
        return ApiError::not_found(format!("there is no {path}; see /openapi.yaml"))
            .into_response();
    }
    let mut response = match *request.method() {
        Method::GET | Method::HEAD => debuginfod::get_artifact(State(app), request).await,
        _ => {
            let (parts, _body) = request.into_parts();
            let mut refusal = method_not_allowed(parts.method, parts.uri).await;
            let allowed = HeaderValue::from_static("GET,HEAD");
            refusal.headers_mut().insert(header::ALLOW, allowed);
            refusal
        }
    };
    response.extensions_mut().insert(RouteName("buildid"));
    response
}

async fn method_not_allowed(method: Method, uri: Uri) -> Response {
    let path = uri.path();
    let detail = format!("{path} cannot be asked with {method}");
    let error = ApiError::new(ApiErrorKind::MethodNotAllowed, detail);
    if build_path::is_build_path(path) {
        error.into_text_response()
    } else {
        error.into_response()
    }
}
