//! Parquet files of every table: schema, encodings, writing and reading.
//!
//! The schema is a contract with every engine that reads the files (docs/profile-table.md): plain types that Delta Lake knows, no Arrow schema inside, no
//! page index, no Bloom filters. Rows are sorted, so that row groups and the statistics of their labels are enough to read little.
//!
//! [`samples_to_parquet`] writes the rows of messages; [`TableWriter`] writes batches of any table, as compaction has them; [`read_requests`] reads which requests a
//! segment has from its footer alone, [`RangeReader`] any file by ranges.

mod order;
mod packing;
mod ranges;
mod requests;
mod samples;
mod schema;
mod writer;

pub use packing::Packing;
pub use ranges::RangeReader;
pub use requests::{REQUESTS_KEY, RequestHash, read_requests};
pub use samples::samples_to_parquet;
pub use schema::{Table, sample_schema, total_schema};
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
    /// A column that the schema has is missing.
    #[error("{table} without the column {column}")]
    NoColumn {
        /// Which table.
        table: &'static str,
        /// Which column.
        column: String,
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
