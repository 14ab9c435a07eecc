//! Files of samples and totals: what is written is read by any engine, in order, and by ranges.

use std::sync::Arc;

use arrow::array::{
    Array as _, ArrayRef, AsArray as _, BinaryViewArray, Int64Array, RecordBatch, StringViewArray,
};
use arrow::datatypes::{DataType, Int64Type, TimestampMicrosecondType};
use futures_util::TryStreamExt as _;
use parquet::arrow::ParquetRecordBatchStreamBuilder;
use parquet::basic::Compression;
use proptest::prelude::*;
use unhex_pprof::StackHash;
use unhex_profile_store::files::{
    FileError, Packing, RangeReader, RequestHash, Table, TableWriter, read_requests, sample_schema,
    samples_to_parquet, stack_of_bytes, total_schema,
};
use unhex_profile_store::objects::Objects;
use unhex_profile_store::rows::{SampleRow, Series};

use crate::backends::over_each;

/// Everything that a row of a file says.
type Plain = (String, String, String, String, Vec<u8>, i64, i64, i64, i64);

pub(crate) fn series(service: &str, version: &str, host: &str) -> Arc<Series> {
    let labels = [
        ("deployment", "prod"),
        ("host", host),
        ("service", service),
        ("version", version),
    ];
    let labels = labels.map(|(name, value)| (name.into(), value.into()));
    Arc::new(Series::of_labels(labels.to_vec()).unwrap())
}

fn plain(row: &SampleRow) -> Plain {
    (
        row.series.service().to_owned(),
        row.series.version().to_owned(),
        row.series.deployment().to_owned(),
        row.profile_type.to_string(),
        row.stack.0.to_vec(),
        row.time_unix_seconds * 1_000_000,
        row.series.id().0,
        row.count,
        row.period,
    )
}

fn any_row() -> impl Strategy<Value = SampleRow> {
    let labels = (0..3_u8, 0..2_u8, 0..3_u8, 0..2_u8);
    let stack = prop_oneof![
        (0..4_u8).prop_map(|tail| [0; 15].into_iter().chain([tail]).collect::<Vec<u8>>()),
        proptest::collection::vec(any::<u8>(), 16..=16),
    ];
    let numbers = (
        0..5_i64,
        1..4_i64,
        prop_oneof![Just(1_i64), Just(i64::MAX >> 3)],
    );
    (labels, stack, numbers).prop_map(|((service, version, host, of), stack, numbers)| {
        let (at, count, period) = numbers;
        SampleRow {
            series: series(
                &format!("s{service}"),
                &format!("v{version}"),
                &format!("h{host}"),
            ),
            profile_type: if of == 0 {
                "cpu".into()
            } else {
                "wall:bytes".into()
            },
            stack: StackHash(stack.try_into().unwrap()),
            time_unix_seconds: 1_796_130_000 + at,
            count,
            period,
        }
    })
}

pub(crate) async fn batches(objects: &Objects, key: &str) -> Vec<RecordBatch> {
    let reader = RangeReader::of_unknown_length(objects, key);
    let builder = ParquetRecordBatchStreamBuilder::new(reader).await.unwrap();
    builder.build().unwrap().try_collect().await.unwrap()
}

fn rows_of(batch: &RecordBatch) -> Vec<Plain> {
    let text = |name: &str, row| {
        let column = batch.column_by_name(name).unwrap().as_string::<i32>();
        column.value(row).to_owned()
    };
    let number = |name: &str, row| {
        let column = batch.column_by_name(name).unwrap();
        column.as_primitive::<Int64Type>().value(row)
    };
    let stacks = batch.column_by_name("stack_id").unwrap().as_binary::<i32>();
    let times = batch.column_by_name("ts").unwrap();
    let times = times.as_primitive::<TimestampMicrosecondType>();
    let row = |row| {
        (
            text("service", row),
            text("version", row),
            text("deployment", row),
            text("type", row),
            // A hash that ends in zeros is written shorter.
            stack_of_bytes(stacks.value(row)).unwrap().0.to_vec(),
            times.value(row),
            number("series_id", row),
            number("count", row),
            number("period", row),
        )
    };
    (0..batch.num_rows()).map(row).collect()
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(future)
}

