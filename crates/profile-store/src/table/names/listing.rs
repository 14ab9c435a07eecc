//! What LIST said, sorted by kind: names that are ours, and keys that are not, which are shown.
//!
//! Listings of several pages, folders or hours are extended into one; a key that is listed twice
//! counts once, and pages need not be of one instant.

use std::collections::{BTreeMap, BTreeSet};

use super::{Hour, ObjectName, OutputName, ParseNameError, RecordName, SegmentName};

/// Keys that are not ours of which the text is kept; the others are counted.
pub const FOREIGN_SHOWN_MAX: usize = 100;

/// The objects of some hours of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    segments: BTreeMap<SegmentName, u64>,
    outputs: BTreeMap<OutputName, u64>,
    records: BTreeSet<RecordName>,
    foreign: BTreeMap<String, ParseNameError>,
    foreign_count: usize,
}

/// A segment that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its name.
    pub name: SegmentName,
    /// Its length.
    pub bytes: u64,
}

/// An output that is there, or that a record says is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    /// Its name.
    pub name: OutputName,
    /// Its length.
    pub bytes: u64,
}

/// A key that is not ours, and why. Nothing of the table reads it, changes it or removes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign<'a> {
    /// The key.
    pub key: &'a str,
    /// Why it is no name of the table.
    pub why: &'a ParseNameError,
}

impl Listing {
    /// The segments, in order of name.
    pub fn segments(&self) -> impl Iterator<Item = Segment> {
        let all = self.segments.iter();
        all.map(|(&name, &bytes)| Segment { name, bytes })
    }

    /// The outputs, in order of name.
    pub fn outputs(&self) -> impl Iterator<Item = Output> {
        let all = self.outputs.iter();
        all.map(|(&name, &bytes)| Output { name, bytes })
    }

    /// The records, which have to be read for the fold.
    pub fn records(&self) -> &BTreeSet<RecordName> {
        &self.records
    }

    /// Keys that are not ours: at most [`FOREIGN_SHOWN_MAX`], to be logged.
    pub fn foreign(&self) -> impl Iterator<Item = Foreign<'_>> {
        let all = self.foreign.iter();
        all.map(|(key, why)| Foreign { key, why })
    }

    /// How many keys were not ours, to be counted; one that was listed twice may count twice.
    pub fn foreign_count(&self) -> usize {
        self.foreign_count
    }

    /// The hours that there is something of.
    pub(crate) fn hours(&self) -> BTreeSet<Hour> {
        let segments = self.segments.keys().map(|name| name.hour);
        let outputs = self.outputs.keys().map(|name| name.hour);
        let records = self.records.iter().map(|name| name.hour);
        segments.chain(outputs).chain(records).collect()
    }
}

/// Of each object its key, from the root of the table, and its length in bytes.
impl<K: AsRef<str>> Extend<(K, u64)> for Listing {
    fn extend<I: IntoIterator<Item = (K, u64)>>(&mut self, objects: I) {
        for (key, bytes) in objects {
            match key.as_ref().parse() {
                Ok(ObjectName::Segment(name)) => {
                    self.segments.insert(name, bytes);
                }
                Ok(ObjectName::Output(name)) => {
                    self.outputs.insert(name, bytes);
                }
                Ok(ObjectName::Record(name)) => {
                    self.records.insert(name);
                }
                Err(why) => {
                    self.foreign_count = self.foreign_count.saturating_add(1);
                    if self.foreign.len() < FOREIGN_SHOWN_MAX {
                        self.foreign.insert(key.as_ref().to_owned(), why);
                    }
                }
            }
        }
    }
}

impl<K: AsRef<str>> FromIterator<(K, u64)> for Listing {
    fn from_iter<I: IntoIterator<Item = (K, u64)>>(objects: I) -> Self {
        let mut listing = Self::default();
        listing.extend(objects);
        listing
    }
}
