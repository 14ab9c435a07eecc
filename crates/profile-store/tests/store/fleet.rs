//! Replicas over one store, with a clock that tests set: what each of them is given, and what a reading must say.

use std::sync::Arc;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use unhex_profile_store::clock::Clock;
use unhex_profile_store::engine::Engine;
use unhex_profile_store::maintain::{MaintainOptions, Maintenance};
use unhex_profile_store::objects::Objects;
use unhex_profile_store::reading::{HourRange, Readings};
use unhex_profile_store::table::names::{FileKind, Hour, PublishId};

use crate::ingested::{Row, Sums, add_batch, engine, hour, row, sums};

/// A time that all replicas agree on.
#[derive(Clone, Debug)]
pub(crate) struct Now(Arc<Mutex<Timestamp>>);

impl Now {
    pub(crate) fn at(now: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(now)))
    }

    pub(crate) fn set(&self, now: Timestamp) {
        *self.0.lock() = now;
    }

    pub(crate) fn pass(&self, minutes: i64) {
        *self.0.lock() += SignedDuration::from_mins(minutes);
    }

    pub(crate) fn now(&self) -> Timestamp {
        *self.0.lock()
    }

    pub(crate) fn clock(&self) -> Clock {
        let now = self.clone();
        Clock::new(move || now.now())
    }

    pub(crate) fn publish(&self, number: u8) -> PublishId {
        PublishId::new(self.now(), [number; 10])
    }
}

/// Options that compact as soon as it is due.
pub(crate) fn at_once() -> MaintainOptions {
    MaintainOptions {
        spread: SignedDuration::ZERO,
        ..MaintainOptions::default()
    }
}

/// One replica's maintenance.
pub(crate) fn replica(
    objects: &Objects,
    now: &Now,
    options: MaintainOptions,
) -> (Arc<Maintenance>, tempfile::TempDir) {
    let (engine, spill) = engine(objects, 256 << 20);
    let replica = Maintenance::new(objects.clone(), engine, now.clock(), options);
    (Arc::new(replica), spill)
}

/// Who reads.
pub(crate) struct Reader {
    pub(crate) engine: Engine,
    pub(crate) readings: Readings,
    objects: Objects,
    _spill: tempfile::TempDir,
}

impl Reader {
    pub(crate) fn of(objects: &Objects, now: &Now) -> Self {
        let (engine, spill) = engine(objects, 256 << 20);
        Self {
            engine,
            readings: Readings::new(objects.clone(), now.clock()),
            objects: objects.clone(),
            _spill: spill,
        }
    }

    /// The sums of samples and of totals of an hour.
    pub(crate) async fn sums(&self, hour: Hour) -> [Sums; 2] {
        let reading = self
            .readings
            .read(HourRange::new(hour, hour).unwrap())
            .await
            .unwrap();
        let samples = sums(self.engine.samples(&reading).unwrap()).await;
        [samples, sums(self.engine.totals(&reading).unwrap()).await]
    }

    /// The same sums without the engine: the bytes of each live file, of which no rows are deleted.
    pub(crate) async fn sums_by_hand(&self, hour: Hour) -> [Sums; 2] {
        let reading = self
            .readings
            .read(HourRange::new(hour, hour).unwrap())
            .await
            .unwrap();
        let mut both = [Sums::new(), Sums::new()];
        for (kind, sums) in FileKind::ALL.into_iter().zip(&mut both) {
            for (_, live) in reading.hours()[0].files(kind) {
                assert_eq!(live.unapplied, [], "{live:?}");
                let bytes = self.objects.get(&live.file.to_string()).await.unwrap();
                add_file(sums, bytes.expect("a live file is there"));
            }
        }
        both
    }

    /// The numbers of files of an hour: segments, and outputs of both kinds.
    pub(crate) async fn files(&self, hour: Hour) -> (usize, usize, usize) {
        let reading = self
            .readings
            .read(HourRange::new(hour, hour).unwrap())
            .await
            .unwrap();
        let of = &reading.hours()[0];
        let outputs = |files: usize| files - if files == 0 { 0 } else { of.fresh };
        (
            of.fresh,
            outputs(of.samples.len()),
            outputs(of.totals.len()),
        )
    }
}

fn add_file(sums: &mut Sums, bytes: Bytes) {
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap();
    for batch in reader.build().unwrap() {
        add_batch(sums, &batch.unwrap());
    }
}

/// Rows of a segment: two services, some stacks that come every time, and seconds of one part of the hour.
pub(crate) fn rows(segment: u64, count: u64) -> Vec<Row> {
    let rows = (0..count).map(|n| {
        let service = ["checkout", "search"][usize::try_from(n % 2).unwrap()];
        let second = i64::try_from((segment * 7 + n) % 3600).unwrap();
        let mut row = row(service, n % 11, (hour(), second));
        row.count = i64::try_from(n % 5).unwrap() + 1;
        row
    });
    rows.collect()
}
