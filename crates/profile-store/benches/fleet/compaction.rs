//! How long an hour takes to compact, and its merge by stack afterwards.
//!
//! The folder gets 3,600 segments of one second each as appends write them, is compacted as maintenance does it, and is read as queries do. One that has them already is only read.
//! The samples are of three services in equal parts.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use futures_util::TryStreamExt as _;
use jiff::{SignedDuration, Timestamp};
use unhex_profile_store::clock::Clock;
use unhex_profile_store::engine::{Engine, EngineOptions};
use unhex_profile_store::maintain::{MaintainOptions, Maintenance};
use unhex_profile_store::objects::Objects;
use unhex_profile_store::reading::{HourRange, Readings};
use unhex_profile_store::rows::{SampleRow, Series};
use unhex_profile_store::table::names::{Hour, ObjectName};

use crate::appending::Appending;
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

pub(crate) fn hour() -> Hour {
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

/// Appends the rows of each second as a message of its own; the bytes of segments and of the dictionary that they became, and the rows.
async fn ingest(objects: &Objects, samples: u64) -> [u64; 3] {
    let (all, ranks, mut numbers) = (all_series(HOSTS), Ranks::new(STACKS), Numbers::new(42));
    let appending = Appending::to(objects);
    for second in 0..SEGMENTS {
        let rows = rows(second, samples / SEGMENTS, &all, &ranks, &mut numbers);
        appending.append(second, rows).await;
    }
    appending.end().await;
    let dictionary = bytes_below(objects, "dic/").await.into_iter();
    let [mut bytes, mut in_files] = [0, 0];
    for (key, length) in bytes_below(objects, "seg/").await {
        bytes += length;
        in_files += rows_of_segment(&key);
    }
    [bytes, dictionary.map(|(_, bytes)| bytes).sum(), in_files]
}

fn rows_of_segment(key: &str) -> u64 {
    let name: ObjectName = key.parse().expect("a key");
    let ObjectName::Segment(name) = name else {
        unreachable!("{name:?} is below seg/");
    };
    name.rows
}

async fn bytes_below(objects: &Objects, folder: &str) -> Vec<(String, u64)> {
    let listed: Vec<_> = objects
        .list(folder, None)
        .try_collect()
        .await
        .expect("a list");
    let mut all: Vec<(String, u64)> = listed
        .into_iter()
        .map(|object| (object.key, object.bytes))
        .collect();
    all.sort();
    all
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

/// Seconds after which most stacks have been seen.
const WARM_SECONDS: u64 = 30;

/// What a segment of one second has of fleets from a tenth of the size to a hundred times it, and what numbers cost beside it: of the first second, and of the last of some.
pub(crate) async fn measure_segments(folder: &Path) {
    let (ranks, mut numbers) = (Ranks::new(STACKS), Numbers::new(42));
    for (of_size, hosts) in [
        (0.1, HOSTS / 10),
        (1.0, HOSTS),
        (10.0, HOSTS * 10),
        (100.0, HOSTS * 100),
    ] {
        let objects = Objects::folder(&folder.join(hosts.to_string())).expect("a folder");
        let all = all_series(hosts);
        let samples = SAMPLES_PER_SECOND * hosts / HOSTS;
        let appending = Appending::to(&objects);
        for second in 0..WARM_SECONDS {
            let rows = rows(second, samples, &all, &ranks, &mut numbers);
            appending.append(second, rows).await;
        }
        appending.end().await;
        let segments = bytes_below(&objects, "seg/").await;
        let files = bytes_below(&objects, "dic/").await;
        let (last, bytes) = segments.last().expect("a segment");
        let rows = rows_of_segment(last);
        let of_numbers: u64 = files
            .iter()
            .filter(|(key, _)| key.contains(".numbers."))
            .map(|(_, bytes)| bytes)
            .sum();
        println!(
            "{of_size} times the fleet: {samples} samples in {rows} rows, {:.2} samples a row, {:.2} bytes a sample; numbers of {WARM_SECONDS} s: {of_numbers} bytes, {:.3} a sample",
            samples as f64 / rows as f64,
            *bytes as f64 / samples as f64,
            of_numbers as f64 / (samples * WARM_SECONDS) as f64,
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
        let [bytes, dictionary, rows] = ingest(&objects, samples).await;
        let took = begun.elapsed().as_secs_f64();
        println!(
            "{SEGMENTS} segments of {samples} samples in {rows} rows: {bytes} bytes, and {dictionary} of the dictionary, {took:.1} s"
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
