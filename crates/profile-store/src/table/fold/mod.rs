//! The state of an hour: a pure fold of the set of its objects, whatever their order.
//!
//! Of each content that was acknowledged, exactly one copy counts at every reading:
//!
//! 1. Compactions are considered in order: higher generation first, then the smaller ID. One is
//!    *accepted* when no segment of its base has the [same content](SegmentName::is_same_content) as a
//!    segment of the base of one that was accepted before it.
//! 2. Segments are considered in order of their names, that is, of time. One is *fresh* when it has the
//!    same content as none of an accepted base, and as none that is fresh already.
//! 3. *Live* are the outputs of accepted compactions and the fresh segments, without the rows that
//!    tombstones select.
//!
//! Why no reading is wrong, though replicas see different objects: a record names segments only, and
//! names all of them (the closure), so that it can be judged without the records that it is built on.
//! Whatever is seen, rules 1 and 2 count no content twice; and none is lost, since what an
//! accepted record covers is in its outputs, what it does not cover is listed, and nothing is swept
//! before a day has passed in which nobody could still miss the record that replaces it.
//! A record that appears late may win over one that was accepted until then: both sets of inputs
//! are still there, and what the loser alone covered is fresh again.

mod claims;
mod live;
mod sweep;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

pub use claims::Claimant;
pub use live::{File, LiveFile};

#[cfg(doc)]
use super::names::SegmentName;
use super::names::{
    Hour, Listing, OUTPUTS, Output, PublishId, RECORDS, RecordName, SEGMENTS, Segment,
};
use super::record::{Compaction, ReadRecordError, Record, Tombstone};
use claims::Claims;

/// What is known of records by their names: what they say, or why that is not known. May hold more
/// than what is listed, so that it can be a cache.
pub type ReadRecords = BTreeMap<RecordName, Result<Record, ReadRecordError>>;

/// What counts of an hour, and what does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HourState {
    hour: Hour,
    accepted: Vec<Arc<Compaction>>,
    rejected: Vec<Rejected>,
    fresh: Vec<Segment>,
    spare: Vec<Spare>,
    tombstones: Vec<Arc<Tombstone>>,
    outputs: Vec<Output>,
    /// Since when all three folders are listed.
    listed_since: Option<Timestamp>,
}

/// A compaction whose outputs count for nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The compaction.
    pub compaction: Arc<Compaction>,
    /// An accepted one that stands for some of the same rows.
    pub winner: PublishId,
}

/// A segment whose rows count elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spare {
    /// The segment.
    pub segment: Segment,
    /// Where they count.
    pub claimant: Claimant,
}

/// An hour of which nothing can be said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FoldError {
    /// Segments or records were not listed: without either rows would count twice or never.
    #[error("{0} of the hour was not listed")]
    NotListed(&'static str),
    /// A record is listed and was not read: without it rows would count twice or never.
    #[error("{0} was listed and not read")]
    NotRead(RecordName),
    /// A record is damaged or of another version.
    #[error("{name}: {source}")]
    Unreadable {
        /// Which one.
        name: RecordName,
        /// Why.
        source: ReadRecordError,
    },
}

/// Folds what is listed, hour by hour; an hour that cannot be folded harms no other.
///
/// Of every hour, the segments and the records have to be listed; outputs matter only to
/// [`HourState::sweepable`]. Costs a hash look-up for each segment that is listed or named by a record.
pub fn fold(listing: &Listing, read: &ReadRecords) -> BTreeMap<Hour, Result<HourState, FoldError>> {
    let mut hours: BTreeMap<Hour, Result<Objects, FoldError>> = listing
        .hours()
        .into_iter()
        .map(|hour| (hour, Objects::listed(listing, hour)))
        .collect();
    for name in listing.records() {
        if let Some(hour) = hours.get_mut(&name.hour) {
            add_record(hour, name, read);
        }
    }
    for segment in listing.segments() {
        if let Some(Ok(objects)) = hours.get_mut(&segment.name.hour) {
            objects.segments.push(segment);
        }
    }
    for output in listing.outputs() {
        if let Some(Ok(objects)) = hours.get_mut(&output.name.hour) {
            objects.outputs.push(output);
        }
    }
    let folded = hours
        .into_iter()
        .map(|(hour, objects)| (hour, objects.map(|objects| HourState::of(hour, objects))));
    folded.collect()
}

