//! Files of the dictionary: what the numbers in rows stand for, written, read by what is wanted, and merged.
//!
//! What a query wants are some thousand stacks of one service of an hour, and their frames: row groups of other services are passed over, and of the others only the
//! rows that are wanted are made values of.

mod columns;
mod frames;
mod merging;
mod numbers;
mod reading;
mod series;
mod stacks;

pub use frames::frames_to_parquet;
pub use merging::{DictionaryPart, merge_dictionary};
pub use numbers::{NumberRow, numbers_to_parquet};
pub use reading::{
    FramesWanted, StacksWanted, read_frames, read_numbers, read_series, read_stacks,
};
pub use series::series_to_parquet;
pub use stacks::{StackRow, stacks_to_parquet};

use super::schema::Table;
use crate::table::dictionary::DictionaryTable;

/// Rows that are turned into columns or back at once.
const BATCH_ROWS: usize = 8_192;

impl From<DictionaryTable> for Table {
    fn from(table: DictionaryTable) -> Self {
        match table {
            DictionaryTable::Series => Self::Series,
            DictionaryTable::Stacks => Self::Stacks,
            DictionaryTable::Frames => Self::Frames,
            DictionaryTable::Numbers => Self::Numbers,
        }
    }
}
