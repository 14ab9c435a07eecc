//! Rows as an append would put them, made from a few words, and what a reading says of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    Array as _, ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::DataType;
use datafusion::arrow::compute::cast;
use datafusion::prelude::DataFrame;
use jiff::{SignedDuration, Timestamp};
use unhex_profile_store::clock::Clock;
use unhex_profile_store::engine::{Engine, EngineOptions};
use unhex_profile_store::files::{Packing, StackNumber, Table, TableWriter};
use unhex_profile_store::objects::Objects;
use unhex_profile_store::reading::{HourRange, Reading, Readings};
use unhex_profile_store::table::names::{ContentHash, Hour, PublishId, SegmentName};

/// A row of samples.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Row {
    pub(crate) service: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) stack: u64,
    pub(crate) micros: i64,
    pub(crate) series: i64,
    pub(crate) period: i64,
    pub(crate) count: i64,
}

/// The hour that most tests are of.
pub(crate) fn hour() -> Hour {
    "2026-12-01/13".parse().unwrap()
}

/// So many minutes after that hour's begin.
pub(crate) fn minute(minutes: i64) -> Timestamp {
    hour().start() + SignedDuration::from_mins(minutes)
}

/// A row of a service with a stack, at a second of an hour.
pub(crate) fn row(service: &str, stack: u64, (hour, second): (Hour, i64)) -> Row {
    Row {
        service: service.to_owned(),
        version: "1".to_owned(),
        kind: "cpu".to_owned(),
        stack,
        micros: (hour.start() + SignedDuration::from_secs(second)).as_microsecond(),
        series: i64::try_from(stack % 3).unwrap(),
        period: 52_631_578,
        count: 1,
    }
}

/// Rows as a batch, in the order of the table.
pub(crate) fn batch(rows: &[Row]) -> RecordBatch {
    batch_by(rows, |stack| stack_id(stack).to_vec())
}

/// The same with other bytes for stacks, in the same order.
fn batch_by(rows: &[Row], stack: impl Fn(u64) -> Vec<u8>) -> RecordBatch {
    let mut rows: Vec<&Row> = rows.iter().collect();
    rows.sort();
    let text = |of: fn(&Row) -> &str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(
            rows.iter().map(|row| of(row)),
        ))
    };
    let number = |of: fn(&Row) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| of(row))))
    };
    let stacks = rows.iter().map(|row| stack(row.stack));
    let times = rows.iter().map(|row| row.micros);
    let times = TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC");
    let columns: Vec<ArrayRef> = vec![
        text(|row| &row.service),
        text(|row| &row.version),
        text(|_| "prod"),
        text(|row| &row.kind),
        Arc::new(BinaryArray::from_iter_values(stacks)),
        Arc::new(times),
        number(|row| row.series),
        number(|row| row.count),
        number(|row| row.period),
    ];
    RecordBatch::try_new(Table::Samples.schema(), columns).unwrap()
}

/// The number of a stack, whose bytes are in the order of the numbers.
pub(crate) fn stack_id(stack: u64) -> [u8; 16] {
    let spread = u128::from(stack).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    spread.to_be_bytes()
}

/// Puts rows of one hour as a segment.
pub(crate) async fn put(objects: &Objects, id: PublishId, rows: &[Row]) -> SegmentName {
    let micros = Timestamp::from_microsecond(rows[0].micros).unwrap();
    let name = SegmentName {
        hour: Hour::of(micros).unwrap(),
        id,
        content: ContentHash::of(format!("{id}{rows:?}").as_bytes()),
        rows: rows.len() as u64,
    };
    put_as(objects, &name, rows).await;
    name
}

/// Puts rows as a segment of that name.
pub(crate) async fn put_as(objects: &Objects, name: &SegmentName, rows: &[Row]) {
    put_batch(objects, name, &batch(rows)).await;
}

