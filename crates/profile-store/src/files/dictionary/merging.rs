//! Files of a dictionary as fewer files that say the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use unhex_pprof::FrameHash;

use super::BATCH_ROWS;
use super::frames::{self, frames_to_parquet};
use super::numbers::{self, NumberRow, numbers_to_parquet};
use super::series::{self, series_to_parquet};
use super::stacks::{self, StackRow, stacks_to_parquet};
use crate::files::{FileError, Packing, WrittenTable};
use crate::objects::Objects;
use crate::rows::{FrameContent, Series};
use crate::table::dictionary::{DictionaryFile, DictionaryTable};
use crate::table::names::ContentHash;

/// Packed bytes that are merged into one file: unpacked they are several times that in memory. Files beyond go into the next.
const PACKED_BYTES_MAX: u64 = 64 << 20;

/// A file of a merge.
#[derive(Clone, Debug)]
pub struct DictionaryPart {
    /// What it explains.
    pub table: DictionaryTable,
    /// The file.
    pub written: WrittenTable,
}

/// What `files` say, in as few files as memory allows. Files whose hash is not that of their name are damaged, and an error.
///
/// # Errors
/// If a file is gone ([`FileError::is_absence`]: somebody else merged them, or list again) or damaged; then nothing of this merge may be published.
pub async fn merge_dictionary(
    objects: &Objects,
    files: &[DictionaryFile],
) -> Result<Vec<DictionaryPart>, FileError> {
    let mut parts = Vec::new();
    for table in DictionaryTable::ALL {
        let of_table = files.iter().filter(|file| file.name.table == table);
        for some in bounded(of_table.copied()) {
            let mut batches = Vec::new();
            for file in some {
                batches.extend(read_whole(objects, file).await?);
            }
            // Seconds of work for millions of stacks.
            let merging = tokio::task::spawn_blocking(move || merge(table, &batches));
            let written = merging.await.map_err(|error| FileError::Unsound {
                key: table.as_str().to_owned(),
                what: error.to_string(),
            })??;
            parts.push(DictionaryPart { table, written });
        }
    }
    Ok(parts)
}

/// Groups of files that together are not too large.
fn bounded(files: impl Iterator<Item = DictionaryFile>) -> Vec<Vec<DictionaryFile>> {
    let mut groups: Vec<Vec<DictionaryFile>> = Vec::new();
    let mut bytes = 0_u64;
    for file in files {
        let is_too_much = bytes.saturating_add(file.bytes) > PACKED_BYTES_MAX;
        match groups.last_mut() {
            Some(group) if !is_too_much => {
                group.push(file);
                bytes = bytes.saturating_add(file.bytes);
            }
            _ => {
                groups.push(vec![file]);
                bytes = file.bytes;
            }
        }
    }
    groups
}

type Batches = Vec<(DictionaryFile, RecordBatch)>;

async fn read_whole(objects: &Objects, file: DictionaryFile) -> Result<Batches, FileError> {
    let key = file.name.to_string();
    let bytes = objects.get(&key).await?;
    let bytes: Bytes = bytes.ok_or_else(|| FileError::Gone { key: key.clone() })?;
    if ContentHash::of(&bytes) != file.name.sha256 {
        let what = "its bytes are not those that its name says".to_owned();
        return Err(FileError::Unsound { key, what });
    }
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes)?;
    let reader = reader.with_batch_size(BATCH_ROWS).build()?;
    reader.map(|batch| Ok((file, batch?))).collect()
}

fn merge(table: DictionaryTable, batches: &Batches) -> Result<WrittenTable, FileError> {
    let keyed = batches
        .iter()
        .map(|(file, batch)| (file.name.to_string(), batch));
    match table {
        DictionaryTable::Series => {
            let mut all: Vec<Arc<Series>> = Vec::new();
            for (key, batch) in keyed {
                all.extend(series::read(&key, batch)?);
            }
            series_to_parquet(all.iter().map(AsRef::as_ref), Packing::Compacted)
        }
        DictionaryTable::Stacks => {
            let mut all: BTreeMap<(Arc<str>, unhex_pprof::StackHash), StackRow> = BTreeMap::new();
            for (key, batch) in keyed {
                for row in stacks::read(&key, batch)? {
                    all.insert((Arc::clone(&row.service), row.stack), row);
                }
            }
            stacks_to_parquet(all.into_values().collect(), Packing::Compacted)
        }
        DictionaryTable::Frames => {
            let mut all: Vec<(FrameHash, FrameContent)> = Vec::new();
            for (key, batch) in keyed {
                all.extend(frames::read(&key, batch)?);
            }
            let all = all.iter().map(|(number, content)| (*number, content));
            frames_to_parquet(all, Packing::Compacted)
        }
        DictionaryTable::Numbers => {
            let mut all: Vec<NumberRow> = Vec::new();
            for (key, batch) in keyed {
                all.extend(numbers::read(&key, batch)?);
            }
            numbers_to_parquet(all, Packing::Compacted)
        }
    }
}
