//! A time that never runs backwards, whatever is done to the clock.
//!
//! What is past its grace stays past it, and what came a day ago does not become recent, when somebody
//! sets the clock back: the alert would end and begin again. Replicas each have their own.

use std::time::UNIX_EPOCH;

use parking_lot::Mutex;

use super::view::millis;
use crate::artifacts::Clock;

/// Milliseconds since 1970 by a clock, but never less than before.
#[derive(Debug)]
pub(super) struct Steady {
    clock: Clock,
    shown: Mutex<Shown>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Shown {
    last: u64,
    /// By how much the clock was set back since the start.
    ahead: u64,
}

impl Steady {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            shown: Mutex::default(),
        }
    }

    /// The time now: of the clock, or as far behind the last one as the clock came since it was set
    /// back.
    pub(super) fn now(&self) -> u64 {
        let time = self.clock.now().duration_since(UNIX_EPOCH);
        let time = millis(time.unwrap_or_default());
        let mut shown = self.shown.lock();
        let now = time.saturating_add(shown.ahead);
        if now < shown.last {
            shown.ahead = shown.last.saturating_sub(time);
        }
        shown.last = shown.last.max(now);
        shown.last
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_that_is_set_back_goes_on_from_where_it_was() {
        let seconds = Arc::new(AtomicU64::new(1_000));
        let shared = Arc::clone(&seconds);
        let steady = Steady::new(Clock::new(move || {
            UNIX_EPOCH + Duration::from_secs(shared.load(Ordering::SeqCst))
        }));
        let mut shown = Vec::new();
        for time in [1_000, 1_010, 10, 11, 12, 2_000, 1_999] {
            seconds.store(time, Ordering::SeqCst);
            shown.push(steady.now() / 1_000);
        }
        assert_eq!(shown, [1_000, 1_010, 1_010, 1_011, 1_012, 3_000, 3_000]);
    }
}
