//! What of an hour's dictionary is read, merged and swept: pure, and the same in whichever order things were seen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::merge::{Merge, REPLACED_MAX};
use super::name::{DictionaryFile, DictionaryName, DictionaryObject, DictionaryTable, MergeName};
use crate::table::names::{Hour, ParseNameError};

/// Live files of one table from which on an hour is merged: a query opens each of them.
pub const MERGE_FILES_MIN: usize = 16;

/// Foreign keys of which the text is kept; the others are counted.
const FOREIGN_SHOWN_MAX: usize = 20;

/// What a LIST of an hour's dictionary said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DictionaryListing {
    /// The files.
    pub files: BTreeMap<DictionaryName, u64>,
    /// The records, which have to be read for the fold.
    pub merges: BTreeSet<MergeName>,
    /// Some keys that are not ours, and why.
    pub foreign: BTreeMap<String, ParseNameError>,
    /// All that are not.
    pub foreign_count: usize,
}

impl DictionaryListing {
    /// Adds an object by its key and length.
    pub fn add(&mut self, key: &str, bytes: u64) {
        match key.parse() {
            Ok(DictionaryObject::File(name)) => {
                self.files.insert(name, bytes);
            }
            Ok(DictionaryObject::Merge(name)) => {
                self.merges.insert(name);
            }
            Err(why) => {
                self.foreign_count += 1;
                if self.foreign.len() < FOREIGN_SHOWN_MAX {
                    self.foreign.insert(key.to_owned(), why);
                }
            }
        }
    }
}

/// An hour's dictionary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DictionaryState {
    hour: Hour,
    listed: BTreeMap<DictionaryName, u64>,
    live: BTreeMap<DictionaryName, u64>,
    merges: Vec<Arc<Merge>>,
    /// Records that are listed and were not read.
    unread: BTreeSet<MergeName>,
}

/// A merge to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergePlan {
    /// The hour.
    pub hour: Hour,
    /// What to read: files of one table become one, or several of bounded size.
    pub files: Vec<DictionaryFile>,
}

impl DictionaryState {
    /// The dictionary of an hour, of what is listed of it and of the records that are. May be given more records, so that those that were read can be kept.
    ///
    /// A record that cannot be read may be left out: then more files are read than have to be.
    pub fn of(
        hour: Hour,
        listing: &DictionaryListing,
        merges: impl IntoIterator<Item = Arc<Merge>>,
    ) -> Self {
        let listed = listing.files.iter();
        let listed = listed.filter(|(name, _)| name.hour == hour);
        let listed: BTreeMap<DictionaryName, u64> =
            listed.map(|(&name, &bytes)| (name, bytes)).collect();
        let unread = listing.merges.iter().filter(|name| name.hour == hour);
        let mut unread: BTreeSet<MergeName> = unread.copied().collect();
        // One that is listed no more was swept, and maybe what it wrote, too.
        let merges = merges
            .into_iter()
            .filter(|merge| unread.remove(&merge.name()));
        let merges: Vec<Arc<Merge>> = merges.collect();
        let mut live = listed.clone();
        for output in merges.iter().flat_map(|merge| &merge.outputs) {
            live.insert(output.name, output.bytes);
        }
        for replaced in merges.iter().flat_map(|merge| &merge.replaces) {
            live.remove(replaced);
        }
        Self {
            hour,
            listed,
            live,
            merges,
            unread,
        }
    }

    /// The hour.
    pub fn hour(&self) -> Hour {
        self.hour
    }

    /// The files that together say everything, of one table. One that is gone when it is read was swept: list again.
    pub fn live(&self, table: DictionaryTable) -> impl Iterator<Item = DictionaryFile> {
        let live = self.live.iter();
        live.filter(move |(name, _)| name.table == table)
            .map(|(&name, &bytes)| DictionaryFile { name, bytes })
    }

    /// Whether there is nothing, live or not.
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty() && self.merges.is_empty() && self.unread.is_empty()
    }

    /// What to merge, if anything: the files of each table that has at least `files_min` of them, and 2. While rows come that is
    /// [`MERGE_FILES_MIN`]; once the hour was compacted, 2.
    pub fn plan(&self, files_min: usize) -> Option<MergePlan> {
        if !self.unread.is_empty() {
            return None;
        }
        let tables = DictionaryTable::ALL.into_iter();
        let files = tables.flat_map(|table| {
            let files: Vec<DictionaryFile> = self.live(table).collect();
            let is_enough = files.len() >= files_min.max(2);
            if is_enough { files } else { Vec::new() }
        });
        let files: Vec<DictionaryFile> = files.take(REPLACED_MAX).collect();
        let hour = self.hour;
        (!files.is_empty()).then_some(MergePlan { hour, files })
    }

    /// What nobody needs any more, in the order in which it has to be deleted, of a LIST that began at `listed_since`.
    ///
    /// - A file that a record replaced, when that record has been there for a day: whoever reads it by an older LIST is done.
    /// - Such a record, when nothing that it replaced is listed, or named by another record as an output, and what it wrote is listed or replaced, too:
    ///   then it says nothing that the listing does not say.
    pub fn sweepable(&self, listed_since: Timestamp) -> Vec<DictionaryObject> {
        if !self.unread.is_empty() {
            return Vec::new();
        }
        let settled = self.merges.iter();
        let settled = settled.filter(|merge| merge.id.is_settled(listed_since));
        let settled: Vec<&Arc<Merge>> = settled.collect();
        let replaced = settled.iter().flat_map(|merge| merge.replaces.iter());
        let replaced = replaced.filter(|name| self.listed.contains_key(name));
        let replaced: BTreeSet<DictionaryName> = replaced.copied().collect();
        let outputs = self.merges.iter().flat_map(|merge| &merge.outputs);
        let outputs: BTreeSet<DictionaryName> = outputs.map(|output| output.name).collect();
        let is_hidden =
            |name: &DictionaryName| self.listed.contains_key(name) || outputs.contains(name);
        let is_known = |file: &DictionaryFile| {
            self.listed.contains_key(&file.name) || !self.live.contains_key(&file.name)
        };
        let records = settled.into_iter().filter(|merge| {
            !merge.replaces.iter().any(is_hidden) && merge.outputs.iter().all(is_known)
        });
        let records = records.map(|merge| DictionaryObject::Merge(merge.name()));
        let files = replaced.into_iter().map(DictionaryObject::File);
        records.chain(files).collect()
    }

    /// Everything, of an hour of which no segment and no output is left, if all of it is a day old: an append that is at work puts its
    /// dictionary before its segment. Nothing otherwise.
    pub fn abandoned(&self, listed_since: Timestamp) -> Vec<DictionaryObject> {
        let files = self.listed.keys().copied().map(DictionaryObject::File);
        let read = self.merges.iter().map(|merge| merge.name());
        let records = read.chain(self.unread.iter().copied());
        let all: Vec<DictionaryObject> =
            files.chain(records.map(DictionaryObject::Merge)).collect();
        let is_old = |object: &DictionaryObject| match object {
            DictionaryObject::File(name) => name.id.is_settled(listed_since),
            DictionaryObject::Merge(name) => name.id.is_settled(listed_since),
        };
        if all.iter().all(is_old) {
            all
        } else {
            Vec::new()
        }
    }
}
