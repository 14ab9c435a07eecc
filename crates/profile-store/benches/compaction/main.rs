//! How long an hour takes to compact, and its merge by stack afterwards: `cargo bench -p unhex-profile-store --bench compaction -- FOLDER [SAMPLES]`.
//!
//! FOLDER gets 3,600 segments of one second each, is compacted as maintenance does it, and is read as queries do. One that has them already is only read. It stays there, for
//! `merges.py` beside this file, which does the same merges over the same files.
//! The fleet: three services of two versions and 20,000 stacks each, chosen by Zipf's law with exponent 1.05, 40 series a service, 19 Hz.
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a measurement that meets the unexpected has failed, and prints what it is of"
)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Array as _, TimestampMicrosecondArray};
use arrow::array::{ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray};
use datafusion::functions_aggregate::expr_fn::sum;
use datafusion::logical_expr::{ident, lit};
use datafusion::prelude::DataFrame;
use jiff::{SignedDuration, Timestamp};
use unhex_profile_store::clock::Clock;
use unhex_profile_store::engine::{Engine, EngineOptions};
use unhex_profile_store::files::{Packing, Table, TableWriter};
use unhex_profile_store::maintain::{MaintainOptions, Maintenance};
use unhex_profile_store::objects::Objects;
use unhex_profile_store::reading::{HourRange, Reading, Readings};
use unhex_profile_store::table::names::{ContentHash, Hour, PublishId, SegmentName};

const SEGMENTS: u64 = 3_600;
const SERVICES: u64 = 3;
const VERSIONS: u64 = 2;
const STACKS: usize = 20_000;
const SERIES: u64 = 40;
const EXPONENT: f64 = 1.05;
const PERIOD_NANOS: i64 = 52_631_578;
const MEMORY_BYTES: usize = 2 << 30;
const TRIES: usize = 5;

/// Numbers that look random and are the same in every run (Knuth's multiplier).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}

/// Which stack a number stands for, the frequent ones first.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new() -> Self {
        let mut total = 0.0;
        let sums = (1..=STACKS).map(|rank| {
            total += f64::from(u32::try_from(rank).expect("small")).powf(-EXPONENT);
            total
        });
        Self(sums.collect())
    }

    fn of(&self, number: u64) -> u64 {
        let total = self.0.last().copied().unwrap_or(1.0);
        let part = f64::from(u32::try_from(number).expect("31 bits")) / f64::from(1_u32 << 31);
        self.0.partition_point(|sum| *sum < part * total) as u64
    }
}

/// Service, version, stack, time and series of a row: their order is that of the table.
type Row = (u64, u64, u128, i64, i64);

fn hour() -> Hour {
    "2026-12-01/13".parse().expect("an hour")
}

fn rows(second: u64, count: u64, zipf: &Zipf, numbers: &mut Numbers) -> Vec<Row> {
    let start = hour().start().as_microsecond();
    let mut rows: Vec<Row> = (0..count)
        .map(|_| {
            let service = numbers.next() % SERVICES;
            let stack = zipf.of(numbers.next() & 0x7fff_ffff) * SERVICES + service;
            let stack = u128::from(stack).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
            let within = i64::try_from(numbers.next() % 1_000_000).expect("small");
            let time = start + i64::try_from(second).expect("small") * 1_000_000 + within;
            let series = i64::try_from(numbers.next() % SERIES).expect("small");
            // A series is of one version.
            let version = u64::try_from(series).expect("positive") % VERSIONS;
            (service, version, stack, time, series * 1_000_003)
        })
        .collect();
    rows.sort_unstable();
    rows
}

fn batch(rows: &[Row]) -> RecordBatch {
    let text = |of: &dyn Fn(&Row) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(rows.iter().map(of)))
    };
    let numbers = |of: &dyn Fn(&Row) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(rows.iter().map(of)))
    };
    let times = TimestampMicrosecondArray::from_iter_values(rows.iter().map(|row| row.3));
    let stacks = rows.iter().map(|row| row.2.to_be_bytes());
    let columns: Vec<ArrayRef> = vec![
        text(&|row| format!("service-{}", row.0)),
        text(&|row| format!("2.{}", row.1)),
        text(&|_| "prod".to_owned()),
        text(&|_| "cpu".to_owned()),
        Arc::new(BinaryArray::from_iter_values(stacks)),
        Arc::new(times.with_timezone("UTC")),
        numbers(&|row| row.4),
        numbers(&|_| 1),
        numbers(&|_| PERIOD_NANOS),
    ];
    RecordBatch::try_new(Table::Samples.schema(), columns).expect("columns")
}

async fn ingest(objects: &Objects, samples: u64) -> u64 {
    let (zipf, mut numbers) = (Zipf::new(), Numbers(42));
    let mut bytes = 0;
    for second in 0..SEGMENTS {
        let rows = rows(second, samples / SEGMENTS, &zipf, &mut numbers);
        let mut writer = TableWriter::new(Table::Samples, Packing::Fresh).expect("a writer");
        writer.write(&batch(&rows)).expect("rows");
        let written = writer.finish().expect("a file");
        let after = SignedDuration::from_secs(i64::try_from(second).expect("small"));
        let name = SegmentName {
            hour: hour(),
            id: PublishId::new(hour().start() + after, [1; 10]),
            content: ContentHash::of(&written.bytes),
            rows: written.rows,
        };
        bytes += written.bytes.len() as u64;
        let key = name.to_string();
        let put = objects.put(&key, written.bytes);
        put.await.expect("a segment");
    }
    bytes
}

