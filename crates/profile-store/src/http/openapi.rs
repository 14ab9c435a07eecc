//! crates/profile-store/openapi.yaml, from what stands beside the handlers.
//!
//! The file in the repository is written from here and compared in a test.

use axum::response::{IntoResponse as _, Response};
use http::header;
use utoipa::OpenApi;

use super::error::{ApiError, Problem};
use super::{deletion, ingest, operation, query};
use crate::answers::LabelValuesAnswer;

/// The description of the whole interface.
#[derive(Debug, OpenApi)]
#[openapi(
    info(
        title = "Unhex, the profile store",
        description = "Profiles go in by OTLP and as pprof, and come out merged, with names. Errors are RFC 9457 problems; \
                       OTLP's are `google.rpc.Status`. OTLP over gRPC is on the same port."
    ),
    components(schemas(Problem, LabelValuesAnswer)),
    paths(
        operation::get_banner,
        operation::get_healthz,
        operation::get_readyz,
        operation::get_metrics,
        get_openapi,
        ingest::post_otlp,
        ingest::post_pprof,
        deletion::delete_profiles,
        query::labels::get_labels,
        query::series::get_series,
        query::profile::get_profile,
        query::top::get_top,
        query::coverage::get_coverage,
        query::segments::get_segments,
    ),
    tags(
        (name = "ingest", description = "What profilers send"),
        (name = "query", description = "What people ask"),
        (name = "operation", description = "For those who run the store"),
    )
)]
struct Description;

/// The description as YAML: the file openapi.yaml.
///
/// # Errors
/// If it cannot be written as YAML.
pub fn document() -> Result<String, impl std::error::Error> {
    Description::openapi().to_yaml()
}

/// This description.
#[utoipa::path(
    get,
    path = "/openapi.yaml",
    tag = "operation",
    responses((status = 200, description = "OpenAPI 3.1", content_type = "application/yaml"))
)]
pub(super) async fn get_openapi() -> Result<Response, ApiError> {
    let text =
        document().map_err(|error| ApiError::internal(std::io::Error::other(error.to_string())))?;
    Ok(([(header::CONTENT_TYPE, "application/yaml")], text).into_response())
}
