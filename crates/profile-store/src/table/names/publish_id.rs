//! What makes the names of one publish unique, and how old that publish is.
//!
//! The age of an object is read from its name, never from the store: so the fold needs no clock but
//! the one that it is given, and a copy of a bucket means the same as the bucket. All bounds are made
//! for clocks that differ by minutes; [`SWEEP_HOURS_MIN`] leaves 22 hours for those that do not.

use std::fmt;
use std::str::FromStr;

use jiff::{SignedDuration, Timestamp};

use super::hex::{self, Hex};

/// Minutes from the making of an ID to the last write of its publish: whatever a publish looked at is
/// no older than that when its record appears. The slowest compaction of an hour takes minutes.
pub const PUBLISH_MINUTES_MAX: i64 = 60;

/// Hours that what is superseded stays: longer by far than any reading and any publish lasts, so that
/// nobody who could still need it is at work.
pub const SWEEP_HOURS_MIN: i64 = 24;

/// The time in milliseconds (6 bytes) and 10 random bytes, written as 32 lower-case hex digits.
///
/// A publish makes its ID before it looks at anything: before a compaction lists, before the rows of a
/// segment are taken from the queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublishId([u8; 16]);

/// A text that is no [`PublishId`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no publish ID of 32 lower-case hex digits that begin with a time")]
pub struct ParsePublishIdError(pub String);

/// A publish that has to be given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("publish {id} began {minutes} minutes ago, and at most {PUBLISH_MINUTES_MAX} are allowed")]
pub struct PublishTooOldError {
    /// Which one.
    pub id: PublishId,
    /// Its age in whole minutes.
    pub minutes: i64,
}

impl PublishId {
    /// The ID of a publish that begins at `now`; a time before 1970 counts as 1970.
    pub fn new(now: Timestamp, random: [u8; 10]) -> Self {
        let millis = u64::try_from(now.as_millisecond()).unwrap_or(0);
        let mut bytes = [0; 16];
        let all = millis.to_be_bytes().into_iter().skip(2).chain(random);
        for (to, from) in bytes.iter_mut().zip(all) {
            *to = from;
        }
        Self(bytes)
    }

    /// When the publish began, in whole milliseconds.
    pub fn began(&self) -> Timestamp {
        // The constructors admit only times that there are.
        self.time().unwrap_or(Timestamp::MAX)
    }

    fn time(&self) -> Option<Timestamp> {
        let millis = self.0.iter().take(6);
        let millis = millis.fold(0_i64, |value, byte| value << 8 | i64::from(*byte));
        Timestamp::from_millisecond(millis).ok()
    }

    /// Whether the publish may still write. Asked before each of its PUTs.
    ///
    /// # Errors
    /// If it began too long ago: what it looked at may have changed in ways that it must not overwrite,
    /// and what it read may have been swept.
    pub fn check_publish(&self, now: Timestamp) -> Result<(), PublishTooOldError> {
        let minutes = now.duration_since(self.began()).as_mins();
        if minutes < PUBLISH_MINUTES_MAX {
            return Ok(());
        }
        Err(PublishTooOldError { id: *self, minutes })
    }

    /// Whether the publish is over for so long that no publish and no reading that is at work began
    /// before its objects were there.
    pub fn is_settled(&self, now: Timestamp) -> bool {
        now.duration_since(self.began()) >= SignedDuration::from_hours(SWEEP_HOURS_MIN)
    }
}

impl fmt::Display for PublishId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Hex(&self.0).fmt(f)
    }
}

impl fmt::Debug for PublishId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PublishId {
    type Err = ParsePublishIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let id = hex::parse(text).map(Self);
        id.filter(|id| id.time().is_some())
            .ok_or_else(|| ParsePublishIdError(text.to_owned()))
    }
}
