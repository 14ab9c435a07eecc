//! How tightly a file is packed: encodings, compression, and the sizes of row groups and pages.

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;

use super::schema::Table;

/// Rows of a row group: what is passed over or read as one. Groups of 131,072 rows cost 5 % more bytes.
const ROW_GROUP_ROWS_MAX: usize = 1 << 20;

/// Rows of a row group of series, frames and numbers.
const NUMBERED_GROUP_ROWS_MAX: usize = 1 << 16;

/// Rows of a row group of stacks: those of one service are read without those of others.
const STACK_GROUP_ROWS_MAX: usize = 1 << 15;

/// Rows of a page: each is compressed alone, and small ones compress worse.
const PAGE_ROWS_MAX: usize = 1 << 18;

/// Bytes of a page before compression, which a reader has in memory at once.
const PAGE_BYTES_MAX: usize = 1 << 20;

/// Bytes of the distinct values of a column in a row group: 400,000 stacks. Beyond, values stand where they are.
const DICTIONARY_BYTES_MAX: usize = 8 << 20;

/// How much work goes into making a file small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Of rows as they came: written every second, read for an hour or so.
    Fresh,
    /// Of a compaction: written once, read for weeks.
    Compacted,
}

impl Packing {
    fn level(self) -> i32 {
        match self {
            Self::Fresh => 1,
            Self::Compacted => 3,
        }
    }

    pub(super) fn properties(
        self,
        table: Table,
        footer: Option<Vec<KeyValue>>,
    ) -> Result<WriterProperties, ParquetError> {
        let level = ZstdLevel::try_new(self.level())?;
        let mut builder = WriterProperties::builder()
            .set_writer_version(WriterVersion::PARQUET_1_0)
            .set_created_by(concat!("unhex-store ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_compression(Compression::ZSTD(level))
            .set_max_row_group_row_count(Some(group_rows(table)))
            .set_data_page_row_count_limit(PAGE_ROWS_MAX)
            .set_data_page_size_limit(PAGE_BYTES_MAX)
            .set_dictionary_page_size_limit(DICTIONARY_BYTES_MAX)
            .set_dictionary_enabled(true)
            .set_statistics_enabled(EnabledStatistics::None)
            .set_offset_index_disabled(true)
            .set_sorting_columns(Some(sorting(table)))
            .set_key_value_metadata(footer);
        for column in table.with_statistics() {
            builder = builder
                .set_column_statistics_enabled(ColumnPath::from(*column), EnabledStatistics::Chunk);
        }
        for (column, encoding) in without_dictionary(table, self) {
            let path = ColumnPath::from(*column);
            builder = builder
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, *encoding);
        }
        Ok(builder.build())
    }
}

/// Columns whose values hardly repeat, or repeat in a way that differences show.
fn without_dictionary(table: Table, packing: Packing) -> &'static [(&'static str, Encoding)] {
    const INTEGERS: Encoding = Encoding::DELTA_BINARY_PACKED;
    match (table, packing) {
        // Numbers of a writer, in order: of most only the last byte is new.
        (Table::Samples, Packing::Fresh) => {
            &[("stack_id", Encoding::DELTA_BYTE_ARRAY), ("ts", INTEGERS)]
        }
        (Table::Totals, _) => &[("count", INTEGERS), ("value", INTEGERS)],
        (Table::Series, _) => &[("series_id", INTEGERS)],
        (Table::Frames, _) => &[("address", INTEGERS)],
        (Table::Numbers, _) => &[
            ("number", Encoding::DELTA_BYTE_ARRAY),
            ("stack_id", Encoding::PLAIN),
        ],
        (Table::Samples, Packing::Compacted) | (Table::Stacks, _) => &[],
    }
}

fn group_rows(table: Table) -> usize {
    match table {
        Table::Samples | Table::Totals => ROW_GROUP_ROWS_MAX,
        Table::Series | Table::Frames | Table::Numbers => NUMBERED_GROUP_ROWS_MAX,
        Table::Stacks => STACK_GROUP_ROWS_MAX,
    }
}

fn sorting(table: Table) -> Vec<SortingColumn> {
    let schema = table.schema();
    let columns = table.sorted_by().iter();
    let at = columns.filter_map(|column| schema.index_of(column).ok());
    at.filter_map(|at| i32::try_from(at).ok())
        .map(|column_idx| SortingColumn {
            column_idx,
            descending: false,
            nulls_first: false,
        })
        .collect()
}
