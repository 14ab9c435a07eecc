//! What the table has of a range of hours, at one time: the files to read, and which rows of them to leave out.
//!
//! [`Readings::read`] lists segments and records, reads the records that it has not read yet, and folds. Nothing is locked or
//! announced: what is superseded stays for a day, and a reading is good for an hour ([`Reading::check`]). Outputs of compactions are
//! not listed, since they live through records alone.
//!
//! [`looking`] asks the store, [`places`] decides which prefixes to list, [`records`] keeps what records say, [`kept`] the hours that
//! are over for so long that seconds do not matter.

mod kept;
mod looking;
mod places;
mod records;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

pub(crate) use looking::{READ, Seen, look};
pub(crate) use places::Place;
pub(crate) use records::Records;

use crate::clock::Clock;
use crate::objects::{Objects, ObjectsError};
use crate::table::fold::{FoldError, HourState, LiveFile};
use crate::table::names::{FileKind, Hour, PUBLISH_MINUTES_MAX, RecordName};
use kept::Kept;

/// Hours of one reading: half a year, twice as long as anything is kept by default.
pub const HOURS_MAX: usize = 184 * 24;

/// Minutes that a reading is good for: what it names is there for a day from when it was superseded, and what it does not name is missed.
pub const READING_MINUTES_MAX: i64 = PUBLISH_MINUTES_MAX;

/// Reads the table. One for a process: it keeps what does not change.
#[derive(Debug)]
pub struct Readings {
    objects: Objects,
    clock: Clock,
    records: Records,
    kept: Kept,
}

/// What some hours have, at one time.
#[derive(Clone, Debug)]
pub struct Reading {
    began: Timestamp,
    hours: Vec<Arc<HourReading>>,
}

/// What one hour has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HourReading {
    /// Which hour.
    pub hour: Hour,
    /// The files that together have each sample once: outputs, and fresh segments.
    pub samples: Vec<LiveFile>,
    /// The files that together have each total once: outputs, and the same segments, each row of which is a total of its own.
    pub totals: Vec<LiveFile>,
    /// How many of the files, of either kind, are segments that no compaction has yet.
    pub fresh: usize,
    /// Whether samples have expired, so that only totals are left.
    pub is_without_samples: bool,
}

/// Hours from the first to the last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HourRange {
    first: Hour,
    last: Hour,
}

/// Hours that cannot be read at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HourRangeError {
    /// The wrong way round.
    #[error("the hours from {first} to {last} are none")]
    Backwards {
        /// The first.
        first: Hour,
        /// The last.
        last: Hour,
    },
    /// More than there ever are.
    #[error("{0} hours at once, at most {HOURS_MAX} are read")]
    TooMany(usize),
}

/// A reading that is not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadingError {
    /// The store did not answer.
    #[error(transparent)]
    Objects(#[from] ObjectsError),
    /// Of this hour it is not known which rows count.
    #[error("hour {hour} cannot be read")]
    Hour {
        /// Which hour.
        hour: Hour,
        /// Why.
        #[source]
        source: FoldError,
    },
    /// Records went while they were read, several times in a row.
    #[error("record {0} is listed, and not there, time and again")]
    RecordGone(RecordName),
}

/// A reading that is too old to be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the table was listed {minutes} minutes ago, and a reading is good for {READING_MINUTES_MAX}"
)]
pub struct StaleReadingError {
    /// Its age.
    pub minutes: i64,
}

impl HourRange {
    /// The hours from `first` to `last`.
    ///
    /// # Errors
    /// If they are none, or more than [`HOURS_MAX`].
    pub fn new(first: Hour, last: Hour) -> Result<Self, HourRangeError> {
        if first > last {
            return Err(HourRangeError::Backwards { first, last });
        }
        let hours = Self { first, last };
        match hours.count() {
            count if count > HOURS_MAX => Err(HourRangeError::TooMany(count)),
            _ => Ok(hours),
        }
    }

