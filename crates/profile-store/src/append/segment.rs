//! The rows of a window as files: by hour, a segment each, and what its numbers stand for.

use bytes::Bytes;
use jiff::Timestamp;
use rustc_hash::FxHashMap;
use sha2::{Digest as _, Sha256};

use super::RequestHash;
use super::numbers::{Durable, NewNumbers};
use super::window::WriteError;
use crate::files::{
    Packing, WrittenTable, frames_to_parquet, numbers_to_parquet, samples_to_parquet,
    series_to_parquet, stacks_to_parquet,
};
use crate::rows::{Batch, SampleRow};
use crate::table::dictionary::{DictionaryName, DictionaryTable};
use crate::table::names::{ContentHash, Hour, PublishId, SegmentName};

const SECONDS_PER_HOUR: i64 = 3_600;

/// The rows of a window in one hour.
pub(super) struct Part {
    pub(super) hour: Hour,
    /// By the place of their message in the window.
    pub(super) rows: Vec<(usize, Vec<SampleRow>)>,
}

/// What is shared by the parts of a window.
pub(super) struct Shared {
    pub(super) id: PublishId,
    pub(super) hashes: Vec<RequestHash>,
    pub(super) batches: Vec<Batch>,
}

/// Takes the rows out of the batches, by hour.
pub(super) fn split(batches: &mut [Batch]) -> Result<Vec<Part>, WriteError> {
    let mut parts: FxHashMap<i64, Vec<(usize, Vec<SampleRow>)>> = FxHashMap::default();
    for (message, batch) in batches.iter_mut().enumerate() {
        let rows = std::mem::take(&mut batch.rows);
        let hour = |row: &SampleRow| row.time_unix_seconds.div_euclid(SECONDS_PER_HOUR);
        let first = rows.first().map(hour);
        if let Some(first) = first.filter(|first| rows.iter().all(|row| hour(row) == *first)) {
            parts.entry(first).or_default().push((message, rows));
            continue;
        }
        let mut by_hour: FxHashMap<i64, Vec<SampleRow>> = FxHashMap::default();
        for row in rows {
            by_hour.entry(hour(&row)).or_default().push(row);
        }
        for (hour, rows) in by_hour {
            parts.entry(hour).or_default().push((message, rows));
        }
    }
    let parts = parts.into_iter().map(|(hour, rows)| {
        let seconds = hour.saturating_mul(SECONDS_PER_HOUR);
        let named = Timestamp::from_second(seconds).ok();
        let hour = named.and_then(|time| Hour::of(time).ok());
        let hour = hour.ok_or(WriteError::NoHour { seconds })?;
        Ok(Part { hour, rows })
    });
    parts.collect()
}

/// A part of a window as files.
pub(super) struct Encoded {
    /// What goes before it.
    pub(super) dictionary: Vec<(DictionaryName, Bytes)>,
    pub(super) durable: Durable,
    pub(super) segment: SegmentName,
    pub(super) rows: Bytes,
}

/// Takes CPU time: some 200 ns a row.
pub(super) fn encode(
    hour: Hour,
    requests: &[(usize, RequestHash)],
    mut rows: Vec<(usize, Vec<SampleRow>)>,
    mut durable: Durable,
    shared: &Shared,
) -> Result<Encoded, WriteError> {
    let mut new = NewNumbers::default();
    for (message, rows) in &mut rows {
        if let Some(batch) = shared.batches.get(*message) {
            durable.add(rows, batch, &mut new);
        }
    }
    let dictionary = encode_dictionary(hour, shared.id, new)?;
    let rows: Vec<SampleRow> = match <[_; 1]>::try_from(rows) {
        Ok([(_, rows)]) => rows,
        Err(several) => several.into_iter().flat_map(|(_, rows)| rows).collect(),
    };
    let mut requests: Vec<RequestHash> = requests.iter().map(|(_, hash)| *hash).collect();
    requests.sort_unstable();
    let written = samples_to_parquet(&rows, &requests, Packing::Fresh)?;
    let segment = SegmentName {
        hour,
        id: shared.id,
        content: content(hour, &requests),
        rows: written.rows,
    };
    Ok(Encoded {
        dictionary,
        durable,
        segment,
        rows: written.bytes,
    })
}

/// A file for each table that there is something new of.
fn encode_dictionary(
    hour: Hour,
    id: PublishId,
    new: NewNumbers,
) -> Result<Vec<(DictionaryName, Bytes)>, WriteError> {
    let packing = Packing::Fresh;
    let mut files = Vec::new();
    let mut add = |table, written: WrittenTable| {
        let name = DictionaryName {
            hour,
            id,
            table,
            sha256: ContentHash::of(&written.bytes),
            rows: written.rows,
        };
        files.push((name, written.bytes));
    };
    if !new.series.is_empty() {
        let series = new.series.iter().map(AsRef::as_ref);
        add(DictionaryTable::Series, series_to_parquet(series, packing)?);
    }
    if !new.frames.is_empty() {
        let frames = new
            .frames
            .iter()
            .map(|(number, content)| (*number, content));
        add(DictionaryTable::Frames, frames_to_parquet(frames, packing)?);
    }
    if !new.stacks.is_empty() {
        add(
            DictionaryTable::Stacks,
            stacks_to_parquet(new.stacks, packing)?,
        );
    }
    if !new.numbers.is_empty() {
        add(
            DictionaryTable::Numbers,
            numbers_to_parquet(new.numbers, packing)?,
        );
    }
    Ok(files)
}

/// The same for a resend of the whole segment.
fn content(hour: Hour, requests: &[RequestHash]) -> ContentHash {
    let mut hash = Sha256::new();
    hash.update(hour.to_string());
    for request in requests {
        hash.update(request.0);
    }
    ContentHash(hash.finalize().into())
}
