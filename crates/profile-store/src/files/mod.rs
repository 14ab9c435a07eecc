//! Parquet files of every table: schema, encodings, writing and reading.
//!
//! The schema is a contract with every engine that reads the files (docs/profile-table.md): plain types that Delta Lake knows, no Arrow schema inside, no
//! page index, no Bloom filters. Rows are sorted, so that row groups and the statistics of their labels are enough to read little.
//!
//! [`samples_to_parquet`] writes the rows of messages; [`TableWriter`] writes batches of any table, as compaction has them; [`read_requests`] reads which requests a
//! segment has from its footer alone, [`RangeReader`] any file by ranges. [`StackNumber`] is what segments have instead of stacks.

mod damage;
mod dictionary;
mod order;
mod packing;
mod ranges;
mod requests;
mod samples;
mod schema;
mod stack_number;
mod writer;

pub use damage::{Damage, Looked, is_of_store, look_through};
pub use dictionary::{
    DictionaryPart, FramesWanted, NumberRow, StackRow, StacksWanted, frames_to_parquet,
    merge_dictionary, numbers_to_parquet, read_frames, read_numbers, read_series, read_stacks,
    series_to_parquet, stacks_to_parquet,
};
pub use packing::Packing;
pub use ranges::RangeReader;
pub use requests::{REQUESTS_KEY, RequestHash, read_requests};
pub use samples::samples_to_parquet;
pub use schema::{Table, sample_schema, total_schema};
pub use stack_number::{STACK_NUMBER_BYTES, StackNumber, stack_bytes, stack_of_bytes};
pub use writer::{TableWriter, WrittenTable};

use crate::objects::ObjectsError;

/// A file that cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The encoder or decoder refuses.
    #[error("Parquet")]
    Parquet(#[from] parquet::errors::ParquetError),
    /// Columns do not fit together.
    #[error("columns")]
    Arrow(#[from] arrow::error::ArrowError),
    /// The store fails.
    #[error(transparent)]
    Objects(#[from] ObjectsError),
    /// The file was swept since it was listed.
    #[error("{key} is not there any more")]
    Gone {
        /// Which file.
        key: String,
    },
    /// A column that the schema has is missing.
    #[error("{table} without the column {column}")]
    NoColumn {
        /// Which table.
        table: &'static str,
        /// Which column.
        column: String,
    },
    /// A part of the dictionary that cannot be read: it is damaged, or the store does not give it.
    #[error("{key} cannot be read")]
    Unreadable {
        /// Which file.
        key: String,
        /// Why.
        source: parquet::errors::ParquetError,
    },
    /// The file says what its table cannot.
    #[error("{key}: {what}")]
    Unsound {
        /// Which file.
        key: String,
        /// What is wrong.
        what: String,
    },
}

impl FileError {
    /// Whether a file is not there any more that was listed: list again.
    pub fn is_absence(&self) -> bool {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(error) = cause {
            if let Some(object_store::Error::NotFound { .. }) = error.downcast_ref() {
                return true;
            }
            cause = error.source();
        }
        match self {
            Self::Gone { .. } => true,
            Self::Objects(error) => error.is_absence(),
            _ => false,
        }
    }
}
