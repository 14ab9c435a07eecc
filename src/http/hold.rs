//! How long a debuginfod client is held, and how it learns that nothing is known.
//!
//! Clients take every status but 200 and 406 for "does not exist" and remember it for ten minutes,
//! while they wait gladly. So what may pass is tried again while the client waits. When the time is
//! over, a connection of the client's own is reset before the first byte of an answer, on which
//! libdebuginfod asks again and remembers nothing. A proxy turns a reset into a status, and over
//! HTTP/2 a stream is no connection: there the status is ours, 503 that nobody may store.

use std::fmt;
use std::time::Duration;

use axum::response::Response;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use super::error::{ApiError, ApiErrorKind};
use super::peer::{Connection, Peer};
use crate::metrics::{HoldOutcome, Metrics};

/// The pause before the second attempt; it doubles from one to the next.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
/// The longest pause: a server that recovers is noticed so fast, and each attempt costs a listing.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// How long a request may be held.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold<'a> {
    pub(super) deadline: Instant,
    /// At a stop nobody is held: the next server may know.
    pub(super) stopping: &'a CancellationToken,
    pub(super) metrics: &'a Metrics,
}

/// The mark of an answer that nobody gets, as an extension of it: its connection is reset instead.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResetInstead;

/// A connection that is reset instead of being answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionReset;

impl fmt::Display for ConnectionReset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing was known in time, so it is reset")
    }
}

impl std::error::Error for ConnectionReset {}

