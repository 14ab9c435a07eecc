//! The whole route table, and the server that answers it.
//!
//! One file a resource; [`error`] alone knows status codes. Requests pass, from the outside in: the request's line in the log and its metrics
//! ([`request_log`]), the name of the route with a catch for panics ([`named`]), the write token where the table says `guarded` ([`auth`]), the handler.

mod auth;
mod content_encoding;
mod deletion;
pub mod error;
mod grpc;
mod idle;
mod ingest;
mod named;
pub mod openapi;
mod operation;
mod query;
mod receive;
mod request_log;
mod serving;
mod socket;
mod stall;
mod wire;

pub use serving::Server;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, delete, get, post};
use http::{Method, Uri};
use tower::ServiceExt as _;

use self::error::{ApiError, ApiErrorKind};
use self::named::RouteName;
use crate::app::App;

/// Largest body outside of ingest, where bodies have bounds of their own: selectors and dates.
const OTHER_BODY_BYTES_MAX: usize = 1 << 20;

/// Every route. The first word of each is its name in metrics and logs.
fn routes(app: &App) -> Router<App> {
    Router::new()
        .route("/", open("root", get(operation::get_banner)))
        .route("/healthz", open("healthz", get(operation::get_healthz)))
        .route("/readyz", open("readyz", get(operation::get_readyz)))
        .route("/metrics", open("metrics", get(operation::get_metrics)))
        .route("/openapi.yaml", open("openapi", get(openapi::get_openapi)))
        .route(
            "/v1development/profiles",
            guarded(app, "otlp", post(ingest::post_otlp)),
        )
        .route(
            "/profiles",
            guarded(app, "profiles", post(ingest::post_pprof)).merge(guarded(
                app,
                "delete",
                delete(deletion::delete_profiles),
            )),
        )
        .route(grpc::EXPORT, guarded(app, "grpc", post(grpc::post_export)))
        .route(
            "/query/labels",
            open("labels", get(query::labels::get_labels)),
        )
        .route(
            "/query/series",
            open("series", get(query::series::get_series)),
        )
        .route(
            "/query/profile",
            open("profile", get(query::profile::get_profile)),
        )
        .route("/query/top", open("top", get(query::top::get_top)))
        .route(
            "/query/coverage",
            open("coverage", get(query::coverage::get_coverage)),
        )
        .route(
            "/query/segments",
            open("segments", get(query::segments::get_segments)),
        )
        .fallback(unmatched)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(DefaultBodyLimit::max(OTHER_BODY_BYTES_MAX))
}

/// The answer to a request, with all that stands around its handler.
async fn answer(app: &App, router: Router, request: Request) -> Response {
    let answering = async |request: Request| {
        let answered = router.oneshot(request).await;
        answered.unwrap_or_else(|never| match never {})
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

async fn unmatched(request: Request) -> Response {
    let path = request.uri().path();
    if grpc::is_grpc(request.headers()) {
        return grpc::unknown_method(path);
    }
    ApiError::not_found(format!("there is no {path}; see /openapi.yaml")).into_response()
}

async fn method_not_allowed(method: Method, uri: Uri) -> Response {
    let detail = format!("{} cannot be asked with {method}", uri.path());
    ApiError::new(ApiErrorKind::MethodNotAllowed, detail).into_response()
}
