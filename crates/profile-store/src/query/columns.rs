//! The columns of a batch of rows by name, and what rows are compared by.

use std::ops::Range;

use datafusion::arrow::array::{
    Array, BinaryViewArray, Int64Array, PrimitiveArray, RecordBatch, StringViewArray,
    TimestampMicrosecondArray,
};
use datafusion::arrow::datatypes::{ArrowPrimitiveType, Int64Type, TimestampMicrosecondType};
use unhex_pprof::StackHash;

use super::failure::QueryError;
use super::question::TOTAL_LABELS;
use crate::files::stack_of_bytes;
use crate::view::Weight;

/// Whose rows, as the table has it: service, version and deployment.
#[derive(Debug)]
pub(super) struct LabelColumns<'b>([&'b StringViewArray; 3]);

/// What was counted.
#[derive(Debug)]
pub(super) enum Counted<'b> {
    /// Samples: so many, and what each stands for.
    Samples(&'b Int64Array, &'b Int64Array),
    /// Totals: so many, and their sum.
    Totals(&'b Int64Array, &'b Int64Array),
    /// Nobody asks.
    Nothing,
}

impl<'b> LabelColumns<'b> {
    pub(super) fn of(batch: &'b RecordBatch) -> Result<Self, QueryError> {
        let [service, version, deployment] = TOTAL_LABELS;
        Ok(Self([
            texts(batch, service)?,
            texts(batch, version)?,
            texts(batch, deployment)?,
        ]))
    }

    pub(super) fn of_row(&self, row: usize) -> [&'b str; 3] {
        self.0.map(|column| column.value(row))
    }

    /// Whether two rows are known to have the same labels: short texts and those that were read once are compared as two words.
    pub(super) fn are_the_same(&self, row: usize, other: usize) -> bool {
        self.0.iter().all(|column| {
            let views = column.views();
            views.get(row) == views.get(other)
        })
    }
}

impl<'b> Counted<'b> {
    /// The sum of some neighbours.
    pub(super) fn of_rows(&self, rows: Range<usize>) -> Weight {
        let of = |column: &'b Int64Array| values(column, rows.clone());
        match self {
            Self::Samples(count, period) => {
                let both = of(count).iter().zip(of(period));
                let value =
                    |(count, period): (&i64, &i64)| i128::from(*count) * i128::from(*period);
                Weight {
                    count: sum(of(count)),
                    value: both.map(value).sum(),
                }
            }
            Self::Totals(count, value) => Weight {
                count: sum(of(count)),
                value: sum(of(value)),
            },
            Self::Nothing => Weight::default(),
        }
    }
}

fn values(column: &Int64Array, rows: Range<usize>) -> &[i64] {
    column.values().get(rows).unwrap_or_default()
}

fn sum(values: &[i64]) -> i128 {
    values.iter().copied().map(i128::from).sum()
}

pub(super) fn counted(batch: &RecordBatch, is_total: IsTotal) -> Result<Counted<'_>, QueryError> {
    let count = integers(batch, "count")?;
    Ok(match is_total {
        IsTotal::No => Counted::Samples(count, integers(batch, "period")?),
        IsTotal::Yes => Counted::Totals(count, integers(batch, "value")?),
    })
}

/// Which of the two tables rows are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IsTotal {
    /// Samples.
    No,
    /// Sums of hours.
    Yes,
}

pub(super) fn stacks(batch: &RecordBatch) -> Result<&BinaryViewArray, QueryError> {
    column(batch, "stack_id")
}

/// A stack, or a writer's number in its place; what is neither is nowhere in a dictionary either.
pub(super) fn stack_hash(bytes: &[u8]) -> StackHash {
    stack_of_bytes(bytes).unwrap_or_default()
}

pub(super) fn integers<'b>(
    batch: &'b RecordBatch,
    name: &'static str,
) -> Result<&'b Int64Array, QueryError> {
    primitive::<Int64Type>(batch, name)
}

pub(super) fn times<'b>(
    batch: &'b RecordBatch,
    name: &'static str,
) -> Result<&'b TimestampMicrosecondArray, QueryError> {
    primitive::<TimestampMicrosecondType>(batch, name)
}

pub(super) fn texts<'b>(
    batch: &'b RecordBatch,
    name: &'static str,
) -> Result<&'b StringViewArray, QueryError> {
    column(batch, name)
}

fn primitive<'b, T: ArrowPrimitiveType>(
    batch: &'b RecordBatch,
    name: &'static str,
) -> Result<&'b PrimitiveArray<T>, QueryError> {
    column(batch, name)
}

fn column<'b, A: Array + 'static>(
    batch: &'b RecordBatch,
    name: &'static str,
) -> Result<&'b A, QueryError> {
    let column = batch.column_by_name(name);
    column
        .and_then(|column| column.as_any().downcast_ref())
        .ok_or(QueryError::Column(name))
}
