//! Rows to [`Sums`]: neighbours that belong to one sum are added up before anything is looked up, since files are sorted by labels and stack.

use std::sync::Arc;

use datafusion::arrow::array::{
    BinaryViewArray, Int64Array, RecordBatch, TimestampMicrosecondArray,
};
use rustc_hash::{FxHashMap, FxHashSet};
use unhex_pprof::StackHash;

use super::columns::{
    Counted, IsTotal, LabelColumns, counted, integers, stack_hash, stacks, times,
};
use super::failure::QueryError;
use super::only::{Cursor, OnlyStacks, Standing};
use super::question::TOTAL_LABELS;
use super::sums::{Group, Interned, LabelSet, Sums};
use crate::selector::Selector;
use crate::view::Weight;

/// What is asked of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Asked {
    /// Their sums.
    #[default]
    HowMuch,
    /// Of what there are any: sums are 0, and the columns that they need are not read.
    WhatAlone,
}

/// What is kept apart, and which rows count.
#[derive(Clone, Debug)]
pub(super) struct FoldPlan {
    /// Whose rows; labels that the rows have not are not looked at.
    pub(super) selector: Selector,
    /// Whether service, version and deployment are kept apart.
    pub(super) by_labels: bool,
    /// Whether series are kept apart.
    pub(super) by_series: bool,
    /// Steps of time that are kept apart, in microseconds.
    pub(super) step_micros: Option<i64>,
    /// Whether stacks are kept apart.
    pub(super) by_stack: bool,
    /// What is asked of them.
    pub(super) asked: Asked,
    /// Only rows of these stacks.
    pub(super) stacks: Option<Arc<OnlyStacks>>,
    /// Only rows of these series.
    pub(super) series: Option<Arc<FxHashSet<i64>>>,
}

/// Adds rows up.
#[derive(Debug)]
pub(super) struct Fold {
    plan: Arc<FoldPlan>,
    is_total: IsTotal,
    sums: Sums,
    /// Label sets that were met, and of each whether it is selected.
    labels: Interned<LabelSet>,
    selected: Vec<bool>,
    /// The groups in `sums`.
    groups: FxHashMap<GroupKey, u32>,
    /// Where the last row's stack is among those of the plan.
    cursor: Cursor,
}

/// The label set, series and step of a group.
type GroupKey = (u32, i64, i64);

/// The columns of one batch.
struct Batch<'b> {
    labels: Option<LabelColumns<'b>>,
    series: Option<&'b Int64Array>,
    times: Option<&'b TimestampMicrosecondArray>,
    stacks: Option<&'b BinaryViewArray>,
    counted: Counted<'b>,
}

/// Rows that belong to one sum.
struct Run {
    /// The first of them, by whose labels the next are compared.
    row: usize,
    /// Whether its labels, series and stack are.
    is_selected: bool,
    key: RunKey,
    /// The number of its label set.
    labels: u32,
    group: u32,
}

impl Batch<'_> {
    /// Behind the rows from this one on that are known to belong to one sum: values are compared as the words by which their bytes are found.
    fn end_of_run(&self, row: usize, rows: usize, key: RunKey, step_micros: Option<i64>) -> usize {
        let views = self.stacks.map(BinaryViewArray::views);
        let view = views.and_then(|views| views.get(row));
        let step = step_micros.unwrap_or_default().max(1);
        let is_same = |next: &usize| {
            let next = *next;
            views.is_none_or(|views| views.get(next) == view)
                && self
                    .series
                    .is_none_or(|series| series.value(next) == key.series)
                && self.times.is_none_or(|times| {
                    let after = times.value(next).saturating_sub(key.step);
                    (0..step).contains(&after)
                })
                && self
                    .labels
                    .as_ref()
                    .is_none_or(|labels| labels.are_the_same(row, next))
        };
        let next = (row + 1..rows).find(|next| !is_same(next));
        next.unwrap_or(rows)
    }
}

/// By what neighbours belong to one sum, beside their labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RunKey {
    stack: StackHash,
    series: i64,
    step: i64,
}

impl FoldPlan {
    /// Whether rows have to bring their labels.
    pub(super) fn needs_labels(&self) -> bool {
        self.by_labels || !self.selector.matchers().is_empty()
    }

    /// Whether rows have to bring their series, which totals have not.
    pub(super) fn needs_series(&self) -> bool {
        self.by_series || self.series.is_some()
    }

    /// Whether rows have to bring their stack.
    pub(super) fn needs_stacks(&self) -> bool {
        self.by_stack || self.stacks.is_some()
    }
}

impl Fold {
    pub(super) fn new(plan: Arc<FoldPlan>, is_total: IsTotal) -> Self {
        Self {
            plan,
            is_total,
            sums: Sums::default(),
            labels: Interned::default(),
            selected: Vec::new(),
            groups: FxHashMap::default(),
            cursor: Cursor::default(),
        }
    }

