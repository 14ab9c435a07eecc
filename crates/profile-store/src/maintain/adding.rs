//! Adds up rows that are equal in all keys and stand next to each other, where a sum may be beyond 64 bits: then it stays two rows.

use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take};
use arrow::row::{RowConverter, Rows, SortField};

use super::rows::addends;
use crate::files::{FileError, Table};

/// Takes sorted batches, and gives batches in which no two rows could be one.
#[derive(Debug)]
pub(super) struct Adding {
    table: Table,
    converter: Option<RowConverter>,
    /// The last row so far, which the next batch may go on with.
    last: Option<RecordBatch>,
}

impl Adding {
    pub(super) fn new(table: Table) -> Self {
        Self {
            table,
            converter: None,
            last: None,
        }
    }

    /// The rows of the batch and the one that was kept back, added up, without the last.
    pub(super) fn push(&mut self, batch: &RecordBatch) -> Result<Option<RecordBatch>, FileError> {
        let batch = match self.last.take() {
            None => batch.clone(),
            Some(last) => concat_batches(batch.schema_ref(), [&last, batch])?,
        };
        if batch.num_rows() == 0 {
            return Ok(None);
        }
        let keys = self.keys(&batch)?;
        let added = add(&batch, &keys, self.table)?;
        let rows = added.num_rows().saturating_sub(1);
        self.last = Some(added.slice(rows, added.num_rows() - rows));
        Ok((rows > 0).then(|| added.slice(0, rows)))
    }

    /// The row that was kept back.
    pub(super) fn finish(self) -> Option<RecordBatch> {
        self.last
    }

    fn keys(&mut self, batch: &RecordBatch) -> Result<Rows, FileError> {
        let columns = self.table.sorted_by().iter();
        let columns = columns.map(|key| column(batch, key, self.table).cloned());
        let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>()?;
        let converter = match &mut self.converter {
            Some(converter) => converter,
            converter => {
                let fields = columns
                    .iter()
                    .map(|c| SortField::new(c.data_type().clone()));
                converter.insert(RowConverter::new(fields.collect())?)
            }
        };
        Ok(converter.convert_columns(&columns)?)
    }
}

fn column<'b>(batch: &'b RecordBatch, name: &str, table: Table) -> Result<&'b ArrayRef, FileError> {
    let found = batch.column_by_name(name);
    found.ok_or_else(|| FileError::NoColumn {
        table: table.as_str(),
        column: name.to_owned(),
    })
}

fn numbers(batch: &RecordBatch, name: &str, table: Table) -> Result<Int64Array, FileError> {
    let found = column(batch, name, table)?;
    let found = found.as_any().downcast_ref::<Int64Array>();
    found.cloned().ok_or_else(|| FileError::NoColumn {
        table: table.as_str(),
        column: name.to_owned(),
    })
}

/// Neighbours that are equal as one row, as far as their sums have room.
fn add(batch: &RecordBatch, keys: &Rows, table: Table) -> Result<RecordBatch, FileError> {
    let names = addends(table);
    let columns = names.iter().map(|name| numbers(batch, name, table));
    let columns: Vec<Int64Array> = columns.collect::<Result<_, _>>()?;
    let factors = match table {
        Table::Totals => None,
        _ => Some(numbers(batch, "period", table)?),
    };
    let mut kept: Vec<u32> = Vec::new();
    let mut sums: Vec<Vec<i64>> = vec![Vec::new(); columns.len()];
    let values = |at: usize| columns.iter().map(move |column| column.value(at));
    let mut previous = None;
    for (at, key) in keys.iter().enumerate() {
        let factor = factors.as_ref().map_or(1, |factors| factors.value(at));
        let is_equal = previous == Some(key);
        previous = Some(key);
        let last = sums.iter().map(|column| column.last().copied());
        let sum = last.zip(values(at)).map(|(last, value)| {
            let sum = last?.checked_add(value)?;
            sum.checked_mul(factor).map(|_| sum)
        });
        match sum.collect::<Option<Vec<i64>>>() {
            Some(sum) if is_equal => {
                for (column, sum) in sums.iter_mut().zip(sum) {
                    if let Some(last) = column.last_mut() {
                        *last = sum;
                    }
                }
            }
            _ => {
                kept.push(u32::try_from(at).unwrap_or(u32::MAX));
                for (column, value) in sums.iter_mut().zip(values(at)) {
                    column.push(value);
                }
            }
        }
    }
    let kept = UInt32Array::from(kept);
    let columns = batch.schema_ref().fields().iter().zip(batch.columns());
    let columns = columns.map(|(field, column)| {
        let added = names.iter().position(|name| name == field.name());
        match added.and_then(|at| sums.get(at)) {
            Some(sums) => Ok(Arc::new(Int64Array::from(sums.clone())) as ArrayRef),
            None => take(column, &kept, None),
        }
    });
    let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>()?;
    Ok(RecordBatch::try_new(
        Arc::clone(batch.schema_ref()),
        columns,
    )?)
}

#[cfg(test)]
mod tests {
    use arrow::array::BinaryArray;
    use arrow::array::StringArray;

    use super::*;

    fn batch(rows: &[(&str, i64, i64)]) -> RecordBatch {
        let text =
            |value: &'static str| Arc::new(StringArray::from(vec![value; rows.len()])) as ArrayRef;
        let services = rows.iter().map(|row| row.0);
        let numbers = |of: fn(&(&str, i64, i64)) -> i64| {
            Arc::new(Int64Array::from_iter_values(rows.iter().map(of))) as ArrayRef
        };
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from_iter_values(services)),
            text("1"),
            text("prod"),
            text("cpu"),
            Arc::new(BinaryArray::from_iter_values(rows.iter().map(|_| [7; 16]))),
            numbers(|row| row.1),
            numbers(|row| row.2),
        ];
        RecordBatch::try_new(Table::Totals.schema(), columns).unwrap()
    }

    fn added(batches: &[RecordBatch]) -> Vec<(String, i64, i64)> {
        let mut adding = Adding::new(Table::Totals);
        let mut out = Vec::new();
        for batch in batches {
            out.extend(adding.push(batch).unwrap());
        }
        out.extend(adding.finish());
        let rows = out.iter().flat_map(|batch| {
            let services = batch
                .column(0)
                .as_any()
                .downcast_ref::<StringArray>()
                .unwrap();
            let [counts, values] =
                ["count", "value"].map(|name| numbers(batch, name, Table::Totals).unwrap());
            (0..batch.num_rows())
                .map(|at| {
                    (
                        services.value(at).to_owned(),
                        counts.value(at),
                        values.value(at),
                    )
                })
                .collect::<Vec<_>>()
        });
        rows.collect()
    }

    #[test]
    fn equal_neighbours_become_one_row_across_batches() {
        let batches = [
            batch(&[("a", 1, 10), ("a", 2, 20)]),
            batch(&[("a", 3, 30), ("b", 4, 40)]),
            batch(&[("b", 5, 50)]),
            batch(&[]),
        ];
        let expected = [("a".to_owned(), 6, 60), ("b".to_owned(), 9, 90)];
        assert_eq!(added(&batches), expected);
    }

    #[test]
    fn a_sum_beyond_64_bits_stays_two_rows() {
        let batches = [batch(&[("a", 1, i64::MAX), ("a", 2, 5), ("a", 1, 1)])];
        let expected = [("a".to_owned(), 1, i64::MAX), ("a".to_owned(), 3, 6)];
        assert_eq!(added(&batches), expected);
    }
}
