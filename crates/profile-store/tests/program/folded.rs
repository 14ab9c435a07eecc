//! What a table has by its fold: what queries see, compacted or not, without what was deleted.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{AsArray as _, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::functions_aggregate::expr_fn::sum;
use datafusion::prelude::{DataFrame, ident};
use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;
use unhex_profile_store::clock::Clock;
use unhex_profile_store::engine::{Engine, EngineOptions};
use unhex_profile_store::maintain::{MaintainOptions, Maintenance};
use unhex_profile_store::objects::Objects;
use unhex_profile_store::reading::{HourRange, Readings};
use unhex_profile_store::table::names::Hour;
use unhex_profile_store::table::plan::CompactionPolicy;

fn engine(objects: &Objects, spill: &Path) -> Engine {
    let options = EngineOptions {
        memory_bytes: 256 << 20,
        spill: spill.to_owned(),
        spill_bytes_max: 1 << 30,
        parts_per_thread: NonZeroUsize::MIN,
        threads: NonZeroUsize::MIN,
    };
    Engine::new(objects.store(), &options).expect("an engine")
}

/// Hours that tests write into.
fn hours() -> HourRange {
    let hour = |hours| Hour::of(Timestamp::now() + SignedDuration::from_hours(hours));
    HourRange::new(hour(-6).expect("an hour"), hour(1).expect("an hour")).expect("a range")
}

/// The counts of all rows and of all totals, by service, which have to be equal.
pub(crate) fn counts(table: &Path) -> BTreeMap<String, i64> {
    let spill = tempfile::tempdir().expect("a folder");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let counts = runtime.block_on(async {
        let objects = Objects::folder(table).expect("a table");
        let engine = engine(&objects, spill.path());
        let readings = Readings::new(objects, Clock::system());
        let reading = readings.read(hours()).await.expect("a reading");
        let samples = by_service(engine.samples(&reading).expect("a plan")).await;
        let totals = by_service(engine.totals(&reading).expect("a plan")).await;
        assert_eq!(samples, totals, "samples and totals");
        samples
    });
    runtime.shutdown_timeout(Duration::from_secs(5));
    counts
}

async fn by_service(frame: DataFrame) -> BTreeMap<String, i64> {
    let count = vec![sum(ident("count")).alias("count")];
    let summed = frame
        .aggregate(vec![ident("service")], count)
        .expect("a plan");
    let batches = summed.collect().await.expect("sums");
    batches.iter().flat_map(rows).collect()
}

fn rows(batch: &RecordBatch) -> Vec<(String, i64)> {
    let column = |name: &str, of: &DataType| {
        let column = batch.column_by_name(name).expect("a column");
        cast(column, of).expect("its type")
    };
    let services = column("service", &DataType::Utf8);
    let counts = column("count", &DataType::Int64);
    let services = services
        .as_string::<i32>()
        .iter()
        .flatten()
        .map(str::to_owned);
    services
        .zip(counts.as_primitive::<Int64Type>().values().iter().copied())
        .collect()
}

/// Compacts hours as soon as there is something to compact, and stops dead in the middle of it again and again, until it is told to end; how many it did.
pub(crate) fn compact_and_crash(table: &Path, stop: &CancellationToken) -> u64 {
    let spill = tempfile::tempdir().expect("a folder");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let compacted = runtime.block_on(async {
        let objects = Objects::folder(table).expect("a table");
        let mut compacted = 0;
        for round in 0_u64.. {
            if stop.is_cancelled() {
                break;
            }
            let options = MaintainOptions {
                compaction: CompactionPolicy {
                    settle: SignedDuration::ZERO,
                    ..CompactionPolicy::default()
                },
                spread: SignedDuration::ZERO,
                ..MaintainOptions::default()
            };
            // One of its own: what an engine that was let go of still removes is not another's.
            let engine = engine(&objects, &spill.path().join(round.to_string()));
            let maintenance = Maintenance::new(objects.clone(), engine, Clock::system(), options);
            let maintenance = Arc::new(maintenance);
            let work = {
                let maintenance = Arc::clone(&maintenance);
                tokio::spawn(async move { maintenance.round().await.map(drop) })
            };
            // Now and then it is let through.
            let crash = Duration::from_millis(20 + 130 * (round % 9));
            let crashes = round % 4 != 3;
            tokio::select! {
                () = tokio::time::sleep(crash), if crashes => {}
                () = async { while !work.is_finished() { tokio::time::sleep(Duration::from_millis(5)).await } } => {}
            }
            work.abort();
            compacted += maintenance.counters().read().compactions;
        }
        compacted
    });
    runtime.shutdown_timeout(Duration::from_secs(5));
    compacted
}
