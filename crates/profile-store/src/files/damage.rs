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

/// The first of some files, keys with their lengths, that is damaged. Costs reading them to the end. One that is gone, or that the
/// store does not give, is not damaged.
pub async fn first_damaged(
    objects: &Objects,
    files: impl IntoIterator<Item = (String, u64)>,
) -> Option<Damage> {
    for (key, bytes) in files {
        let Err(error) = without_panic(read_all(objects, &key, bytes)).await else {
            continue;
        };
        if !is_of_store(&error) {
            let what = error.to_string();
            return Some(Damage { key, what });
        }
    }
    None
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

fn is_of_store(error: &ParquetError) -> bool {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = next {
        if error.is::<object_store::Error>() || error.is::<Box<object_store::Error>>() {
            return true;
        }
        next = error.source();
    }
    false
}
