//! Questions to the table: what was counted where, with the names that the symbol server has when the question comes.
//!
//! A question goes through four steps, and each is small where the one before was large. [`scan`] reads rows and adds them up by stack: whole
//! hours from totals, where these have all that is asked for, the rest from samples. [`dictionary`] says which stacks numbers of writers are, and what the surviving numbers of stacks stand
//! for. [`crate::symbols`] names the distinct places of those. And what comes out is [`Stacks::merged`] for people, [`coverage()`] for those who want to know what
//! names are missing, or lines over time.
//!
//! Sums are exact in 128 bits, whatever was compacted, and in whichever way an hour is read. Whoever lets go of a question's future ends its work.

mod columns;
mod coverage;
mod damage;
mod dictionary;
mod failure;
mod fold;
mod labels;
mod only;
mod question;
mod scan;
mod segments;
mod series;
mod stacks;
mod sums;
mod turns;
mod window;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashSet;
use unhex_pprof::StackHash;

pub use coverage::{Coverage, CoverageBy, CoverageLine, FrameClass, coverage};
pub use failure::QueryError;
pub use labels::Labels;
pub use question::{Question, TOTAL_LABELS};
pub use series::{Line, Lines, LinesBy};
pub use stacks::Stacks;
pub use sums::{Group, Sums};
pub use turns::{TurnError, TurnOptions, Turns};
pub use window::{Window, WindowError};

use crate::engine::Engine;
use crate::files::StackNumber;
use crate::objects::Objects;
use crate::reading::Readings;
use crate::rows::Series;
use crate::symbols::{Names, Symbols};
use crate::view::{Merged, StackFilter};
use dictionary::{Dictionary, Numbered};
use scan::Keep;

/// Answers questions. One for a process: it keeps what does not change.
#[derive(Debug)]
pub struct Queries {
    engine: Engine,
    readings: Arc<Readings>,
    dictionary: Arc<Dictionary>,
    symbols: Arc<Symbols>,
}

/// What questions are answered from.
#[derive(Debug)]
pub struct QueriesParts {
    /// Where the table lies.
    pub objects: Objects,
    /// Reads its rows.
    pub engine: Engine,
    /// What it has.
    pub readings: Arc<Readings>,
    /// Names of native frames.
    pub symbols: Arc<Symbols>,
    /// Memory for stacks and frames.
    pub stack_bytes_max: u64,
}

impl Queries {
    /// Answers questions from these.
    pub fn new(parts: QueriesParts) -> Self {
        Self {
            dictionary: Arc::new(Dictionary::new(parts.objects, parts.stack_bytes_max)),
            engine: parts.engine,
            readings: parts.readings,
            symbols: parts.symbols,
        }
    }

    /// Memory that its questions have now, by their own account.
    pub fn memory_bytes(&self) -> usize {
        self.engine.memory_bytes()
    }

    /// Who has names.
    pub fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// All that was counted, merged by stack, with names: of the stacks that the filter keeps.
    ///
    /// # Errors
    /// If rows or the dictionary cannot be read, do not fit into memory, or have expired.
    pub async fn profile(
        &self,
        question: &Question,
        filter: &StackFilter,
    ) -> Result<Merged, QueryError> {
        let sums = self.sums_by_stack(question).await?;
        let (stacks, names) = self.named(question, sums.stacks()).await?;
        let profile_type = question.profile_type.clone();
        Ok(filter.apply(stacks.merged(profile_type, &sums, &names)))
    }

    /// What was counted by stack, without what stacks are.
    ///
    /// # Errors
    /// If rows cannot be read, do not fit into memory, or have expired.
    pub async fn sums_by_stack(&self, question: &Question) -> Result<Sums, QueryError> {
        let keep = Keep {
            stacks: true,
            only_series: self.selected_series(question).await?,
            ..Keep::default()
        };
        self.sums(question, &keep).await
    }

