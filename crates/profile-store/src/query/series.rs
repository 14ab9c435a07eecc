//! How much was counted over time, by labels.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use unhex_pprof::StackHash;

use super::failure::QueryError;
use super::fold::Asked;
use super::only::{OnlyStacks, Others};
use super::question::{Question, TOTAL_LABELS};
use super::scan::Keep;
use super::sums::{Group, Sums};
use super::{Queries, series_ids};
use crate::rows::Series;
use crate::view::{NamesLacking, StackFilter};

/// What a free label reads whose label set is in no dictionary, which only damage explains.
const NOT_FOUND: &str = "[label set not found]";

/// By what lines are made, and how far apart their points are.
#[derive(Clone, Debug, Default)]
pub struct LinesBy {
    /// Labels.
    pub labels: Vec<String>,
    /// Seconds from one point to the next.
    pub step_seconds: u32,
}

/// Lines over time.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    /// The largest first.
    pub lines: Vec<Line>,
    /// Why names are not complete, if they were needed and are not.
    pub names_lacking: Option<NamesLacking>,
}

/// One line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The values of its labels, in the order that they were asked for; one that series lack is empty.
    pub labels: Vec<Arc<str>>,
    /// Start of the step in seconds since 1970, and the value in it.
    pub points: BTreeMap<i64, i128>,
}

impl Line {
    /// The sum of its points.
    pub fn total(&self) -> i128 {
        self.points.values().sum()
    }
}

impl Queries {
    /// What was counted over time, of stacks that the filter keeps.
    ///
    /// # Errors
    /// If rows or the dictionary cannot be read, do not fit into memory, or have expired.
    pub async fn series(
        &self,
        question: &Question,
        filter: &StackFilter,
        by: &LinesBy,
    ) -> Result<Lines, QueryError> {
        let is_of_series = |label: &String| !TOTAL_LABELS.contains(&label.as_str());
        let needs_series = by.labels.iter().any(is_of_series);
        let mut series = if needs_series || !question.selector.is_about(&TOTAL_LABELS) {
            Some(self.series_of(question).await?)
        } else {
            None
        };
        let mut keep = Keep {
            only_series: series_ids(question, series.as_ref()),
            ..Keep::default()
        };
        keep.labels = by.labels.iter().any(|label| !is_of_series(label));
        keep.series = needs_series;
        keep.step_micros = Some(i64::from(by.step_seconds.max(1)) * 1_000_000);
        let (sums, names_lacking) = if filter.is_empty() {
            (self.sums_of_rows(question, &keep).await?, None)
        } else {
            self.sums_of_kept(question, filter, keep).await?
        };
        if needs_series && lacks_any(&sums, series.as_ref()) {
            // They came after the listings.
            self.dictionary.look_again();
            series = Some(self.series_of(question).await?);
        }
        let mut lines: FxHashMap<Vec<Arc<str>>, BTreeMap<i64, i128>> = FxHashMap::default();
        for (group, _, weight) in sums.iter() {
            let labels = by.labels.iter();
            let labels = labels.map(|name| label_of(group, series.as_ref(), name));
            let points = lines.entry(labels.collect()).or_default();
            let second = group.step.unwrap_or_default().div_euclid(1_000_000);
            let point = points.entry(second).or_default();
            *point = point.saturating_add(weight.value);
        }
        let lines = lines.into_iter();
        let mut lines: Vec<Line> = lines
            .map(|(labels, points)| Line { labels, points })
            .collect();
        lines.sort_by(|a, b| {
            let totals = b.total().cmp(&a.total());
            totals.then_with(|| a.labels.cmp(&b.labels))
        });
        Ok(Lines {
            lines,
            names_lacking,
        })
    }
}

