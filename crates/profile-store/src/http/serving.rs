//! Connections: HTTP/1.1 and HTTP/2 with prior knowledge (so that gRPC too) on one port, or on two, bounded, stopped gracefully.
//!
//! At the limit of connections the next ones wait in the kernel's queue.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, info, warn};

use super::idle::Requests;
use super::request_log::Peer;
use super::socket::{ClientSocket, SocketPatience};
use crate::app::App;
use crate::limits::Limits;
use crate::metrics::Running;

/// The wait after a failed accept: such failures (too many open files) last a moment.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How often an idle HTTP/2 connection is asked whether it lives, and how long it may take to say so.
const HTTP2_PING: Duration = Duration::from_secs(30);
/// What one HTTP/2 stream may send ahead: messages of profiles have some 100 KB.
const HTTP2_STREAM_WINDOW_BYTES: u32 = 1 << 20;
/// What all streams of an HTTP/2 connection may send ahead.
const HTTP2_CONNECTION_WINDOW_BYTES: u32 = 4 << 20;
/// How long a connection that shall end may stay open without a request: HTTP/2 says goodbye in two
/// steps with a ping between (RFC 9113 §6.8), and streams whose end nobody takes stay open for ever.
const GOODBYE: Duration = Duration::from_secs(2);
/// The least that hyper accepts as a buffer for headers.
const HEADER_BYTES_LEAST: u64 = 8 << 10;

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    /// The second one, for exporters that are set to the port of OTLP over gRPC.
    grpc_listener: Option<TcpListener>,
    app: App,
}

impl Server {
    /// Listens where the configuration says.
    ///
    /// # Errors
    /// If an address cannot be had; the error says which.
    pub async fn bind(app: App) -> io::Result<Self> {
        let bind = async |listen: SocketAddr| {
            let bound = TcpListener::bind(listen).await;
            bound.map_err(|error| {
                io::Error::new(error.kind(), format!("cannot listen on {listen}: {error}"))
            })
        };
        let listener = bind(app.config.listen).await?;
        let grpc_listener = match app.config.grpc_listen {
            Some(listen) => Some(bind(listen).await?),
            None => None,
        };
        Ok(Self {
            listener,
            grpc_listener,
            app,
        })
    }

