//! CPU work off the async threads, as much at once as there are processors.
//!
//! More would only take memory and time from each other: a batch is compute-bound.

use std::sync::Arc;
use std::thread::available_parallelism;

use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

/// A share of the processors; clones share it.
#[derive(Clone, Debug)]
pub struct CpuPool {
    permits: Arc<Semaphore>,
}

/// Work that was not done, since it panicked or the server stops.
#[derive(Debug, thiserror::Error)]
#[error("the work was cancelled: {0}")]
pub struct Cancelled(String);

/// Work that was not begun in time: all processors are busy with what came before.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("no processor was free in time")]
pub struct Busy;

impl CpuPool {
    /// A pool of as many permits as this machine has processors.
    pub fn for_this_machine() -> Self {
        let processors = available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            permits: Arc::new(Semaphore::new(processors)),
        }
    }

    /// Does `work` on another thread, when a processor is free.
    ///
    /// # Errors
    /// If it panics, or the runtime stops.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Cancelled> {
        self.run_when_free(None, work)
            .await
            .unwrap_or_else(|busy| Err(Cancelled(busy.to_string())))
    }

    /// The same, if a processor is free by `deadline`, where there is one.
    ///
    /// # Errors
    /// The outer one if none is; the inner one if the work panics, or the runtime stops.
    pub async fn run_when_free<T: Send + 'static>(
        &self,
        deadline: Option<Instant>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Result<T, Cancelled>, Busy> {
        let acquiring = Arc::clone(&self.permits).acquire_owned();
        let permit = match deadline {
            Some(deadline) => timeout_at(deadline, acquiring).await.ok().ok_or(Busy)?,
            None => acquiring.await,
        };
        let permit = match permit {
            Ok(permit) => permit,
            Err(error) => return Ok(Err(Cancelled(error.to_string()))),
        };
        let working = tokio::task::spawn_blocking(move || {
            // Released when the work ends, not when the one who waits for it leaves.
            let _permit = permit;
            work()
        });
        Ok(working.await.map_err(|error| Cancelled(error.to_string())))
    }
}
