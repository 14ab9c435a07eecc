//! The table that is asked, as compactions would have left it.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use jiff::{SignedDuration, Timestamp};
use unhex_build_id::{IdKind, Identity};
use unhex_pprof::{CodeAddress, FrameHash};
use unhex_profile_store::files::{
    Packing, StackRow, Table, TableWriter, WrittenTable, frames_to_parquet, stacks_to_parquet,
};
use unhex_profile_store::objects::Objects;
use unhex_profile_store::rows::{FrameContent, NativeFrame};
use unhex_profile_store::table::dictionary::{DictionaryName, DictionaryTable};
use unhex_profile_store::table::names::{
    ContentHash, FileKind, Hour, Output, OutputName, PublishId, SegmentName,
};
use unhex_profile_store::table::record::{Compaction, Record, RowTotals};

const DEPTH: u64 = 40;
const FRAMES: u64 = 30_000;
const MINUTES: i64 = 60;
/// Rows that are made at once.
const BATCH_ROWS: usize = 1 << 18;

use crate::synthetic::{
    HOSTS, Numbers, PERIOD_NANOS, Ranks, SAMPLES_PER_SECOND, STACKS, VERSIONS, stack_hash,
    version_of,
};

/// How much there is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) hours: i64,
    pub(crate) stacks: u64,
    /// Of the service that is asked for.
    pub(crate) samples_per_hour: u64,
}

impl Size {
    pub(crate) fn whole() -> Self {
        Self {
            hours: 21 * 24,
            stacks: STACKS,
            samples_per_hour: SAMPLES_PER_SECOND * 3_600,
        }
    }

    pub(crate) fn quick() -> Self {
        Self {
            hours: 30,
            stacks: STACKS / 10,
            samples_per_hour: SAMPLES_PER_SECOND * 36,
        }
    }
}

/// What was written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    pub(crate) total_rows: u64,
    pub(crate) total_bytes: u64,
    pub(crate) samples: u64,
    pub(crate) sample_rows: u64,
    pub(crate) sample_bytes: u64,
}

/// The end of the last hour.
pub(crate) fn now() -> Timestamp {
    "2026-12-01T00:00:00Z".parse().expect("a time")
}

/// A row of samples.
struct Row {
    version: &'static str,
    stack: u64,
    micros: i64,
    host: u64,
    count: i64,
}

pub(crate) async fn write(objects: &Objects, size: &Size) -> Written {
    let mut written = Written::default();
    let ranks = Ranks::new(size.stacks);
    let mut numbers = Numbers::new(1);
    for before in (1..=size.hours).rev() {
        let hour = Hour::of(now() - SignedDuration::from_hours(before)).expect("an hour");
        let mut services = vec!["checkout"];
        if before <= 24 {
            services.extend(["payment", "search"]);
        }
        let mut counts = |_: &str, rank: usize| {
            let mean = mean(size, &ranks, rank) / VERSIONS.len() as f64;
            numbers.poisson(mean)
        };
        let (samples, totals) = if before == 1 {
            let (samples, of_rank) = samples(hour, size, &ranks);
            written.samples = of_rank.iter().flatten().sum::<i64>().cast_unsigned();
            // Those of the other services are not in the table of samples.
            let version = |version: &str| usize::from(version == VERSIONS[1]);
            let totals = totals(&services, size.stacks, |of, rank| {
                of_rank[version(of)][rank]
            });
            (Some(samples), totals)
        } else {
            (None, totals(&services, size.stacks, &mut counts))
        };
        written.total_rows += totals.rows;
        written.total_bytes += totals.bytes.len() as u64;
        if let Some(samples) = &samples {
            written.sample_rows += samples.rows;
            written.sample_bytes += samples.bytes.len() as u64;
        }
        compacted(objects, hour, (&totals, samples.as_ref())).await;
        if before == 1 {
            dictionary(objects, hour, size.stacks).await;
        }
    }
    written
}

/// Samples of a stack in an hour, on average.
fn mean(size: &Size, ranks: &Ranks, rank: usize) -> f64 {
    ranks.share(rank) * size.samples_per_hour as f64
}

