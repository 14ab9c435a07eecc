//! Which times a profile may speak of: a host whose clock is wrong is told so, and its profile is not kept.
//!
//! Rows lie in the hour that they speak of. Those before the retention would be deleted at once, and those of the future would stay
//! until it has come and be in no answer before. Times are never mended: nobody could say afterwards which ones were.

use jiff::{SignedDuration, Timestamp};

/// How far ahead of this server's clock a profile may be. Clocks that are kept by NTP differ by less than a second; those of virtual
/// machines that just resumed, by minutes.
pub const AHEAD_SECONDS_MAX: i64 = 600;

/// When it is, and how far back rows are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeBounds {
    /// The time of arrival.
    pub now: Timestamp,
    /// How many days samples are kept, of the service that keeps them longest.
    pub samples_days: u32,
}

/// Why a time is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TimeError {
    /// It would be deleted at once.
    #[error(
        "it is of {time}, and samples are kept for {days} days; if it is not that old, set the clock of the host that sent it (here it is {now})"
    )]
    TooOld {
        /// The time in the profile.
        time: Timestamp,
        /// The time of arrival.
        now: Timestamp,
        /// How many days are kept.
        days: u32,
    },
    /// Some clock is wrong.
    #[error(
        "it is of {time}, more than {AHEAD_SECONDS_MAX} s ahead of {now}, the time here; set the clock of the host that sent it"
    )]
    Ahead {
        /// The time in the profile.
        time: Timestamp,
        /// The time of arrival.
        now: Timestamp,
    },
}

impl TimeBounds {
    /// Refuses a time, in microseconds since 1970, that no row may have.
    ///
    /// # Errors
    /// If it is older than what is kept, or too far ahead.
    pub fn check(&self, time_unix_micros: i64) -> Result<(), TimeError> {
        let &Self {
            now,
            samples_days: days,
        } = self;
        let ahead = i128::from(time_unix_micros) - i128::from(now.as_microsecond());
        let time = Timestamp::from_microsecond(time_unix_micros).unwrap_or(Timestamp::MAX);
        if ahead > SignedDuration::from_secs(AHEAD_SECONDS_MAX).as_micros() {
            return Err(TimeError::Ahead { time, now });
        }
        let kept = SignedDuration::from_hours(24 * i64::from(days));
        if -ahead > kept.as_micros() {
            return Err(TimeError::TooOld { time, now, days });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_refused_from_the_first_microsecond_beyond_the_bounds() {
        let now: Timestamp = "2026-12-01T13:00:00Z".parse().expect("a time");
        let bounds = TimeBounds {
            now,
            samples_days: 21,
        };
        let at = |seconds: i64, micros: i64| now.as_microsecond() + seconds * 1_000_000 + micros;
        for inside in [at(0, 0), at(600, 0), at(-21 * 86_400, 0)] {
            assert_eq!(bounds.check(inside), Ok(()), "{inside}");
        }
        let ahead = bounds.check(at(600, 1)).expect_err("ahead").to_string();
        assert_eq!(
            ahead,
            "it is of 2026-12-01T13:10:00.000001Z, more than 600 s ahead of 2026-12-01T13:00:00Z, the time here; set the clock of the host that sent it"
        );
        let old = bounds.check(at(-21 * 86_400, -1)).expect_err("old");
        assert!(matches!(old, TimeError::TooOld { days: 21, .. }), "{old}");
        for extreme in [i64::MIN, i64::MAX] {
            bounds.check(extreme).expect_err("an extreme");
        }
    }
}
