//! Which of some files cannot be read: asked when reading has failed, since the engine does not say where.

use std::error::Error;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use futures_util::stream::TryStreamExt as _;
use parquet::arrow::async_reader::ParquetRecordBatchStreamBuilder;
use parquet::errors::{ParquetError, Result};

use super::RangeReader;
use crate::objects::Objects;

/// Rows in memory at once.
const BATCH_ROWS: usize = 1 << 13;

/// A file that cannot be read, whoever reads it and whenever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Which file.
    pub key: String,
    /// What is wrong with it.
    pub what: String,
}

/// What looking through files has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Looked {
    /// All that are there can be read.
    Sound,
    /// This one cannot, whoever reads it.
    Damaged(Damage),
    /// The store does not give this one: whether it is sound, nobody knows.
    Away {
        /// Which file.
        key: String,
        /// What the store says.
        why: String,
    },
}

/// Looks for the first of some files, keys with their lengths, that is damaged. Costs reading them to the end. One that is gone is
/// not damaged.
pub async fn look_through(
    objects: &Objects,
    files: impl IntoIterator<Item = (String, u64)>,
) -> Looked {
    let mut away = None;
    for (key, bytes) in files {
        let Err(error) = without_panic(read_all(objects, &key, bytes)).await else {
            continue;
        };
        let what = error.to_string();
        if !is_of_store(&error) {
            return Looked::Damaged(Damage { key, what });
        }
        if away.is_none() && !is_absence(&error) {
            away = Some(Looked::Away { key, why: what });
        }
    }
    away.unwrap_or(Looked::Sound)
}

/// What a decoder says, and an error where it panics on what it reads: bytes of a file are no reason to end what reads it.
pub(super) async fn without_panic<T>(reading: impl Future<Output = Result<T>>) -> Result<T> {
    let done = AssertUnwindSafe(reading).catch_unwind().await;
    done.unwrap_or_else(|_panic| {
        Err(ParquetError::General(
            "the decoder gave up on it".to_owned(),
        ))
    })
}

async fn read_all(objects: &Objects, key: &str, bytes: u64) -> Result<()> {
    let reader = RangeReader::new(objects, key, bytes);
    let builder = ParquetRecordBatchStreamBuilder::new(reader).await?;
    let mut batches = builder.with_batch_size(BATCH_ROWS).build()?;
    while batches.try_next().await?.is_some() {}
    Ok(())
}

/// Whether it was the store that failed, by the chain of sources.
pub fn is_of_store(error: &(dyn Error + 'static)) -> bool {
    of_store(error).is_some()
}

fn is_absence(error: &(dyn Error + 'static)) -> bool {
    matches!(of_store(error), Some(object_store::Error::NotFound { .. }))
}

fn of_store<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e object_store::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        let boxed = error.downcast_ref::<Box<object_store::Error>>();
        let found = error.downcast_ref().or_else(|| boxed.map(|error| &**error));
        if found.is_some() {
            return found;
        }
        next = error.source();
    }
    None
}