/// An hour by the minute, and how many samples each rank has in it, by version.
fn samples(hour: Hour, size: &Size, ranks: &Ranks) -> (WrittenTable, [Vec<i64>; 2]) {
    let mut writer = TableWriter::new(Table::Samples, Packing::Compacted).expect("a writer");
    let mut numbers = Numbers::new(2);
    let start = hour.start().as_microsecond();
    let mut some = Vec::with_capacity(BATCH_ROWS);
    let places = HOSTS as f64 * MINUTES as f64;
    let count = usize::try_from(size.stacks).expect("few");
    let mut of_rank = [vec![0; count], vec![0; count]];
    for (at, version) in VERSIONS.into_iter().enumerate() {
        for (stack, rank) in ordered(size.stacks) {
            let mean = mean(size, ranks, rank) / places;
            for minute in 0..MINUTES {
                for host in (0..HOSTS).filter(|host| version_of(*host) == at) {
                    let count = numbers.poisson(mean);
                    of_rank[at][rank] += count;
                    let micros = start + minute * 60_000_000;
                    let row = Row {
                        version,
                        stack,
                        micros,
                        host,
                        count,
                    };
                    some.extend((count > 0).then_some(row));
                }
            }
            if some.len() >= BATCH_ROWS {
                writer.write(&sample_batch(&some)).expect("written");
                some.clear();
            }
        }
    }
    writer.write(&sample_batch(&some)).expect("written");
    (writer.finish().expect("a file"), of_rank)
}

/// The stacks in order of their numbers, with their ranks.
fn ordered(stacks: u64) -> Vec<(u64, usize)> {
    let mut all: Vec<(u64, usize)> = (0..stacks).zip(0..).collect();
    all.sort_by_key(|(stack, _)| stack_hash(*stack).0);
    all
}

fn texts<'r>(of: impl Iterator<Item = &'r str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(of))
}

fn numbers(of: impl Iterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(of))
}

fn sample_batch(rows: &[Row]) -> RecordBatch {
    let count = rows.len();
    let times = TimestampMicrosecondArray::from_iter_values(rows.iter().map(|row| row.micros));
    let columns: Vec<ArrayRef> = vec![
        texts(std::iter::repeat_n("checkout", count)),
        texts(rows.iter().map(|row| row.version)),
        texts(std::iter::repeat_n("prod", count)),
        texts(std::iter::repeat_n("cpu", count)),
        Arc::new(BinaryArray::from_iter_values(
            rows.iter().map(|row| stack_hash(row.stack).0),
        )),
        Arc::new(times.with_timezone("UTC")),
        numbers(rows.iter().map(|row| {
            i64::from_be_bytes(
                (row.host + 1)
                    .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    .to_be_bytes(),
            )
        })),
        numbers(rows.iter().map(|row| row.count)),
        numbers(std::iter::repeat_n(PERIOD_NANOS, count)),
    ];
    RecordBatch::try_new(Table::Samples.schema(), columns).expect("columns")
}

fn totals(
    services: &[&str],
    stacks: u64,
    mut count_of: impl FnMut(&str, usize) -> i64,
) -> WrittenTable {
    let mut writer = TableWriter::new(Table::Totals, Packing::Compacted).expect("a writer");
    let ordered = ordered(stacks);
    for service in services {
        for version in VERSIONS {
            let counts = ordered
                .iter()
                .map(|(stack, rank)| (*stack, count_of(version, *rank)));
            let counts: Vec<(u64, i64)> = counts.filter(|(_, count)| *count > 0).collect();
            let count = counts.len();
            let hashes = counts.iter().map(|(stack, _)| stack_hash(*stack).0);
            let columns: Vec<ArrayRef> = vec![
                texts(std::iter::repeat_n(*service, count)),
                texts(std::iter::repeat_n(version, count)),
                texts(std::iter::repeat_n("prod", count)),
                texts(std::iter::repeat_n("cpu", count)),
                Arc::new(BinaryArray::from_iter_values(hashes)),
                numbers(counts.iter().map(|(_, count)| *count)),
                numbers(counts.iter().map(|(_, count)| count * PERIOD_NANOS)),
            ];
            let batch = RecordBatch::try_new(Table::Totals.schema(), columns);
            writer.write(&batch.expect("columns")).expect("written");
        }
    }
    writer.finish().expect("a file")
}

