//! How much of what was counted has its names, and why the rest has not.
//!
//! A frame has one outcome. A row is about all frames of one binary with one outcome. Its own weight is that of the stacks whose leaf is such a frame:
//! each stack is in one row so, and the rows' own weights add up to everything, exactly. Its whole weight is that of the stacks that have
//! such a frame anywhere, each stack once, which says what an upload or another unwinder would mend; these do not add up, since a stack may have frames of
//! several rows. What went wrong with a stack as a whole, as that the profiler stopped, is a frame of it, too, that is no leaf mostly.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use unhex_api::quality::Quality;
use unhex_build_id::Identity;

use super::stacks::{Stacks, at, native};
use super::sums::{Group, Interned, Sums};
use crate::answers::Outcome;
use crate::rows::{FrameContent, FrameCoverage};
use crate::symbols::{NameOutcome, Names};
use crate::view::Weight;

/// By what rows are made, beside the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoverageBy {
    /// Whether by service, by version and by deployment.
    pub labels: [bool; 3],
    /// Whether by binary.
    pub binary: bool,
}

/// Weights by outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Everything.
    pub total: Weight,
    /// What of it was unwound to its end and has all names that anybody could give.
    pub whole: Weight,
    /// The heaviest first.
    pub rows: Vec<CoverageLine>,
}

/// The frames of one binary with one outcome, of one label set and step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoverageLine {
    /// Service, version and deployment; empty where rows are not made by it.
    pub labels: [Arc<str>; 3],
    /// The start of the step, in microseconds since 1970.
    pub step: Option<i64>,
    /// What kind of frame.
    pub class: FrameClass,
    /// Stacks that have such a frame.
    pub weight: Weight,
    /// Stacks whose leaf is such a frame.
    pub own: Weight,
    /// Everything of the same label set and step.
    pub of: Weight,
}

/// Frames that are told in one row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameClass {
    /// The file name of the binary.
    pub binary: Arc<str>,
    /// What the symbol server knows it by.
    pub identity: Option<Identity>,
    /// What became of them.
    pub outcome: Outcome,
    /// How good their symbols are.
    pub quality: Option<Quality>,
    /// The runtime, the profiler's reason, or what is wrong with the debug file.
    pub detail: Arc<str>,
}

/// The rows while they are added up, by group and class.
#[derive(Default)]
struct Adding {
    groups: Interned<Group>,
    totals: Vec<Weight>,
    rows: FxHashMap<(u32, u32), (Weight, Weight)>,
}

/// The coverage of sums by label set, step and stack.
pub fn coverage(sums: &Sums, (stacks, names): (&Stacks, &Names), by: CoverageBy) -> Coverage {
    let mut classes: Interned<FrameClass> = Interned::default();
    let frames = stacks.frames().iter();
    let of_frame: Vec<u32> = frames
        .map(|frame| classes.number(&class(frame, names, by)))
        .collect();
    // A stack without frames has nothing that lacks a name.
    let nothing = classes.number(&FrameClass::of(Outcome::Unplaced));
    let mut adding = Adding::default();
    let mut coverage = Coverage::default();
    let mut met: Vec<u32> = Vec::new();
    for (group, stack, weight) in sums.iter() {
        let group = adding.group(&shown(group, by), weight);
        met.clear();
        let of_stack = stacks.of(stack).iter();
        met.extend(of_stack.filter_map(|frame| at(&of_frame, *frame)));
        let leaf = met.first().copied().unwrap_or(nothing);
        met.sort_unstable();
        met.dedup();
        adding.add(group, leaf, &met, weight);
        let mut outcomes = met.iter().filter_map(|class| classes.get(*class));
        if outcomes.all(|class| class.outcome.is_whole()) {
            coverage.whole += weight;
        }
        coverage.total += weight;
    }
    coverage.rows = adding.finish(&classes);
    coverage
}

