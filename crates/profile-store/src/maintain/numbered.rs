//! Rows of segments have numbers of their writers, compacted rows the stacks themselves.
//!
//! A number that no dictionary has, as after damage, stays what it is: it counts on, and is known again when its file is restored.

use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, BinaryViewArray, BinaryViewBuilder};
use arrow::datatypes::DataType;
use datafusion::common::DataFusionError;
use datafusion::common::cast::as_binary_view_array;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf, ident};
use datafusion::prelude::DataFrame;

use super::{MaintainError, Maintenance};
use crate::engine::EngineError;
use crate::files::{NumberRow, STACK_NUMBER_BYTES, StackNumber, read_numbers};
use crate::reading::Place;
use crate::table::dictionary::{DictionaryFile, DictionaryTable};
use crate::table::fold::{File, LiveFile};
use crate::table::names::Hour;

/// The numbers of an hour, in order, and the memory that they have.
#[derive(Debug)]
pub(super) struct Numbers {
    rows: Vec<NumberRow>,
    _memory: MemoryReservation,
}

impl Maintenance {
    /// What the numbers of some files of an hour stand for. To be asked after the files were listed, since a number is put before the rows that have it.
    pub(super) async fn numbers(
        &self,
        hour: Hour,
        inputs: &[LiveFile],
    ) -> Result<Option<Numbers>, MaintainError> {
        let is_segment = |live: &LiveFile| matches!(live.file, File::Segment(_));
        if !inputs.iter().any(is_segment) {
            return Ok(None);
        }
        let mut seen = self.dictionaries(&Place::of_hour(hour)).await?;
        let state = seen.hours.remove(&hour);
        let files = state.iter();
        let files = files.flat_map(|state| state.live(DictionaryTable::Numbers));
        let files: Vec<DictionaryFile> = files.collect();
        let pool = &self.engine.context().runtime_env().memory_pool;
        let memory = MemoryConsumer::new("numbers of stacks").register(pool);
        let rows = files.iter().fold(0_usize, |rows, file| {
            rows.saturating_add(usize::try_from(file.name.rows).unwrap_or(usize::MAX))
        });
        memory
            .try_grow(rows.saturating_mul(size_of::<NumberRow>()))
            .map_err(EngineError::from)?;
        let rows = read_numbers(&self.objects, &files).await?;
        Ok(Some(Numbers {
            rows,
            _memory: memory,
        }))
    }
}

/// The rows of a frame by stacks.
pub(super) fn by_stack(frame: DataFrame, numbers: Numbers) -> Result<DataFrame, EngineError> {
    let of = move |values: &[ColumnarValue]| {
        let arrays = ColumnarValue::values_to_arrays(values)?;
        let [column] = arrays.as_slice() else {
            let error = "stacks of one column are looked up".to_owned();
            return Err(DataFusionError::Internal(error));
        };
        Ok(ColumnarValue::Array(stacks(column, &numbers)?))
    };
    let kind = DataType::BinaryView;
    let stack_of = create_udf(
        "stack_of",
        vec![kind.clone()],
        kind,
        Volatility::Immutable,
        Arc::new(of),
    );
    let stack = stack_of.call(vec![ident("stack_id")]);
    Ok(frame.with_column("stack_id", stack)?)
}

fn stacks(column: &ArrayRef, numbers: &Numbers) -> Result<ArrayRef, DataFusionError> {
    let all: &BinaryViewArray = as_binary_view_array(column)?;
    let is_number = |length: u32| usize::try_from(length) == Ok(STACK_NUMBER_BYTES);
    if !all.lengths().any(is_number) {
        return Ok(Arc::clone(column));
    }
    let mut stacks = BinaryViewBuilder::with_capacity(all.len());
    let mut at = 0;
    for bytes in all.iter().flatten() {
        match numbers.stack(bytes, &mut at) {
            Some(row) => stacks.append_value(row.stack.0),
            None => stacks.append_value(bytes),
        }
    }
    Ok(Arc::new(stacks.finish()))
}

impl Numbers {
    /// What stands for the bytes of a row; `at` is where the row before was found. Rows come in order, so that it is mostly there.
    fn stack(&self, bytes: &[u8], at: &mut usize) -> Option<&NumberRow> {
        let number = StackNumber::of_bytes(bytes.try_into().ok()?);
        let is_of = |row: &&NumberRow| row.number == number;
        if let Some(row) = self.rows.get(*at).filter(is_of) {
            return Some(row);
        }
        *at = self.rows.partition_point(|row| row.number < number);
        self.rows.get(*at).filter(is_of)
    }
}