impl Queries {
    /// The sums of the stacks that the filter keeps.
    ///
    /// Which stacks there are is asked of the newest hour alone, and what they are: with few exceptions they are those of all hours. So all rows are read once, and
    /// only where stacks were met that the newest hour has not, and the filter keeps some of these, once more.
    async fn sums_of_kept(
        &self,
        question: &Question,
        filter: &StackFilter,
        mut keep: Keep,
    ) -> Result<(Sums, Option<NamesLacking>), QueryError> {
        let newest = Question {
            window: question.window.newest(),
            ..question.clone()
        };
        let what_alone = Keep {
            stacks: true,
            asked: Asked::WhatAlone,
            only_series: keep.only_series.clone(),
            ..Keep::default()
        };
        let known = self.sums_of_rows(&newest, &what_alone).await?;
        let known: FxHashSet<StackHash> = known.stacks().collect();
        let in_rows = self.in_rows(question, &known).await?;
        let (stacks, names) = self.named(question, in_rows.stacks()).await?;
        let mut lacking = names.lacking().cloned();
        let kept = stacks.kept(&names, filter);
        // Compacted rows have the stacks of which others have numbers.
        let known = known.into_iter().chain(in_rows.stacks());
        let counting = [&kept[..], &in_rows.of_stacks(&kept)].concat();
        let only = OnlyStacks::new(known, &counting, Others::Noted);
        keep.only_stacks = Some(Arc::new(only));
        let mut sums = self.sums_of_rows(question, &keep).await?;
        let others = sums.take_noted();
        if others.is_empty() {
            return Ok((sums, lacking));
        }
        let in_rows = self.in_rows(question, &others).await?;
        let (stacks, names) = self.named(question, in_rows.stacks()).await?;
        lacking = match (lacking, names.lacking()) {
            (Some(known), Some(others)) => Some(NamesLacking {
                frames: known.frames.saturating_add(others.frames),
                ..known
            }),
            (lacking, others) => lacking.or_else(|| others.cloned()),
        };
        let kept = in_rows.of_stacks(&stacks.kept(&names, filter));
        if !kept.is_empty() {
            let only = OnlyStacks::new([], &kept, Others::LeftOut);
            keep.only_stacks = Some(Arc::new(only));
            sums.merge(self.sums_of_rows(question, &keep).await?);
        }
        Ok((sums, lacking))
    }

    async fn in_rows(
        &self,
        question: &Question,
        met: &FxHashSet<StackHash>,
    ) -> Result<InRows, QueryError> {
        let numbered = self.numbered(question, met.iter().copied()).await?;
        let met = met.iter();
        Ok(InRows(
            met.map(|met| (*met, numbered.stack(*met))).collect(),
        ))
    }
}

/// What rows have, a stack or a writer's number, and which stack that is.
#[derive(Debug)]
struct InRows(Vec<(StackHash, StackHash)>);

impl InRows {
    /// The stacks, each once.
    fn stacks(&self) -> impl Iterator<Item = StackHash> + use<> {
        let stacks: FxHashSet<StackHash> = self.0.iter().map(|(_, stack)| *stack).collect();
        stacks.into_iter()
    }

    /// What rows have that are of some stacks, which are in order.
    fn of_stacks(&self, stacks: &[StackHash]) -> Vec<StackHash> {
        let all = self.0.iter();
        let of = all.filter(|(_, stack)| stacks.binary_search(stack).is_ok());
        of.map(|(in_row, _)| *in_row).collect()
    }
}

/// Whether there are rows of label sets that were not read.
fn lacks_any(sums: &Sums, series: Option<&BTreeMap<i64, Arc<Series>>>) -> bool {
    let is_there = |id: i64| series.is_some_and(|series| series.contains_key(&id));
    let mut groups = sums.iter().filter_map(|(group, ..)| group.series);
    groups.any(|id| !is_there(id))
}

/// The value that the rows of a group have of a label.
fn label_of(group: &Group, series: Option<&BTreeMap<i64, Arc<Series>>>, name: &str) -> Arc<str> {
    if let Some(place) = TOTAL_LABELS.iter().position(|label| *label == name) {
        let labels = group.labels.as_ref().and_then(|labels| labels.get(place));
        return labels.map_or_else(|| "".into(), Arc::clone);
    }
    match group.series.and_then(|id| series?.get(&id)) {
        Some(series) => series.label(name).unwrap_or_default().into(),
        None => NOT_FOUND.into(),
    }
}