/// The objects of one hour.
#[derive(Debug)]
struct Objects {
    compactions: Vec<Arc<Compaction>>,
    tombstones: Vec<Arc<Tombstone>>,
    /// In order of name.
    segments: Vec<Segment>,
    outputs: Vec<Output>,
    listed_since: Option<Timestamp>,
}

impl Objects {
    /// None yet, of an hour that was listed.
    fn listed(listing: &Listing, hour: Hour) -> Result<Self, FoldError> {
        let since = |folder| {
            let since = listing.listed_since(folder, hour);
            since.ok_or(FoldError::NotListed(folder))
        };
        let (segments, records) = (since(SEGMENTS)?, since(RECORDS)?);
        let outputs = listing.listed_since(OUTPUTS, hour);
        Ok(Self {
            compactions: Vec::new(),
            tombstones: Vec::new(),
            segments: Vec::new(),
            outputs: Vec::new(),
            listed_since: outputs.map(|outputs| outputs.min(segments).min(records)),
        })
    }
}

/// Adds a record to its hour, or makes the hour the error that it is without it.
fn add_record(hour: &mut Result<Objects, FoldError>, name: &RecordName, read: &ReadRecords) {
    let Ok(objects) = hour else { return };
    match read.get(name) {
        Some(Ok(Record::Compaction(body))) => objects.compactions.push(Arc::clone(body)),
        Some(Ok(Record::Tombstone(body))) => objects.tombstones.push(Arc::clone(body)),
        Some(Err(source)) => {
            *hour = Err(FoldError::Unreadable {
                name: name.clone(),
                source: source.clone(),
            });
        }
        None => *hour = Err(FoldError::NotRead(name.clone())),
    }
}

impl HourState {
    fn of(hour: Hour, mut objects: Objects) -> Self {
        let mut claims = Claims::default();
        let (mut accepted, mut rejected) = (Vec::new(), Vec::new());
        objects
            .compactions
            .sort_by_key(|compaction| (Reverse(compaction.generation), compaction.id));
        for compaction in objects.compactions {
            match compaction.base.iter().find_map(|name| claims.of(name)) {
                None => {
                    claims.add_base(&compaction);
                    accepted.push(compaction);
                }
                Some(claimant) => rejected.push(Rejected {
                    compaction,
                    winner: claimant.id(),
                }),
            }
        }
        let (mut fresh, mut spare) = (Vec::new(), Vec::new());
        for segment in objects.segments {
            match claims.of(&segment.name) {
                None => {
                    claims.add(&segment.name, Claimant::Segment(segment.name.id));
                    fresh.push(segment);
                }
                Some(claimant) => spare.push(Spare { segment, claimant }),
            }
        }
        Self {
            hour,
            accepted,
            rejected,
            fresh,
            spare,
            tombstones: objects.tombstones,
            outputs: objects.outputs,
            listed_since: objects.listed_since,
        }
    }

    /// The hour.
    pub fn hour(&self) -> Hour {
        self.hour
    }

    /// The compactions whose outputs count, in the order of acceptance.
    pub fn accepted(&self) -> &[Arc<Compaction>] {
        &self.accepted
    }

    /// The compactions whose outputs count for nothing.
    pub fn rejected(&self) -> &[Rejected] {
        &self.rejected
    }

    /// The segments that no accepted compaction covers and that are no resends, in order of time.
    pub fn fresh(&self) -> &[Segment] {
        &self.fresh
    }

    /// The segments that count for nothing.
    pub fn spare(&self) -> &[Spare] {
        &self.spare
    }

    /// The deletions, in order of time.
    pub fn tombstones(&self) -> &[Arc<Tombstone>] {
        &self.tombstones
    }
}