fn engine(objects: &Objects, spill: PathBuf) -> Engine {
    let options = EngineOptions {
        memory_bytes: MEMORY_BYTES,
        spill,
        spill_bytes_max: 32 << 30,
        threads: std::thread::available_parallelism().expect("cores"),
    };
    Engine::new(objects.store(), &options).expect("an engine")
}

/// Processor time of the process so far, of all its threads.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    let ticks = fields
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}

async fn merge(engine: &Engine, frame: DataFrame, value: &'static str) -> (usize, i64) {
    let one = frame
        .filter(ident("service").eq(lit("service-0")))
        .expect("a filter");
    let value = match value {
        "value" => ident("value"),
        _ => ident("count") * ident("period"),
    };
    let sums = vec![
        sum(ident("count")).alias("count"),
        sum(value).alias("value"),
    ];
    let merged = one
        .aggregate(vec![ident("stack_id")], sums)
        .expect("a merge");
    let batches = engine
        .run(merged.collect())
        .await
        .expect("threads")
        .expect("rows");
    let counts = batches.iter().map(|batch| {
        let counts = batch.column_by_name("count").expect("counts");
        let counts = counts
            .as_any()
            .downcast_ref::<Int64Array>()
            .expect("numbers");
        (counts.len(), counts.values().iter().sum::<i64>())
    });
    counts.fold((0, 0), |(rows, sum), (more, of)| (rows + more, sum + of))
}

async fn measure(engine: &Engine, reading: &Reading, what: &str, is_totals: IsTotals) {
    let mut best = (f64::MAX, f64::MAX);
    let mut found = (0, 0);
    for _ in 0..TRIES {
        let (begun, processor) = (Instant::now(), processor_seconds());
        found = match is_totals {
            IsTotals::Yes => merge(engine, engine.totals(reading).expect("a plan"), "value").await,
            IsTotals::No => merge(engine, engine.samples(reading).expect("a plan"), "period").await,
        };
        let took = (
            begun.elapsed().as_secs_f64(),
            processor_seconds() - processor,
        );
        best = (best.0.min(took.0), best.1.min(took.1));
    }
    println!(
        "{what}: {} stacks of {} samples, best of {TRIES}: {:.3} s, {:.2} CPU s",
        found.0, found.1, best.0, best.1
    );
}

/// Which rows to merge.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IsTotals {
    Yes,
    No,
}

async fn all(folder: &Path, samples: u64) {
    let objects = Objects::folder(folder).expect("a folder");
    let now: Timestamp = hour().start() + SignedDuration::from_mins(70);
    let clock = Clock::new(move || now);
    let readings = Readings::new(objects.clone(), clock.clone());
    let range = HourRange::new(hour(), hour()).expect("an hour");
    let before = readings.read(range).await.expect("a reading");
    if before.hours().iter().all(|hour| hour.samples.is_empty()) {
        let begun = Instant::now();
        let bytes = ingest(&objects, samples).await;
        let took = begun.elapsed().as_secs_f64();
        println!("{SEGMENTS} segments of {samples} samples: {bytes} bytes, {took:.1} s");
    }
    let spill = folder.with_extension("spill");
    let queries = engine(&objects, spill.join("queries"));
    let begun = Instant::now();
    let fresh = readings.read(range).await.expect("a reading");
    println!("listing: {:.3} s", begun.elapsed().as_secs_f64());
    if fresh.hours().iter().any(|hour| hour.fresh > 0) {
        let what = "merge of one service, fresh";
        measure(&queries, &fresh, what, IsTotals::No).await;
        let compactor = engine(&objects, spill.join("compaction"));
        // Each row of a segment is one sample.
        let files = fresh.hours().iter().flat_map(|hour| &hour.samples);
        let samples = files.map(|live| live.file.rows()).sum();
        compact(&objects, compactor, clock, samples).await;
    }
    let compacted = readings.read(range).await.expect("a reading");
    let what = "merge of one service, rows of 60 s";
    measure(&queries, &compacted, what, IsTotals::No).await;
    let what = "merge of one service, totals";
    measure(&queries, &compacted, what, IsTotals::Yes).await;
}

async fn compact(objects: &Objects, engine: Engine, clock: Clock, samples: u64) {
    let options = MaintainOptions {
        spread: SignedDuration::ZERO,
        ..MaintainOptions::default()
    };
    let maintenance = Maintenance::new(objects.clone(), engine, clock, options);
    let (begun, processor) = (Instant::now(), processor_seconds());
    let done = maintenance.compact(hour()).await.expect("a compaction");
    let done = done.expect("it is due");
    let took = begun.elapsed().as_secs_f64();
    let used = processor_seconds() - processor;
    let rate = f64::from(u32::try_from(samples / 1000).expect("fewer")) / 1000.0 / used;
    println!(
        "compaction: rows {:?}, bytes {:?}: {took:.1} s, {used:.1} CPU s, {rate:.2} M samples a CPU s",
        done.rows, done.bytes
    );
    assert_eq!(done.sums.count, i128::from(samples));
}

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    let Some(folder) = arguments.first() else {
        println!("a folder is wanted: see the head of benches/compaction/main.rs");
        return;
    };
    let samples = arguments
        .get(1)
        .map_or(7_200_000, |text| text.parse().expect("samples"));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(all(Path::new(folder), samples));
}
