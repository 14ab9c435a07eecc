//! One line in the log and one count in the metrics a request, when its answer has ended.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::header;
use http::{Method, StatusCode, Version};
use http_body::{Body as HttpBody, Frame, SizeHint};
use tracing::{error, info};
use unhex_build_id::BuildId;

use super::auth::Writer;
use super::error::LoggedError;
use super::hold::ResetInstead;
use super::idle::RequestRuns;
use super::named::RouteName;
use super::peer::Peer;
use super::stall::StallGuard;
use super::taking::OfferedBody;
use crate::app::App;
use crate::metrics::{AnswerEnd, HttpAnswer, Metrics, Running};

/// The longest path or user agent in a line.
const TEXT_BYTES_MAX: usize = 512;
/// The status of requests whose client left before it was known, as other servers log it.
const CLIENT_LEFT: u16 = 499;
/// The route of requests that no line of the table matches.
const UNMATCHED: &str = "unmatched";

/// Has the request answered, bounds how long its body may stall, and writes its line.
pub(super) async fn record(
    app: &App,
    request: Request,
    answer: impl AsyncFnOnce(Request) -> Response,
) -> Response {
    let version = request.version();
    let mut line = Line::new(&request, app);
    let patience = app.config.limits.body_stall_seconds_max;
    let request = request.map(|body| {
        if body.is_end_stream() {
            body
        } else {
            Body::new(StallGuard::new(body, patience))
        }
    });
    let response = answer(request).await;
    line.answered(&response);
    response.map(|body| {
        let body = match version {
            Version::HTTP_2 => Body::new(OfferedBody::new(body)),
            _ => body,
        };
        Body::new(RecordedBody { body, line })
    })
}

/// What is known of a request; written when it is dropped, which is when the answer has ended.
struct Line {
    metrics: Arc<Metrics>,
    started: Instant,
    _running: Running,
    _of_connection: Option<RequestRuns>,
    method: Method,
    path: String,
    build_id: Option<BuildId>,
    client: Option<Peer>,
    user_agent: String,
    answer: Option<Answer>,
    sent_bytes: u64,
}

/// What is known once there is an answer.
struct Answer {
    status: StatusCode,
    route: &'static str,
    writer: Option<Writer>,
    error: Option<LoggedError>,
    length: Option<u64>,
    ended: bool,
    reset: bool,
}

impl Line {
    fn new(request: &Request, app: &App) -> Self {
        let path = request.uri().path();
        let user_agent = request.headers().get(header::USER_AGENT);
        let user_agent = user_agent.map(|agent| String::from_utf8_lossy(agent.as_bytes()));
        Self {
            metrics: Arc::clone(&app.metrics),
            started: Instant::now(),
            _running: app.metrics.request_running(),
            _of_connection: request.extensions().get().cloned(),
            method: request.method().clone(),
            path: clipped(path),
            build_id: build_id_in(path),
            client: request.extensions().get().copied(),
            user_agent: clipped(&user_agent.unwrap_or_default()),
            answer: None,
            sent_bytes: 0,
        }
    }

    fn answered(&mut self, response: &Response) {
        let extensions = response.extensions();
        let route = extensions.get::<RouteName>();
        self.answer = Some(Answer {
            status: response.status(),
            route: route.map_or(UNMATCHED, |name| name.0),
            writer: extensions.get().cloned(),
            error: extensions.get().cloned(),
            length: response.body().size_hint().exact(),
            ended: self.method == Method::HEAD,
            reset: extensions.get::<ResetInstead>().is_some(),
        });
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let duration = self.started.elapsed();
        let answer = self.answer.as_ref();
        let status = answer.map_or(CLIENT_LEFT, |answer| answer.status.as_u16());
        let whole = answer.is_some_and(|a| a.ended || a.length == Some(self.sent_bytes));
        let end = if whole {
            AnswerEnd::Whole
        } else {
            AnswerEnd::Cut
        };
        let route = answer.map_or(UNMATCHED, |answer| answer.route);
        self.metrics.answered(&HttpAnswer {
            route,
            status,
            duration,
            sent_bytes: self.sent_bytes,
            end,
        });
        let method = &self.method;
        let path = &self.path;
        macro_rules! line {
            ($level:ident) => {
                $level!(
                    %method,
                    path,
                    route,
                    status,
                    build_id = self.build_id.as_ref().map(tracing::field::display),
                    bytes = self.sent_bytes,
                    whole,
                    reset = answer.is_some_and(|answer| answer.reset).then_some(true),
                    duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
                    user_agent = self.user_agent,
                    client = self.client.map(|client| tracing::field::display(client)),
                    writer = answer.and_then(|a| a.writer.as_ref()).map(tracing::field::display),
                    error = answer.and_then(|a| a.error.as_ref()).map(|error| &error.text),
                    "{method} {path} {status}"
                )
            };
        }
        if (500..600).contains(&status) {
            line!(error);
        } else {
            line!(info);
        }
    }
}

/// The beginning of a text.
fn clipped(text: &str) -> String {
    let end = text.floor_char_boundary(TEXT_BYTES_MAX);
    text.get(..end).unwrap_or_default().to_owned()
}

/// The build ID that a path is about: the segment behind `buildid` or `build-ids`.
fn build_id_in(path: &str) -> Option<BuildId> {
    let mut segments = path.split('/');
    segments.find(|segment| matches!(*segment, "buildid" | "build-ids"))?;
    segments.next()?.parse().ok()
}

/// A body that counts what of it was taken.
struct RecordedBody {
    body: Body,
    line: Line,
}

impl HttpBody for RecordedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.body).poll_frame(context));
        match &frame {
            None => {
                if let Some(answer) = &mut this.line.answer {
                    answer.ended = true;
                }
            }
            Some(Ok(frame)) => {
                let length = frame.data_ref().map_or(0, Bytes::len);
                let length = u64::try_from(length).unwrap_or(u64::MAX);
                this.line.sent_bytes = this.line.sent_bytes.saturating_add(length);
            }
            Some(Err(error)) => {
                error!(path = this.line.path, %error, "an answer was cut: {error}");
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::build_id_in;

    #[test]
    fn the_build_id_of_a_path_is_found_where_there_is_one() {
        let id = |path| build_id_in(path).map(|id| id.to_string());
        assert_eq!(id("/buildid/AB01/debuginfo").as_deref(), Some("ab01"));
        assert_eq!(id("/build-ids/ab01").as_deref(), Some("ab01"));
        assert_eq!(id("/buildid/xyz/debuginfo"), None);
        assert_eq!(id("/symbolize"), None);
    }
}
