//! What a compaction makes of an hour: the same sums in fewer rows, sorted, and nothing said where it cannot be.

use std::collections::BTreeSet;

use arrow::array::{Array as _, Int64Array, TimestampMicrosecondArray};
use arrow::datatypes::DataType;
use datafusion::arrow::compute::cast;
use datafusion::logical_expr::ident;
use jiff::SignedDuration;
use unhex_profile_store::maintain::{MaintainError, MaintainOptions};
use unhex_profile_store::reading::HourRange;
use unhex_profile_store::table::names::{FileKind, Hour, ObjectName, SegmentName};
use unhex_profile_store::table::plan::Retention;
use unhex_profile_store::table::record::{Label, RowSelector};

use crate::backends::over_each;
use crate::fleet::{Now, Reader, at_once, replica, rows};
use crate::ingested::{Row, hour, minute, put, row, sums_of};

#[tokio::test(flavor = "multi_thread")]
async fn an_hour_is_compacted_ten_minutes_after_it_and_again_for_what_came_late() {
    over_each(async |objects| {
        let now = Now::at(minute(30));
        let (replica, _spill) = replica(&objects, &now, at_once());
        let reader = Reader::of(&objects, &now);
        let mut all: Vec<Row> = Vec::new();
        for segment in 0..12 {
            let rows = rows(segment, 40);
            put(&objects, now.publish(u8::try_from(segment).unwrap()), &rows).await;
            all.extend(rows);
            now.pass(1);
        }
        now.set(minute(69));
        assert_eq!(replica.compact(hour()).await.unwrap(), None, "not yet");
        now.set(minute(70));
        let done = replica.compact(hour()).await.unwrap().expect("due");
        assert_eq!((done.segments, done.rows[0]), (12, 480));
        assert!(done.rows[1] < 300, "{done:?}");
        let expected = sums_of(&all);
        assert_eq!(reader.sums(hour()).await, [expected.clone(), expected]);
        assert_eq!(reader.files(hour()).await, (0, 1, 1));
        assert_eq!(replica.compact(hour()).await.unwrap(), None, "done");
        let late = rows(99, 10);
        put(&objects, now.publish(77), &late).await;
        all.extend(late);
        let expected = sums_of(&all);
        assert_eq!(
            reader.sums(hour()).await,
            [expected.clone(), expected.clone()]
        );
        assert_eq!(
            replica.compact(hour()).await.unwrap(),
            None,
            "more may come"
        );
        now.pass(10);
        let again = replica.compact(hour()).await.unwrap().expect("due");
        assert_eq!(again.segments, 13);
        assert_eq!(reader.sums(hour()).await, [expected.clone(), expected]);
        assert_eq!(reader.files(hour()).await, (0, 1, 1));
        let counters = replica.counters().read();
        assert_eq!(
            (counters.compactions, counters.rows_in),
            (2, 480 + done.rows[1] + 10)
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_hour_of_many_segments_is_compacted_while_it_goes_on() {
    let objects = crate::replicas::in_memory();
    let now = Now::at(minute(30));
    let mut options = at_once();
    options.compaction.fresh_segments_max = 10;
    let (replica, _spill) = replica(&objects, &now, options);
    let reader = Reader::of(&objects, &now);
    let mut all = Vec::new();
    for segment in 0..25 {
        put(
            &objects,
            now.publish(u8::try_from(segment).unwrap()),
            &rows(segment, 10),
        )
        .await;
        all.extend(rows(segment, 10));
        let compacted = replica.compact(hour()).await.unwrap().is_some();
        assert_eq!(compacted, segment == 10 || segment == 21, "{segment}");
    }
    let expected = sums_of(&all);
    assert_eq!(reader.sums(hour()).await, [expected.clone(), expected]);
    assert_eq!(reader.files(hour()).await, (3, 1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_of_whole_minutes_equal_ones_are_one_and_all_are_sorted() {
    let objects = crate::replicas::in_memory();
    let now = Now::at(minute(70));
    let (replica, _spill) = replica(&objects, &now, at_once());
    let seconds = [3600 - 1, 61, 119, 0, 59, 120];
    let rows: Vec<Row> = seconds
        .iter()
        .map(|&second| row("a", 1, (hour(), second)))
        .collect();
    for (number, row) in (0..).zip(&rows) {
        put(&objects, now.publish(number), std::slice::from_ref(row)).await;
    }
    now.pass(10);
    replica.compact(hour()).await.unwrap().unwrap();
    let reader = Reader::of(&objects, &now);
    let reading = reader
        .readings
        .read(HourRange::new(hour(), hour()).unwrap())
        .await
        .unwrap();
    let frame = reader.engine.samples(&reading).unwrap();
    let frame = frame.select(vec![ident("ts"), ident("count")]).unwrap();
    let batches = frame.collect().await.unwrap();
    let mut found = Vec::new();
    for batch in &batches {
        let times = batch
            .column(0)
            .as_any()
            .downcast_ref::<TimestampMicrosecondArray>()
            .unwrap();
        let counts = cast(batch.column(1), &DataType::Int64).unwrap();
        let counts = counts
            .as_any()
            .downcast_ref::<Int64Array>()
            .unwrap()
            .clone();
        let start = hour().start().as_microsecond();
        let times = times.values().iter().map(|time| (time - start) / 1_000_000);
        found.extend(times.zip(counts.values().iter().copied()));
    }
    assert_eq!(found, [(0, 2), (60, 2), (120, 1), (3540, 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn sums_beyond_64_bits_are_kept_in_two_rows() {
    let objects = crate::replicas::in_memory();
    let now = Now::at(minute(70));
    let (replica, _spill) = replica(&objects, &now, at_once());
    let mut all = Vec::new();
    for number in 0..3 {
        let mut large = row("a", 1, (hour(), 5));
        (large.count, large.period) = (1, i64::MAX);
        let mut many = row("a", 2, (hour(), 5));
        (many.count, many.period) = (i64::MAX, 1);
        let rows = [large, many, row("a", 3, (hour(), 5))];
        put(&objects, now.publish(number), &rows).await;
        all.extend(rows);
    }
    now.pass(10);
    let done = replica.compact(hour()).await.unwrap().unwrap();
    assert_eq!(done.rows, [9, 7], "six that have no room, and one");
    let reader = Reader::of(&objects, &now);
    let expected = sums_of(&all);
    assert_eq!(reader.sums(hour()).await, [expected.clone(), expected]);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_outputs_are_split_and_compacted_again_as_one() {
    let objects = crate::replicas::in_memory();
    let now = Now::at(minute(70));
    let options = MaintainOptions {
        output_bytes_max: 20_000,
        ..at_once()
    };
    let (replica, _spill) = replica(&objects, &now, options);
    let many: Vec<Row> = (0..60_000)
        .map(|n| row("a", n, (hour(), i64::try_from(n % 3600).unwrap())))
        .collect();
    put(&objects, now.publish(1), &many).await;
    now.pass(10);
    replica.compact(hour()).await.unwrap().unwrap();
    let reader = Reader::of(&objects, &now);
    let (fresh, samples, totals) = reader.files(hour()).await;
    assert!(
        fresh == 0 && samples > 2 && totals > 2,
        "{samples} {totals}"
    );
    put(&objects, now.publish(2), &rows(1, 10)).await;
    now.pass(10);
    replica.compact(hour()).await.unwrap().unwrap();
    let expected = sums_of(many.iter().chain(&rows(1, 10)));
    assert_eq!(reader.sums(hour()).await, [expected.clone(), expected]);
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_rows_leave_the_files_and_come_back_with_no_resend() {
    let objects = crate::replicas::in_memory();
    let now = Now::at(minute(70));
    let (replica, _spill) = replica(&objects, &now, at_once());
    let reader = Reader::of(&objects, &now);
    put(&objects, now.publish(1), &rows(1, 40)).await;
    now.pass(10);
    replica.compact(hour()).await.unwrap().unwrap();
    let labels = [(Label::Service, "search".to_owned())].into();
    let selector = RowSelector::Matching(labels);
    let kinds: BTreeSet<FileKind> = FileKind::ALL.into();
    let range = HourRange::new(hour(), hour()).unwrap();
    let deleted = replica.delete(range, &kinds, &selector).await.unwrap();
    assert_eq!(deleted.hours, [hour()]);
    let kept: Vec<Row> = rows(1, 40)
        .into_iter()
        .filter(|row| row.service == "checkout")
        .collect();
    let expected = sums_of(&kept);
    assert_eq!(
        reader.sums(hour()).await,
        [expected.clone(), expected.clone()]
    );
    replica
        .compact(hour())
        .await
        .unwrap()
        .expect("rows to take out");
    put(&objects, now.publish(2), &rows(1, 40)).await;
    let twice = sums_of(kept.iter().chain(&kept));
    assert_eq!(reader.sums(hour()).await, [twice.clone(), twice]);
    let again = replica.delete(range, &kinds, &selector).await.unwrap();
    assert_eq!((again.hours.len(), again.hours_before.len()), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_expire_before_totals_and_at_last_nothing_is_left() {
    let objects = crate::replicas::in_memory();
    let now = Now::at(minute(70));
    let retention = Retention {
        samples_days_by_service: [("search".to_owned(), 30), ("checkout".to_owned(), 5)].into(),
        ..Retention::default()
    };
    let options = MaintainOptions {
        retention,
        ..at_once()
    };
    let (replica, _spill) = replica(&objects, &now, options);
    let reader = Reader::of(&objects, &now);
    let all = rows(1, 40);
    put(&objects, now.publish(1), &all).await;
    let of = |service: &str| sums_of(all.iter().filter(|row| row.service == service));
    let whole = sums_of(&all);
    let days = [
        (1, [whole.clone(), whole.clone()]),
        (6, [of("search"), whole.clone()]),
        (22, [of("search"), whole.clone()]),
        (31, [sums_of([]), whole.clone()]),
        (91, [sums_of([]), sums_of([])]),
    ];
    for (day, expected) in days {
        now.set(minute(70) + SignedDuration::from_hours(24 * day));
        replica.round().await.unwrap();
        assert_eq!(reader.sums(hour()).await, expected, "day {day}");
        now.pass(60 * 25);
        replica.round().await.unwrap();
        assert_eq!(reader.sums(hour()).await, expected, "day {day} and one");
    }
    for _ in 0..3 {
        now.pass(60 * 25);
        replica.round().await.unwrap();
    }
    let left: Vec<String> = crate::replicas::keys(&objects).await;
    assert_eq!(left, Vec::<String>::new());
    assert_eq!(replica.counters().read().hours_waiting, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_is_told_by_service() {
    let objects = crate::replicas::in_memory();
    let now = Now::at(minute(70));
    let (replica, _spill) = replica(&objects, &now, at_once());
    put(&objects, now.publish(1), &rows(1, 40)).await;
    replica.round().await.unwrap();
    let fresh = replica.counters().read();
    assert_eq!(
        (
            fresh.fresh.objects,
            fresh.fresh.rows,
            fresh.by_service.len()
        ),
        (1, 40, 0)
    );
    now.pass(10);
    replica.round().await.unwrap();
    replica.round().await.unwrap();
    let known = replica.counters().read();
    assert_eq!((known.fresh.objects, known.hours), (0, 1));
    let services: Vec<&str> = known.by_service.keys().map(String::as_str).collect();
    assert_eq!(services, ["checkout", "search"]);
    let total: u64 = known.by_service.values().map(|usage| usage.bytes).sum();
    assert!(total > 1_000, "{known:?}");
}

/// What docs/profile-table.md says of an output without a copy.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_damaged_output_and_its_record_the_segments_count_again() {
    let objects = crate::replicas::in_memory();
    let now = Now::at(minute(70));
    let (replica, _spill) = replica(&objects, &now, at_once());
    let all = rows(1, 40);
    put(&objects, now.publish(1), &all).await;
    now.pass(10);
    assert_eq!(replica.round().await.unwrap().compacted, 1);
    let reader = Reader::of(&objects, &now);
    let before = reader.sums(hour()).await;
    let keys = crate::replicas::keys(&objects).await;
    let output = keys.iter().find(|key| key.contains(".samples.")).unwrap();
    let record = keys.iter().find(|key| key.ends_with(".compaction.json"));
    objects.put(output, vec![7; 300].into()).await.unwrap();
    for key in [output, record.unwrap()] {
        objects.delete(key).await.unwrap();
    }
    now.pass(1);
    let reader = Reader::of(&objects, &now);
    assert_eq!(reader.sums(hour()).await, before);
    assert_eq!(reader.files(hour()).await, (1, 0, 0));
    // And they are compacted anew.
    now.pass(10);
    assert_eq!(replica.round().await.unwrap().compacted, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_segment_that_cannot_be_read_stops_its_hour_alone() {
    let objects = crate::replicas::in_memory();
    let now = Now::at(minute(70));
    let (replica, _spill) = replica(&objects, &now, at_once());
    let before = Hour::of(minute(-30)).unwrap();
    let other = vec![row("a", 1, (before, 5))];
    put(&objects, now.publish(1), &other).await;
    let name: SegmentName = put(&objects, now.publish(1), &rows(1, 5)).await;
    let key = ObjectName::Segment(name).to_string();
    objects.put(&key, vec![7; 300].into()).await.unwrap();
    now.pass(10);
    let round = replica.round().await.unwrap();
    assert_eq!((round.compacted, round.failed), (1, 1));
    let error = replica.compact(hour()).await.unwrap_err();
    let MaintainError::Damaged { damage, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(damage.key, key);
    let left = crate::replicas::keys(&objects).await;
    assert!(left.contains(&key), "{left:?}");
    assert_eq!(left.iter().filter(|key| key.starts_with("rec/")).count(), 1);
    let counters = replica.counters().read();
    assert_eq!(counters.hours_waiting, 1);
}
