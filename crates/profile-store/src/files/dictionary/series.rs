//! Label sets as rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    Array as _, ArrayRef, AsArray as _, Int64Array, MapArray, RecordBatch, StringArray, StructArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Int64Type};

use super::BATCH_ROWS;
use super::columns::Columns;
use crate::files::schema::{Table, label_fields, labels_type};
use crate::files::{FileError, Packing, TableWriter, WrittenTable};
use crate::rows::{Series, SeriesId};

/// A file of label sets, each once.
///
/// # Errors
/// If the encoder fails.
pub fn series_to_parquet<'s>(
    series: impl IntoIterator<Item = &'s Series>,
    packing: Packing,
) -> Result<WrittenTable, FileError> {
    let all: BTreeMap<SeriesId, &Series> = series
        .into_iter()
        .map(|series| (series.id(), series))
        .collect();
    let all: Vec<&Series> = all.into_values().collect();
    let mut writer = TableWriter::new(Table::Series, packing)?;
    for some in all.chunks(BATCH_ROWS) {
        writer.write(&batch(some)?)?;
    }
    writer.finish()
}

fn batch(series: &[&Series]) -> Result<RecordBatch, FileError> {
    let texts = |of: fn(&Series) -> &str| -> ArrayRef {
        let texts = series.iter().map(|series| of(series));
        Arc::new(StringArray::from_iter_values(texts))
    };
    let ids = series.iter().map(|series| series.id().0);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(ids)),
        texts(Series::service),
        texts(Series::version),
        texts(Series::deployment),
        Arc::new(labels(series)?),
    ];
    Ok(RecordBatch::try_new(Table::Series.schema(), columns)?)
}

fn labels(series: &[&Series]) -> Result<MapArray, FileError> {
    let pairs = || series.iter().flat_map(|series| series.labels());
    // The encoder wants to know how many there are.
    let names: Vec<&str> = pairs().map(|pair| pair.0).collect();
    let values: Vec<&str> = pairs().map(|pair| pair.1).collect();
    let names: ArrayRef = Arc::new(StringArray::from(names));
    let values: ArrayRef = Arc::new(StringArray::from(values));
    let entries = StructArray::try_new(label_fields(), vec![names, values], None)?;
    let lengths = series.iter().map(|series| series.labels().count());
    let DataType::Map(field, is_sorted) = labels_type() else {
        return Err(FileError::NoColumn {
            table: Table::Series.as_str(),
            column: "labels".to_owned(),
        });
    };
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(MapArray::try_new(field, offsets, entries, None, is_sorted)?)
}

/// The label sets of a batch, whose numbers are compared.
pub(super) fn read(key: &str, batch: &RecordBatch) -> Result<Vec<Arc<Series>>, FileError> {
    let columns = Columns::of(key, batch);
    let ids = columns.column("series_id")?.as_primitive_opt::<Int64Type>();
    let ids = ids.ok_or_else(|| columns.unsound("column series_id has no numbers"))?;
    let labels = columns.column("labels")?.as_map_opt();
    let labels = labels.ok_or_else(|| columns.unsound("column labels is no map"))?;
    let series = (0..columns.rows()).map(|row| {
        let entries = labels.value(row);
        let names = columns.text_of("labels", entries.column(0))?;
        let values = columns.text_of("labels", entries.column(1))?;
        let pair = |at| (Arc::from(names.value(at)), Arc::from(values.value(at)));
        let pairs = (0..entries.len()).map(pair).collect();
        let series = Series::stored(SeriesId(ids.value(row)), pairs);
        let series = series.map_err(|error| columns.unsound(error.to_string()))?;
        Ok(Arc::new(series))
    });
    series.collect()
}
