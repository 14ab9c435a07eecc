//! What numbers in rows stand for, and which of that this replica has made durable already, hour by hour.
//!
//! The dictionary of an hour is a union: to put an entry again costs bytes and nothing else. So what is remembered is bounded, and may be forgotten at any time.

use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use unhex_pprof::{FrameHash, StackHash};

use crate::files::StackRow;
use crate::rows::{Batch, FrameContent, SampleRow, Series, SeriesId};
use crate::table::names::Hour;

/// Hours of which something is remembered: windows mostly have one or two, and hosts that were away send older ones.
const HOURS_MAX: usize = 8;
/// Numbers of one hour that are remembered, some 30 bytes each; beyond, all of the hour are put again.
const NUMBERS_MAX: usize = 4 << 20;

/// What is durable of each hour's dictionary.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    hours: Mutex<FxHashMap<Hour, Durable>>,
}

/// The numbers of an hour that are durable.
#[derive(Debug, Default)]
pub(super) struct Durable {
    series: FxHashSet<SeriesId>,
    stacks: FxHashMap<Arc<str>, FxHashSet<StackHash>>,
    frames: FxHashSet<FrameHash>,
}

/// What is to be put before the rows.
#[derive(Debug, Default)]
pub(super) struct NewNumbers {
    pub(super) series: Vec<Arc<Series>>,
    pub(super) stacks: Vec<StackRow>,
    pub(super) frames: Vec<(FrameHash, FrameContent)>,
}

impl Numbers {
    /// Takes what is known of an hour out, so that nobody else writes its dictionary meanwhile.
    pub(super) fn take(&self, hour: Hour) -> Durable {
        self.hours.lock().remove(&hour).unwrap_or_default()
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
}

impl Durable {
    fn len(&self) -> usize {
        let stacks: usize = self.stacks.values().map(FxHashSet::len).sum();
        self.series
            .len()
            .saturating_add(stacks)
            .saturating_add(self.frames.len())
    }

    /// Adds to `new` what the rows of a message need and is not durable, and notes it as if it were: whoever cannot put it forgets all of the hour.
    pub(super) fn add(&mut self, rows: &[SampleRow], batch: &Batch, new: &mut NewNumbers) {
        for rows in rows.chunk_by(|a, b| Arc::ptr_eq(&a.series, &b.series)) {
            let Some(series) = rows.first().map(|row| &row.series) else {
                continue;
            };
            if self.series.insert(series.id()) {
                new.series.push(Arc::clone(series));
            }
            let known = match self.stacks.get_mut(series.service()) {
                Some(known) => known,
                None => self.stacks.entry(series.service().into()).or_default(),
            };
            let mut service: Option<Arc<str>> = None;
            for row in rows {
                if !known.insert(row.stack) {
                    continue;
                }
                let Some(frames) = batch.stacks.get(&row.stack) else {
                    continue;
                };
                let service = service.get_or_insert_with(|| series.service().into());
                new.stacks.push(StackRow {
                    service: Arc::clone(service),
                    stack: row.stack,
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
