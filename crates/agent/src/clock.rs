//! The two clocks that samples need: the one that the kernel gives them, and the time of day.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A moment on all clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// For waits and ages.
    pub instant: Instant,
    /// Nanoseconds of `CLOCK_MONOTONIC`, as samples have them.
    pub monotonic_nanos: u64,
    /// Nanoseconds since 1970.
    pub unix_nanos: u64,
}

impl Moment {
    /// Now.
    pub fn now() -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            instant: Instant::now(),
            monotonic_nanos: monotonic_nanos(),
            unix_nanos: nanos(since_1970.unwrap_or_default()),
        }
    }

    /// What is to be added to `CLOCK_MONOTONIC` to get the time of day; wraps around.
    pub fn unix_offset_nanos(&self) -> u64 {
        self.unix_nanos.wrapping_sub(self.monotonic_nanos)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Nanoseconds of `CLOCK_MONOTONIC`.
#[expect(
    unsafe_code,
    reason = "the standard library does not show CLOCK_MONOTONIC's number, and rustix has it behind a feature that \
              other packages do without"
)]
pub fn monotonic_nanos() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes one timespec to where one is.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    if failed != 0 {
        return 0;
    }
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clocks_go_on_together() {
        let (first, second) = (Moment::now(), Moment::now());
        assert!(first.monotonic_nanos > 0);
        assert!(second.monotonic_nanos >= first.monotonic_nanos);
        let offset = first.unix_offset_nanos();
        assert_eq!(first.monotonic_nanos.wrapping_add(offset), first.unix_nanos);
    }
}
