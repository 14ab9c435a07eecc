//! One line in the log and one count in the metrics a request, when its answer has ended.
//!
//! Profiles arrive every few seconds from each host: what is answered well is logged at `debug` on those routes, what is
//! not at `info` or `error`.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::{Method, StatusCode, header};
use http_body::{Body as HttpBody, Frame, SizeHint};
use tracing::{debug, error, info};

use super::auth::Writer;
use super::error::LoggedError;
use super::idle::RequestRuns;
use super::named::RouteName;
use super::stall::StallGuard;
use crate::app::App;
use crate::metrics::{AnswerEnd, HttpAnswer, Metrics, Running};

/// The longest path or user agent in a line.
const TEXT_BYTES_MAX: usize = 512;
/// The status of requests whose client left before it was known, as other servers log it.
const CLIENT_LEFT: u16 = 499;
/// The route of requests that no line of the table matches.
const UNMATCHED: &str = "unmatched";
/// Routes of which a line for each good answer would be most of the log.
const FREQUENT: [&str; 5] = ["otlp", "grpc", "profiles", "healthz", "metrics"];

/// The socket that a request came from, as an extension of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) SocketAddr);

/// Has the request answered, bounds how long its body may stall, and writes its line.
pub(super) async fn record(
    app: &App,
    request: Request,
    answer: impl AsyncFnOnce(Request) -> Response,
) -> Response {
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
    response.map(|body| Body::new(RecordedBody { body, line }))
}

/// What is known of a request; written when it is dropped, which is when the answer has ended.
struct Line {
    metrics: Arc<Metrics>,
    started: Instant,
    _running: Running,
    _of_connection: Option<RequestRuns>,
    method: Method,
    path: String,
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
}

impl Line {
    fn new(request: &Request, app: &App) -> Self {
        let user_agent = request.headers().get(header::USER_AGENT);
        let user_agent = user_agent.map(|agent| String::from_utf8_lossy(agent.as_bytes()));
        Self {
            metrics: Arc::clone(&app.metrics),
            started: Instant::now(),
            _running: app.metrics.request_running(),
            _of_connection: request.extensions().get().cloned(),
            method: request.method().clone(),
            path: clipped(request.uri().path()),
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
        let (method, path) = (&self.method, &self.path);
        let failure = answer.and_then(|answer| answer.error.as_ref());
        macro_rules! line {
            ($level:ident) => {
                $level!(
                    %method,
                    path,
                    route,
                    status,
                    bytes = self.sent_bytes,
                    whole,
                    duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
                    user_agent = self.user_agent,
                    client = self.client.map(|client| tracing::field::display(client.0)),
                    writer = answer.and_then(|a| a.writer.as_ref()).map(tracing::field::display),
                    error = failure.map(|error| &error.text),
                    "{method} {path} {status}"
                )
            };
        }
        if (500..600).contains(&status) {
            line!(error);
        } else if failure.is_none() && FREQUENT.contains(&route) {
            line!(debug);
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
                // Trailers are the last frame, behind which nobody asks again.
                if let (true, Some(answer)) = (frame.is_trailers(), &mut this.line.answer) {
                    answer.ended = true;
                }
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
