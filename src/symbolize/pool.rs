//! CPU work off the async threads, as much at once as there are processors.
//!
//! More would only take memory and time from each other: a batch is compute-bound.

use std::sync::Arc;
use std::thread::available_parallelism;

use tokio::sync::Semaphore;

/// A share of the processors; clones share it.
#[derive(Clone, Debug)]
pub struct CpuPool {
    permits: Arc<Semaphore>,
}

/// Work that was not done, since it panicked or the server stops.
#[derive(Debug, thiserror::Error)]
#[error("the work was cancelled: {0}")]
pub struct Cancelled(String);

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
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|error| Cancelled(error.to_string()))?;
        let working = tokio::task::spawn_blocking(move || {
            // Released when the work ends, not when the one who waits for it leaves.
            let _permit = permit;
            work()
        });
        working.await.map_err(|error| Cancelled(error.to_string()))
    }
}
