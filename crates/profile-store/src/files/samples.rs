//! The rows of messages as a file of samples: what an append writes, some millions of rows a second.

use std::sync::Arc;

use super::FileError;
use super::order::{Group, SortedRow, sorted};
use super::packing::Packing;
use super::requests::{RequestHash, footer};
use super::schema::Table;
use super::stack_number::stack_bytes;
use super::writer::{TableWriter, WrittenTable};
use crate::rows::SampleRow;
use arrow::array::{
    ArrayRef, BinaryDictionaryBuilder, DictionaryArray, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray, UInt32Array,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt32Type};
use unhex_pprof::StackHash;

/// Rows that are turned into columns at once, so that memory does not grow with the file.
const BATCH_ROWS: usize = 1 << 16;

const MICROS_PER_SECOND: i64 = 1_000_000;

/// A file with the rows, sorted, those that differ in their count alone as one, and with the requests that they came in written into its footer.
///
/// Counts and values add up to the same sums; a sum beyond 64 bits stays two rows. Costs a sort of the rows by numbers, and memory of some 64 bytes a row beside the file.
///
/// # Errors
/// If the encoder fails.
pub fn samples_to_parquet(
    rows: &[SampleRow],
    requests: &[RequestHash],
    packing: Packing,
) -> Result<WrittenTable, FileError> {
    let sorted = sorted(rows);
    let schema = in_memory();
    let footer = Some(footer(requests));
    let mut writer = TableWriter::of_schema(Table::Samples, Arc::clone(&schema), packing, footer)?;
    let labels = Labels::of(&sorted.groups);
    for chunk in sorted.rows.chunks(BATCH_ROWS) {
        let columns = columns(rows, chunk, &labels)?;
        writer.write(&RecordBatch::try_new(Arc::clone(&schema), columns)?)?;
    }
    writer.finish()
}

/// The columns as they are handed to the encoder: texts and stacks by number. The file is the same as of plain ones.
fn in_memory() -> SchemaRef {
    let schema = Table::Samples.schema();
    let fields = schema.fields().iter().map(|field| {
        let by_number = |value: DataType| {
            let value = DataType::Dictionary(Box::new(DataType::UInt32), Box::new(value));
            Field::new(field.name(), value, false)
        };
        match field.data_type() {
            text @ (DataType::Utf8 | DataType::Binary) => by_number(text.clone()),
            _ => field.as_ref().clone(),
        }
    });
    Arc::new(Schema::new(fields.collect::<Vec<Field>>()))
}

/// The four labels of each group, in the order of groups.
struct Labels([ArrayRef; 4]);

impl Labels {
    fn of(groups: &[Group<'_>]) -> Self {
        let column = |of: fn(&Group<'_>) -> String| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(groups.iter().map(of)))
        };
        Self([
            column(|group| group.service.to_owned()),
            column(|group| group.version.to_owned()),
            column(|group| group.deployment.to_owned()),
            column(|group| group.profile_type.to_owned()),
        ])
    }
}

fn columns(
    rows: &[SampleRow],
    sorted: &[SortedRow],
    labels: &Labels,
) -> Result<Vec<ArrayRef>, FileError> {
    let groups = UInt32Array::from_iter_values(sorted.iter().map(|row| row.group));
    let mut columns: Vec<ArrayRef> = Vec::new();
    for values in &labels.0 {
        let column = DictionaryArray::try_new(groups.clone(), Arc::clone(values))?;
        columns.push(Arc::new(column));
    }
    let row = |of: &SortedRow| usize::try_from(of.row).ok().and_then(|at| rows.get(at));
    // Each number is that of a row.
    let in_order = || sorted.iter().filter_map(row);
    columns.push(stacks(in_order())?);
    let numbers = |of: fn(&SampleRow) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(in_order().map(of)))
    };
    let times = in_order().map(|row| row.time_unix_seconds.saturating_mul(MICROS_PER_SECOND));
    let times = TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC");
    columns.push(Arc::new(times));
    columns.push(numbers(|row| row.series.id().0));
    let counts = sorted.iter().map(|row| row.count);
    columns.push(Arc::new(Int64Array::from_iter_values(counts)));
    columns.push(numbers(|row| row.period));
    Ok(columns)
}

/// Equal stacks stand together, so that each is looked up once.
fn stacks<'r>(rows: impl Iterator<Item = &'r SampleRow>) -> Result<ArrayRef, FileError> {
    let mut builder = BinaryDictionaryBuilder::<UInt32Type>::new();
    let mut run: Option<(&StackHash, usize)> = None;
    for row in rows {
        match &mut run {
            Some((stack, length)) if **stack == row.stack => *length += 1,
            _ => {
                if let Some((stack, length)) = run.replace((&row.stack, 1)) {
                    builder.append_n(stack_bytes(stack), length)?;
                }
            }
        }
    }
    if let Some((stack, length)) = run {
        builder.append_n(stack_bytes(stack), length)?;
    }
    Ok(Arc::new(builder.finish()))
}