    pub(super) fn sums(&self) -> &Sums {
        &self.sums
    }

    pub(super) fn finish(self) -> Sums {
        self.sums
    }

    /// Adds the rows of a batch.
    pub(super) fn add(&mut self, batch: &RecordBatch) -> Result<(), QueryError> {
        let columns = self.columns(batch)?;
        let mut last: Option<Run> = None;
        let mut row = 0;
        while row < batch.num_rows() {
            let key = self.key(&columns, row);
            let end = columns.end_of_run(row, batch.num_rows(), key, self.plan.step_micros);
            let run = self.run(&columns, row, key, last.as_ref());
            if run.is_selected {
                self.count(&run, columns.counted.of_rows(row..end));
            }
            last = Some(run);
            row = end;
        }
        Ok(())
    }

    fn columns<'b>(&self, batch: &'b RecordBatch) -> Result<Batch<'b>, QueryError> {
        let plan = &self.plan;
        let time = match self.is_total {
            IsTotal::No => "ts",
            IsTotal::Yes => "hour",
        };
        Ok(Batch {
            labels: plan
                .needs_labels()
                .then(|| LabelColumns::of(batch))
                .transpose()?,
            series: plan
                .needs_series()
                .then(|| integers(batch, "series_id"))
                .transpose()?,
            times: plan
                .step_micros
                .is_some()
                .then(|| times(batch, time))
                .transpose()?,
            stacks: plan.needs_stacks().then(|| stacks(batch)).transpose()?,
            counted: match plan.asked {
                Asked::HowMuch => counted(batch, self.is_total)?,
                Asked::WhatAlone => Counted::Nothing,
            },
        })
    }

    fn key(&self, columns: &Batch<'_>, row: usize) -> RunKey {
        let step = self.plan.step_micros.zip(columns.times);
        RunKey {
            stack: columns
                .stacks
                .map_or_else(StackHash::default, |stacks| stack_hash(stacks.value(row))),
            series: columns.series.map_or(0, |series| series.value(row)),
            step: step.map_or(0, |(step, times)| {
                let time = times.value(row);
                time.saturating_sub(time.rem_euclid(step.max(1)))
            }),
        }
    }

    fn run(&mut self, columns: &Batch<'_>, row: usize, key: RunKey, last: Option<&Run>) -> Run {
        let labels = match (&columns.labels, last) {
            // Mostly only the stack is another one.
            (Some(columns), Some(last)) if columns.are_the_same(last.row, row) => last.labels,
            (None, Some(last)) => last.labels,
            (Some(columns), _) => self.label_set(columns.of_row(row)),
            (None, None) => self.label_set(["", "", ""]),
        };
        let series = self.plan.series.as_ref();
        let of_selected = usize::try_from(labels).ok();
        let of_selected = of_selected.and_then(|at| self.selected.get(at).copied());
        let is_selected = of_selected.unwrap_or_default()
            && series.is_none_or(|only| only.contains(&key.series))
            && self.is_wanted(key.stack);
        Run {
            row,
            is_selected,
            key,
            labels,
            group: if is_selected {
                self.group(labels, key)
            } else {
                0
            },
        }
    }

    /// Whether a stack is wanted; notes it if nobody knows that.
    fn is_wanted(&mut self, stack: StackHash) -> bool {
        let Some(only) = &self.plan.stacks else {
            return true;
        };
        let standing = only.standing(stack, &mut self.cursor);
        if standing == Standing::Unknown {
            self.sums.note(stack);
        }
        standing == Standing::Counts
    }

    /// The number of a label set.
    fn label_set(&mut self, labels: [&str; 3]) -> u32 {
        let labels: LabelSet = labels.map(Arc::from);
        let number = self.labels.number(&labels);
        if self.selected.len() < self.labels.items().len() {
            let selector = &self.plan.selector;
            let mut all = TOTAL_LABELS.iter().zip(&labels);
            let is_selected = all.all(|(name, value)| selector.may_match(name, value));
            self.selected.push(!self.plan.needs_labels() || is_selected);
        }
        number
    }

    /// The number of a group in the sums.
    fn group(&mut self, labels: u32, key: RunKey) -> u32 {
        let plan = &self.plan;
        let labels = if plan.by_labels { labels } else { 0 };
        let series = if plan.by_series { key.series } else { 0 };
        let key = (labels, series, key.step);
        if let Some(number) = self.groups.get(&key) {
            return *number;
        }
        let set = self.labels.get(labels).filter(|_labels| plan.by_labels);
        let number = self.sums.group(&Group {
            labels: set.cloned(),
            series: plan.by_series.then_some(series),
            step: plan.step_micros.map(|_step| key.2),
        });
        self.groups.insert(key, number);
        number
    }

    fn count(&mut self, run: &Run, weight: Weight) {
        let stack = if self.plan.by_stack {
            run.key.stack
        } else {
            StackHash::default()
        };
        self.sums.add(run.group, stack, weight);
    }
}
