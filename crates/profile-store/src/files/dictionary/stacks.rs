//! Stacks as rows: the numbers of their frames, leaf first, once for each service that has them.

use std::sync::Arc;

use arrow::array::{
    Array as _, ArrayRef, AsArray as _, BinaryArray, ListArray, RecordBatch, StringArray,
};
use arrow::buffer::OffsetBuffer;
use unhex_pprof::{FrameHash, StackHash};

use super::BATCH_ROWS;
use super::columns::Columns;
use crate::files::schema::{Table, frame_element};
use crate::files::{FileError, Packing, TableWriter, WrittenTable};

/// A stack of a service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StackRow {
    /// Whose rows refer to it.
    pub service: Arc<str>,
    /// Its number.
    pub stack: StackHash,
    /// Its frames, leaf first.
    pub frames: Arc<[FrameHash]>,
}

/// A file of stacks, each once for a service.
///
/// # Errors
/// If the encoder fails.
pub fn stacks_to_parquet(
    mut stacks: Vec<StackRow>,
    packing: Packing,
) -> Result<WrittenTable, FileError> {
    stacks.sort_unstable();
    stacks.dedup_by(|a, b| (&a.service, a.stack) == (&b.service, b.stack));
    let mut writer = TableWriter::new(Table::Stacks, packing)?;
    for some in stacks.chunks(BATCH_ROWS) {
        writer.write(&batch(some)?)?;
    }
    writer.finish()
}

fn batch(stacks: &[StackRow]) -> Result<RecordBatch, FileError> {
    let services = stacks.iter().map(|row| &row.service);
    let numbers = stacks.iter().map(|row| row.stack.0);
    let frames = stacks.iter().flat_map(|row| row.frames.iter());
    // The encoder wants to know how many there are.
    let frames: Vec<&[u8]> = frames.map(|frame| &frame.0[..]).collect();
    let frames: ArrayRef = Arc::new(BinaryArray::from_vec(frames));
    let offsets = OffsetBuffer::from_lengths(stacks.iter().map(|row| row.frames.len()));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(services)),
        Arc::new(BinaryArray::from_iter_values(numbers)),
        Arc::new(ListArray::try_new(frame_element(), offsets, frames, None)?),
    ];
    Ok(RecordBatch::try_new(Table::Stacks.schema(), columns)?)
}

/// The stacks of a batch.
pub(super) fn read(key: &str, batch: &RecordBatch) -> Result<Vec<StackRow>, FileError> {
    let columns = Columns::of(key, batch);
    let services = columns.texts("service")?;
    let numbers = columns.numbers("stack_id")?;
    let lists = columns.column("frames")?.as_list_opt::<i32>();
    let lists = lists.ok_or_else(|| columns.unsound("column frames is no list"))?;
    let mut last: Arc<str> = "".into();
    let stacks = (0..columns.rows()).map(|row| {
        let list = lists.value(row);
        let list = columns.number_of("frames", &list)?;
        let frames = (0..list.len()).map(|at| columns.number(list, at).map(FrameHash));
        if *last != *services.value(row) {
            last = services.value(row).into();
        }
        Ok(StackRow {
            service: Arc::clone(&last),
            stack: StackHash(columns.number(numbers, row)?),
            frames: frames.collect::<Result<_, FileError>>()?,
        })
    });
    stacks.collect()
}
