//! What a reading of a range of hours has: what it lists, what it keeps, and which hours it cannot tell.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use object_store::memory::InMemory;
use parking_lot::Mutex;
use unhex_profile_store::clock::Clock;
use unhex_profile_store::objects::Objects;
use unhex_profile_store::reading::{HourRange, Reading, ReadingError, Readings};
use unhex_profile_store::table::names::{Hour, PublishId};
use unhex_profile_store::table::record::{Deletion, Record, RowSelector, Tombstone};

use crate::ingested::{hour, minute, put, row};
use crate::watched::Watched;

fn id(at: Timestamp, number: u8) -> PublishId {
    PublishId::new(at, [number; 10])
}

fn later(hours: i64) -> Hour {
    Hour::of(hour().start() + SignedDuration::from_hours(hours)).unwrap()
}

/// A table, a clock that tests set, and readings.
struct Table {
    store: Arc<Watched>,
    objects: Objects,
    now: Arc<Mutex<Timestamp>>,
    readings: Readings,
}

impl Table {
    fn new(now: Timestamp) -> Self {
        let store = Watched::new(Arc::new(InMemory::new()));
        let objects = Objects::over(Arc::clone(&store) as _);
        let now = Arc::new(Mutex::new(now));
        let told = Arc::clone(&now);
        let clock = Clock::new(move || *told.lock());
        Self {
            readings: Readings::new(objects.clone(), clock),
            store,
            objects,
            now,
        }
    }

    fn pass(&self, seconds: i64) {
        *self.now.lock() += SignedDuration::from_secs(seconds);
    }

    async fn read(&self, first: Hour, last: Hour) -> Result<Reading, ReadingError> {
        self.readings
            .read(HourRange::new(first, last).unwrap())
            .await
    }

    async fn delete_all(&self, hour: Hour, number: u8) {
        let tombstone = Record::Tombstone(Arc::new(Tombstone {
            id: id(minute(1), number),
            hour,
            deletion: Deletion {
                kinds: [unhex_profile_store::table::names::FileKind::Samples].into(),
                rows: RowSelector::Everything,
            },
        }));
        let (key, json) = (tombstone.name().to_string(), tombstone.to_json().unwrap());
        self.objects.put(&key, json.into()).await.unwrap();
    }
}

#[tokio::test]
async fn a_segment_shows_at_once_and_in_an_old_hour_some_seconds_later() {
    let table = Table::new(minute(30));
    for old in [0, -30] {
        assert!(
            table.read(later(old), hour()).await.unwrap().hours()[0]
                .samples
                .is_empty()
        );
        let at = (later(old), 5);
        put(&table.objects, id(minute(29), 1), &[row("checkout", 1, at)]).await;
    }
    let now = table.read(hour(), hour()).await.unwrap();
    assert_eq!((now.hours()[0].samples.len(), now.hours()[0].fresh), (1, 1));
    assert_eq!(now.hours()[0].totals, now.hours()[0].samples);
    let old = table.read(later(-30), later(-30)).await.unwrap();
    assert_eq!(old.hours()[0].samples.len(), 0, "kept");
    table.pass(11);
    let old = table.read(later(-30), later(-30)).await.unwrap();
    assert_eq!(old.hours()[0].samples.len(), 1);
}

#[tokio::test]
async fn three_weeks_cost_a_few_lists_and_nothing_when_asked_again() {
    let table = Table::new(minute(30));
    for day in 0..21 {
        let old = later(-24 * day);
        put(
            &table.objects,
            id(minute(29), 1),
            &[row("checkout", 1, (old, 5))],
        )
        .await;
        table.delete_all(old, 2).await;
    }
    let before = table.store.operations();
    let all = table.read(later(-20 * 24), hour()).await.unwrap();
    assert_eq!(all.hours().len(), 20 * 24 + 1);
    assert_eq!(
        all.hours()
            .iter()
            .filter(|hour| hour.is_without_samples)
            .count(),
        21
    );
    let cost = table.store.operations() - before;
    assert!(
        cost < 180,
        "{cost} operations: 2 LISTs a date, 2 an hour of the last days, 21 GETs"
    );
    let before = table.store.operations();
    table.read(later(-20 * 24), hour()).await.unwrap();
    let cost = table.store.operations() - before;
    assert!(
        cost <= 8,
        "{cost} operations for the hours that are not over"
    );
    table.pass(60);
    let before = table.store.operations();
    table.read(later(-20 * 24), hour()).await.unwrap();
    assert!(
        table.store.operations() - before < 180 - 21,
        "records are read once"
    );
}

#[tokio::test]
async fn an_hour_with_a_record_that_cannot_be_read_is_named_and_harms_no_other() {
    let table = Table::new(minute(30));
    let key = format!("rec/{}/{}.tombstone.json", hour(), id(minute(2), 1));
    table
        .objects
        .put(&key, "{\"version\": 9}".into())
        .await
        .unwrap();
    put(
        &table.objects,
        id(minute(1), 1),
        &[row("a", 1, (hour(), 5))],
    )
    .await;
    put(
        &table.objects,
        id(minute(1), 1),
        &[row("a", 1, (later(-1), 5))],
    )
    .await;
    let error = table.read(later(-1), hour()).await.unwrap_err();
    assert!(
        matches!(error, ReadingError::Hour { hour: at, .. } if at == hour()),
        "{error:?}"
    );
    let other = table.read(later(-1), later(-1)).await.unwrap();
    assert_eq!(other.hours()[0].samples.len(), 1);
    table.objects.delete(&key).await.unwrap();
    table.read(later(-1), hour()).await.unwrap();
}

#[tokio::test]
async fn a_reading_grows_too_old_to_be_used() {
    let table = Table::new(minute(30));
    let reading = table.read(hour(), hour()).await.unwrap();
    assert!(reading.check(minute(89)).is_ok());
    assert_eq!(reading.check(minute(90)).unwrap_err().minutes, 60);
}

#[test]
fn a_range_of_hours_has_both_its_ends_and_an_end() {
    let range = HourRange::new(later(-2), hour()).unwrap();
    let hours: Vec<Hour> = range.iter().collect();
    assert_eq!(hours, [later(-2), later(-1), hour()]);
    assert!(HourRange::new(hour(), later(-1)).is_err());
    assert!(HourRange::new(later(-24 * 200), hour()).is_err());
}
