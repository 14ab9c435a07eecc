//! How long an hour takes to compact, and its merge by stack afterwards.
//!
//! The folder gets 3,600 segments of one second each, is compacted as maintenance does it, and is read as queries do. One that has them already is only read.
//! The samples are of three services in equal parts.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use jiff::{SignedDuration, Timestamp};
use unhex_profile_store::clock::Clock;
use unhex_profile_store::engine::{Engine, EngineOptions};
use unhex_profile_store::files::{Packing, samples_to_parquet};
use unhex_profile_store::maintain::{MaintainOptions, Maintenance};
use unhex_profile_store::objects::Objects;
use unhex_profile_store::reading::{HourRange, Readings};
use unhex_profile_store::rows::{SampleRow, Series};
use unhex_profile_store::table::names::{ContentHash, Hour, PublishId, SegmentName};

use crate::queries::{Asking, question_of, report};
use crate::synthetic::{
    HOSTS, Numbers, PERIOD_NANOS, Ranks, SAMPLES_PER_SECOND, STACKS, VERSIONS, stack_hash,
    version_of,
};

const SEGMENTS: u64 = 3_600;
const SERVICES: u64 = 3;
const MEMORY_BYTES: usize = 2 << 30;

/// The label sets, by service and host.
fn all_series(hosts: u64) -> Vec<Vec<Arc<Series>>> {
    let series = |service: u64, host: u64| {
        let version = VERSIONS[version_of(host % HOSTS)];
        let labels = [
            ("deployment", "prod".to_owned()),
            ("host", format!("host-{host}")),
            ("service", format!("service-{service}")),
            ("version", version.to_owned()),
        ];
        let labels = labels.map(|(name, value)| (name.into(), value.into()));
        Arc::new(Series::of_labels(labels.to_vec()).expect("labels in order"))
    };
    let of_service = |service| (0..hosts).map(|host| series(service, host)).collect();
    (0..SERVICES).map(of_service).collect()
}

fn hour() -> Hour {
    "2026-12-01/13".parse().expect("an hour")
}

fn rows(
    second: u64,
    count: u64,
    all: &[Vec<Arc<Series>>],
    ranks: &Ranks,
    numbers: &mut Numbers,
) -> Vec<SampleRow> {
    let profile_type: Arc<str> = "cpu".into();
    let second = i64::try_from(second).expect("small");
    let time_unix_seconds = hour().start().as_second() + second;
    let row = |_| {
        let service = numbers.next() % SERVICES;
        let of = |at: u64| usize::try_from(at).expect("small");
        let of_service = &all[of(service)];
        let host = of(numbers.next()) % of_service.len();
        SampleRow {
            series: Arc::clone(&of_service[host]),
            profile_type: Arc::clone(&profile_type),
            stack: stack_hash(ranks.draw(numbers) * SERVICES + service),
            time_unix_seconds,
            count: 1,
            period: PERIOD_NANOS,
        }
    };
    (0..count).map(row).collect()
}

async fn ingest(objects: &Objects, samples: u64) -> (u64, u64) {
    let (all, ranks, mut numbers) = (all_series(HOSTS), Ranks::new(STACKS), Numbers::new(42));
    let (mut bytes, mut in_files) = (0, 0);
    for second in 0..SEGMENTS {
        let rows = rows(second, samples / SEGMENTS, &all, &ranks, &mut numbers);
        let written = samples_to_parquet(&rows, &[], Packing::Fresh).expect("a file");
        let after = SignedDuration::from_secs(i64::try_from(second).expect("small"));
        let name = SegmentName {
            hour: hour(),
            id: PublishId::new(hour().start() + after, [1; 10]),
            content: ContentHash::of(&written.bytes),
            rows: written.rows,
        };
        bytes += written.bytes.len() as u64;
        in_files += written.rows;
        let key = name.to_string();
        let put = objects.put(&key, written.bytes);
        put.await.expect("a segment");
    }
    (bytes, in_files)
}