impl Hold<'_> {
    /// What one attempt comes to, if it ends in time.
    ///
    /// # Errors
    /// If it fails, or there is no time left.
    pub(super) async fn once<T>(
        self,
        attempt: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<T, ApiError> {
        let answered = timeout_at(self.deadline, attempt).await;
        answered.unwrap_or_else(|_elapsed| Err(too_slow()))
    }

    /// What `attempt` comes to, which is repeated while its failure may pass and there is time.
    ///
    /// # Errors
    /// If it fails for good, or there is no time left.
    pub(super) async fn until_answered<T, F>(self, attempt: impl Fn() -> F) -> Result<T, ApiError>
    where
        F: Future<Output = Result<T, ApiError>>,
    {
        let mut last = None;
        let mut pause = PAUSE_FIRST;
        loop {
            let answered = tokio::select! {
                biased;
                answered = timeout_at(self.deadline, attempt()) => answered,
                () = self.stopping.cancelled() => return Err(last.unwrap_or_else(stops)),
            };
            match answered {
                Ok(Err(error)) if error.may_pass() => last = Some(error),
                Ok(answered) => {
                    if last.is_some() && is_definite(&answered) {
                        self.metrics.held(HoldOutcome::Answered);
                    }
                    return answered;
                }
                Err(_elapsed) => return Err(last.unwrap_or_else(too_slow)),
            }
            let is_over = Instant::now() + pause >= self.deadline;
            if is_over || self.stopping.is_cancelled() {
                return Err(last.unwrap_or_else(too_slow));
            }
            tokio::select! {
                () = sleep(pause) => {}
                () = self.stopping.cancelled() => return Err(last.unwrap_or_else(stops)),
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

/// Whether the client gets what it asked for, or a refusal that stays one. Who learns that nothing is
/// known is counted by [`give_up`].
fn is_definite<T>(answered: &Result<T, ApiError>) -> bool {
    let Err(error) = answered else { return true };
    !matches!(
        error.kind(),
        ApiErrorKind::Unavailable | ApiErrorKind::Internal
    )
}

/// How `peer` learns that nothing is known now.
pub(super) fn give_up(error: ApiError, peer: Option<&Peer>, metrics: &Metrics) -> Response {
    let mut response = error.into_text_response();
    if peer.is_some_and(|peer| peer.connection() == Connection::Direct) {
        metrics.held(HoldOutcome::Reset);
        response.extensions_mut().insert(ResetInstead);
    } else {
        metrics.held(HoldOutcome::Unavailable);
    }
    response
}

fn too_slow() -> ApiError {
    let detail = "it could not be found out in time; ask again later";
    ApiError::new(ApiErrorKind::Unavailable, detail)
}

fn stops() -> ApiError {
    ApiError::new(ApiErrorKind::Unavailable, "the server stops; ask again")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// What comes of attempts that fail so often before they succeed, and how many were made.
    async fn attempts(
        time: Duration,
        failures: u32,
        error: fn() -> ApiError,
    ) -> (Result<(), ApiError>, u32) {
        let (stopping, metrics) = (CancellationToken::new(), Metrics::new());
        let hold = Hold {
            deadline: Instant::now() + time,
            stopping: &stopping,
            metrics: &metrics,
        };
        let made = AtomicU32::new(0);
        let answered = hold
            .until_answered(|| {
                let before = made.fetch_add(1, Ordering::Relaxed);
                std::future::ready(if before < failures {
                    Err(error())
                } else {
                    Ok(())
                })
            })
            .await;
        (answered, made.into_inner())
    }

    fn unavailable() -> ApiError {
        ApiError::new(ApiErrorKind::Unavailable, "not now")
    }

    #[tokio::test]
    async fn what_may_pass_is_tried_again_and_what_is_definite_is_not() {
        let time = Duration::from_mins(1);
        let (answered, made) = attempts(time, 2, unavailable).await;
        assert!(answered.is_ok() && made == 3, "{made}");
        let (answered, made) = attempts(time, 2, || ApiError::not_found("no")).await;
        assert!(answered.is_err() && made == 1, "{made}");
        let (answered, made) = attempts(time, 2, || unavailable().lasting()).await;
        assert!(answered.is_err() && made == 1, "{made}");
    }

    #[tokio::test]
    async fn a_held_client_counts_as_answered_only_with_an_answer_or_a_definite_refusal() {
        for (second, counts) in [
            (Ok(()), true),
            (Err(ApiError::not_found("no")), true),
            (Err(unavailable().lasting()), false),
            (Err(ApiError::new(ApiErrorKind::Internal, "a fault")), false),
        ] {
            let (stopping, metrics) = (CancellationToken::new(), Metrics::new());
            let hold = Hold {
                deadline: Instant::now() + Duration::from_mins(1),
                stopping: &stopping,
                metrics: &metrics,
            };
            let made = AtomicU32::new(0);
            let answered = hold.until_answered(|| {
                let is_first = made.fetch_add(1, Ordering::Relaxed) == 0;
                std::future::ready(if is_first {
                    Err(unavailable())
                } else {
                    second.clone()
                })
            });
            drop(answered.await);
            let text = String::from_utf8(metrics.render(&[]).unwrap()).unwrap();
            let line = r#"unhex_debuginfod_held_total{outcome="answered"} 1"#;
            assert_eq!(text.contains(line), counts, "{second:?}");
        }
    }

    #[tokio::test]
    async fn attempts_end_with_the_time_and_get_rarer() {
        let (answered, made) = attempts(Duration::from_secs(1), u32::MAX, unavailable).await;
        assert_eq!(answered.unwrap_err().detail(), "not now");
        // At 0, 100, 300 and 700 ms.
        assert!((1..=4).contains(&made), "{made}");
    }

    #[tokio::test]
    async fn nobody_is_held_at_a_stop() {
        let (stopping, metrics) = (CancellationToken::new(), Metrics::new());
        let hold = Hold {
            deadline: Instant::now() + Duration::from_hours(1),
            stopping: &stopping,
            metrics: &metrics,
        };
        let held = hold.until_answered(std::future::pending::<Result<(), _>>);
        let stop = async { stopping.cancel() };
        let (answered, ()) = tokio::join!(held, stop);
        assert!(answered.is_err());
    }
}
