//! The requests of the last ten minutes, as far as this replica knows: which wait, and which are durable.

use std::collections::VecDeque;
use std::time::Duration;

use rustc_hash::FxHashMap;
use tokio::sync::watch;
use tokio::time::Instant;

use super::{AppendError, Appended, RequestHash};
use crate::table::names::RESEND_MINUTES_MAX;

/// Requests that are remembered: 1,700 a second for ten minutes, some 100 bytes each.
const REQUESTS_MAX: usize = 1 << 20;
const SECONDS_PER_MINUTE: u64 = 60;

/// How a request ended; None while it waits.
type Ended = Option<Result<Appended, AppendError>>;

#[derive(Debug)]
enum Standing {
    Waits(watch::Receiver<Ended>),
    Durable,
}

/// What is known.
#[derive(Debug, Default)]
pub(super) struct Known {
    requests: FxHashMap<RequestHash, Standing>,
    /// Those that are durable, in the order in which they became so.
    durable: VecDeque<(Instant, RequestHash)>,
}

/// What a request is that comes.
pub(super) enum Joined {
    /// It is new, and this is to be kept.
    First(Promise),
    /// The same waits already.
    Waits(Waiter),
    /// The same is durable.
    Durable,
    /// Too many are remembered.
    Full,
}

/// Says how a request ended to all who wait for it. Dropped, it says that there was a panic.
#[derive(Debug)]
pub(super) struct Promise {
    pub(super) hash: RequestHash,
    /// What the first sender is told; those who joined it sent it again.
    pub(super) appended: Appended,
    ended: watch::Sender<Ended>,
}

/// Waits for a request.
#[derive(Debug)]
pub(super) struct Waiter {
    ended: watch::Receiver<Ended>,
    /// What it is told when the request is durable; what became of it, if that says that it was before.
    appended: Appended,
}

impl Promise {
    pub(super) fn waiter(&self, appended: Appended) -> Waiter {
        Waiter {
            ended: self.ended.subscribe(),
            appended,
        }
    }
}

impl Waiter {
    pub(super) async fn wait(mut self) -> Result<Appended, AppendError> {
        let ended = self.ended.wait_for(Option::is_some).await;
        let ended = ended.ok().and_then(|ended| ended.clone());
        match ended.unwrap_or(Err(AppendError::Panicked))? {
            Appended::Resent => Ok(Appended::Resent),
            Appended::Stored => Ok(self.appended),
        }
    }
}

impl Known {
    pub(super) fn join(&mut self, hash: RequestHash, now: Instant) -> Joined {
        self.forget(now);
        match self.requests.get(&hash) {
            Some(Standing::Durable) => return Joined::Durable,
            // One whose window panicked is as new.
            Some(Standing::Waits(ended)) if ended.has_changed().is_ok() => {
                return Joined::Waits(Waiter {
                    ended: ended.clone(),
                    appended: Appended::Resent,
                });
            }
            _ => {}
        }
        if self.requests.len() >= REQUESTS_MAX {
            return Joined::Full;
        }
        let (ended, receiver) = watch::channel(None);
        self.requests.insert(hash, Standing::Waits(receiver));
        Joined::First(Promise {
            hash,
            appended: Appended::Stored,
            ended,
        })
    }

    /// A request is durable.
    pub(super) fn keep(&mut self, promise: Promise, now: Instant) {
        let Promise {
            hash,
            appended,
            ended,
        } = promise;
        self.requests.insert(hash, Standing::Durable);
        self.durable.push_back((now, hash));
        ended.send_replace(Some(Ok(appended)));
    }

    /// A request is not, as far as anybody knows: the next one is looked for in the store.
    pub(super) fn fail(&mut self, promise: &Promise, error: AppendError) {
        self.requests.remove(&promise.hash);
        promise.ended.send_replace(Some(Err(error)));
    }

    fn forget(&mut self, now: Instant) {
        let minutes = u64::try_from(RESEND_MINUTES_MAX).unwrap_or_default();
        let kept = Duration::from_secs(minutes * SECONDS_PER_MINUTE);
        while let Some((since, hash)) = self.durable.front() {
            if now.saturating_duration_since(*since) < kept {
                return;
            }
            self.requests.remove(hash);
            self.durable.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(joined: Joined) -> Promise {
        match joined {
            Joined::First(promise) => promise,
            _ => panic!("it is known"),
        }
    }

    #[tokio::test]
    async fn a_request_is_new_waits_is_durable_and_is_forgotten_after_ten_minutes() {
        let (mut known, now) = (Known::default(), Instant::now());
        let hash = RequestHash([7; 32]);
        let promise = first(known.join(hash, now));
        let own = promise.waiter(Appended::Stored);
        let Joined::Waits(joined) = known.join(hash, now) else {
            panic!("it waits");
        };
        known.keep(promise, now);
        assert_eq!(own.wait().await.unwrap(), Appended::Stored);
        assert_eq!(joined.wait().await.unwrap(), Appended::Resent);
        let minutes = |minutes: u64| now + Duration::from_secs(60 * minutes);
        assert!(matches!(known.join(hash, minutes(9)), Joined::Durable));
        assert!(matches!(known.join(hash, minutes(10)), Joined::First(_)));
    }

    #[tokio::test]
    async fn a_request_that_failed_or_was_lost_may_be_sent_again() {
        let (mut known, now) = (Known::default(), Instant::now());
        let hash = RequestHash([7; 32]);
        let promise = first(known.join(hash, now));
        let waiter = promise.waiter(Appended::Stored);
        known.fail(&promise, AppendError::Stopped);
        assert!(matches!(waiter.wait().await, Err(AppendError::Stopped)));
        let promise = first(known.join(hash, now));
        let waiter = promise.waiter(Appended::Stored);
        drop(promise);
        assert!(matches!(waiter.wait().await, Err(AppendError::Panicked)));
        first(known.join(hash, now));
    }
}
