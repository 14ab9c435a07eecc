//! A table that consists of a list of files: no folder is listed, no schema is inferred, and of the files is read what the query needs.
//!
//! Which hour a file is of is known from its name, so that a filter on the time, or on the hour, leaves files of other hours out before
//! any of them is opened. Row groups are left out by the statistics in the footer, and rows by the filters, which are given to the
//! reader.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, FieldRef, SchemaRef, TimeUnit};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::stats::Precision;
use datafusion::common::{Column, DFSchema, DataFusionError, Result, ScalarValue, Statistics};
use datafusion::datasource::TableType;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use object_store::path::Path as Key;

use super::whole_files::Readers;
use super::{Engine, store_url};
use crate::table::names::Hour;

/// The column that the hour of a file is.
pub(super) const HOUR: &str = "hour";
/// The time of a sample, which lies within the hour of its file.
pub(super) const TIME: &str = "ts";

/// Bytes from the end of a file in the first request: the footer of most files fits, and small files do as a whole.
const FOOTER_BYTES: usize = 64 << 10;

/// Bytes of a part of a file: a row group of compacted samples has about as many.
const PART_BYTES_MIN: u64 = 1 << 20;

const MICROS_PER_HOUR: i64 = 3_600_000_000;

/// A file to scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanFile {
    /// Its key.
    pub key: String,
    /// Its length, which LIST said.
    pub bytes: u64,
    /// Its rows, which its name says.
    pub rows: u64,
    /// The hour that all its rows are of.
    pub hour: Hour,
}

/// The files as a table.
#[derive(Debug)]
pub(super) struct FileTable {
    engine: Engine,
    files: Vec<ScanFile>,
    schema: TableSchema,
}

impl FileTable {
    /// Files of one schema; the column [`HOUR`] is added.
    pub(super) fn new(engine: &Engine, schema: SchemaRef, files: Vec<ScanFile>) -> Self {
        Self {
            engine: engine.clone(),
            files,
            schema: TableSchema::builder(schema)
                .with_table_partition_cols(vec![hour_field()])
                .build(),
        }
    }

    /// The files in groups that are read at once: one a thread, or, where there are few files, as many as there are parts.
    fn groups(&self, files: Vec<&ScanFile>, threads: usize) -> Vec<FileGroup> {
        let parts = self.engine.parts.max(threads);
        if files.len() > parts {
            let all = FileGroup::new(files.into_iter().map(partitioned).collect());
            return all.split_files(threads);
        }
        let bytes = files.iter().map(|file| file.bytes).sum::<u64>();
        let of_part = bytes.div_ceil(parts as u64).max(PART_BYTES_MIN);
        let mut groups = Vec::new();
        for file in files {
            // A row group is read with the range in which its first page begins, whole: each once, and none twice.
            for number in 0..file.bytes.div_ceil(of_part).max(1) {
                let start = number.saturating_mul(of_part);
                let end = start.saturating_add(of_part).min(file.bytes);
                let offset = |at: u64| i64::try_from(at).unwrap_or(i64::MAX);
                let part = partitioned(file).with_range(offset(start), offset(end));
                groups.push(FileGroup::new(vec![part]));
            }
        }
        groups
    }

    /// The files that may have rows that all filters let through.
    fn wanted(&self, state: &dyn Session, filters: &[Expr]) -> Result<Vec<&ScanFile>> {
        let all = self.files.iter();
        let Some(filter) = conjunction(filters.iter().cloned()) else {
            return Ok(all.collect());
        };
        let schema = DFSchema::try_from(self.schema())?;
        let filter = state.create_physical_expr(filter, &schema)?;
        let pruning = PruningPredicateBuilder::new().with_file_schema(self.schema());
        let Some(predicate) = pruning.build(filter) else {
            return Ok(all.collect());
        };
        let wanted = predicate.prune(&Hours(&self.files))?;
        let wanted = all.zip(wanted).filter(|(_, wanted)| *wanted);
        Ok(wanted.map(|(file, _)| file).collect())
    }
}

#[async_trait]
impl TableProvider for FileTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.schema.table_schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        // The filters stay in the plan, and its optimizer gives them to the reader.
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let files = self.wanted(state, filters)?;
        if files.is_empty() {
            let schema = match projection {
                None => self.schema(),
                Some(columns) => Arc::new(self.schema().project(columns)?),
            };
            return Ok(Arc::new(EmptyExec::new(schema)));
        }
        let rows = files.iter().map(|file| file.rows).sum::<u64>();
        let bytes = files.iter().map(|file| file.bytes).sum::<u64>();
        let mut statistics = Statistics::new_unknown(&self.schema());
        statistics.num_rows = Precision::Exact(usize::try_from(rows).unwrap_or(usize::MAX));
        statistics.total_byte_size = Precision::Inexact(usize::try_from(bytes).unwrap_or(0));
        let footers = state.runtime_env().cache_manager.get_file_metadata_cache();
        let small = files
            .iter()
            .map(|file| (Key::from(file.key.as_str()), file.bytes));
        self.engine.files.fetch(small).await?;
        let mut options = state.default_table_options().parquet;
        options.global = state.config_options().execution.parquet.clone();
        let source = ParquetSource::new(self.schema.clone())
            .with_table_parquet_options(options)
            .with_metadata_size_hint(FOOTER_BYTES)
            .with_parquet_file_reader_factory(Arc::new(Readers::new(&self.engine.files, &footers)));
        let groups = self.groups(files, state.config().target_partitions());
        let url = store_url().map_err(|error| DataFusionError::External(error.into()))?;
        let config = FileScanConfigBuilder::new(url, Arc::new(source))
            .with_file_groups(groups)
            .with_statistics(statistics)
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .build();
        Ok(DataSourceExec::from_data_source(config))
    }
}

pub(super) fn hour_field() -> FieldRef {
    Arc::new(Field::new(HOUR, micros(), false))
}

fn micros() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

fn partitioned(file: &ScanFile) -> PartitionedFile {
    let hour = ScalarValue::TimestampMicrosecond(Some(start(file)), Some("UTC".into()));
    PartitionedFile::new(file.key.as_str(), file.bytes).with_partition_values(vec![hour])
}

fn start(file: &ScanFile) -> i64 {
    file.hour.start().as_microsecond()
}

/// What is known of files before they are opened.
struct Hours<'a>(&'a [ScanFile]);

impl Hours<'_> {
    fn times(&self, column: &Column, last: i64) -> Option<ArrayRef> {
        let last = match column.name() {
            HOUR => 0,
            TIME => last,
            _ => return None,
        };
        let times = self.0.iter().map(|file| start(file) + last);
        let times = TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC");
        Some(Arc::new(times))
    }
}

impl PruningStatistics for Hours<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.times(column, 0)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.times(column, MICROS_PER_HOUR - 1)
    }

    fn num_containers(&self) -> usize {
        self.0.len()
    }

    fn null_counts(&self, _column: &Column) -> Option<ArrayRef> {
        None
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        None
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
