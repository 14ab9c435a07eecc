//! What the numbers of rows stand for: label sets, stacks and frames, and of segments which stacks, from the dictionaries of the hours, newest first.
//!
//! Most stacks of a window are those of its last hour, so that mostly one hour is read, however long the window is; what was read is kept within a bound of bytes.
//! Files never change: only which of them count is looked at again. A file that was swept meanwhile, and a stack that came after the
//! listing, are found by looking again.

mod hours;
mod numbers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, try_join_all};
use moka::sync::Cache;
use rustc_hash::{FxHashMap, FxHashSet};
use unhex_pprof::{FrameHash, StackHash};

use super::stacks::Stacks;
use crate::files::{
    FileError, FramesWanted, NumberRow, StacksWanted, read_frames, read_series, read_stacks,
};
use crate::objects::Objects;
use crate::reading::HourRange;
use crate::rows::{FrameContent, Series};
use crate::table::dictionary::{DictionaryFile, DictionaryName, DictionaryTable};
use crate::table::names::Hour;
use hours::Hours;
pub(super) use numbers::Numbered;

/// Hours that are read at once, when the newest did not have everything.
const HOURS_AT_ONCE: usize = 16;
/// How often an hour is listed again whose files were swept meanwhile.
const LISTINGS_MAX: usize = 3;
/// What an entry costs beside its bytes: key, hash table, lists by which it is evicted.
const ENTRY_BYTES: usize = 160;
/// What a label set costs in memory, about.
const SERIES_BYTES: usize = 1_024;

/// Services whose stacks are wanted; none for all.
pub(super) type Services = Option<BTreeSet<Arc<str>>>;

/// The dictionaries of the table.
#[derive(Debug)]
pub(super) struct Dictionary {
    hours: Hours,
    stacks: Cache<StackHash, Arc<[FrameHash]>>,
    frames: Cache<FrameHash, Arc<FrameContent>>,
    series: Cache<DictionaryName, Arc<[Arc<Series>]>>,
    numbers: Cache<DictionaryName, Arc<[NumberRow]>>,
}

impl Dictionary {
    /// Of a table; a quarter of the bytes each for frames and label sets, an eighth for numbers of writers, the rest for stacks.
    pub(super) fn new(objects: Objects, bytes_max: u64) -> Self {
        let frames = Cache::builder().max_capacity(bytes_max / 4);
        let numbers = Cache::builder().max_capacity(bytes_max / 8);
        let stacks = Cache::builder().max_capacity(bytes_max / 8 * 3);
        let series = Cache::builder().max_capacity(bytes_max / 4);
        Self {
            hours: Hours::new(objects),
            stacks: stacks
                .weigher(|_, frames: &Arc<[FrameHash]>| weight(size_of_val(&**frames)))
                .build(),
            frames: frames
                .weigher(|_, frame: &Arc<FrameContent>| weight(bytes_of(frame)))
                .build(),
            series: series
                .weigher(|_, series: &Arc<[Arc<Series>]>| {
                    weight(series.len().saturating_mul(SERIES_BYTES))
                })
                .build(),
            numbers: numbers
                .weigher(|_, numbers: &Arc<[NumberRow]>| weight(size_of_val(&**numbers)))
                .build(),
        }
    }

    /// Where the table lies.
    pub(super) fn objects(&self) -> &Objects {
        self.hours.objects()
    }

    /// Reads anew which files there are, when asked next.
    pub(super) fn look_again(&self) {
        self.hours.forget_all();
    }

    /// The files of an hour.
    pub(super) async fn files(&self, hour: Hour) -> Result<Vec<DictionaryFile>, FileError> {
        let state = self.hours.of(hour).await?;
        let tables = DictionaryTable::ALL.into_iter();
        Ok(tables.flat_map(|table| state.live(table)).collect())
    }

    /// The label sets of the hours, by their numbers; also of other services than those that are wanted.
    pub(super) async fn series(
        &self,
        hours: HourRange,
    ) -> Result<BTreeMap<i64, Arc<Series>>, FileError> {
        let hours: Vec<Hour> = hours.iter().collect();
        let mut all = BTreeMap::new();
        for some in hours.chunks(HOURS_AT_ONCE) {
            let read = some.iter().map(|hour| self.series_of_hour(*hour));
            for series in try_join_all(read).await?.into_iter().flatten() {
                let numbered = series.iter().map(|one| (one.id().0, Arc::clone(one)));
                all.extend(numbered);
            }
        }
        Ok(all)
    }

    /// The stacks that are wanted, with their frames.
    pub(super) async fn stacks(
        &self,
        hours: HourRange,
        services: &Services,
        wanted: Vec<StackHash>,
    ) -> Result<Stacks, FileError> {
        let mut newest_first: Vec<Hour> = hours.iter().collect();
        newest_first.reverse();
        let mut stacks = self
            .stacks_by_number(&newest_first, services, &wanted)
            .await?;
        if stacks.len() < wanted.len() {
            // They came after the listings.
            self.hours.forget_all();
            stacks = self
                .stacks_by_number(&newest_first, services, &wanted)
                .await?;
            let lost = wanted.len().saturating_sub(stacks.len());
            if lost > 0 {
                tracing::warn!(lost, "stacks are in no dictionary of their hours");
            }
        }
        let frames = stacks.values().flat_map(|frames| frames.iter().copied());
        let frames: FxHashSet<FrameHash> = frames.collect();
        let frames = self.frames_by_number(&newest_first, frames).await?;
        Ok(Stacks::new(stacks, &frames))
    }