fn engine(objects: &Objects, spill: PathBuf) -> Engine {
    let options = EngineOptions {
        memory_bytes: MEMORY_BYTES,
        spill,
        spill_bytes_max: 32 << 30,
        parts_per_thread: std::num::NonZeroUsize::MIN,
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

/// What a segment of one second has of fleets from a tenth of the size to a hundred times it.
pub(crate) fn measure_segments() {
    let (ranks, mut numbers) = (Ranks::new(STACKS), Numbers::new(42));
    for (of_size, hosts) in [
        (0.1, HOSTS / 10),
        (1.0, HOSTS),
        (10.0, HOSTS * 10),
        (100.0, HOSTS * 100),
    ] {
        let all = all_series(hosts);
        let samples = SAMPLES_PER_SECOND * hosts / HOSTS;
        let rows = rows(0, samples, &all, &ranks, &mut numbers);
        let written = samples_to_parquet(&rows, &[], Packing::Fresh).expect("a file");
        println!(
            "{of_size} times the fleet: {samples} samples in {} rows, {:.2} samples a row, {:.2} bytes a sample",
            written.rows,
            samples as f64 / written.rows as f64,
            written.bytes.len() as f64 / samples as f64,
        );
    }
}

/// Measures all of it, over `samples` or those of an hour of the fleet.
pub(crate) async fn measure_all(folder: &Path, samples: Option<u64>) {
    let samples = samples.unwrap_or(SAMPLES_PER_SECOND * SEGMENTS);
    let objects = Objects::folder(folder).expect("a folder");
    let now: Timestamp = hour().start() + SignedDuration::from_mins(70);
    let clock = Clock::new(move || now);
    let readings = Readings::new(objects.clone(), clock.clone());
    let range = HourRange::new(hour(), hour()).expect("an hour");
    let before = readings.read(range).await.expect("a reading");
    if before.hours().iter().all(|hour| hour.samples.is_empty()) {
        let begun = Instant::now();
        let (bytes, rows) = ingest(&objects, samples).await;
        let took = begun.elapsed().as_secs_f64();
        println!(
            "{SEGMENTS} segments of {samples} samples in {rows} rows: {bytes} bytes, {took:.1} s"
        );
    }
    let spill = folder.with_extension("spill");
    let asking = Asking::over(&objects, &spill, clock.clone(), None);
    let end = hour().start() + SignedDuration::from_hours(1);
    let cut = hour().start() + SignedDuration::from_mins(1);
    let merge = async |what: &str, from: Timestamp| {
        let question = question_of("service-0", from, end);
        let ask = async || {
            let sums = asking.queries.sums_by_stack(&question).await;
            sums.expect("an answer").iter().count()
        };
        report(what, ask).await;
    };
    let fresh = readings.read(range).await.expect("a reading");
    if fresh.hours().iter().any(|hour| hour.fresh > 0) {
        merge("merge of one service and an hour, fresh", hour().start()).await;
        let compactor = engine(&objects, spill.join("compaction"));
        compact(&objects, compactor, clock.clone()).await;
    }
    // A part of the times below, of which the first step of each is to list what the hour has: replaced segments lie there for a day.
    let look = async || {
        let anew = Readings::new(objects.clone(), clock.clone());
        anew.read(range).await.expect("a reading").hours().len()
    };
    report("looking what the hour has", look).await;
    merge("merge of one service, 59 minutes of 60 s rows", cut).await;
    merge(
        "merge of one service and an hour, from totals",
        hour().start(),
    )
    .await;
}

async fn compact(objects: &Objects, engine: Engine, clock: Clock) {
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
    let samples = u64::try_from(done.sums.count).expect("positive");
    let rate = f64::from(u32::try_from(samples / 1000).expect("fewer")) / 1000.0 / used;
    println!(
        "compaction: {samples} samples, rows {:?}, bytes {:?}: {took:.1} s, {used:.1} CPU s, {rate:.2} M samples a CPU s",
        done.rows, done.bytes
    );
}
