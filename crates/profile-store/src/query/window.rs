//! The time that a query is about, and which of its hours can be answered from totals.

use jiff::{SignedDuration, Timestamp};

use crate::reading::{HourRange, HourRangeError};
use crate::table::names::{Hour, HourError};

const HOUR: SignedDuration = SignedDuration::from_hours(1);
const MICROSECOND: SignedDuration = SignedDuration::from_micros(1);

/// From a moment to the one where it ends, which is not in it.
///
/// Compaction rounds times down to the minute, so that rows of a minute in which a window begins or ends may be on the other side of it than they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    from: Timestamp,
    to: Timestamp,
    hours: HourRange,
}

/// A window that nobody can be answered about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WindowError {
    /// It ends where it begins, or before.
    #[error("the window ends at {to}, which is not after its begin {from}")]
    Empty {
        /// Its begin.
        from: Timestamp,
        /// Its end.
        to: Timestamp,
    },
    /// It is in years that no profile is of.
    #[error(transparent)]
    Hour(#[from] HourError),
    /// It is longer than anything is kept.
    #[error(transparent)]
    Hours(#[from] HourRangeError),
}

impl Window {
    /// From a moment to another one.
    ///
    /// # Errors
    /// If it is empty, or longer than anything is kept.
    pub fn new(from: Timestamp, to: Timestamp) -> Result<Self, WindowError> {
        if from >= to {
            return Err(WindowError::Empty { from, to });
        }
        let hours = HourRange::new(Hour::of(from)?, Hour::of(to - MICROSECOND)?)?;
        Ok(Self { from, to, hours })
    }

    /// Its begin.
    pub fn from(&self) -> Timestamp {
        self.from
    }

    /// The first moment after it.
    pub fn to(&self) -> Timestamp {
        self.to
    }

    /// Its end, from the begin of an hour on, at least an hour of it; or all of it, if it is shorter.
    #[must_use]
    pub(super) fn newest(self) -> Self {
        let an_hour_before = self.to - SignedDuration::from_hours(1);
        match Hour::of(an_hour_before) {
            Ok(hour) => Self::new(hour.start().max(self.from), self.to).unwrap_or(self),
            Err(_) => self,
        }
    }

    /// How long it is.
    pub fn length(&self) -> SignedDuration {
        self.to.duration_since(self.from)
    }

    /// The hours that it has something of.
    pub fn hours(&self) -> HourRange {
        self.hours
    }

    /// Whether all of an hour is in it.
    pub fn has_all_of(&self, hour: Hour) -> bool {
        let start = hour.start();
        start >= self.from && start + HOUR <= self.to
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(from: &str, to: &str) -> Result<Window, WindowError> {
        Window::new(from.parse().unwrap(), to.parse().unwrap())
    }

    #[test]
    fn an_hour_is_in_a_window_when_all_of_it_is() {
        let window = window("2026-12-01T10:30:00Z", "2026-12-01T13:00:00Z").unwrap();
        let hours: Vec<_> = window.hours().iter().collect();
        let all: Vec<_> = hours.iter().map(|hour| window.has_all_of(*hour)).collect();
        assert_eq!(hours.len(), 3, "{hours:?}");
        assert_eq!(all, [false, true, true]);
    }

    #[test]
    fn a_window_that_is_empty_or_endless_is_refused() {
        let refused = |from, to| window(from, to).unwrap_err().to_string();
        let same = refused("2026-12-01T10:30:00Z", "2026-12-01T10:30:00Z");
        assert!(same.contains("not after"), "{same}");
        let long = refused("2020-12-01T10:30:00Z", "2026-12-01T10:30:00Z");
        assert!(long.contains("at most"), "{long}");
        assert!(window("1969-12-01T10:30:00Z", "1970-01-01T10:30:00Z").is_err());
    }
}