    async fn stacks_by_number(
        &self,
        hours: &[Hour],
        services: &Services,
        wanted: &[StackHash],
    ) -> Result<FxHashMap<StackHash, Arc<[FrameHash]>>, FileError> {
        let mut found = FxHashMap::default();
        let mut missing = FxHashSet::default();
        for stack in wanted {
            match self.stacks.get(stack) {
                Some(frames) => {
                    found.insert(*stack, frames);
                }
                None => {
                    missing.insert(*stack);
                }
            }
        }
        let mut missing = Arc::new(missing);
        for some in widening(hours) {
            if missing.is_empty() {
                break;
            }
            let wanted = StacksWanted {
                services: services.clone(),
                stacks: Arc::clone(&missing),
            };
            let read = some.iter().map(|hour| self.stacks_of_hour(*hour, &wanted));
            for stacks in try_join_all(read).await? {
                for (stack, frames) in stacks {
                    self.stacks.insert(stack, Arc::clone(&frames));
                    found.insert(stack, frames);
                }
            }
            drop(wanted);
            Arc::make_mut(&mut missing).retain(|stack| !found.contains_key(stack));
        }
        Ok(found)
    }

    async fn frames_by_number(
        &self,
        hours: &[Hour],
        wanted: FxHashSet<FrameHash>,
    ) -> Result<FxHashMap<FrameHash, Arc<FrameContent>>, FileError> {
        let mut found = FxHashMap::default();
        let mut missing = FxHashSet::default();
        for frame in wanted {
            match self.frames.get(&frame) {
                Some(content) => {
                    found.insert(frame, content);
                }
                None => {
                    missing.insert(frame);
                }
            }
        }
        let mut missing = Arc::new(missing);
        for some in widening(hours) {
            if missing.is_empty() {
                break;
            }
            let wanted = FramesWanted(Arc::clone(&missing));
            let read = some.iter().map(|hour| self.frames_of_hour(*hour, &wanted));
            for frames in try_join_all(read).await? {
                for (frame, content) in frames {
                    let content = Arc::new(content);
                    self.frames.insert(frame, Arc::clone(&content));
                    found.insert(frame, content);
                }
            }
            drop(wanted);
            Arc::make_mut(&mut missing).retain(|frame| !found.contains_key(frame));
        }
        Ok(found)
    }

    async fn series_of_hour(&self, hour: Hour) -> Result<Vec<Arc<[Arc<Series>]>>, FileError> {
        let read = |files: Vec<DictionaryFile>| {
            let reading = async move {
                let mut all = Vec::new();
                for file in files {
                    all.push(self.series_of_file(file).await?);
                }
                Ok(all)
            };
            reading.boxed()
        };
        self.listed(hour, DictionaryTable::Series, read).await
    }

    async fn series_of_file(&self, file: DictionaryFile) -> Result<Arc<[Arc<Series>]>, FileError> {
        if let Some(series) = self.series.get(&file.name) {
            return Ok(series);
        }
        let read = read_series(self.hours.objects(), &[file], None).await?;
        let series: Arc<[Arc<Series>]> = read.into_values().collect();
        self.series.insert(file.name, Arc::clone(&series));
        Ok(series)
    }

    async fn stacks_of_hour(
        &self,
        hour: Hour,
        wanted: &StacksWanted,
    ) -> Result<FxHashMap<StackHash, Arc<[FrameHash]>>, FileError> {
        let objects = self.hours.objects();
        let read = |files: Vec<DictionaryFile>| {
            async move { read_stacks(objects, &files, wanted).await }.boxed()
        };
        self.listed(hour, DictionaryTable::Stacks, read).await
    }

    async fn frames_of_hour(
        &self,
        hour: Hour,
        wanted: &FramesWanted,
    ) -> Result<FxHashMap<FrameHash, FrameContent>, FileError> {
        let objects = self.hours.objects();
        let read = |files: Vec<DictionaryFile>| {
            async move { read_frames(objects, &files, wanted).await }.boxed()
        };
        self.listed(hour, DictionaryTable::Frames, read).await
    }

    /// Reads the files of an hour; lists them again when one of them is gone.
    async fn listed<'r, T>(
        &self,
        hour: Hour,
        table: DictionaryTable,
        read: impl Fn(Vec<DictionaryFile>) -> BoxFuture<'r, Result<T, FileError>>,
    ) -> Result<T, FileError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let state = self.hours.of(hour).await?;
            match read(state.live(table).collect()).await {
                Err(error) if error.is_absence() && tries < LISTINGS_MAX => {
                    self.hours.forget(hour);
                }
                outcome => return outcome,
            }
        }
    }
}

/// The first alone, then more and more at once.
fn widening(hours: &[Hour]) -> impl Iterator<Item = &[Hour]> {
    let mut left = hours;
    let mut count = 1;
    std::iter::from_fn(move || {
        let (some, rest) = left.split_at(count.min(left.len()));
        left = rest;
        count = (count * 2).min(HOURS_AT_ONCE);
        (!some.is_empty()).then_some(some)
    })
}

fn bytes_of(frame: &FrameContent) -> usize {
    let names = match frame {
        FrameContent::Named { names, .. } | FrameContent::Kernel { names, .. } => names.as_slice(),
        _ => &[],
    };
    let texts = names
        .iter()
        .map(|name| name.function.len() + name.file_name.len());
    size_of::<FrameContent>() + size_of_val(names) + texts.sum::<usize>()
}

fn weight(bytes: usize) -> u32 {
    u32::try_from(bytes.saturating_add(ENTRY_BYTES)).unwrap_or(u32::MAX)
}
