//! What the engine reads of a table, counted at the store; what it does beyond its memory, and when nobody waits any more.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Array as _, Int64Array};
use datafusion::functions_aggregate::expr_fn::sum;
use datafusion::logical_expr::{ident, lit};
use datafusion::physical_plan::ExecutionPlanProperties as _;
use datafusion::prelude::DataFrame;
use datafusion::scalar::ScalarValue;
use futures_util::StreamExt as _;
use jiff::{SignedDuration, Timestamp};
use object_store::memory::InMemory;
use unhex_profile_store::engine::{Engine, EngineError};
use unhex_profile_store::files::{Packing, Table, TableWriter};
use unhex_profile_store::objects::Objects;
use unhex_profile_store::table::names::{ContentHash, FileKind, Hour, PublishId, SegmentName};
use unhex_profile_store::table::record::{Deletion, Label, Record, RowSelector, Tombstone};

use crate::ingested::{
    Row, batch, engine, engine_in_parts, hour, minute, put, reading, row, sums, sums_of,
};
use crate::watched::Watched;

const MEMORY_BYTES: usize = 256 << 20;

fn id(at: Timestamp, number: u8) -> PublishId {
    PublishId::new(at, [number; 10])
}

fn later(hours: i64) -> Hour {
    Hour::of(hour().start() + SignedDuration::from_hours(hours)).unwrap()
}

fn watched() -> (Arc<Watched>, Objects) {
    let store = Watched::new(Arc::new(InMemory::new()));
    (Arc::clone(&store), Objects::over(store))
}

/// Rows of many services with stacks of their own.
fn fleet(hour: Hour, services: u64, rows_each: u64) -> Vec<Row> {
    let all = (0..services).flat_map(|service| (0..rows_each).map(move |n| (service, n)));
    let rows = all.map(|(service, n)| {
        let second = i64::try_from(n % 3600).unwrap();
        let mut row = row(
            &format!("service-{service:03}"),
            n * 1000 + service,
            (hour, second),
        );
        row.period = i64::try_from(n % 7).unwrap() + 1;
        row
    });
    rows.collect()
}

/// A file with a row group for each so many rows, as large files have.
async fn put_in_groups(objects: &Objects, rows: &[Row]) -> u64 {
    let mut rows = rows.to_vec();
    rows.sort();
    let mut bytes = Vec::new();
    let properties = parquet::file::properties::WriterProperties::builder()
        .set_max_row_group_row_count(Some(2_000))
        .set_dictionary_enabled(false)
        .build();
    let schema = Table::Samples.schema();
    let mut writer =
        parquet::arrow::ArrowWriter::try_new(&mut bytes, schema, Some(properties)).unwrap();
    writer.write(&batch(&rows)).unwrap();
    writer.close().unwrap();
    let name = SegmentName {
        hour: hour(),
        id: id(minute(1), 1),
        content: ContentHash::of(&bytes),
        rows: rows.len() as u64,
    };
    let length = bytes.len() as u64;
    objects.put(&name.to_string(), bytes.into()).await.unwrap();
    length
}

async fn frame_sum(frame: DataFrame, column: &str) -> i64 {
    let frame = frame.aggregate(vec![], vec![sum(ident(column))]).unwrap();
    let batches = frame.collect().await.unwrap();
    let column = batches[0].column(0);
    let column = column.as_any().downcast_ref::<Int64Array>().unwrap();
    if column.is_null(0) {
        0
    } else {
        column.value(0)
    }
}

#[tokio::test]
async fn one_service_of_many_costs_its_row_groups_alone() {
    let (store, objects) = watched();
    let rows = fleet(hour(), 100, 2_000);
    let bytes = put_in_groups(&objects, &rows).await;
    let (engine, _spill) = engine(&objects, MEMORY_BYTES);
    let all = reading(&objects, minute(5), [hour(), hour()]).await;
    store.take_reads();
    let frame = engine.samples(&all).unwrap();
    assert_eq!(sums(frame).await, sums_of(&rows));
    let (_, whole) = store.take_reads();
    assert!(
        whole > bytes / 2,
        "{whole} of {bytes} were read for everything"
    );
    let one = engine.samples(&all).unwrap();
    let one = one.filter(ident("service").eq(lit("service-042"))).unwrap();
    assert_eq!(frame_sum(one, "count").await, 2_000);
    let (requests, read) = store.take_reads();
    assert!(
        requests <= 4 && read < whole / 30,
        "{requests} requests read {read} of {whole} bytes for one of 100 services"
    );
}