    /// Where it listens: the port that the system picked, where port 0 was asked for.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Where it listens beside that.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn grpc_addr(&self) -> io::Result<Option<SocketAddr>> {
        let listener = self.grpc_listener.as_ref();
        listener.map(TcpListener::local_addr).transpose()
    }

    /// Answers until `stop` is there, then finishes what is running, open windows too, at most as
    /// long as the configuration says.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Self {
            listener,
            grpc_listener,
            app,
        } = self;
        let connections = Connections::new(&app);
        tokio::pin!(stop);
        loop {
            let accepted = tokio::select! {
                () = &mut stop => break,
                accepted = connections.accept(&listener, grpc_listener.as_ref()) => accepted,
            };
            match accepted {
                Ok(connection) => connections.serve(connection),
                Err(error) => {
                    warn!(%error, "a connection could not be accepted: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop((listener, grpc_listener));
        let deadline = Instant::now() + app.config.shutdown;
        app.background.draining.cancel();
        connections.finish(deadline).await;
        app.background.stopping.cancel();
        app.background.tasks.close();
        let tasks = app.background.tasks.wait();
        if tokio::time::timeout_at(deadline, tasks).await.is_err() {
            let left = app.background.tasks.len();
            warn!(
                left,
                "stopping although {left} background tasks are not done"
            );
        }
    }
}

/// All connections of a server.
struct Connections {
    builder: Arc<auto::Builder<TokioExecutor>>,
    /// Cancelled when all shall end.
    stopping: CancellationToken,
    tasks: TaskTracker,
    free: Arc<Semaphore>,
    patience: SocketPatience,
    idle_max: Duration,
    router: Router,
    app: App,
}

/// A connection and its place among those that may be open.
struct Connection {
    stream: TcpStream,
    client: SocketAddr,
    place: OwnedSemaphorePermit,
    running: Running,
}

impl Connections {
    fn new(app: &App) -> Self {
        let limits = &app.config.limits;
        let places = limits.connections_max.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            builder: Arc::new(http(limits)),
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
            free: Arc::new(Semaphore::new(places)),
            patience: SocketPatience {
                first_bytes: limits.header_read_seconds_max,
                write_stall: limits.write_stall_seconds_max,
            },
            idle_max: limits.connection_idle_seconds_max,
            router: super::routes(app).with_state(app.clone()),
            app: app.clone(),
        }
    }

    /// The next connection, once there is a place for it.
    async fn accept(
        &self,
        listener: &TcpListener,
        second: Option<&TcpListener>,
    ) -> io::Result<Connection> {
        let place = Arc::clone(&self.free).acquire_owned().await;
        let place = place.map_err(io::Error::other)?;
        let from_second = async {
            match second {
                Some(second) => second.accept().await,
                None => std::future::pending().await,
            }
        };
        let (stream, client) = tokio::select! {
            accepted = listener.accept() => accepted?,
            accepted = from_second => accepted?,
        };
        // A client that has left already makes it fail, which is not the listener's trouble.
        let _left_already = stream.set_nodelay(true);
        Ok(Connection {
            stream,
            client,
            place,
            running: self.app.metrics.connection_open(),
        })
    }

    fn serve(&self, connection: Connection) {
        let Connection {
            stream,
            client,
            place,
            running,
        } = connection;
        let (socket, end) = ClientSocket::new(stream, self.patience);
        let router = self.router.clone();
        let requests = Requests::none();
        let counted = requests.clone();
        let app = self.app.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(Peer(client));
            request.extensions_mut().insert(counted.begin());
            let (app, router) = (app.clone(), router.clone());
            async move { Ok::<_, Infallible>(super::answer(&app, router, request.map(Body::new)).await) }
        });
        let builder = Arc::clone(&self.builder);
        let (stopping, idle_max) = (self.stopping.clone(), self.idle_max);
        self.tasks.spawn(async move {
            let mut served = Box::pin(builder.serve_connection(TokioIo::new(socket), service));
            let began = Instant::now();
            let mut ending_since = None;
            let ended = loop {
                let (patience, earliest) =
                    ending_since.map_or((idle_max, began), |since| (GOODBYE, since));
                tokio::select! {
                    ended = served.as_mut() => break ended,
                    () = stopping.cancelled(), if ending_since.is_none() => {}
                    () = requests.idle_for(patience, earliest) => {
                        if ending_since.is_some() {
                            break Err("it did not end when it was told to".into());
                        }
                    }
                }
                ending_since = Some(Instant::now());
                served.as_mut().graceful_shutdown();
            };
            drop(served);
            if let Err(error) = ended {
                debug!(%client, %error, "connection of {client} ended: {error}");
            }
            end.linger().await;
            drop((place, running));
        });
    }

    /// Lets running requests finish until the deadline.
    async fn finish(self, deadline: Instant) {
        let open = self.tasks.len();
        info!(
            open,
            "stopping: {open} connections may finish their requests"
        );
        self.tasks.close();
        let finished = async {
            self.stopping.cancel();
            self.tasks.wait().await;
        };
        if tokio::time::timeout_at(deadline, finished).await.is_err() {
            let left = self.tasks.len();
            warn!(left, "stopping although {left} connections are not done");
        }
    }
}

/// Both versions of HTTP with their bounds.
fn http(limits: &Limits) -> auto::Builder<TokioExecutor> {
    let header_bytes = limits.header_bytes_max.max(HEADER_BYTES_LEAST);
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_read_seconds_max)
        .max_buf_size(usize::try_from(header_bytes).unwrap_or(usize::MAX));
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(HTTP2_PING)
        .keep_alive_timeout(HTTP2_PING)
        .initial_stream_window_size(HTTP2_STREAM_WINDOW_BYTES)
        .initial_connection_window_size(HTTP2_CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(u32::try_from(limits.http2_streams_max).unwrap_or(u32::MAX))
        .max_header_list_size(u32::try_from(header_bytes).unwrap_or(u32::MAX));
    builder
}
