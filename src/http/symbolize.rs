//! `POST /symbolize`: a batch of addresses in, frames out, both compressed when the client likes.
//!
//! [`body`] reads and parses within the limits, [`crate::symbolize`] answers, [`reply`] writes in
//! the form and encoding that the headers ask for. What became of each module goes to
//! [`crate::signal`].

mod body;
mod reply;

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use unhex_api::symbolize::SymbolizeRequest;

use self::reply::ReplyForm;
use crate::app::App;
use crate::http::Peer;
use crate::http::content_encoding;
use crate::http::error::{ApiError, ApiErrorKind, Problem};
use crate::queue::ClientKey;
use crate::signal::{LabelSet, Observation, ObservedModule};
use crate::symbolize::{Answer, ModuleOutcome};

/// Answers a batch of addresses.
#[utoipa::path(
    post,
    path = "/symbolize",
    tag = "symbolize",
    request_body = SymbolizeRequest,
    responses(
        (status = 200, description = "One answer per module, in the order of the request", content(
            (unhex_api::symbolize::SymbolizeAnswer = "application/json"),
            (unhex_api::symbolize::CompactAnswer = "application/vnd.unhex.compact+json"),
        )),
        (status = 400, description = "The body is not understood; the detail names the field",
            body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "The body stopped coming",
            body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "A limit is exceeded; the detail names it",
            body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "Another Content-Encoding than gzip or zstd",
            body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "Other requests hold the memory; come again after Retry-After",
            body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn post_symbolize(
    State(app): State<App>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let client = peer.map_or(ClientKey::SERVER, |Extension(peer)| peer.key());
    let encoding = content_encoding::of(&headers)?;
    let form = ReplyForm::of(&headers);
    let mut memory = app
        .request_memory
        .reserve(client, body::length(&headers, encoding))
        .await
        .ok_or_else(no_memory_came_free)?;
    let sent = body::read(&headers, body, &app.config.limits).await?;
    let request = body::parse(sent, encoding, &app).await?;
    memory.shrink_to(&request);
    let observe = observer(&app, &request);
    let found = app.symbolizer.find(request).await;
    let response = reply::write(app.symbolizer.pool(), found, form, observe).await?;
    Ok(response.map(|body| reply::holding(body, memory)))
}

fn no_memory_came_free() -> ApiError {
    let detail = "other requests hold all of symbolize_memory_bytes_total_max; come again later";
    ApiError::new(ApiErrorKind::Unavailable, detail)
}

/// Counts the profile that a request is, once it is answered.
fn observer(app: &App, request: &SymbolizeRequest) -> impl FnOnce(&mut Answer) + Send + 'static {
    let signal = Arc::clone(&app.signal);
    let arrived = request
        .observe
        .then(|| (LabelSet::new(&request.labels), request.profile_id.clone()));
    move |answer| {
        let Some((labels, profile_id)) = arrived else {
            return;
        };
        let modules = answer.take_outcomes().into_iter().map(observed);
        signal.observe(&Observation {
            labels,
            profile_id,
            modules: modules.collect(),
        });
    }
}

fn observed(outcome: ModuleOutcome) -> ObservedModule {
    ObservedModule {
        identity: outcome.identity,
        name: outcome.name,
        status: outcome.status,
        addresses: outcome.addresses,
        weight: outcome.weight,
        weight_without_function: outcome.weight_without_function,
    }
}
