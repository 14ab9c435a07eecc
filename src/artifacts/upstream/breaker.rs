//! When a server that keeps failing is left alone.
//!
//! Closed, questions pass. After some failures in a row it opens: for a while nobody asks, so that a
//! server that is down costs no request its deadline. Then it is half open: one question passes and
//! decides. A question that was given up decides nothing.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::metrics::UpstreamMeter;

/// The breaker of one server; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Breaker {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Since when no question has been answered as it should.
    failing_since: Mutex<Option<Instant>>,
    failures_max: usize,
    rest: Duration,
    meter: UpstreamMeter,
}

#[derive(Debug)]
enum State {
    Closed { failures: usize },
    Open { until: Instant },
    HalfOpen,
}

/// The right to one question; say what came of it.
#[derive(Debug)]
pub(super) struct Permit {
    shared: Arc<Shared>,
    decided: bool,
}

impl Breaker {
    /// Opens after `failures_max` failures in a row, for `rest`.
    pub(super) fn new(failures_max: usize, rest: Duration, meter: UpstreamMeter) -> Self {
        let shared = Shared {
            state: Mutex::new(State::Closed { failures: 0 }),
            failing_since: Mutex::new(None),
            failures_max: failures_max.max(1),
            rest,
            meter,
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// The right to ask at `now`, or `None` while the server is left alone.
    pub(super) fn ask(&self, now: Instant) -> Option<Permit> {
        let mut state = self.shared.state.lock();
        match *state {
            State::Closed { .. } => {}
            State::Open { until } if now >= until => *state = State::HalfOpen,
            State::Open { .. } | State::HalfOpen => return None,
        }
        Some(Permit {
            shared: Arc::clone(&self.shared),
            decided: false,
        })
    }
}

impl Breaker {
    /// For how long the server has been failing at `now`.
    pub(super) fn failing_for(&self, now: Instant) -> Duration {
        let since = *self.shared.failing_since.lock();
        since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }
}

impl Permit {
    /// The server answered as it should, be it that it has no such file.
    pub(super) fn succeeded(mut self) {
        self.decided = true;
        *self.shared.state.lock() = State::Closed { failures: 0 };
        *self.shared.failing_since.lock() = None;
        self.shared.meter.resting(false);
    }

    /// It did not.
    pub(super) fn failed(mut self, now: Instant) {
        self.decided = true;
        self.shared.failing_since.lock().get_or_insert(now);
        let mut state = self.shared.state.lock();
        let failures = match *state {
            State::Closed { failures } => failures.saturating_add(1),
            State::HalfOpen => self.shared.failures_max,
            // One that was asked before it opened.
            State::Open { .. } => return,
        };
        let opens = failures >= self.shared.failures_max;
        *state = if opens {
            let until = now + self.shared.rest;
            State::Open { until }
        } else {
            State::Closed { failures }
        };
        drop(state);
        if opens {
            self.shared.meter.resting(true);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        if !self.decided && matches!(*state, State::HalfOpen) {
            // Whoever asks next is the probe.
            *state = State::Open {
                until: Instant::now(),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    const REST: Duration = Duration::from_secs(30);

    fn breaker() -> (Breaker, Instant) {
        let meter = Metrics::new().upstream("u");
        (Breaker::new(3, REST, meter), Instant::now())
    }

    fn fail(breaker: &Breaker, now: Instant) {
        breaker.ask(now).unwrap().failed(now);
    }

    #[tokio::test]
    async fn it_opens_after_failures_in_a_row_and_not_before() {
        let (breaker, now) = breaker();
        fail(&breaker, now);
        fail(&breaker, now);
        breaker.ask(now).unwrap().succeeded();
        for _ in 0..3 {
            fail(&breaker, now);
        }
        assert!(breaker.ask(now).is_none());
        assert!(breaker.ask(now + REST / 2).is_none());
    }

    #[tokio::test]
    async fn it_knows_since_when_the_server_fails() {
        let (breaker, now) = breaker();
        assert_eq!(breaker.failing_for(now), Duration::ZERO);
        fail(&breaker, now);
        fail(&breaker, now + REST / 2);
        assert_eq!(breaker.failing_for(now + REST), REST);
        breaker.ask(now + REST).unwrap().succeeded();
        assert_eq!(breaker.failing_for(now + REST * 2), Duration::ZERO);
    }

    #[tokio::test]
    async fn half_open_one_question_passes_and_decides() {
        let (breaker, now) = breaker();
        for _ in 0..3 {
            fail(&breaker, now);
        }
        let later = now + REST;
        let probe = breaker.ask(later).unwrap();
        assert!(breaker.ask(later).is_none());
        probe.failed(later);
        assert!(breaker.ask(later + REST / 2).is_none());
        let probe = breaker.ask(later + REST).unwrap();
        probe.succeeded();
        assert!(breaker.ask(later).is_some());
    }

    #[tokio::test]
    async fn a_probe_that_is_given_up_leaves_the_next_one_its_turn() {
        let (breaker, now) = breaker();
        for _ in 0..3 {
            fail(&breaker, now);
        }
        drop(breaker.ask(now + REST).unwrap());
        assert!(breaker.ask(now + REST).is_some());
    }

    #[tokio::test]
    async fn late_failures_do_not_prolong_the_rest() {
        let (breaker, now) = breaker();
        let late = breaker.ask(now).unwrap();
        for _ in 0..3 {
            fail(&breaker, now);
        }
        late.failed(now + REST / 2);
        assert!(breaker.ask(now + REST).is_some());
    }
}