/// Puts the outputs and the record of a compaction of one segment, whose bytes nobody reads any more.
async fn compacted(
    objects: &Objects,
    hour: Hour,
    (totals, samples): (&WrittenTable, Option<&WrittenTable>),
) {
    let id = PublishId::new(hour.start() + SignedDuration::from_hours(2), [1; 10]);
    let base = SegmentName {
        hour,
        id: PublishId::new(hour.start(), [2; 10]),
        content: ContentHash::of(hour.to_string().as_bytes()),
        rows: 1,
    };
    put(objects, &base.to_string(), b"superseded".as_slice().into()).await;
    let mut outputs = Vec::new();
    let of_kinds = [
        (FileKind::Totals, Some(totals)),
        (FileKind::Samples, samples),
    ];
    for (kind, written) in of_kinds {
        let Some(written) = written else { continue };
        let name = OutputName {
            hour,
            id,
            kind,
            sha256: ContentHash::of(&written.bytes),
            rows: written.rows,
        };
        put(objects, &name.to_string(), written.bytes.clone()).await;
        let bytes = written.bytes.len() as u64;
        outputs.push(Output { name, bytes });
    }
    let record = Record::Compaction(Arc::new(Compaction {
        id,
        hour,
        generation: 1,
        base: vec![base],
        applied: Vec::new(),
        outputs,
        totals: RowTotals {
            base_rows: 1,
            sample_rows: samples.map_or(0, |samples| samples.rows),
            total_rows: totals.rows,
            samples: totals.rows,
        },
    }));
    let json = record.to_json().expect("a record");
    put(objects, &record.name().to_string(), json.into()).await;
}

async fn dictionary(objects: &Objects, hour: Hour, stacks: u64) {
    let frame_of = |stack: u64, depth: u64| (stack * 7 + depth * 131) % FRAMES;
    let rows = (0..stacks).map(|stack| StackRow {
        service: "checkout".into(),
        stack: stack_hash(stack),
        frames: (0..DEPTH)
            .map(|depth| frame_hash(frame_of(stack, depth)))
            .collect(),
    });
    let rows = stacks_to_parquet(rows.collect(), Packing::Compacted).expect("a file");
    let frames: Vec<FrameContent> = (0..FRAMES).map(frame).collect();
    let frames = (0..).map(frame_hash).zip(&frames);
    let frames = frames_to_parquet(frames, Packing::Compacted).expect("a file");
    for (table, written) in [
        (DictionaryTable::Stacks, rows),
        (DictionaryTable::Frames, frames),
    ] {
        let name = DictionaryName {
            hour,
            id: PublishId::new(hour.start(), [3; 10]),
            table,
            sha256: ContentHash::of(&written.bytes),
            rows: written.rows,
        };
        put(objects, &name.to_string(), written.bytes).await;
    }
}

fn frame_hash(number: u64) -> FrameHash {
    let mut hash = [5; 16];
    hash[..8].copy_from_slice(&number.to_be_bytes());
    FrameHash(hash)
}

/// In one of ten binaries.
fn frame(number: u64) -> FrameContent {
    let binary = number % 10;
    let build_id = format!("{:040x}", 0xabcd_0000 + binary);
    FrameContent::Native(NativeFrame {
        identity: Some(Identity::parse(IdKind::Gnu, &build_id).expect("a build ID")),
        file_name: format!("/usr/lib/lib{binary}.so").into(),
        address: CodeAddress::Link(number * 16),
    })
}

async fn put(objects: &Objects, key: &str, bytes: bytes::Bytes) {
    objects.put(key, bytes).await.expect("durable");
}
