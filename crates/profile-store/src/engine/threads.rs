//! Threads that queries run on, apart from those that answer requests: a merge of a day takes seconds of processor time, and
//! an append or a health check is not to wait behind it.

use std::num::NonZeroUsize;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use super::EngineError;

/// A runtime of its own.
#[derive(Debug)]
pub(super) struct Threads(Option<Runtime>);

/// Ends the work of whoever let go of it.
struct Running<T>(JoinHandle<T>);

impl Threads {
    pub(super) fn new(threads: NonZeroUsize) -> Result<Self, EngineError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads.get())
            .thread_name("query")
            .enable_all()
            .build();
        Ok(Self(Some(runtime.map_err(EngineError::Threads)?)))
    }

    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, EngineError> {
        let Some(runtime) = &self.0 else {
            return Err(EngineError::Ended);
        };
        let mut running = Running(runtime.spawn(work));
        let done = (&mut running.0).await;
        done.map_err(|error| {
            if error.is_panic() {
                EngineError::Panicked
            } else {
                EngineError::Ended
            }
        })
    }
}

impl Drop for Threads {
    /// A runtime must not be waited for where the last handle may be dropped: within another.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
