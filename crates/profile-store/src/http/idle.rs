//! Whether a connection has a request, and since when it has none.
//!
//! A client that answers HTTP/2's pings keeps its connection, and its place among those that may be
//! open, as long as it likes. So a connection without a request for too long is closed.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The requests of one connection; clones share the count.
#[derive(Clone, Debug)]
pub(super) struct Requests(Arc<Mutex<Count>>);

#[derive(Debug)]
struct Count {
    running: usize,
    /// When the last one ended, or the connection began.
    idle_since: Instant,
}

/// One request that runs, an extension of it; it has ended when all clones are dropped.
#[derive(Clone, Debug)]
pub(super) struct RequestRuns(#[expect(dead_code, reason = "held, never read")] Arc<Running>);

#[derive(Debug)]
struct Running(Requests);

impl Requests {
    /// None yet.
    pub(super) fn none() -> Self {
        Self(Arc::new(Mutex::new(Count {
            running: 0,
            idle_since: Instant::now(),
        })))
    }

    /// Counts one more until it is dropped.
    pub(super) fn begin(&self) -> RequestRuns {
        let mut count = self.0.lock();
        count.running = count.running.saturating_add(1);
        drop(count);
        RequestRuns(Arc::new(Running(self.clone())))
    }

    /// Ends when there was no request for so long, counted from `earliest` at the earliest.
    pub(super) async fn idle_for(&self, patience: Duration, earliest: Instant) {
        loop {
            let now = Instant::now();
            let since = match &*self.0.lock() {
                Count {
                    running: 0,
                    idle_since,
                } => *idle_since,
                _ => now,
            };
            let until = since.max(earliest) + patience;
            if until <= now {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut count = self.0.0.lock();
        count.running = count.running.saturating_sub(1);
        if count.running == 0 {
            count.idle_since = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_is_idle_only_when_its_last_request_has_ended() {
        let (start, moment) = (Instant::now(), Duration::from_millis(20));
        let requests = Requests::none();
        let (one, other) = (requests.begin(), requests.begin());
        drop(one);
        let early = tokio::time::timeout(moment * 5, requests.idle_for(moment, start)).await;
        assert!(early.is_err(), "a request runs");
        let clone = other.clone();
        drop(other);
        let early = tokio::time::timeout(moment * 5, requests.idle_for(moment, start)).await;
        assert!(early.is_err(), "its answer is still sent");
        drop(clone);
        requests.idle_for(moment, start).await;
    }
}
