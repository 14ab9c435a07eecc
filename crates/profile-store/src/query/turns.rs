//! How many queries run at once, and for how long.

use std::time::Duration;

use tokio::sync::Semaphore;

use super::failure::QueryError;

/// Turns of queries.
#[derive(Debug)]
pub struct Turns {
    turns: Semaphore,
    options: TurnOptions,
}

/// How many there are, and how long anything may take.
#[derive(Clone, Copy, Debug)]
pub struct TurnOptions {
    /// Queries that run at once.
    pub at_once: usize,
    /// How long one waits for its turn.
    pub queue: Duration,
    /// How long one may run.
    pub seconds_max: Duration,
}

/// A query that has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TurnError {
    /// Its turn did not come.
    #[error("too many queries at once")]
    Busy,
    /// It took too long.
    #[error("the query took longer than {} s", .0.as_secs())]
    TooLong(Duration),
    /// It failed.
    #[error(transparent)]
    Query(#[from] QueryError),
}

impl Turns {
    /// Turns of so many at once.
    pub fn new(options: TurnOptions) -> Self {
        Self {
            turns: Semaphore::new(options.at_once.clamp(1, Semaphore::MAX_PERMITS)),
            options,
        }
    }

    /// Does the work of a query in its turn. Whoever lets go of the future ends it.
    ///
    /// # Errors
    /// If its turn does not come, or it takes too long, or fails.
    pub async fn run<T>(
        &self,
        work: impl Future<Output = Result<T, QueryError>>,
    ) -> Result<T, TurnError> {
        let turn = tokio::time::timeout(self.options.queue, self.turns.acquire()).await;
        // The turns are never closed.
        let Ok(Ok(_turn)) = turn else {
            return Err(TurnError::Busy);
        };
        let done = tokio::time::timeout(self.options.seconds_max, work).await;
        let late = |_elapsed| TurnError::TooLong(self.options.seconds_max);
        Ok(done.map_err(late)??)
    }

    /// Queries that run now.
    pub fn running(&self) -> usize {
        let at_once = self.options.at_once.clamp(1, Semaphore::MAX_PERMITS);
        at_once.saturating_sub(self.turns.available_permits())
    }
}