/// Puts rows of one hour as a segment, by numbers of a writer instead of stacks.
pub(crate) async fn put_numbered(
    objects: &Objects,
    id: PublishId,
    rows: &[Row],
    number: impl Fn(u64) -> StackNumber,
) {
    let micros = Timestamp::from_microsecond(rows[0].micros).unwrap();
    let name = SegmentName {
        hour: Hour::of(micros).unwrap(),
        id,
        content: ContentHash::of(format!("{id}{rows:?}").as_bytes()),
        rows: rows.len() as u64,
    };
    let batch = batch_by(rows, |stack| number(stack).to_bytes().to_vec());
    put_batch(objects, &name, &batch).await;
}

async fn put_batch(objects: &Objects, name: &SegmentName, batch: &RecordBatch) {
    let mut writer = TableWriter::new(Table::Samples, Packing::Fresh).unwrap();
    writer.write(batch).unwrap();
    let bytes = writer.finish().unwrap().bytes;
    objects.put(&name.to_string(), bytes).await.unwrap();
}

/// An engine with room for its own spilling.
pub(crate) fn engine(objects: &Objects, memory_bytes: usize) -> (Engine, tempfile::TempDir) {
    engine_of(objects, memory_bytes, [2, 8])
}

/// An engine of two threads, each of which reads few large files in so many parts.
pub(crate) fn engine_in_parts(objects: &Objects, parts: usize) -> (Engine, tempfile::TempDir) {
    engine_of(objects, 256 << 20, [2, parts])
}

fn engine_of(
    objects: &Objects,
    memory_bytes: usize,
    [threads, parts_per_thread]: [usize; 2],
) -> (Engine, tempfile::TempDir) {
    let spill = tempfile::tempdir().unwrap();
    let options = EngineOptions {
        memory_bytes,
        spill: spill.path().to_owned(),
        spill_bytes_max: 1 << 30,
        threads: threads.try_into().unwrap(),
        parts_per_thread: parts_per_thread.try_into().unwrap(),
    };
    (Engine::new(objects.store(), &options).unwrap(), spill)
}

/// A clock that stands still.
pub(crate) fn at(now: Timestamp) -> Clock {
    Clock::new(move || now)
}

/// What these hours have.
pub(crate) async fn reading(objects: &Objects, now: Timestamp, hours: [Hour; 2]) -> Reading {
    let readings = Readings::new(objects.clone(), at(now));
    let [first, last] = hours;
    let range = HourRange::new(first, last).unwrap();
    readings.read(range).await.unwrap()
}

/// The sums of a frame's counts and values, by service.
pub(crate) type Sums = BTreeMap<String, (i128, i128)>;

/// The sums that a frame of samples or of totals has.
pub(crate) async fn sums(frame: DataFrame) -> Sums {
    let mut sums = Sums::new();
    for batch in frame.collect().await.unwrap() {
        add_batch(&mut sums, &batch);
    }
    sums
}

/// Adds the rows of a batch of samples or of totals.
pub(crate) fn add_batch(sums: &mut Sums, batch: &RecordBatch) {
    let column = |name: &str| {
        let numbers = cast(batch.column_by_name(name)?, &DataType::Int64).unwrap();
        numbers.as_any().downcast_ref::<Int64Array>().cloned()
    };
    let services = cast(batch.column_by_name("service").unwrap(), &DataType::Utf8).unwrap();
    let services = services.as_any().downcast_ref::<StringArray>().unwrap();
    let (counts, values, periods) = (column("count").unwrap(), column("value"), column("period"));
    for at in 0..services.len() {
        let count = i128::from(counts.value(at));
        let value = match (&values, &periods) {
            (Some(values), _) => i128::from(values.value(at)),
            (None, periods) => count * i128::from(periods.as_ref().unwrap().value(at)),
        };
        let sum = sums.entry(services.value(at).to_owned()).or_default();
        *sum = (sum.0 + count, sum.1 + value);
    }
}

/// The sums of rows.
pub(crate) fn sums_of<'r>(rows: impl IntoIterator<Item = &'r Row>) -> Sums {
    let mut sums = Sums::new();
    for row in rows {
        let sum = sums.entry(row.service.clone()).or_default();
        let (count, period) = (i128::from(row.count), i128::from(row.period));
        *sum = (sum.0 + count, sum.1 + count * period);
    }
    sums
}
