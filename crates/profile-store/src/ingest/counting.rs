//! What a batch adds to the counters of its label sets: samples, CPU time, and frames by what is known of them.

use std::collections::HashMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use unhex_pprof::{FrameHash, StackHash};

use crate::metrics::{LabelSet, SetCounts};
use crate::rows::{Batch, CPU, FrameContent, FrameCoverage, Series};

/// What is counted, by label set.
pub(super) type Counts = Vec<(LabelSet, SetCounts)>;

/// Words of the metric's description.
const OUTCOMES: [&str; 8] = [
    "native",
    "no_identity",
    "named",
    "kernel",
    "vdso",
    "unplaced",
    "missing_unwinder",
    "truncated",
];

/// How many frames of each outcome a stack has.
type StackFrames = [u64; OUTCOMES.len()];

#[derive(Default)]
struct OfSet {
    samples: u64,
    cpu_nanos: u128,
    /// Samples at each stack.
    stacks: FxHashMap<StackHash, u64>,
}

/// What is known of a frame, as a place among the outcomes.
fn outcome(content: &FrameContent) -> usize {
    match content.coverage() {
        FrameCoverage::ToAsk => 0,
        FrameCoverage::NoIdentity => 1,
        FrameCoverage::Named => 2,
        FrameCoverage::Kernel => 3,
        FrameCoverage::Vdso => 4,
        FrameCoverage::Unplaced => 5,
        FrameCoverage::MissingUnwinder(_) => 6,
        FrameCoverage::Truncated(_) => 7,
    }
}

/// Each frame counts as often as its stack was sampled. Where several things were counted of one sample, as in heap profiles,
/// it is one sample for each.
pub(super) fn counts(batch: &Batch) -> Counts {
    let mut sets: HashMap<[&str; 3], OfSet> = HashMap::new();
    // Neighbours are of one series.
    for rows in batch
        .rows
        .chunk_by(|a, b| Arc::ptr_eq(&a.series, &b.series))
    {
        let Some(series) = rows.first().map(|row| &row.series) else {
            continue;
        };
        let of_set = sets.entry(labels(series)).or_default();
        for row in rows {
            let samples = u64::try_from(row.count).unwrap_or_default();
            of_set.samples = of_set.samples.saturating_add(samples);
            if &*row.profile_type == CPU {
                let nanos = u128::try_from(row.value()).unwrap_or_default();
                of_set.cpu_nanos = of_set.cpu_nanos.saturating_add(nanos);
            }
            let at_stack = of_set.stacks.entry(row.stack).or_default();
            *at_stack = at_stack.saturating_add(samples);
        }
    }
    let of_frames: FxHashMap<FrameHash, usize> = batch
        .frames
        .iter()
        .map(|(hash, content)| (*hash, outcome(content)))
        .collect();
    let of_stacks: FxHashMap<StackHash, StackFrames> = batch
        .stacks
        .iter()
        .map(|(hash, frames)| (*hash, of_stack(frames, &of_frames)))
        .collect();
    let counted = sets.into_iter().map(|(labels, of_set)| {
        let labels = labels.map(Arc::from);
        (labels, of_set.counts(&of_stacks))
    });
    counted.collect()
}

fn labels(series: &Series) -> [&str; 3] {
    [series.service(), series.version(), series.deployment()]
}

fn of_stack(frames: &[FrameHash], of_frames: &FxHashMap<FrameHash, usize>) -> StackFrames {
    let mut counts = [0; OUTCOMES.len()];
    for outcome in frames.iter().filter_map(|frame| of_frames.get(frame)) {
        if let Some(count) = counts.get_mut(*outcome) {
            *count += 1;
        }
    }
    counts
}

impl OfSet {
    fn counts(self, of_stacks: &FxHashMap<StackHash, StackFrames>) -> SetCounts {
        let mut sums = [0_u64; OUTCOMES.len()];
        for (stack, samples) in self.stacks {
            let Some(frames) = of_stacks.get(&stack) else {
                continue;
            };
            for (sum, frames) in sums.iter_mut().zip(frames) {
                *sum = sum.saturating_add(frames.saturating_mul(samples));
            }
        }
        let frames = OUTCOMES.into_iter().zip(sums);
        SetCounts {
            samples: self.samples,
            cpu_nanos: self.cpu_nanos,
            frames: frames.filter(|(_, sum)| *sum > 0).collect(),
        }
    }
}