#[tokio::test]
async fn a_file_that_is_read_in_parts_is_read_once() {
    let (store, objects) = watched();
    let rows = fleet(hour(), 100, 2_000);
    let bytes = put_in_groups(&objects, &rows).await;
    // Of this file each part is more than a megabyte, and the parts are not as long as its row groups.
    assert!(bytes > 7 << 20, "{bytes}");
    let all = reading(&objects, minute(5), [hour(), hour()]).await;
    for parts in [2, 4, 6, 14, 128] {
        let (engine, _spill) = engine_in_parts(&objects, parts / 2);
        let frame = engine.samples(&all).unwrap();
        let plan = frame.clone().create_physical_plan().await.unwrap();
        let read_at_once = plan.output_partitioning().partition_count();
        assert_eq!(
            read_at_once,
            parts.min(usize::try_from(bytes.div_ceil(1 << 20)).unwrap())
        );
        assert_eq!(sums(frame).await, sums_of(&rows), "{parts} parts");
        store.take_reads();
        let one = engine.samples(&all).unwrap();
        let one = one.filter(ident("service").eq(lit("service-042"))).unwrap();
        assert_eq!(frame_sum(one, "count").await, 2_000, "{parts} parts");
        let (_, read) = store.take_reads();
        assert!(read < bytes / 20, "{parts} parts: {read} of {bytes}");
    }
}

#[tokio::test]
async fn one_hour_of_many_costs_its_files_alone() {
    let (store, objects) = watched();
    for hours in 0..24 {
        put(&objects, id(minute(hours), 1), &fleet(later(hours), 2, 500)).await;
    }
    let (engine, _spill) = engine(&objects, MEMORY_BYTES);
    let all = reading(&objects, minute(25 * 60), [hour(), later(23)]).await;
    store.take_reads();
    assert_eq!(
        frame_sum(engine.samples(&all).unwrap(), "count").await,
        24_000
    );
    let (all_requests, all_bytes) = store.take_reads();
    assert!(all_requests >= 24, "{all_requests}");
    let time = |hour: Hour| {
        let micros = hour.start().as_microsecond();
        lit(ScalarValue::TimestampMicrosecond(
            Some(micros),
            Some("UTC".into()),
        ))
    };
    let frame = engine.samples(&all).unwrap();
    let frame = frame.filter(ident("ts").gt_eq(time(later(5)))).unwrap();
    let frame = frame.filter(ident("ts").lt(time(later(6)))).unwrap();
    assert_eq!(frame_sum(frame, "count").await, 1_000);
    let (requests, bytes) = store.take_reads();
    assert!(
        requests <= 2 && bytes * 12 < all_bytes,
        "{requests} requests read {bytes} of {all_bytes} bytes for one of 24 hours"
    );
    let totals = engine.totals(&all).unwrap();
    let totals = totals.filter(ident("hour").eq(time(later(7)))).unwrap();
    assert_eq!(frame_sum(totals, "count").await, 1_000);
    let (requests, _) = store.take_reads();
    assert!(
        requests <= 2,
        "{requests} requests for the totals of one of 24 hours"
    );
}

#[tokio::test]
async fn columns_that_nobody_asks_for_are_not_read() {
    let (store, objects) = watched();
    put_in_groups(&objects, &fleet(hour(), 20, 2_000)).await;
    let (engine, _spill) = engine(&objects, MEMORY_BYTES);
    let all = reading(&objects, minute(5), [hour(), hour()]).await;
    store.take_reads();
    sums(engine.samples(&all).unwrap()).await;
    let (_, whole) = store.take_reads();
    let frame = engine.samples(&all).unwrap();
    let frame = frame.select(vec![ident("count"), ident("period")]).unwrap();
    frame.collect().await.unwrap();
    let (_, two) = store.take_reads();
    assert!(
        two * 3 < whole,
        "{two} of {whole} bytes for two of nine columns"
    );
}

#[tokio::test]
async fn deleted_rows_are_in_neither_frame() {
    let (_, objects) = watched();
    let rows = fleet(hour(), 3, 100);
    put(&objects, id(minute(1), 1), &rows).await;
    let labels = [(Label::Service, "service-001".to_owned())];
    let deletions = [
        (
            2,
            RowSelector::Matching(labels.into()),
            FileKind::ALL.to_vec(),
        ),
        (
            3,
            RowSelector::ExceptServices(["service-000".to_owned()].into()),
            vec![FileKind::Samples],
        ),
    ];
    for (number, rows, kinds) in deletions {
        let tombstone = Record::Tombstone(Arc::new(Tombstone {
            id: id(minute(2), number),
            hour: hour(),
            deletion: Deletion {
                kinds: kinds.into_iter().collect(),
                rows,
            },
        }));
        let json = tombstone.to_json().unwrap();
        objects
            .put(&tombstone.name().to_string(), json.into())
            .await
            .unwrap();
    }
    let (engine, _spill) = engine(&objects, MEMORY_BYTES);
    let all = reading(&objects, minute(5), [hour(), hour()]).await;
    let of = |services: &[&str]| {
        let rows = rows.iter();
        sums_of(rows.filter(|row| services.contains(&row.service.as_str())))
    };
    let samples = sums(engine.samples(&all).unwrap()).await;
    assert_eq!(samples, of(&["service-000"]));
    let totals = sums(engine.totals(&all).unwrap()).await;
    assert_eq!(totals, of(&["service-000", "service-002"]));
}

