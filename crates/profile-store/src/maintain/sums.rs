//! Sums over the rows of files, by which a compaction proves that it lost nothing: of the inputs by a query, of the outputs from their bytes.

use std::fmt;

use arrow::array::{Array as _, Decimal128Array, Int64Array, RecordBatch};
use arrow::datatypes::DataType;
use bytes::Bytes;
use datafusion::functions_aggregate::expr_fn::sum;
use datafusion::logical_expr::{Expr, cast, ident};
use datafusion::prelude::DataFrame;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::engine::EngineError;
use crate::files::{FileError, Table};

/// Digits of a sum: an hour of rows of 64 bits needs 30.
const DIGITS: u8 = 38;

/// What rows add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableSums {
    /// Samples.
    pub count: i128,
    /// Their values, of all types together.
    pub value: i128,
}

impl TableSums {
    /// Whether no sum of some of the rows can be beyond 64 bits.
    pub(super) fn fits(self) -> bool {
        i64::try_from(self.count).is_ok() && i64::try_from(self.value).is_ok()
    }

    pub(super) fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.value = self.value.saturating_add(other.value);
    }
}

impl fmt::Display for TableSums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} samples of value {}", self.count, self.value)
    }
}

/// The sums of a frame of samples or of totals.
pub(super) async fn of_frame(frame: DataFrame, table: Table) -> Result<TableSums, EngineError> {
    let wide = |column: Expr| sum(cast(column, DataType::Decimal128(DIGITS, 0)));
    let value = match table {
        Table::Totals => ident("value"),
        _ => ident("count") * ident("period"),
    };
    let sums = vec![
        wide(ident("count")).alias("count"),
        wide(value).alias("value"),
    ];
    let batches = frame.aggregate(Vec::new(), sums)?.collect().await?;
    let mut total = TableSums::default();
    for batch in batches {
        total.add(TableSums {
            count: first(&batch, "count"),
            value: first(&batch, "value"),
        });
    }
    Ok(total)
}

/// A sum, which no rows leave null.
fn first(batch: &RecordBatch, column: &str) -> i128 {
    let column = batch.column_by_name(column);
    let numbers = column.and_then(|column| column.as_any().downcast_ref::<Decimal128Array>());
    let known = numbers.filter(|numbers| !numbers.is_empty() && numbers.is_valid(0));
    known.map_or(0, |numbers| numbers.value(0))
}

/// The sums of a file, read back from its bytes.
pub(super) fn of_file(bytes: &Bytes, table: Table) -> Result<TableSums, FileError> {
    let columns = match table {
        Table::Totals => ["count", "value"],
        _ => ["count", "period"],
    };
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes.clone())?;
    let mask = ProjectionMask::columns(builder.parquet_schema(), columns);
    let mut sums = TableSums::default();
    for batch in builder.with_projection(mask).build()? {
        let batch = batch?;
        let [counts, others] = columns.map(|column| numbers(&batch, column, table));
        let (counts, others) = (counts?, others?);
        for (&count, &other) in counts.values().iter().zip(others.values()) {
            let (count, other) = (i128::from(count), i128::from(other));
            let value = if table == Table::Totals {
                other
            } else {
                count * other
            };
            sums.add(TableSums { count, value });
        }
    }
    Ok(sums)
}

fn numbers<'b>(
    batch: &'b RecordBatch,
    column: &str,
    table: Table,
) -> Result<&'b Int64Array, FileError> {
    let found = batch.column_by_name(column);
    let found = found.and_then(|column| column.as_any().downcast_ref());
    found.ok_or_else(|| FileError::NoColumn {
        table: table.as_str(),
        column: column.to_owned(),
    })
}
