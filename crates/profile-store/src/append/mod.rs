//! Rows durable before the answer, each request once, however often and wherever it is sent again.
//!
//! Messages are gathered into a *window* of at most a second while the one before is written ([`window`]). A window makes one segment for each hour that it
//! has rows of; what numbers in it stand for is put before, as far as this replica has not done so already ([`numbers`]). Only when all segments of a
//! message are there is it answered; the PUT of a segment is what commits its rows.
//!
//! A request that comes again within ten minutes is kept once:
//! - here, by memory ([`known`]): one that still waits is joined, one that is durable is answered;
//! - after a crash, and at other replicas, by the store ([`resends`]): before a window is written, the segments of its hours that others put lately are listed,
//!   and the requests in their footers are dropped from the window.
//!
//! A write is never given up half way: whoever sends a request again meanwhile waits for the same one, and an object that appears late is not one more.
//!
//! What remains: two replicas that are sent the same request within about a window, so that neither sees the other's segment; nearly all such requests
//! are doubled. Exporters wait for an answer, or for seconds, before they send again; a proxy that mirrors requests does not.

mod known;
mod numbers;
mod resends;
mod segment;
mod window;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::error;

pub use crate::files::RequestHash;

use crate::clock::Clock;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::objects::Objects;
use crate::rows::Batch;
use known::{Joined, Known, Waiter};
use window::{Window, WindowWriter};

/// A request, and what it puts into the table.
#[derive(Debug)]
pub struct Message {
    /// What makes it the same request when it is sent again.
    pub hash: RequestHash,
    /// Its rows.
    pub batch: Batch,
}

/// What is let go of when the rows of a message are written, or will not be.
pub type Hold = Box<dyn Any + Send>;

/// What became of a message that is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// It was stored.
    Stored,
    /// It was stored before.
    Resent,
}

/// Why rows are not durable, or not known to be.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// So many requests of the last ten minutes are remembered that no more are taken.
    #[error("too many requests within ten minutes")]
    Busy,
    /// The store did not take them.
    #[error("the rows could not be written")]
    Write(#[from] Arc<window::WriteError>),
    /// The server stops.
    #[error("the server is stopping")]
    Stopped,
    /// A mistake of ours.
    #[error("writing the rows ended in a panic")]
    Panicked,
}

/// What an [`Appender`] is made of.
#[derive(Debug)]
pub struct AppenderParts {
    /// Where the table lies.
    pub objects: Objects,
    /// What time it is.
    pub clock: Clock,
    /// Where it is counted.
    pub metrics: Arc<Metrics>,
    /// How long and large windows are.
    pub limits: Limits,
}

/// Makes rows durable; clones share the window.
#[derive(Clone)]
pub struct Appender(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// There is a first message, or enough of them.
    changed: Notify,
    writer: WindowWriter,
    clock: Clock,
    limits: Limits,
}

#[derive(Default)]
struct State {
    known: Known,
    /// The window that is gathered.
    window: Window,
    /// No more are taken.
    is_closed: bool,
}

impl fmt::Debug for Appender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.0.state.lock().window.len();
        write!(f, "Appender({waiting} messages wait)")
    }
}

impl Appender {
    /// One that has written nothing.
    pub fn new(parts: AppenderParts) -> Self {
        let AppenderParts {
            objects,
            clock,
            metrics,
            limits,
        } = parts;
        let writer = WindowWriter::new(objects, clock.clone(), metrics);
        Self(Arc::new(Shared {
            state: Mutex::default(),
            changed: Notify::new(),
            writer,
            clock,
            limits,
        }))
    }

    /// Makes a message durable. It goes on when this is dropped; `hold` is let go of at its end. As long as the store takes, with a deadline for each of its
    /// requests.
    ///
    /// # Errors
    /// If it is not durable, or not known to be. Then it may be sent again, here or elsewhere, and is kept once.
    pub async fn append(&self, message: Message, hold: Hold) -> Result<Appended, AppendError> {
        let waiter = match self.join(message, hold)? {
            Ok(waiter) => waiter,
            Err(appended) => return Ok(appended),
        };
        waiter.wait().await
    }

    fn join(&self, message: Message, hold: Hold) -> Result<Result<Waiter, Appended>, AppendError> {
        let mut state = self.0.state.lock();
        if state.is_closed {
            return Err(AppendError::Stopped);
        }
        let promise = match state.known.join(message.hash, Instant::now()) {
            Joined::First(promise) => promise,
            Joined::Waits(waiter) => return Ok(Ok(waiter)),
            Joined::Durable => return Ok(Err(Appended::Resent)),
            Joined::Full => return Err(AppendError::Busy),
        };
        let waiter = promise.waiter(Appended::Stored);
        state.window.push(message, hold, promise);
        drop(state);
        self.0.changed.notify_one();
        Ok(Ok(waiter))
    }

    /// Writes windows until it is told to stop and none is left.
    pub fn run(
        &self,
        tasks: &TaskTracker,
        draining: CancellationToken,
        stopping: CancellationToken,
    ) {
        let shared = Arc::clone(&self.0);
        let writes = tasks.clone();
        tasks.spawn(async move {
            while let Some(window) = shared.gather(&draining, &stopping).await {
                let writing = Arc::clone(&shared);
                // A task of its own: a panic costs one window.
                let written = writes.spawn(async move { writing.write(window).await });
                if let Err(error) = written.await {
                    error!(%error, "a window was not written: {error}");
                }
            }
        });
    }
}

impl Shared {
    /// The next window; none when all is over.
    async fn gather(
        &self,
        draining: &CancellationToken,
        stopping: &CancellationToken,
    ) -> Option<Window> {
        loop {
            let changed = self.changed.notified();
            let began = {
                let mut state = self.state.lock();
                if stopping.is_cancelled() && state.window.is_empty() {
                    state.is_closed = true;
                    return None;
                }
                let is_full = state.window.rows() >= self.limits.window_rows_max;
                let is_over = |began: Instant| {
                    began.elapsed() >= self.limits.window_millis_max || draining.is_cancelled()
                };
                match state.window.began() {
                    Some(began) if is_full || is_over(began) => {
                        // Before the rows are taken: the publish begins here.
                        state.window.id = Some(self.clock.publish_id());
                        return Some(std::mem::take(&mut state.window));
                    }
                    began => began,
                }
            };
            let end = began.map(|began| began + self.limits.window_millis_max);
            let end_of_window = async {
                match end {
                    Some(end) => {
                        tokio::select! {
                            () = tokio::time::sleep_until(end) => {}
                            () = draining.cancelled() => {}
                        }
                    }
                    None => stopping.cancelled().await,
                }
            };
            tokio::select! {
                () = end_of_window => {}
                () = changed => {}
            }
        }
    }

    async fn write(&self, window: Window) {
        let (durable, failed) = self.writer.write(window).await;
        let mut state = self.state.lock();
        for promise in durable {
            state.known.keep(promise, Instant::now());
        }
        for (promise, error) in failed {
            state.known.fail(&promise, error);
        }
    }
}