impl Adding {
    fn group(&mut self, group: &Group, weight: Weight) -> u32 {
        let number = self.groups.number(group);
        self.totals
            .resize(self.groups.items().len(), Weight::default());
        let total = usize::try_from(number).ok();
        if let Some(total) = total.and_then(|at| self.totals.get_mut(at)) {
            *total += weight;
        }
        number
    }

    fn add(&mut self, group: u32, leaf: u32, met: &[u32], weight: Weight) {
        for class in met {
            self.rows.entry((group, *class)).or_default().0 += weight;
        }
        let row = self.rows.entry((group, leaf)).or_default();
        row.1 += weight;
        if met.is_empty() {
            row.0 += weight;
        }
    }

    fn finish(self, classes: &Interned<FrameClass>) -> Vec<CoverageLine> {
        let lines = self.rows.iter();
        let mut lines: Vec<CoverageLine> = lines
            .filter_map(|((group, class), (weight, own))| {
                let named = self.groups.get(*group)?;
                let none = || ["", "", ""].map(Arc::from);
                Some(CoverageLine {
                    labels: named.labels.clone().unwrap_or_else(none),
                    step: named.step,
                    class: classes.get(*class)?.clone(),
                    weight: *weight,
                    own: *own,
                    of: at(&self.totals, *group).copied().unwrap_or_default(),
                })
            })
            .collect();
        let order = |line: &CoverageLine| (line.labels.clone(), line.step, line.class.clone());
        lines.sort_by_cached_key(|line| (std::cmp::Reverse(line.weight.value), order(line)));
        lines
    }
}

impl FrameClass {
    fn of(outcome: Outcome) -> Self {
        Self {
            binary: "".into(),
            identity: None,
            outcome,
            quality: None,
            detail: "".into(),
        }
    }
}

/// The labels that rows are made by.
fn shown(group: &Group, by: CoverageBy) -> Group {
    let mut group = group.clone();
    if let Some(labels) = &mut group.labels {
        for (label, is_shown) in labels.iter_mut().zip(by.labels) {
            if !is_shown {
                *label = "".into();
            }
        }
    }
    group
}

fn class(frame: &FrameContent, names: &Names, by: CoverageBy) -> FrameClass {
    let (outcome, detail) = match frame.coverage() {
        FrameCoverage::ToAsk | FrameCoverage::NoIdentity => {
            return of_native(frame, names, by);
        }
        FrameCoverage::Vdso => return of_vdso(frame, by),
        FrameCoverage::Named => (Outcome::Named, None),
        FrameCoverage::Kernel => (Outcome::Kernel, None),
        FrameCoverage::Unplaced => (Outcome::Unplaced, None),
        FrameCoverage::MissingUnwinder(runtime) => (Outcome::MissingUnwinder, Some(runtime)),
        FrameCoverage::Truncated(reason) => (Outcome::Truncated, Some(reason)),
    };
    let class = FrameClass::of(outcome);
    let binary = match frame {
        FrameContent::Kernel { file_name, .. } | FrameContent::Unplaced { file_name }
            if by.binary =>
        {
            Arc::clone(file_name)
        }
        _ => "".into(),
    };
    FrameClass {
        binary,
        detail: detail.unwrap_or_else(|| "".into()),
        ..class
    }
}

fn of_vdso(frame: &FrameContent, by: CoverageBy) -> FrameClass {
    let file_name = native(frame).filter(|_native| by.binary);
    let file_name = file_name.map(|native| Arc::clone(&native.file_name));
    FrameClass {
        binary: file_name.unwrap_or_else(|| "".into()),
        ..FrameClass::of(Outcome::Vdso)
    }
}

fn of_native(frame: &FrameContent, names: &Names, by: CoverageBy) -> FrameClass {
    let Some(native) = native(frame) else {
        return FrameClass::of(Outcome::Unplaced);
    };
    let NameOutcome {
        outcome,
        quality,
        detail,
    } = names.outcome(native);
    FrameClass {
        quality,
        detail,
        binary: if by.binary {
            Arc::clone(&native.file_name)
        } else {
            "".into()
        },
        identity: native.identity.clone().filter(|_identity| by.binary),
        ..FrameClass::of(outcome)
    }
}
