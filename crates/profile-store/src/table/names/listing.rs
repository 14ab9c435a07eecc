//! What LIST said, sorted by kind: names that are ours, and keys that are not, which are shown.
//!
//! LISTs of several folders or hours make one listing. It knows what was listed and since when, so that
//! nothing is concluded from the absence of what was not looked for: an hour whose records were not listed
//! has no state, and one of which not everything was listed is not swept.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{Hour, ObjectName, OutputName, ParseNameError, RecordName, SegmentName};

/// Keys that are not ours of which the text is kept; the others are counted.
pub const FOREIGN_SHOWN_MAX: usize = 100;

/// The objects of some hours of a table. Made anew for each reading: it forgets nothing that was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    segments: BTreeMap<SegmentName, u64>,
    outputs: BTreeMap<OutputName, u64>,
    records: BTreeSet<RecordName>,
    foreign: BTreeMap<String, ParseNameError>,
    foreign_count: usize,
    /// Prefixes that were listed wholly, and when that began.
    listed: Vec<(String, Timestamp)>,
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
    /// Adds what a LIST of all keys with a prefix gave, whose pages need not be of one instant: of each
    /// object its key, from the root of the table, and its length. The LIST began at `began` or later.
    pub fn add<K: AsRef<str>>(
        &mut self,
        prefix: &str,
        began: Timestamp,
        objects: impl IntoIterator<Item = (K, u64)>,
    ) {
        self.listed.push((prefix.to_owned(), began));
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

    /// Since when everything of an hour in one of the folders is listed, if it is.
    pub(crate) fn listed_since(&self, folder: &str, hour: Hour) -> Option<Timestamp> {
        let place = format!("{folder}{hour}/");
        let whole = self.listed.iter();
        let whole = whole.filter(|(prefix, _)| place.starts_with(prefix.as_str()));
        whole.map(|&(_, began)| began).max()
    }

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