pub(crate) fn in_memory() -> Objects {
    Objects::over(Arc::new(object_store::memory::InMemory::new()))
}

/// Neighbours that differ in their count alone as one, if their value fits.
fn folded(rows: Vec<Plain>) -> Vec<Plain> {
    let mut folded: Vec<Plain> = Vec::new();
    for row in rows {
        let without_count = |row: &Plain| {
            let mut row = row.clone();
            row.7 = 0;
            row
        };
        if let Some(kept) = folded.last_mut()
            && without_count(kept) == without_count(&row)
            && (kept.7 + row.7).checked_mul(row.8).is_some()
        {
            kept.7 += row.7;
            continue;
        }
        folded.push(row);
    }
    folded
}

proptest! {
    #[test]
    fn rows_come_back_each_once_and_in_order(rows in proptest::collection::vec(any_row(), 1..200)) {
        let objects = in_memory();
        for packing in [Packing::Fresh, Packing::Compacted] {
            let file = samples_to_parquet(&rows, &[], packing).unwrap();
            let in_name = file.rows;
            let read = block_on(async {
                objects.put("seg/file", file.bytes).await.unwrap();
                batches(&objects, "seg/file").await
            });
            let read: Vec<Plain> = read.iter().flat_map(rows_of).collect();
            let mut expected: Vec<Plain> = rows.iter().map(plain).collect();
            // By labels, type, stack, time, series, then period.
            let order = |row: &Plain| {
                let (service, version, deployment, of, stack, at, series, count, period) = row.clone();
                ((service, version, deployment, of, stack), at, series, period, count)
            };
            expected.sort_by_key(order);
            prop_assert_eq!(read.len() as u64, in_name);
            prop_assert_eq!(read, folded(expected));
        }
    }
}

fn two_rows() -> Vec<SampleRow> {
    let row = |service: &str, stack| SampleRow {
        series: series(service, "1", "h"),
        profile_type: "cpu".into(),
        stack: StackHash([stack; 16]),
        time_unix_seconds: 1_796_130_000,
        count: 1,
        period: 50_000_000,
    };
    vec![row("b", 1), row("a", 2)]
}

#[tokio::test]
async fn the_requests_of_a_segment_are_read_from_its_end_alone() {
    over_each(|objects| async move {
        let mut requests: Vec<RequestHash> = (0..=255).map(|n| RequestHash([n; 32])).collect();
        requests.reverse();
        let file = samples_to_parquet(&two_rows(), &requests, Packing::Fresh).unwrap();
        objects.put("seg/some", file.bytes).await.unwrap();
        requests.reverse();
        assert_eq!(read_requests(&objects, "seg/some").await.unwrap(), requests);
        let many: Vec<RequestHash> = (0..5_000_u32)
            .map(|number| {
                let mut hash = [7; 32];
                hash[..4].copy_from_slice(&number.to_be_bytes());
                RequestHash(hash)
            })
            .collect();
        let file = samples_to_parquet(&two_rows(), &many, Packing::Fresh).unwrap();
        objects.put("seg/many", file.bytes).await.unwrap();
        assert_eq!(read_requests(&objects, "seg/many").await.unwrap(), many);
        let none = samples_to_parquet(&two_rows(), &[], Packing::Fresh).unwrap();
        objects.put("seg/none", none.bytes).await.unwrap();
        assert_eq!(read_requests(&objects, "seg/none").await.unwrap(), []);
        objects
            .put("seg/damaged", "no Parquet".into())
            .await
            .unwrap();
        assert!(read_requests(&objects, "seg/damaged").await.is_err());
        assert!(read_requests(&objects, "seg/absent").await.is_err());
    })
    .await;
}

