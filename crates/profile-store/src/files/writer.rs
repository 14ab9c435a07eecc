//! Writes batches of a table into one file in memory.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::file::metadata::KeyValue;

use super::FileError;
use super::packing::Packing;
use super::schema::Table;

/// A file that is being written, in memory: what is finished of it is packed, the row group at work takes up to some 100 MB.
pub struct TableWriter {
    table: Table,
    schema: SchemaRef,
    writer: ArrowWriter<Vec<u8>>,
    rows: u64,
}

/// A file that was written.
#[derive(Clone, Debug)]
pub struct WrittenTable {
    /// All of it.
    pub bytes: Bytes,
    /// Its rows.
    pub rows: u64,
}

impl TableWriter {
    /// A file without rows.
    ///
    /// # Errors
    /// If the encoder refuses the schema.
    pub fn new(table: Table, packing: Packing) -> Result<Self, FileError> {
        Self::with_footer(table, packing, None)
    }

    pub(super) fn with_footer(
        table: Table,
        packing: Packing,
        footer: Option<Vec<KeyValue>>,
    ) -> Result<Self, FileError> {
        Self::of_schema(table, table.schema(), packing, footer)
    }

    /// With columns that are the table's in another form of memory.
    pub(super) fn of_schema(
        table: Table,
        schema: SchemaRef,
        packing: Packing,
        footer: Option<Vec<KeyValue>>,
    ) -> Result<Self, FileError> {
        let options = ArrowWriterOptions::new()
            .with_skip_arrow_metadata(true)
            .with_schema_root("table".to_owned())
            .with_properties(packing.properties(table, footer)?);
        let writer = ArrowWriter::try_new_with_options(Vec::new(), Arc::clone(&schema), options)?;
        Ok(Self {
            table,
            schema,
            writer,
            rows: 0,
        })
    }

    /// Adds rows, which have to come in the order of [`Table::sorted_by`]. Columns are found by name, and may be of a like type, as views of strings;
    /// others than the table's are left out.
    ///
    /// # Errors
    /// If a column is missing, has nulls, or is of another type.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), FileError> {
        if batch.schema_ref().fields() == self.schema.fields() {
            return self.write_as_is(batch);
        }
        let columns = self.schema.fields().iter().map(|field| {
            let found = batch.column_by_name(field.name());
            let found = found.ok_or_else(|| FileError::NoColumn {
                table: self.table.as_str(),
                column: field.name().clone(),
            })?;
            Ok(cast(found, field.data_type())?)
        });
        let columns: Vec<ArrayRef> = columns.collect::<Result<_, FileError>>()?;
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns)?;
        self.write_as_is(&batch)
    }

    fn write_as_is(&mut self, batch: &RecordBatch) -> Result<(), FileError> {
        self.writer.write(batch)?;
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes that the file would have by now, or a little more.
    pub fn bytes(&self) -> usize {
        let packed = self.writer.bytes_written();
        packed.saturating_add(self.writer.in_progress_size())
    }

    /// The file.
    ///
    /// # Errors
    /// If the encoder fails.
    pub fn finish(mut self) -> Result<WrittenTable, FileError> {
        self.writer.finish()?;
        let bytes = std::mem::take(self.writer.inner_mut());
        Ok(WrittenTable {
            bytes: bytes.into(),
            rows: self.rows,
        })
    }
}

impl fmt::Debug for TableWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "TableWriter({}, {} rows)",
            self.table.as_str(),
            self.rows
        )
    }
}
