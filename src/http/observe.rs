//! `POST /observe`: a profile arrived whose frames are named elsewhere; which of its modules have no symbols?

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use futures_util::{StreamExt as _, stream};
use http::HeaderMap;
use tokio::time::{Instant, timeout_at};
use unhex_api::observe::{ObserveAnswer, ObserveModule, ObserveRequest, ObservedStatus};
use unhex_api::symbolize::ModuleStatus;
use unhex_build_id::Identity;

use super::error::{ApiError, Problem};
use super::json_body;
use crate::app::App;
use crate::signal::{LabelSet, Observation, ObservedModule, module_status};

/// Modules that are looked for at once.
const LOOKUPS_AT_ONCE: usize = 32;

/// Counts a profile, and says which of its modules have symbols. Nothing is converted or waited for.
#[utoipa::path(
    post,
    path = "/observe",
    tag = "signal",
    request_body = ObserveRequest,
    responses(
        (status = 200, description = "The status of each module, in the order of the request", body = ObserveAnswer),
        (status = 400, description = "The body is not understood; the detail names the field",
            body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "The body stopped coming",
            body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "A limit is exceeded; the detail names it",
            body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "Another Content-Encoding than gzip or zstd",
            body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn post_observe(
    State(app): State<App>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<ObserveAnswer>, ApiError> {
    let request: ObserveRequest = json_body::read(&app, &headers, body).await?;
    let modules_max = app.config.limits.symbolize_modules_max;
    if request.modules.len() > modules_max {
        let detail = format!(
            "more modules than symbolize_modules_max, {modules_max}; send them in several requests \
             with one profile_id"
        );
        return Err(ApiError::too_large(detail));
    }
    let deadline = Instant::now() + app.config.limits.symbolize_seconds_max;
    let looking = request
        .modules
        .into_iter()
        .map(|module| status(&app, module, deadline));
    let looking: Vec<_> = looking.collect();
    let (modules, statuses): (Vec<ObservedModule>, Vec<ObservedStatus>) = stream::iter(looking)
        .buffered(LOOKUPS_AT_ONCE)
        .collect::<Vec<_>>()
        .await
        .into_iter()
        .unzip();
    if request.observe {
        app.signal.observe(&Observation {
            labels: LabelSet::new(&request.labels),
            profile_id: request.profile_id,
            modules,
        });
    }
    Ok(Json(ObserveAnswer { modules: statuses }))
}

/// What is known of one module.
async fn status(
    app: &App,
    module: ObserveModule,
    deadline: Instant,
) -> (ObservedModule, ObservedStatus) {
    let (identity, status, detail) = match Identity::parse(module.id_kind, &module.build_id) {
        Ok(identity) => {
            let (status, detail) = look_for(app, &identity, deadline).await;
            (Some(identity), status, detail)
        }
        Err(error) => (None, ModuleStatus::Malformed, Some(error.to_string())),
    };
    let build_id = match &identity {
        Some(identity) => identity.to_string(),
        None => module.build_id,
    };
    let observed = ObservedModule {
        identity,
        name: module.name,
        status,
        addresses: 0,
        weight: module.weight,
        weight_without_function: 0,
    };
    let said = ObservedStatus {
        build_id,
        status,
        detail,
    };
    (observed, said)
}

/// Whether a binary has symbols, if that is known in time.
async fn look_for(
    app: &App,
    identity: &Identity,
    deadline: Instant,
) -> (ModuleStatus, Option<String>) {
    let looking = async {
        let _turn = app.symbolizer.turn().await;
        module_status(&app.artifacts, identity).await
    };
    match timeout_at(deadline, looking).await {
        Ok(Ok(status)) => (status, None),
        Ok(Err(error)) => {
            tracing::warn!(%identity, %error, "{identity} cannot be looked for: {error}");
            (ModuleStatus::Unavailable, None)
        }
        Err(_elapsed) => {
            let detail = "it was not known in time (--symbolize-seconds-max); ask again";
            (ModuleStatus::Unavailable, Some(detail.to_owned()))
        }
    }
}
