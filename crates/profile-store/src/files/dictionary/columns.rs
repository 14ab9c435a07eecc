//! Columns of a batch by name and type, and numbers in them: what is not as the table has it is an error that says where.

use arrow::array::{Array, ArrayRef, AsArray as _, BinaryArray, RecordBatch, StringArray};

use crate::files::FileError;

/// A batch of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns<'b> {
    key: &'b str,
    batch: &'b RecordBatch,
}

impl<'b> Columns<'b> {
    pub(super) fn of(key: &'b str, batch: &'b RecordBatch) -> Self {
        Self { key, batch }
    }

    pub(super) fn rows(&self) -> usize {
        self.batch.num_rows()
    }

    pub(super) fn unsound(&self, what: impl Into<String>) -> FileError {
        FileError::Unsound {
            key: self.key.to_owned(),
            what: what.into(),
        }
    }

    pub(super) fn column(&self, name: &str) -> Result<&'b ArrayRef, FileError> {
        let column = self.batch.column_by_name(name);
        column.ok_or_else(|| self.unsound(format!("no column {name}")))
    }

    pub(super) fn texts(&self, name: &str) -> Result<&'b StringArray, FileError> {
        self.text_of(name, self.column(name)?)
    }

    pub(super) fn text_of<'a>(
        &self,
        name: &str,
        column: &'a ArrayRef,
    ) -> Result<&'a StringArray, FileError> {
        let texts = column.as_string_opt::<i32>();
        texts.ok_or_else(|| self.unsound(format!("column {name} has no texts")))
    }

    /// Of a number of 12 or 16 bytes in each row.
    pub(super) fn numbers(&self, name: &str) -> Result<&'b BinaryArray, FileError> {
        self.number_of(name, self.column(name)?)
    }

    pub(super) fn number_of<'a>(
        &self,
        name: &str,
        column: &'a ArrayRef,
    ) -> Result<&'a BinaryArray, FileError> {
        let numbers = column.as_binary_opt::<i32>();
        numbers.ok_or_else(|| self.unsound(format!("column {name} has no numbers")))
    }

    pub(super) fn number<const BYTES: usize>(
        &self,
        column: &BinaryArray,
        row: usize,
    ) -> Result<[u8; BYTES], FileError> {
        let bytes = column.value(row);
        let number = bytes.try_into();
        number.map_err(|_length| self.unsound(format!("a number of {} bytes", bytes.len())))
    }
}

/// A text, or nothing where there is none.
pub(super) fn text(column: &StringArray, row: usize) -> Option<&str> {
    column.is_valid(row).then(|| column.value(row))
}
