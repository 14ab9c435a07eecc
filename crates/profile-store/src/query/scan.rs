//! Reads the rows of a question and adds them up: whole hours from totals where these have all that is asked for, the rest from samples.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::dataframe::DataFrame;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::logical_expr::{Expr, ident, lit};
use futures_util::StreamExt as _;
use jiff::Timestamp;
use rustc_hash::FxHashSet;
use tokio::task::JoinSet;

use super::columns::IsTotal;
use super::failure::QueryError;
use super::fold::{Asked, Fold, FoldPlan};
use super::only::OnlyStacks;
use super::question::{Question, TOTAL_LABELS};
use super::sums::Sums;
use super::window::Window;
use crate::engine::{Engine, EngineError};
use crate::reading::{Reading, Readings};

const HOUR_MICROS: i64 = 3_600_000_000;
/// How often a reading is made anew whose files were swept meanwhile.
const READINGS_MAX: usize = 3;

/// What a scan keeps apart, and which rows it takes beside those of the question.
#[derive(Clone, Debug, Default)]
pub(super) struct Keep {
    /// Service, version and deployment.
    pub(super) labels: bool,
    /// Series.
    pub(super) series: bool,
    /// Steps of time, in microseconds.
    pub(super) step_micros: Option<i64>,
    /// Stacks.
    pub(super) stacks: bool,
    /// What is asked of rows.
    pub(super) asked: Asked,
    /// Only these stacks.
    pub(super) only_stacks: Option<Arc<OnlyStacks>>,
    /// Only these series.
    pub(super) only_series: Option<Arc<FxHashSet<i64>>>,
}

impl Keep {
    fn plan(&self, question: &Question) -> FoldPlan {
        FoldPlan {
            // The others leave rows out before they are added up.
            selector: question.selector.beyond_values(&TOTAL_LABELS),
            by_labels: self.labels,
            by_series: self.series,
            step_micros: self.step_micros,
            by_stack: self.stacks,
            asked: self.asked,
            stacks: self.only_stacks.clone(),
            series: self.only_series.clone(),
        }
    }

    /// Whether the totals of an hour have all that is kept apart.
    fn is_in_totals(&self) -> bool {
        let step = self.step_micros.unwrap_or(HOUR_MICROS);
        !self.series && self.only_series.is_none() && step % HOUR_MICROS == 0
    }
}

/// The sums over all rows of a question.
///
/// # Errors
/// If rows cannot be read, do not fit into memory, or have expired.
pub(super) async fn sums(
    (engine, readings): (&Engine, &Readings),
    question: &Question,
    keep: &Keep,
) -> Result<Sums, QueryError> {
    let mut tries = 0;
    loop {
        tries += 1;
        let reading = readings.read(question.window.hours()).await?;
        match sums_of(engine, reading, (question, keep)).await {
            Err(QueryError::Engine(EngineError::Gone(key))) if tries < READINGS_MAX => {
                tracing::info!(
                    key,
                    "a file was swept while it was read; the table is listed again"
                );
            }
            outcome => return outcome,
        }
    }
}

async fn sums_of(
    engine: &Engine,
    reading: Reading,
    (question, keep): (&Question, &Keep),
) -> Result<Sums, QueryError> {
    let is_in_totals = keep.is_in_totals();
    let window = question.window;
    let (totals, samples) = reading.split(|hour| is_in_totals && window.has_all_of(hour.hour));
    let mut expired = samples.hours().iter();
    if let Some(hour) = expired.find(|hour| hour.is_without_samples && !hour.totals.is_empty()) {
        return Err(QueryError::Expired { hour: hour.hour });
    }
    let plan = Arc::new(keep.plan(question));
    let mut sums = Sums::default();
    for (reading, is_total) in [(totals, IsTotal::Yes), (samples, IsTotal::No)] {
        if reading.hours().is_empty() {
            continue;
        }
        let mut rows = match is_total {
            IsTotal::Yes => engine.totals(&reading)?,
            IsTotal::No => engine.samples(&reading)?,
        };
        let mut hours = reading.hours().iter();
        if hours.any(|hour| !window.has_all_of(hour.hour)) {
            rows = within(rows, window)?;
        }
        let rows = selected(rows, (question, is_total), &plan)?;
        sums.merge(added_up(engine, rows, (Arc::clone(&plan), is_total)).await?);
    }
    Ok(sums)
}

