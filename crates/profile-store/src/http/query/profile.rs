//! `GET /query/profile`: everything merged, as a flame graph or in the formats of tools.

use std::io;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use http::header;

use super::asking::{Asking, Common, count, filter};
use super::failure::answered;
use super::{Parameters, json, located, parameters};
use crate::answers::FlameGraphAnswer;
use crate::answers::questions::ProfileQuestion;
use crate::app::App;
use crate::http::error::{ApiError, ApiErrorKind, Problem};
use crate::view::{FoldedLines, Heading, Merged, Tree, flame_graph, pprof, speedscope, svg};

/// Nodes of a flame graph if nobody says how many: more are too narrow to be seen on any screen.
const NODES: usize = 8_192;
/// Nodes at most: some 100 MB of JSON.
const NODES_MAX: usize = 1 << 20;

/// The forms of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Json,
    Pprof,
    Folded,
    Svg,
    Speedscope,
}

/// A written profile.
enum Written {
    FlameGraph(Box<FlameGraphAnswer>),
    Bytes(&'static str, Vec<u8>),
    Lines(Box<FoldedLines>),
}

/// All that was counted, merged by stack, with names as they are known now. Totals are exact in each format, whatever `max_nodes` cuts.
#[utoipa::path(
    get,
    path = "/query/profile",
    tag = "query",
    params(ProfileQuestion),
    responses(
        (status = 200, description = "In the format that was asked for", content(
            (FlameGraphAnswer = "application/json"),
            (Vec<u8> = "application/octet-stream"),
            (String = "text/plain"),
            (String = "image/svg+xml"),
        )),
        (status = 400, description = "A parameter is wrong; the detail says which and where", body = Problem,
         content_type = "application/problem+json"),
        (status = 422, description = "It needs more memory than it may have, has expired, or does not fit into the format", body = Problem,
         content_type = "application/problem+json"),
        (status = 429, description = "Too many queries at once; come again after Retry-After", body = Problem,
         content_type = "application/problem+json"),
        (status = 503, description = "The table cannot be read now", body = Problem, content_type = "application/problem+json"),
        (status = 504, description = "It takes too long", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(in crate::http) async fn get_profile(
    State(app): State<App>,
    asked: Parameters<ProfileQuestion>,
) -> Result<Response, ApiError> {
    let asked = parameters(asked)?;
    let common = Common {
        query: asked.query.as_deref(),
        from: asked.from.as_deref(),
        to: asked.to.as_deref(),
        profile_type: asked.profile_type.as_deref(),
    };
    let asking = Asking::read("/query/profile", common, (&asked, app.clock.now()))?;
    let filter = filter(asked.function.as_deref(), asked.binary.as_deref())?;
    let format = format(asked.format.as_deref())?;
    let nodes_max = nodes_max(asked.max_nodes.as_deref(), format)?;
    let profile = app.queries.profile(&asking.question, &filter);
    let merged = answered(&app, asking.question.window, profile).await?;
    let (heading, told) = (asking.heading(), asking.asked.clone());
    let writing = tokio::task::spawn_blocking(move || match format {
        Format::Json => {
            let tree = tree(&merged, nodes_max);
            Ok(Written::FlameGraph(Box::new(flame_graph(&tree, told))))
        }
        _ => written(&merged, (format, nodes_max), &heading),
    });
    let written = writing.await.map_err(ApiError::internal)??;
    Ok(match written {
        Written::FlameGraph(answer) => json(&*answer, &asking.asked),
        Written::Bytes(media_type, bytes) => {
            let response = ([(header::CONTENT_TYPE, media_type)], bytes).into_response();
            located(response, &asking.asked)
        }
        Written::Lines(lines) => {
            let lines = lines.map(Ok::<_, io::Error>);
            let body = Body::from_stream(stream::iter(lines));
            let response = ([(header::CONTENT_TYPE, "text/plain")], body).into_response();
            located(response, &asking.asked)
        }
    })
}

fn written(
    merged: &Merged,
    (format, nodes_max): (Format, Option<usize>),
    heading: &Heading,
) -> Result<Written, ApiError> {
    if format == Format::Pprof {
        let bytes = pprof(merged, heading);
        let bytes =
            bytes.map_err(|error| ApiError::new(ApiErrorKind::Unprocessable, error.to_string()))?;
        return Ok(Written::Bytes("application/octet-stream", bytes));
    }
    let tree = tree(merged, nodes_max);
    Ok(match format {
        Format::Svg => {
            let bytes = svg(&tree, heading).map_err(ApiError::internal)?;
            Written::Bytes("image/svg+xml", bytes)
        }
        Format::Speedscope => {
            let file = serde_json::to_vec(&speedscope(&tree, heading));
            Written::Bytes("application/json", file.map_err(ApiError::internal)?)
        }
        _ => Written::Lines(Box::new(FoldedLines::of(tree))),
    })
}

fn tree(merged: &Merged, nodes_max: Option<usize>) -> Tree {
    let tree = Tree::whole(merged);
    match nodes_max {
        Some(nodes_max) => tree.cut_to(nodes_max),
        None => tree,
    }
}

fn format(text: Option<&str>) -> Result<Format, ApiError> {
    Ok(match text {
        None | Some("json") => Format::Json,
        Some("pprof") => Format::Pprof,
        Some("folded") => Format::Folded,
        Some("svg") => Format::Svg,
        Some("speedscope") => Format::Speedscope,
        Some(other) => {
            let detail =
                format!("format: {other:?} is none of json, pprof, folded, svg and speedscope");
            return Err(ApiError::bad_request(detail));
        }
    })
}

/// Pictures are cut to what can be seen; files are whole, unless somebody wants less.
fn nodes_max(text: Option<&str>, format: Format) -> Result<Option<usize>, ApiError> {
    let is_picture = matches!(format, Format::Json | Format::Svg);
    if text.is_none() && !is_picture {
        return Ok(None);
    }
    if text.is_some() && format == Format::Pprof {
        let detail = "max_nodes: a pprof is never cut; ask for another format, or for less";
        return Err(ApiError::bad_request(detail));
    }
    count("max_nodes", text, (NODES, NODES_MAX)).map(Some)
}