/// Parts of a query that work elsewhere end a moment after it.
async fn until_given_back(engine: &Engine) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while engine.memory_bytes() > 0 {
        assert!(Instant::now() < deadline, "{} bytes", engine.memory_bytes());
        tokio::task::yield_now().await;
    }
}

fn by_stack(engine: &Engine, frame: DataFrame) -> DataFrame {
    let _ = engine;
    let keys = ["service", "stack_id", "ts"].map(ident).to_vec();
    frame
        .aggregate(keys, vec![sum(ident("count")).alias("count")])
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_beyond_the_memory_spills_and_is_right_or_says_what_it_lacks() {
    let (_, objects) = watched();
    let rows = fleet(hour(), 4, 60_000);
    for (number, rows) in (1..).zip(rows.chunks(20_000)) {
        put(&objects, id(minute(1), number), rows).await;
    }
    let all = reading(&objects, minute(5), [hour(), hour()]).await;
    let (roomy, _spill) = engine(&objects, MEMORY_BYTES);
    let expected = by_stack(&roomy, roomy.samples(&all).unwrap());
    assert_eq!(expected.count().await.unwrap(), 240_000);
    let mut outcomes = Vec::new();
    for memory in [64 << 10, 4 << 20, 12 << 20] {
        let (tight, spill) = engine(&objects, memory);
        let frame = by_stack(&tight, tight.samples(&all).unwrap());
        let counted = frame.aggregate(vec![], vec![sum(ident("count"))]).unwrap();
        match counted.collect().await.map_err(EngineError::from) {
            Ok(batches) => {
                let sum = batches[0]
                    .column(0)
                    .as_any()
                    .downcast_ref::<Int64Array>()
                    .unwrap();
                assert_eq!(sum.value(0), 240_000);
                outcomes.push("right");
            }
            Err(EngineError::Memory(text)) => {
                assert!(
                    text.contains("memory") || text.contains("allocate"),
                    "{text}"
                );
                outcomes.push("refused");
            }
            Err(other) => panic!("{other:?}"),
        }
        until_given_back(&tight).await;
        drop(spill);
    }
    assert_eq!(outcomes.first(), Some(&"refused"), "{outcomes:?}");
    assert_eq!(outcomes.last(), Some(&"right"), "{outcomes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_nobody_waits_for_ends_and_gives_its_memory_back() {
    let (store, objects) = watched();
    for number in 0..20 {
        put(&objects, id(minute(1), number), &fleet(hour(), 4, 5_000)).await;
    }
    let all = reading(&objects, minute(5), [hour(), hour()]).await;
    let (engine, _spill) = engine(&objects, MEMORY_BYTES);
    let frame = by_stack(&engine, engine.samples(&all).unwrap());
    store.take_reads();
    let mut stream = frame.execute_stream().await.unwrap();
    let first = tokio::time::timeout(Duration::from_millis(1), stream.next()).await;
    drop(first);
    drop(stream);
    until_given_back(&engine).await;
    let work = engine.run(std::future::pending::<()>());
    let ended = tokio::time::timeout(Duration::from_millis(10), work).await;
    assert!(ended.is_err(), "it would wait for ever");
}

#[tokio::test]
async fn a_file_that_is_gone_is_told_from_other_failures() {
    let (_, objects) = watched();
    let name = put(&objects, id(minute(1), 1), &fleet(hour(), 1, 100)).await;
    let all = reading(&objects, minute(5), [hour(), hour()]).await;
    objects.delete(&name.to_string()).await.unwrap();
    let (engine, _spill) = engine(&objects, MEMORY_BYTES);
    let failed = engine.samples(&all).unwrap().collect().await;
    let error = EngineError::from(failed.unwrap_err());
    assert!(matches!(error, EngineError::Gone(_)), "{error:?}");
}

#[tokio::test]
async fn an_hour_without_files_has_no_rows() {
    let (_, objects) = watched();
    let (engine, _spill) = engine(&objects, MEMORY_BYTES);
    let none = reading(&objects, minute(5), [hour(), later(3)]).await;
    assert_eq!(engine.samples(&none).unwrap().count().await.unwrap(), 0);
    assert_eq!(engine.totals(&none).unwrap().count().await.unwrap(), 0);
    let unused = TableWriter::new(Table::Totals, Packing::Compacted).unwrap();
    assert_eq!(unused.rows(), 0);
}