/// The samples of a window that cuts through hours.
fn within(samples: DataFrame, window: Window) -> Result<DataFrame, EngineError> {
    let (from, to) = (moment(window.from()), moment(window.to()));
    let within = ident("ts").gt_eq(from).and(ident("ts").lt(to));
    Ok(samples.filter(within)?)
}

/// The rows of the question, as far as files and row groups can be left out by it, with the columns that are needed.
fn selected(
    rows: DataFrame,
    (question, is_total): (&Question, IsTotal),
    plan: &FoldPlan,
) -> Result<DataFrame, EngineError> {
    let mut rows = rows.filter(ident("type").eq(text(question.profile_type.as_str())))?;
    for name in TOTAL_LABELS {
        if let Some(values) = question.selector.values_of(name) {
            rows = rows.filter(one_of(name, &values))?;
        }
    }
    let (counted, time) = match is_total {
        IsTotal::Yes => (["count", "value"], "hour"),
        IsTotal::No => (["count", "period"], "ts"),
    };
    let mut columns = Vec::new();
    if plan.asked == Asked::HowMuch {
        columns.extend(counted);
    }
    if plan.needs_labels() {
        columns.extend(TOTAL_LABELS);
    }
    if plan.needs_stacks() {
        columns.push("stack_id");
    }
    if plan.needs_series() {
        columns.push("series_id");
    }
    if plan.step_micros.is_some() {
        columns.push(time);
    }
    Ok(rows.select(columns.into_iter().map(ident).collect::<Vec<_>>())?)
}

pub(super) fn one_of(name: &str, values: &BTreeSet<&str>) -> Expr {
    match values.first() {
        Some(value) if values.len() == 1 => ident(name).eq(text(value)),
        _ => {
            let values = values.iter().map(|value| text(value)).collect();
            ident(name).in_list(values, false)
        }
    }
}

/// A text of the type that its column is read as.
fn text(value: &str) -> Expr {
    lit(ScalarValue::Utf8View(Some(value.to_owned())))
}

fn moment(time: Timestamp) -> Expr {
    let micros = time.as_microsecond();
    lit(ScalarValue::TimestampMicrosecond(
        Some(micros),
        Some("UTC".into()),
    ))
}

/// Each part of the rows on its own, as many at once as the engine has threads. Whoever lets go of the future ends all of them.
async fn added_up(
    engine: &Engine,
    rows: DataFrame,
    (plan, is_total): (Arc<FoldPlan>, IsTotal),
) -> Result<Sums, QueryError> {
    let pool = Arc::clone(&engine.context().runtime_env().memory_pool);
    let work = async move {
        let parts = rows.execute_stream_partitioned().await;
        let mut tasks = JoinSet::new();
        for part in parts.map_err(EngineError::from)? {
            let fold = Fold::new(Arc::clone(&plan), is_total);
            let memory = MemoryConsumer::new("sums of a query").register(&pool);
            tasks.spawn(part_added_up(part, fold, memory));
        }
        let mut sums = Sums::default();
        let mut held = Vec::new();
        while let Some(part) = tasks.join_next().await {
            let (part, memory) = part.map_err(|_panicked| EngineError::Panicked)??;
            held.push(memory);
            sums.merge(part);
        }
        Ok(sums)
    };
    engine.run(work).await?
}

async fn part_added_up(
    mut rows: SendableRecordBatchStream,
    mut fold: Fold,
    memory: MemoryReservation,
) -> Result<(Sums, MemoryReservation), QueryError> {
    while let Some(batch) = rows.next().await {
        fold.add(&batch.map_err(EngineError::from)?)?;
        let bytes = fold.sums().bytes();
        memory.try_resize(bytes).map_err(EngineError::from)?;
    }
    Ok((fold.finish(), memory))
}
