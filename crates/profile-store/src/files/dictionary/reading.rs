//! What is wanted of the files of an hour's dictionary, read by ranges.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array as _, AsArray as _, BooleanArray, RecordBatch};
use arrow::error::ArrowError;
use futures_util::stream::{self, Stream, StreamExt as _, TryStreamExt as _};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowPredicateFn, RowFilter};
use parquet::arrow::async_reader::ParquetRecordBatchStreamBuilder;
use parquet::file::metadata::RowGroupMetaData;
use rustc_hash::{FxHashMap, FxHashSet};
use unhex_pprof::{FrameHash, StackHash};

use super::numbers::{self, NumberRow};
use super::{BATCH_ROWS, frames, series, stacks};
use crate::files::damage::without_panic;
use crate::files::{FileError, RangeReader};
use crate::objects::Objects;
use crate::rows::{FrameContent, Series, SeriesId};
use crate::table::dictionary::DictionaryFile;

/// Files that are read at once: each has a batch and a page of each column in memory.
const FILES_AT_ONCE: usize = 4;

/// Which stacks to read.
#[derive(Clone, Debug)]
pub struct StacksWanted {
    /// Those that rows of these services have; `None` for all. Row groups of others are not read.
    pub services: Option<BTreeSet<Arc<str>>>,
    /// Those with these numbers.
    pub stacks: Arc<FxHashSet<StackHash>>,
}

/// The numbers of the frames to read.
#[derive(Clone, Debug)]
pub struct FramesWanted(pub Arc<FxHashSet<FrameHash>>);

/// The label sets of some files, all or those that are wanted.
///
/// # Errors
/// If a file is gone ([`FileError::is_absence`]: list again) or cannot be read.
pub async fn read_series(
    objects: &Objects,
    files: &[DictionaryFile],
    wanted: Option<&BTreeSet<SeriesId>>,
) -> Result<FxHashMap<SeriesId, Arc<Series>>, FileError> {
    let mut found = FxHashMap::default();
    let all = Selection::default();
    let batches = batches(objects, files, &all);
    let mut batches = std::pin::pin!(batches);
    while let Some((file, batch)) = batches.try_next().await? {
        let series = series::read(&file.name.to_string(), &batch)?;
        let is_wanted = |id: SeriesId| wanted.is_none_or(|wanted| wanted.contains(&id));
        let series = series.into_iter().filter(|series| is_wanted(series.id()));
        found.extend(series.map(|series| (series.id(), series)));
    }
    Ok(found)
}

/// The frames of stacks, leaf first, by number. Those that no file has are left out.
///
/// # Errors
/// If a file is gone ([`FileError::is_absence`]: list again) or cannot be read.
pub async fn read_stacks(
    objects: &Objects,
    files: &[DictionaryFile],
    wanted: &StacksWanted,
) -> Result<FxHashMap<StackHash, Arc<[FrameHash]>>, FileError> {
    let stacks = Arc::clone(&wanted.stacks);
    let selection = Selection {
        services: wanted.services.clone(),
        rows: Some(Rows {
            column: "stack_id",
            is_wanted: Arc::new(move |number| stacks.contains(&StackHash(number))),
        }),
    };
    let mut found = FxHashMap::default();
    let batches = batches(objects, files, &selection);
    let mut batches = std::pin::pin!(batches);
    while let Some((file, batch)) = batches.try_next().await? {
        for row in stacks::read(&file.name.to_string(), &batch)? {
            found.insert(row.stack, row.frames);
        }
    }
    Ok(found)
}

/// What is kept of frames, by number. Those that no file has are left out.
///
/// # Errors
/// If a file is gone ([`FileError::is_absence`]: list again) or cannot be read.
pub async fn read_frames(
    objects: &Objects,
    files: &[DictionaryFile],
    wanted: &FramesWanted,
) -> Result<FxHashMap<FrameHash, FrameContent>, FileError> {
    let frames = Arc::clone(&wanted.0);
    let selection = Selection {
        services: None,
        rows: Some(Rows {
            column: "frame_id",
            is_wanted: Arc::new(move |number| frames.contains(&FrameHash(number))),
        }),
    };
    let mut found: FxHashMap<FrameHash, FrameContent> = FxHashMap::default();
    let batches = batches(objects, files, &selection);
    let mut batches = std::pin::pin!(batches);
    while let Some((file, batch)) = batches.try_next().await? {
        for (number, content) in frames::read(&file.name.to_string(), &batch)? {
            match found.get_mut(&number) {
                Some(kept) if content < *kept => *kept = content,
                Some(_) => {}
                None => {
                    found.insert(number, content);
                }
            }
        }
    }
    Ok(found)
}

