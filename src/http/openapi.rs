//! openapi.yaml, from what stands beside the handlers.
//!
//! The file in the repository is written from here and compared in a test, and so are the routes:
//! what is described is routed.

use axum::response::{IntoResponse as _, Response};
use http::header;
use utoipa::OpenApi;

use super::error::{ApiError, Problem};
use super::{build_ids, debuginfod, metadata, observe, operation, symbolize, unknown, uploads};

/// The description of the whole interface.
#[derive(Debug, OpenApi)]
#[openapi(
    info(
        title = "Unhex, the symbol server",
        description = "Debug files go in, debuginfod clients get them back, addresses become names. \
                       Errors are RFC 9457 problems; GET under /buildid answers short plain text."
    ),
    components(schemas(Problem)),
    paths(
        operation::get_banner,
        operation::get_healthz,
        operation::get_readyz,
        operation::get_metrics,
        get_openapi,
        debuginfod::get_artifact,
        debuginfod::get_source,
        debuginfod::get_section,
        metadata::get_metadata,
        uploads::put_artifact,
        uploads::post_artifacts,
        uploads::post_uploads,
        uploads::post_upload_complete,
        build_ids::get_build_id,
        build_ids::delete_build_id,
        build_ids::get_build_ids,
        symbolize::post_symbolize,
        observe::post_observe,
        unknown::put_ignored,
        unknown::delete_ignored,
    ),
    tags(
        (name = "debuginfod", description = "What gdb, perf, elfutils, valgrind and LLVM ask"),
        (name = "uploads", description = "What CI sends"),
        (name = "build-ids", description = "What is known, and why it is not better"),
        (name = "symbolize", description = "What profilers ask: addresses to names"),
        (name = "signal", description = "Profiles that arrived without symbols"),
        (name = "operation", description = "For those who run the server"),
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