    /// How much of what was counted has its names, by what is asked, in steps if they are asked for.
    ///
    /// # Errors
    /// If rows or the dictionary cannot be read, do not fit into memory, or have expired.
    pub async fn coverage(
        &self,
        question: &Question,
        by: CoverageBy,
        step_seconds: Option<u32>,
    ) -> Result<Coverage, QueryError> {
        let keep = Keep {
            stacks: true,
            labels: by.labels.contains(&true),
            step_micros: step_seconds.map(|step| i64::from(step.max(1)) * 1_000_000),
            only_series: self.selected_series(question).await?,
            ..Keep::default()
        };
        let sums = self.sums(question, &keep).await?;
        let (stacks, names) = self.named(question, sums.stacks()).await?;
        Ok(coverage(&sums, (&stacks, &names), by))
    }

    /// The sums by stack.
    async fn sums(&self, question: &Question, keep: &Keep) -> Result<Sums, QueryError> {
        let sums = self.sums_of_rows(question, keep).await?;
        let numbered = self.numbered(question, sums.stacks()).await?;
        Ok(sums.by(|stack| numbered.stack(stack)))
    }

    /// The sums by what rows have: stacks, and numbers of writers in their place.
    async fn sums_of_rows(&self, question: &Question, keep: &Keep) -> Result<Sums, QueryError> {
        scan::sums((&self.engine, &self.readings), question, keep).await
    }

    /// Which stacks those are of which rows have numbers.
    async fn numbered(
        &self,
        question: &Question,
        in_rows: impl Iterator<Item = StackHash>,
    ) -> Result<Numbered, QueryError> {
        let numbers: Vec<StackNumber> = in_rows.filter_map(StackNumber::in_place_of).collect();
        if numbers.is_empty() {
            return Ok(Numbered::default());
        }
        let (dictionary, hours) = (Arc::clone(&self.dictionary), question.window.hours());
        let reading = async move { dictionary.numbered(hours, numbers).await };
        Ok(self.engine.run(reading).await??)
    }

    /// What some stacks are, and the names of their frames.
    async fn named(
        &self,
        question: &Question,
        stacks: impl Iterator<Item = StackHash>,
    ) -> Result<(Stacks, Names), QueryError> {
        let services = question.selector.values_of("service");
        let services = services.map(|services| services.into_iter().map(Arc::from).collect());
        let (dictionary, symbols) = (Arc::clone(&self.dictionary), Arc::clone(&self.symbols));
        let (hours, stacks) = (question.window.hours(), stacks.collect());
        let work = async move {
            let stacks = dictionary.stacks(hours, &services, stacks).await?;
            let names = symbols.resolve(&stacks.wanted()).await;
            Ok((stacks, names))
        };
        self.engine.run(work).await?
    }

    /// The series that are selected, of the hours that the window has something of.
    async fn series_of(
        &self,
        question: &Question,
    ) -> Result<BTreeMap<i64, Arc<Series>>, QueryError> {
        let dictionary = Arc::clone(&self.dictionary);
        let hours = question.window.hours();
        let reading = async move { dictionary.series(hours).await };
        let mut series = self.engine.run(reading).await??;
        series.retain(|_, series| {
            let label = |name: &str| series.label(name).unwrap_or_default();
            question.selector.matches(label)
        });
        Ok(series)
    }

    /// The series that count, where labels decide that rows have not.
    async fn selected_series(
        &self,
        question: &Question,
    ) -> Result<Option<Arc<FxHashSet<i64>>>, QueryError> {
        if question.selector.is_about(&TOTAL_LABELS) {
            return Ok(None);
        }
        let series = self.series_of(question).await?;
        Ok(series_ids(question, Some(&series)))
    }
}

/// The numbers of the series that count, where labels decide that rows have not.
fn series_ids(
    question: &Question,
    series: Option<&BTreeMap<i64, Arc<Series>>>,
) -> Option<Arc<FxHashSet<i64>>> {
    let series = series.filter(|_series| !question.selector.is_about(&TOTAL_LABELS))?;
    Some(Arc::new(series.keys().copied().collect()))
}
