//! Objects of an hour to fold, made from a few words.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use unhex_profile_store::table::fold::{FoldError, HourState, ReadRecords, fold};
use unhex_profile_store::table::names::{
    ContentHash, FileKind, Hour, Listing, ObjectName, Output, OutputName, PublishId, SegmentName,
};
use unhex_profile_store::table::record::{
    Compaction, Deletion, Record, RowSelector, RowTotals, Tombstone,
};

use crate::store::FOLDERS;

/// The hour that everything is of.
pub(crate) fn hour() -> Hour {
    "2026-12-01/13".parse().unwrap()
}

/// So many minutes after the hour's begin.
pub(crate) fn minute(minutes: i64) -> Timestamp {
    hour().start() + SignedDuration::from_mins(minutes)
}

/// So many days after the hour's begin.
pub(crate) fn day(days: i64) -> Timestamp {
    minute(days * 24 * 60)
}

/// A publish that began in that minute; the number tells those of one minute apart, and orders them.
pub(crate) fn publish(at: i64, number: u8) -> PublishId {
    PublishId::new(minute(at), [number; 10])
}

/// A segment of ten rows with a content of its own.
pub(crate) fn segment(at: i64, content: u8) -> SegmentName {
    SegmentName {
        hour: hour(),
        id: publish(at, content),
        content: ContentHash([content; 32]),
        rows: 10,
    }
}

/// A compaction of generation 1 of these segments, with an output of samples and one of totals.
pub(crate) fn compaction(id: PublishId, base: &[SegmentName]) -> Compaction {
    let rows = base.iter().map(|name| name.rows).sum();
    let outputs = [(FileKind::Samples, rows), (FileKind::Totals, 2)];
    Compaction {
        id,
        hour: hour(),
        generation: 1,
        base: base.to_vec(),
        applied: Vec::new(),
        outputs: outputs.map(|(kind, rows)| output(id, kind, rows)).to_vec(),
        totals: RowTotals {
            base_rows: rows,
            sample_rows: rows,
            total_rows: 2,
            samples: rows,
        },
    }
}

/// An output of a compaction.
pub(crate) fn output(id: PublishId, kind: FileKind, rows: u64) -> Output {
    let name = OutputName {
        hour: hour(),
        id,
        kind,
        sha256: ContentHash::of(id.to_string().as_bytes()),
        rows,
    };
    Output { name, bytes: 100 }
}

/// A deletion of rows of some kinds.
pub(crate) fn tombstone(id: PublishId, rows: RowSelector, kinds: &[FileKind]) -> Tombstone {
    let kinds: BTreeSet<FileKind> = kinds.iter().copied().collect();
    Tombstone {
        id,
        hour: hour(),
        deletion: Deletion { kinds, rows },
    }
}

/// What is in the store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    keys: Vec<(String, u64)>,
    records: ReadRecords,
}

impl Objects {
    pub(crate) fn with_segments(mut self, names: &[SegmentName]) -> Self {
        let keys = names.iter().map(|name| (name.to_string(), 100));
        self.keys.extend(keys);
        self
    }

    /// A record and its outputs, read as they would be stored.
    pub(crate) fn with_compaction(self, compaction: &Compaction) -> Self {
        let outputs = compaction.outputs.clone();
        let record = Record::Compaction(compaction.clone().into());
        self.with_record(&record).with_outputs(&outputs)
    }

    pub(crate) fn with_outputs(mut self, outputs: &[Output]) -> Self {
        let keys = outputs.iter().map(|o| (o.name.to_string(), o.bytes));
        self.keys.extend(keys);
        self
    }

    pub(crate) fn with_tombstone(self, tombstone: &Tombstone) -> Self {
        self.with_record(&Record::Tombstone(tombstone.clone().into()))
    }

    fn with_record(mut self, record: &Record) -> Self {
        let (name, json) = (record.name(), record.to_json().unwrap());
        self.keys.push((name.to_string(), json.len() as u64));
        let read = Record::read(&json, &name);
        self.records.insert(name, read);
        self
    }

    pub(crate) fn with_key(mut self, key: &str) -> Self {
        self.keys.push((key.to_owned(), 1));
        self
    }

    pub(crate) fn without(mut self, name: &ObjectName) -> Self {
        let key = name.to_string();
        self.keys.retain(|(other, _)| *other != key);
        self
    }

    /// Lists in another order, and one key again.
    pub(crate) fn reorder(&mut self, order: &[usize], repeated: usize) {
        let keys = std::mem::take(&mut self.keys);
        let repeated = keys.get(repeated).into_iter();
        let all = order.iter().filter_map(|&at| keys.get(at)).chain(repeated);
        self.keys = all.cloned().collect();
        assert!(self.keys.len() >= keys.len(), "an order of all");
    }

    pub(crate) fn fold(&self) -> Result<HourState, FoldError> {
        self.fold_of(&FOLDERS.map(|folder| (folder, minute(0))))
    }

    /// The state as one sees it who lists some folders, each beginning at a time.
    pub(crate) fn fold_of(&self, folders: &[(&str, Timestamp)]) -> Result<HourState, FoldError> {
        let mut listing = Listing::default();
        for (folder, began) in folders {
            let keys = self.keys.iter().filter(|(key, _)| key.starts_with(folder));
            listing.add(folder, *began, keys.cloned());
        }
        let mut hours = fold(&listing, &self.records);
        hours.remove(&hour()).expect("an object of the hour")
    }

    /// The state, when it is one.
    pub(crate) fn state(&self) -> HourState {
        self.fold().unwrap()
    }

    /// What may be swept, as of a LIST that began then.
    pub(crate) fn sweepable(&self, began: Timestamp) -> Vec<ObjectName> {
        let folders = FOLDERS.map(|folder| (folder, began));
        self.fold_of(&folders).unwrap().sweepable()
    }

    /// Removes that, once, and says what it was.
    pub(crate) fn swept(self, began: Timestamp) -> (Self, Vec<ObjectName>) {
        let names = self.sweepable(began);
        let rest = names.iter().fold(self, Objects::without);
        (rest, names)
    }
}

/// The keys of the live files of a kind.
pub(crate) fn live(state: &HourState, kind: FileKind) -> Vec<String> {
    let files = state.live(kind);
    files.iter().map(|live| live.file.to_string()).collect()
}