    /// How many.
    pub fn count(self) -> usize {
        let apart = self.last.start().duration_since(self.first.start());
        usize::try_from(apart.as_hours()).map_or(usize::MAX, |hours| hours.saturating_add(1))
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = Hour> {
        let hours = (0..).map(SignedDuration::from_hours);
        let hours = hours.map_while(move |after| Hour::of(self.first.start() + after).ok());
        hours.take_while(move |hour| *hour <= self.last)
    }
}

impl Readings {
    /// Readings of a table, of which nothing is known yet.
    pub fn new(objects: Objects, clock: Clock) -> Self {
        Self {
            objects,
            clock,
            records: Records::default(),
            kept: Kept::default(),
        }
    }

    /// What the hours have now. What was put before this is called is in it, in hours that ended long ago a few seconds later.
    ///
    /// # Errors
    /// If the store does not answer, or an hour cannot be folded.
    pub async fn read(&self, range: HourRange) -> Result<Reading, ReadingError> {
        let began = self.clock.now();
        let mut hours: BTreeMap<Hour, Arc<HourReading>> = BTreeMap::new();
        let mut missing = BTreeSet::new();
        for hour in range.iter() {
            match self.kept.of(hour, began) {
                Some(kept) => {
                    hours.insert(hour, kept);
                }
                None => {
                    missing.insert(hour);
                }
            }
        }
        let places = Place::all_of(&missing, began);
        let mut seen = look(&self.objects, &self.records, &self.clock, &places, READ).await?;
        for hour in missing {
            let reading = Arc::new(seen.reading(hour)?);
            self.kept.keep(&reading, began);
            hours.insert(hour, reading);
        }
        Ok(Reading {
            began,
            hours: hours.into_values().collect(),
        })
    }
}

impl Seen {
    /// What it has of an hour, which was looked for.
    fn reading(&mut self, hour: Hour) -> Result<HourReading, ReadingError> {
        match self.states.remove(&hour) {
            None => Ok(HourReading::of(hour, None)),
            Some(Ok(state)) => Ok(HourReading::of(hour, Some(&state))),
            Some(Err(source)) => Err(ReadingError::Hour { hour, source }),
        }
    }
}

impl HourReading {
    fn of(hour: Hour, state: Option<&HourState>) -> Self {
        let files = |kind| state.map(|state| state.live(kind)).unwrap_or_default();
        Self {
            hour,
            samples: files(FileKind::Samples),
            totals: files(FileKind::Totals),
            fresh: state.map_or(0, |state| state.fresh().len()),
            is_without_samples: state.is_some_and(|state| state.is_expired(FileKind::Samples)),
        }
    }

    /// The files of a kind, with their hour.
    pub fn files(&self, kind: FileKind) -> impl Iterator<Item = (Hour, &LiveFile)> {
        let files = match kind {
            FileKind::Samples => &self.samples,
            FileKind::Totals => &self.totals,
        };
        files.iter().map(|file| (self.hour, file))
    }
}

impl Reading {
    /// When it was begun: what was put before is in it.
    pub fn began(&self) -> Timestamp {
        self.began
    }

    /// Its hours, in order; those of which there is nothing, too.
    pub fn hours(&self) -> &[Arc<HourReading>] {
        &self.hours
    }

    /// Of the same time, those hours that `is_wanted`, and the others.
    pub fn split(self, is_wanted: impl Fn(&HourReading) -> bool) -> (Self, Self) {
        let (began, hours) = (self.began, self.hours.into_iter());
        let (wanted, others) = hours.partition(|hour| is_wanted(hour));
        let of = |hours| Self { began, hours };
        (of(wanted), of(others))
    }

    /// Whether it may still be used.
    ///
    /// # Errors
    /// If not: read again.
    pub fn check(&self, now: Timestamp) -> Result<(), StaleReadingError> {
        let minutes = now.duration_since(self.began).as_mins();
        if minutes < READING_MINUTES_MAX {
            return Ok(());
        }
        Err(StaleReadingError { minutes })
    }
}