/// The numbers of some files, in order, each once: 28 bytes each in memory.
///
/// # Errors
/// If a file is gone ([`FileError::is_absence`]: list again) or cannot be read.
pub async fn read_numbers(
    objects: &Objects,
    files: &[DictionaryFile],
) -> Result<Vec<NumberRow>, FileError> {
    let mut found = Vec::new();
    let all = Selection::default();
    let batches = batches(objects, files, &all);
    let mut batches = std::pin::pin!(batches);
    while let Some((file, batch)) = batches.try_next().await? {
        found.extend(numbers::read(&file.name.to_string(), &batch)?);
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// Which rows of a file to make values of.
#[derive(Clone, Default)]
struct Selection {
    services: Option<BTreeSet<Arc<str>>>,
    rows: Option<Rows>,
}

#[derive(Clone)]
struct Rows {
    column: &'static str,
    is_wanted: Arc<dyn Fn([u8; 16]) -> bool + Send + Sync>,
}

/// The batches of some files, in no order.
fn batches<'a>(
    objects: &'a Objects,
    files: &'a [DictionaryFile],
    selection: &'a Selection,
) -> impl Stream<Item = Result<(DictionaryFile, RecordBatch), FileError>> + 'a {
    let opened = stream::iter(files.iter().copied()).map(move |file| async move {
        let named = move |source| FileError::Unreadable {
            key: file.name.to_string(),
            source,
        };
        let batches = without_panic(open(objects, file, selection))
            .await
            .map_err(named)?;
        let batches = stream::try_unfold(batches, async |mut batches| {
            let batch = without_panic(batches.try_next()).await?;
            Ok(batch.map(|batch| (batch, batches)))
        });
        let batches = batches.map(move |batch| Ok((file, batch.map_err(named)?)));
        Ok::<_, FileError>(batches.boxed())
    });
    opened
        .buffer_unordered(FILES_AT_ONCE)
        .try_flatten_unordered(FILES_AT_ONCE)
}

async fn open(
    objects: &Objects,
    file: DictionaryFile,
    selection: &Selection,
) -> parquet::errors::Result<impl Stream<Item = parquet::errors::Result<RecordBatch>> + use<>> {
    let reader = RangeReader::new(objects, &file.name.to_string(), file.bytes);
    let mut builder = ParquetRecordBatchStreamBuilder::new(reader)
        .await?
        .with_batch_size(BATCH_ROWS);
    if let Some(services) = &selection.services {
        let groups = builder.metadata().row_groups().iter().enumerate();
        let groups = groups.filter(|(_, group)| may_have(group, services));
        let groups = groups.map(|(number, _)| number).collect();
        builder = builder.with_row_groups(groups);
    }
    if let Some(rows) = &selection.rows {
        let mask = ProjectionMask::columns(builder.parquet_schema(), [rows.column]);
        let is_wanted = Arc::clone(&rows.is_wanted);
        let predicate = ArrowPredicateFn::new(mask, move |batch| wanted(&batch, &*is_wanted));
        builder = builder.with_row_filter(RowFilter::new(vec![Box::new(predicate)]));
    }
    builder.build()
}

fn wanted(
    batch: &RecordBatch,
    is_wanted: &dyn Fn([u8; 16]) -> bool,
) -> Result<BooleanArray, ArrowError> {
    let numbers = batch.column(0).as_binary_opt::<i32>();
    let numbers = numbers.ok_or_else(|| ArrowError::CastError("no numbers".to_owned()))?;
    let is_wanted = |number: &[u8]| number.try_into().is_ok_and(is_wanted);
    let wanted = (0..numbers.len()).map(|row| is_wanted(numbers.value(row)));
    Ok(wanted.collect::<Vec<bool>>().into())
}

/// Whether rows of one of the services may be in a row group: they lie between its least and its greatest.
fn may_have(group: &RowGroupMetaData, services: &BTreeSet<Arc<str>>) -> bool {
    let columns = group.columns().iter();
    let mut columns = columns.filter(|column| column.column_descr().name() == "service");
    let statistics = columns.next().and_then(|column| column.statistics());
    let bounds = statistics.and_then(|of| Some((of.min_bytes_opt()?, of.max_bytes_opt()?)));
    let Some((least, greatest)) = bounds else {
        return true;
    };
    services
        .iter()
        .any(|service| (least..=greatest).contains(&service.as_bytes()))
}
