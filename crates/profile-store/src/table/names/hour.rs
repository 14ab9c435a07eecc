//! The partition of the table: one hour of the samples' own time, in UTC.

use std::fmt;
use std::str::FromStr;

use jiff::civil::Date;
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};

/// Hours from 1970 to the last one that can be named, the last of the year 9998: all dates have ten characters.
const HOURS_MAX: u32 = 70_380_767;
const SECONDS_PER_HOUR: i64 = 3_600;
const NANOS_PER_HOUR: i128 = 3_600_000_000_000;

/// An hour since 1970, written `2026-12-01/13`.
///
/// It is the hour of the samples, not that of their arrival, so that a query of an hour reads one
/// partition; rows that come late lie in the hour that they speak of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hour(u32);

/// A time or a text that is no [`Hour`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HourError {
    /// Before 1970 or behind the last hour.
    #[error("{0} is in no hour of the years 1970 to 9998")]
    OutOfRange(Timestamp),
    /// No date and hour in the one form that they are written in.
    #[error("{0:?} is no hour like 2026-12-01/13")]
    NotAnHour(String),
}

impl Hour {
    /// The hour that a time is in.
    ///
    /// # Errors
    /// If it is before 1970, or later than any real one.
    pub fn of(time: Timestamp) -> Result<Self, HourError> {
        // Whole seconds would round the last one before 1970 up.
        let hours = time.as_nanosecond().div_euclid(NANOS_PER_HOUR);
        let hours = u32::try_from(hours).ok().filter(|&h| h <= HOURS_MAX);
        hours.map(Self).ok_or(HourError::OutOfRange(time))
    }

    /// Its first instant.
    pub fn start(self) -> Timestamp {
        // Cannot be out of range: HOURS_MAX is not.
        Timestamp::from_second(i64::from(self.0) * SECONDS_PER_HOUR).unwrap_or(Timestamp::MAX)
    }

    /// How long it has been over at `now`; negative when it is not.
    pub fn since_end(self, now: Timestamp) -> SignedDuration {
        now.duration_since(self.start()) - SignedDuration::from_secs(SECONDS_PER_HOUR)
    }
}

impl fmt::Display for Hour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = Offset::UTC.to_datetime(self.start());
        write!(f, "{}/{:02}", start.date(), start.hour())
    }
}

impl fmt::Debug for Hour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Hour {
    type Err = HourError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (date, hour) = text.split_once('/')?;
            let mut fields = date.splitn(3, '-');
            let year = fields.next()?.parse().ok()?;
            let month = fields.next()?.parse().ok()?;
            let day = fields.next()?.parse().ok()?;
            let date = Date::new(year, month, day).ok()?;
            let hour: i8 = hour.parse().ok().filter(|hour| (0..24).contains(hour))?;
            let time = Offset::UTC.to_timestamp(date.at(hour, 0, 0, 0)).ok()?;
            Self::of(time).ok()
        };
        // `2026-12-1/+7` is the same hour, and no name.
        parse()
            .filter(|hour| hour.to_string() == text)
            .ok_or_else(|| HourError::NotAnHour(text.to_owned()))
    }
}
