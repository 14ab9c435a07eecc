//! What records say, kept by their names: a record never changes, and one that cannot be read is tried again.

use std::collections::BTreeSet;

use futures_util::FutureExt as _;
use futures_util::stream::{self, StreamExt as _};
use moka::sync::Cache;

use super::ReadingError;
use crate::objects::Objects;
use crate::table::fold::ReadRecords;
use crate::table::names::RecordName;
use crate::table::record::{ReadRecordError, Record};

/// Memory for records: that of an hour of four replicas has 2 MB, and of 21 days most are read once.
const RECORDS_BYTES_MAX: u64 = 256 << 20;

/// Records that are fetched at once: 504 hours take some seconds over a bucket.
const FETCHES_AT_ONCE: usize = 32;

/// Memory of a segment's name in a base.
const NAME_BYTES: usize = 72;

/// Memory of a record beside that.
const RECORD_BYTES: usize = 512;

/// The records of a table. Clones are handles to the same.
#[derive(Clone, Debug)]
pub(crate) struct Records(Cache<RecordName, Record>);

impl Default for Records {
    fn default() -> Self {
        let cache = Cache::builder()
            .max_capacity(RECORDS_BYTES_MAX)
            .weigher(|_, record| weight(record))
            .build();
        Self(cache)
    }
}

fn weight(record: &Record) -> u32 {
    let names = match record {
        Record::Compaction(compaction) => compaction.base.len(),
        Record::Tombstone(_) => 0,
    };
    let bytes = names
        .saturating_mul(NAME_BYTES)
        .saturating_add(RECORD_BYTES);
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// A name, and what the record says; none if it is gone.
type Fetched<'n> = Result<(&'n RecordName, Option<Result<Record, ReadRecordError>>), ReadingError>;

impl Records {
    /// What these say. `None` and a name if one of them is gone, so that the listing that named it is not to be used.
    pub(crate) async fn read(
        &self,
        objects: &Objects,
        names: &BTreeSet<RecordName>,
    ) -> Result<Result<ReadRecords, RecordName>, ReadingError> {
        let fetched = names.iter().map(|name| self.one(objects, name).boxed());
        let fetched: Vec<_> = fetched.collect();
        let mut fetched = stream::iter(fetched).buffer_unordered(FETCHES_AT_ONCE);
        let mut records = ReadRecords::new();
        while let Some(one) = fetched.next().await {
            match one? {
                (name, None) => return Ok(Err(name.clone())),
                (name, Some(record)) => {
                    records.insert(name.clone(), record);
                }
            }
        }
        Ok(Ok(records))
    }

    async fn one<'n>(&self, objects: &Objects, name: &'n RecordName) -> Fetched<'n> {
        if let Some(record) = self.0.get(name) {
            return Ok((name, Some(Ok(record))));
        }
        let Some(json) = objects.get(&name.to_string()).await? else {
            return Ok((name, None));
        };
        let record = Record::read(&json, name);
        if let Ok(record) = &record {
            self.0.insert(name.clone(), record.clone());
        }
        Ok((name, Some(record)))
    }
}
