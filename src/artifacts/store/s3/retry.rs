//! Trying again what broke behind the headers of an answer, where the SDK's own retries end, and what
//! is sent, which the SDK sends once.
//!
//! Pauses double and are drawn at random, so that many who failed together do not come back
//! together; a budget that only success refills keeps a sick server from getting more requests than
//! a sound one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::artifacts::store::StoreError;
use crate::config::S3Patience;
use crate::metrics::{Metrics, S3Repeat};

/// What is in a full budget.
const TOKENS_MAX: u32 = 500;

/// What a retry takes; a success gives one back.
const RETRY_TOKENS: u32 = 10;

/// Why an attempt did not succeed.
#[derive(Debug)]
pub(super) enum Failed {
    /// Another attempt would end so too, or had its retries already.
    Finally(StoreError),
    /// It may go well the next time.
    ThisTime(StoreError),
}

/// Tries again, within a budget that all requests of a store share.
#[derive(Debug)]
pub(super) struct Retries {
    patience: S3Patience,
    tokens: AtomicU32,
    metrics: Arc<Metrics>,
}

impl Retries {
    pub(super) fn new(patience: S3Patience, metrics: Arc<Metrics>) -> Self {
        Self {
            patience,
            metrics,
            tokens: AtomicU32::new(TOKENS_MAX),
        }
    }

    /// Attempts to read a body until one succeeds, fails finally, or there were enough, or it took
    /// too long.
    pub(super) async fn run<T, F>(&self, attempt: impl FnMut() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Failed>>,
    {
        let whole = self.patience.whole;
        self.run_within(S3Repeat::Body, whole, attempt).await
    }

    /// The same of anything, of which no attempt begins when `whole` is over.
    pub(super) async fn run_within<T, F>(
        &self,
        what: S3Repeat,
        whole: Duration,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Failed>>,
    {
        let began = Instant::now();
        let mut pause = self.patience.first_pause;
        let mut left = self.patience.attempts;
        loop {
            left = left.saturating_sub(1);
            match attempt().await {
                Ok(value) => {
                    self.earn();
                    return Ok(value);
                }
                Err(Failed::Finally(error)) => return Err(error),
                Err(Failed::ThisTime(error)) if left == 0 || began.elapsed() >= whole => {
                    return Err(error);
                }
                Err(Failed::ThisTime(error)) if !self.spend() => return Err(error),
                Err(Failed::ThisTime(error)) => {
                    tracing::debug!(%error, "trying again: {error}");
                    self.metrics.s3_repeats(what);
                    tokio::time::sleep(pause.mul_f64(rand::random())).await;
                    pause *= 2;
                }
            }
        }
    }

    fn earn(&self) {
        let earn = |tokens: u32| (tokens < TOKENS_MAX).then(|| tokens + 1);
        let _full = self
            .tokens
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, earn);
    }

    fn spend(&self) -> bool {
        let spend = |tokens: u32| tokens.checked_sub(RETRY_TOKENS);
        let spent = self
            .tokens
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend);
        spent.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn failed() -> StoreError {
        StoreError::from_io("trying", &"it", io::ErrorKind::TimedOut.into())
    }

    fn retries() -> Retries {
        let patience = S3Patience {
            first_pause: Duration::from_micros(1),
            ..S3Patience::default()
        };
        Retries::new(patience, Arc::new(Metrics::new()))
    }

    async fn attempts(
        retries: &Retries,
        failures: u32,
        last: fn(StoreError) -> Failed,
    ) -> (u32, bool) {
        let mut made = 0;
        let outcome = retries.run(|| {
            made += 1;
            let outcome = if made > failures {
                Ok(())
            } else {
                Err(last(failed()))
            };
            std::future::ready(outcome)
        });
        let succeeded = outcome.await.is_ok();
        (made, succeeded)
    }

    #[tokio::test]
    async fn what_passes_is_tried_again_and_what_does_not_is_not() {
        let retries = retries();
        assert_eq!(attempts(&retries, 3, Failed::ThisTime).await, (4, true));
        assert_eq!(attempts(&retries, 99, Failed::ThisTime).await, (6, false));
        assert_eq!(attempts(&retries, 1, Failed::Finally).await, (1, false));
    }

    #[tokio::test]
    async fn what_is_tried_again_is_counted_by_what_it_is() {
        let retries = retries();
        attempts(&retries, 2, Failed::ThisTime).await;
        let mut left = 3;
        let sent = retries.run_within(S3Repeat::UploadPart, Duration::MAX, || {
            left -= 1;
            std::future::ready(if left > 0 {
                Err(Failed::ThisTime(failed()))
            } else {
                Ok(())
            })
        });
        sent.await.unwrap();
        let text = String::from_utf8(retries.metrics.render(&[]).unwrap()).unwrap();
        for operation in ["body", "upload_part"] {
            let line = format!("unhex_s3_retries_total{{operation=\"{operation}\"}} 2\n");
            assert!(text.contains(&line), "{text}");
        }
    }

    #[tokio::test]
    async fn nothing_is_tried_again_that_took_too_long_already() {
        let patience = S3Patience {
            whole: Duration::ZERO,
            ..retries().patience
        };
        let retries = Retries::new(patience, Arc::new(Metrics::new()));
        assert_eq!(attempts(&retries, 99, Failed::ThisTime).await, (1, false));
    }

    #[tokio::test]
    async fn a_server_that_fails_for_long_is_not_asked_more_often_than_a_sound_one() {
        let retries = retries();
        let mut made = 0;
        for _ in 0..100 {
            made += attempts(&retries, 99, Failed::ThisTime).await.0;
        }
        assert_eq!(made, 100 + TOKENS_MAX / RETRY_TOKENS);
        for _ in 0..RETRY_TOKENS {
            attempts(&retries, 0, Failed::ThisTime).await;
        }
        assert_eq!(attempts(&retries, 99, Failed::ThisTime).await.0, 2);
    }
}
