//! Which stack each number of a writer is.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, RecordBatch};
use unhex_pprof::StackHash;

use super::BATCH_ROWS;
use super::columns::Columns;
use crate::files::schema::Table;
use crate::files::{FileError, Packing, StackNumber, TableWriter, WrittenTable};

/// A number, and what it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NumberRow {
    /// The number.
    pub number: StackNumber,
    /// The stack.
    pub stack: StackHash,
}

/// A file of numbers, each once.
///
/// # Errors
/// If the encoder fails.
pub fn numbers_to_parquet(
    mut numbers: Vec<NumberRow>,
    packing: Packing,
) -> Result<WrittenTable, FileError> {
    numbers.sort_unstable();
    numbers.dedup();
    let mut writer = TableWriter::new(Table::Numbers, packing)?;
    for some in numbers.chunks(BATCH_ROWS) {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(BinaryArray::from_iter_values(
                some.iter().map(|row| row.number.to_bytes()),
            )),
            Arc::new(BinaryArray::from_iter_values(
                some.iter().map(|row| row.stack.0),
            )),
        ];
        writer.write(&RecordBatch::try_new(Table::Numbers.schema(), columns)?)?;
    }
    writer.finish()
}

/// The numbers of a batch.
pub(super) fn read(key: &str, batch: &RecordBatch) -> Result<Vec<NumberRow>, FileError> {
    let columns = Columns::of(key, batch);
    let numbers = columns.numbers("number")?;
    let stacks = columns.numbers("stack_id")?;
    let rows = (0..columns.rows()).map(|row| {
        Ok(NumberRow {
            number: StackNumber::of_bytes(columns.number(numbers, row)?),
            stack: StackHash(columns.number(stacks, row)?),
        })
    });
    rows.collect()
}
