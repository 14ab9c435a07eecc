//! What a compaction does to rows: times down to the minute, equal rows added up, sorted.
//!
//! Where no sum can be beyond 64 bits, which is nearly always, equal rows are added up by hashing, before they are sorted. Else they are sorted, and added up
//! one after another with an eye on each sum ([`super::adding`]).

use arrow::datatypes::DataType;
use datafusion::functions_aggregate::expr_fn::sum;
use datafusion::logical_expr::{Expr, cast, ident, lit};
use datafusion::prelude::DataFrame;

use super::sums::TableSums;
use crate::engine::EngineError;
use crate::files::Table;

/// Rows of one minute are one.
const MINUTE_MICROS: i64 = 60_000_000;

/// A frame of samples or of totals as a compaction writes it, and whether equal rows are added up already.
#[derive(Debug)]
pub(super) struct Merged {
    pub(super) frame: DataFrame,
    pub(super) is_added_up: bool,
}

/// Rows as a compaction writes them.
pub(super) fn merged(
    frame: DataFrame,
    table: Table,
    sums: TableSums,
) -> Result<Merged, EngineError> {
    let frame = match table {
        Table::Totals => frame,
        _ => by_minute(frame)?,
    };
    let keys: Vec<Expr> = table.sorted_by().iter().map(|key| ident(*key)).collect();
    let addends = addends(table).iter();
    let is_added_up = sums.fits();
    let frame = if is_added_up {
        let sums = addends.map(|column| sum(ident(*column)).alias(*column));
        frame.aggregate(keys.clone(), sums.collect())?
    } else {
        let columns = keys.iter().cloned();
        frame.select(
            columns
                .chain(addends.map(|column| ident(*column)))
                .collect::<Vec<_>>(),
        )?
    };
    let order = keys.into_iter().map(|key| key.sort(true, false)).collect();
    Ok(Merged {
        frame: frame.sort(order)?,
        is_added_up,
    })
}

/// The columns that are added up; the others are what rows are equal by.
pub(super) fn addends(table: Table) -> &'static [&'static str] {
    match table {
        Table::Totals => &["count", "value"],
        _ => &["count"],
    }
}

fn by_minute(frame: DataFrame) -> Result<DataFrame, EngineError> {
    let time = frame.schema().field_with_unqualified_name("ts")?;
    let kind = time.data_type().clone();
    let micros = cast(ident("ts"), DataType::Int64);
    // Tables begin in 1970, so that the rest is never negative.
    let minute = micros.clone() - micros % lit(MINUTE_MICROS);
    Ok(frame.with_column("ts", cast(minute, kind))?)
}
