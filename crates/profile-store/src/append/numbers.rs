//! What numbers in rows stand for, which of that this replica has made durable already, hour by hour, and the numbers that it gives to stacks.
//!
//! The dictionary of an hour is a union: to put an entry again costs bytes and nothing else. So what is remembered is bounded, and may be forgotten at any time.

use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use unhex_pprof::{FrameHash, StackHash};

use crate::files::{NumberRow, StackNumber, StackRow};
use crate::rows::{Batch, FrameContent, SampleRow, Series, SeriesId};
use crate::table::names::Hour;

/// Hours of which something is remembered: windows mostly have one or two, and hosts that were away send older ones.
const HOURS_MAX: usize = 8;
/// Numbers of one hour that are remembered, some 30 bytes each; beyond, all of the hour are put again.
const NUMBERS_MAX: usize = 4 << 20;
/// Stacks that have numbers, some 30 bytes each; beyond, counting begins anew under another name.
const NUMBERED_MAX: usize = 4 << 20;

/// What is durable of each hour's dictionary.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    hours: Mutex<FxHashMap<Hour, Durable>>,
    writer: Mutex<Arc<Writer>>,
}

/// Gives numbers to stacks, the same in all hours. None is ever given to another stack, whatever becomes of what is written.
#[derive(Debug)]
struct Writer {
    id: [u8; 8],
    numbers: Mutex<FxHashMap<StackHash, u32>>,
}

/// The numbers of an hour that are durable.
#[derive(Debug)]
pub(super) struct Durable {
    writer: Arc<Writer>,
    series: FxHashSet<SeriesId>,
    /// By service; each with the number that it has in rows.
    stacks: FxHashMap<Arc<str>, FxHashMap<StackHash, StackNumber>>,
    frames: FxHashSet<FrameHash>,
}

/// What is to be put before the rows.
#[derive(Debug, Default)]
pub(super) struct NewNumbers {
    pub(super) series: Vec<Arc<Series>>,
    pub(super) stacks: Vec<StackRow>,
    pub(super) frames: Vec<(FrameHash, FrameContent)>,
    pub(super) numbers: Vec<NumberRow>,
}

impl Default for Writer {
    fn default() -> Self {
        Self {
            id: rand::random(),
            numbers: Mutex::default(),
        }
    }
}

impl Writer {
    fn number(&self, stack: StackHash) -> StackNumber {
        let mut numbers = self.numbers.lock();
        // Windows have far fewer rows than there are numbers.
        let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        StackNumber {
            writer: self.id,
            number: *numbers.entry(stack).or_insert(next),
        }
    }
}

impl Numbers {
    /// Takes what is known of an hour out, so that nobody else writes its dictionary meanwhile.
    pub(super) fn take(&self, hour: Hour) -> Durable {
        let writer = self.writer();
        let known = self.hours.lock().remove(&hour);
        let known = known.filter(|known| Arc::ptr_eq(&known.writer, &writer));
        known.unwrap_or_else(|| Durable::of(writer))
    }

    /// Puts it back.
    pub(super) fn put_back(&self, hour: Hour, durable: Durable) {
        if durable.len() > NUMBERS_MAX {
            return;
        }
        let mut hours = self.hours.lock();
        if hours.len() >= HOURS_MAX && !hours.contains_key(&hour) {
            let oldest = hours.keys().min().copied();
            oldest.and_then(|hour| hours.remove(&hour));
        }
        hours.insert(hour, durable);
    }

    fn writer(&self) -> Arc<Writer> {
        let mut writer = self.writer.lock();
        if writer.numbers.lock().len() >= NUMBERED_MAX {
            *writer = Arc::default();
        }
        Arc::clone(&writer)
    }
}

impl Durable {
    fn of(writer: Arc<Writer>) -> Self {
        Self {
            writer,
            series: FxHashSet::default(),
            stacks: FxHashMap::default(),
            frames: FxHashSet::default(),
        }
    }

    fn len(&self) -> usize {
        let stacks: usize = self.stacks.values().map(FxHashMap::len).sum();
        self.series
            .len()
            .saturating_add(stacks)
            .saturating_add(self.frames.len())
    }

    /// Adds to `new` what the rows of a message need and is not durable, and notes it as if it were: whoever cannot put it forgets all of the hour. The rows
    /// then have numbers in place of their stacks.
    pub(super) fn add(&mut self, rows: &mut [SampleRow], batch: &Batch, new: &mut NewNumbers) {
        for rows in rows.chunk_by_mut(|a, b| Arc::ptr_eq(&a.series, &b.series)) {
            let Some(series) = rows.first().map(|row| Arc::clone(&row.series)) else {
                continue;
            };
            if self.series.insert(series.id()) {
                new.series.push(Arc::clone(&series));
            }
            let known = match self.stacks.get_mut(series.service()) {
                Some(known) => known,
                None => self.stacks.entry(series.service().into()).or_default(),
            };
            let mut service: Option<Arc<str>> = None;
            for row in rows {
                let stack = row.stack;
                if let Some(number) = known.get(&stack) {
                    row.stack = number.in_place();
                    continue;
                }
                let number = self.writer.number(stack);
                known.insert(stack, number);
                row.stack = number.in_place();
                new.numbers.push(NumberRow { number, stack });
                let Some(frames) = batch.stacks.get(&stack) else {
                    continue;
                };
                let service = service.get_or_insert_with(|| series.service().into());
                new.stacks.push(StackRow {
                    service: Arc::clone(service),
                    stack,
                    frames: Arc::clone(frames),
                });
                add_frames(&mut self.frames, frames, batch, new);
            }
        }
    }
}

fn add_frames(
    known: &mut FxHashSet<FrameHash>,
    frames: &[FrameHash],
    batch: &Batch,
    new: &mut NewNumbers,
) {
    for frame in frames {
        if !known.insert(*frame) {
            continue;
        }
        if let Some(content) = batch.frames.get(frame) {
            new.frames.push((*frame, content.clone()));
        }
    }
}