#[tokio::test]
async fn the_schema_of_a_file_is_what_the_documentation_says() {
    let objects = in_memory();
    let file = samples_to_parquet(&two_rows(), &[], Packing::Fresh).unwrap();
    objects.put("seg/file", file.bytes).await.unwrap();
    let reader = RangeReader::of_unknown_length(&objects, "seg/file");
    let builder = ParquetRecordBatchStreamBuilder::new(reader).await.unwrap();
    // Without an Arrow schema inside, types are those that Parquet alone says.
    assert_eq!(builder.schema().fields(), sample_schema().fields());
    let metadata = builder.metadata();
    let group = metadata.row_group(0);
    let column = |name: &str| {
        let found = group.columns().iter();
        found
            .into_iter()
            .find(|column| column.column_descr().name() == name)
            .unwrap()
    };
    let services = column("service").statistics().unwrap();
    assert_eq!(services.min_bytes_opt(), Some(&b"a"[..]));
    assert_eq!(services.max_bytes_opt(), Some(&b"b"[..]));
    assert!(column("count").statistics().is_none());
    assert!(group.columns().iter().all(|column| {
        matches!(column.compression(), Compression::ZSTD(_))
            && column.bloom_filter_offset().is_none()
            && column.offset_index_offset().is_none()
            && column.column_index_offset().is_none()
    }));
    assert_eq!(
        group.sorting_columns().unwrap().len(),
        Table::Samples.sorted_by().len()
    );
}

#[tokio::test]
async fn batches_of_an_engine_are_written_whatever_their_order_and_kind_of_strings() {
    let texts = |text: &str| -> ArrayRef { Arc::new(StringViewArray::from(vec![text, text])) };
    let stacks = BinaryViewArray::from_iter_values([[1_u8; 16], [2; 16]]);
    let numbers = |numbers: [i64; 2]| -> ArrayRef { Arc::new(Int64Array::from(numbers.to_vec())) };
    let batch = RecordBatch::try_from_iter([
        ("value", numbers([10, 20])),
        ("count", numbers([1, 2])),
        ("extra", numbers([0, 0])),
        ("service", texts("a")),
        ("version", texts("1")),
        ("deployment", texts("prod")),
        ("type", texts("cpu")),
        ("stack_id", Arc::new(stacks)),
    ])
    .unwrap();
    let mut writer = TableWriter::new(Table::Totals, Packing::Compacted).unwrap();
    writer.write(&batch).unwrap();
    writer.write(&batch).unwrap();
    let written = writer.finish().unwrap();
    assert_eq!(written.rows, 4);
    let objects = in_memory();
    objects.put("out/file", written.bytes).await.unwrap();
    let read = batches(&objects, "out/file").await;
    assert_eq!(read[0].schema(), total_schema());
    let values = read[0].column_by_name("value").unwrap();
    assert_eq!(
        values.as_primitive::<Int64Type>().values().to_vec(),
        [10, 20, 10, 20]
    );
    assert_eq!(
        read[0].column_by_name("stack_id").unwrap().data_type(),
        &DataType::Binary
    );

    let partial = batch.project(&[0, 1]).unwrap();
    let mut writer = TableWriter::new(Table::Totals, Packing::Compacted).unwrap();
    let error = writer.write(&partial).unwrap_err();
    assert!(matches!(error, FileError::NoColumn { .. }), "{error:?}");
}

#[test]
fn the_same_rows_make_the_same_bytes_whatever_their_order() {
    let rows = two_rows();
    let other: Vec<SampleRow> = rows.iter().rev().cloned().collect();
    let file = |rows: &[SampleRow]| {
        samples_to_parquet(rows, &[], Packing::Compacted)
            .unwrap()
            .bytes
    };
    assert_eq!(file(&rows), file(&other));
}
