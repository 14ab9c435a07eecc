//! Objects that cannot be read and a store that fails: each costs what it holds, and nothing is lost.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use unhex::metrics::Metrics;

use crate::failing::{FailingStore, Operation};
use crate::replica::{Start, Time, gauge, identity, profile, shown, unknown};

const BEHIND_GRACE: Duration = Duration::from_secs(601);

fn segments(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder.join("signal/ledger")) else {
        return Vec::new();
    };
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn unreadable(metrics: &Metrics) -> String {
    let text = String::from_utf8(metrics.render(&[]).unwrap()).unwrap();
    let line = text
        .lines()
        .find(|line| line.starts_with("unhex_ledger_unreadable_objects "));
    line.unwrap_or_default().to_owned()
}

#[tokio::test]
async fn an_object_that_cannot_be_read_costs_what_is_in_it_and_is_left_alone() {
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    let other = Start::new(folder.path(), &time).open().await;
    other.observe(&profile(vec![unknown(1)]));
    other.synchronize().await.unwrap();
    let ledger = folder.path().join("signal/ledger");
    let strange = |digit: &str| ledger.join(format!("{}.json.zst", digit.repeat(32)));
    fs::write(strange("0"), "no segment").unwrap();
    let large = fs::File::create(strange("1")).unwrap();
    large.set_len(200 << 20).unwrap();
    fs::write(strange("2"), "out of reach").unwrap();
    let store = FailingStore::open(folder.path());
    store.fail(ErrorKind::PermissionDenied, |operation, key| {
        operation == Operation::Get && key.contains(&"2".repeat(32))
    });
    let metrics = Arc::new(Metrics::new());
    let start = Start::new(folder.path(), &time).over(&store);
    let signal = start.open_with(&metrics).await;
    signal.observe(&profile(vec![unknown(2)]));
    signal.synchronize().await.unwrap();
    time.advance(BEHIND_GRACE);
    assert_eq!(gauge(&signal).await, 2);
    assert_eq!(
        unreadable(&metrics),
        "unhex_ledger_unreadable_objects 3",
        "each is counted"
    );
    time.advance(Duration::from_hours(9 * 24));
    for signal in [&signal, &other] {
        signal.synchronize().await.unwrap();
    }
    for digit in ["0", "1", "2"] {
        assert!(strange(digit).exists(), "{digit} is not ours to delete");
    }
}

#[tokio::test]
async fn a_replica_writes_its_damaged_segment_anew() {
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    let signal = Start::new(folder.path(), &time).open().await;
    signal.observe(&profile(vec![unknown(1)]));
    signal.synchronize().await.unwrap();
    let [written] = &segments(folder.path())[..] else {
        panic!("one segment");
    };
    // Damage that it has not read yet: another replica meets it first.
    fs::write(written, "damaged").unwrap();
    time.advance(BEHIND_GRACE);
    let other = Start::new(folder.path(), &time).open().await;
    assert_eq!(gauge(&other).await, 0);
    assert!(written.exists(), "only its owner knows what was in it");
    // The owner reads it only if it has to: a restart of the other side cannot tell it.
    fs::remove_file(written).unwrap();
    signal.synchronize().await.unwrap();
    signal.synchronize().await.unwrap();
    other.synchronize().await.unwrap();
    assert_eq!(gauge(&other).await, 1);
    assert_eq!(segments(folder.path()).len(), 1);
}

#[tokio::test]
async fn what_cannot_be_read_at_the_start_ends_no_alert() {
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    let before = Start::new(folder.path(), &time).open().await;
    before.observe(&profile(vec![unknown(1)]));
    before.synchronize().await.unwrap();
    drop(before);
    time.advance(BEHIND_GRACE);
    let store = FailingStore::open(folder.path());
    store.fail(ErrorKind::TimedOut, |operation, key| {
        operation == Operation::Get && key.contains("signal/ledger")
    });
    let start = Start::new(folder.path(), &time).over(&store);
    let signal = start.open().await;
    signal.observe(&profile(vec![unknown(2)]));
    assert_eq!(shown(&signal), None, "a zero would end the alert");
    store.mend();
    signal.synchronize().await.unwrap();
    assert_eq!(gauge(&signal).await, 1);
}

#[tokio::test]
async fn a_full_disk_loses_nothing_that_is_in_memory() {
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    let store = FailingStore::open(folder.path());
    let start = Start::new(folder.path(), &time).over(&store);
    let signal = start.open().await;
    store.fail(ErrorKind::StorageFull, |operation, _| {
        operation == Operation::Put
    });
    for id in 1..=3 {
        signal.observe(&profile(vec![unknown(id)]));
        signal.synchronize().await.unwrap_err();
    }
    time.advance(BEHIND_GRACE);
    assert_eq!(gauge(&signal).await, 3);
    store.mend();
    signal.synchronize().await.unwrap();
    let after = Start::new(folder.path(), &time).open().await;
    assert_eq!(gauge(&after).await, 3);
    assert_eq!(after.missing_one(&identity(1)).unwrap().entry.profiles, 1);
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_full_disk_is_counted_each_time_and_said_once() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .finish();
    let _said = tracing::subscriber::set_default(subscriber);
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    let store = FailingStore::open(folder.path());
    let metrics = Arc::new(Metrics::new());
    let mut start = Start::new(folder.path(), &time).over(&store);
    start.config.write_every = Duration::from_millis(5);
    let signal = start.open_with(&metrics).await;
    store.fail(ErrorKind::StorageFull, |operation, _| {
        operation == Operation::Put
    });
    signal.observe(&profile(vec![unknown(1)]));
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    signal.run(&tasks, &stop);
    let failures = || {
        let text = String::from_utf8(metrics.render(&[]).unwrap()).unwrap();
        let name = "unhex_ledger_failures_total ";
        let mut values = text.lines().filter_map(|line| line.strip_prefix(name));
        values.next().map_or(0.0, |value| value.parse().unwrap())
    };
    let end = tokio::time::Instant::now() + Duration::from_mins(1);
    while failures() < 3.0 {
        assert!(tokio::time::Instant::now() < end, "no failures are counted");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    store.mend();
    while segments(folder.path()).is_empty() {
        assert!(tokio::time::Instant::now() < end, "it is not tried again");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stop.cancel();
    tasks.close();
    tasks.wait().await;
    let said = String::from_utf8(log.0.lock().clone()).unwrap();
    assert_eq!(said.matches("stays in memory").count(), 1, "{said}");
    assert_eq!(
        said.matches("no room left").count(),
        2,
        "field and words: {said}"
    );
    assert_eq!(said.matches("read again").count(), 1, "{said}");
}
