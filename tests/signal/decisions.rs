//! Decisions to ignore: durable, shared, in the order in which people knew of each other's.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use unhex::signal::{IgnoreDecision, Signal};

use crate::failing::{FailingStore, Operation};
use crate::replica::{Start, Time, counts, gauge, identity, labels, profile, shown, unknown};

const GRACE: Duration = Duration::from_mins(10);
const HOUR: Duration = Duration::from_hours(1);

fn decide(id: u64, reason: Option<&str>) -> IgnoreDecision {
    IgnoreDecision {
        identity: identity(id),
        reason: reason.map(str::to_owned),
        who: Some("ada".to_owned()),
    }
}

fn reason(signal: &Arc<Signal>) -> Option<String> {
    signal.ignored(&identity(1))?.reason
}

fn decisions(folder: &Path) -> Vec<PathBuf> {
    let files = walkdir::WalkDir::new(folder.join("signal/ignored"));
    let files = files.into_iter().filter_map(Result::ok);
    let files = files.filter(|entry| entry.file_type().is_file());
    files.map(walkdir::DirEntry::into_path).collect()
}

#[tokio::test]
async fn a_decision_to_ignore_is_durable_shared_and_can_be_taken_back() {
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    let signal = Start::new(folder.path(), &time).open().await;
    let other = Start::new(folder.path(), &time).open().await;
    signal.observe(&profile(vec![unknown(1)]));
    time.advance(GRACE + Duration::from_secs(1));
    assert_eq!(gauge(&signal).await, 1);
    signal
        .decide(decide(1, Some("a vendor's\nblob")))
        .await
        .unwrap();
    assert_eq!(gauge(&signal).await, 0);
    signal.synchronize().await.unwrap();
    other.synchronize().await.unwrap();
    let found = other.missing_one(&identity(1)).unwrap();
    assert!(found.ignored.is_some());
    assert_eq!(
        other.ignored(&identity(1)).unwrap().reason.as_deref(),
        Some("a vendor'sblob")
    );
    signal.observe(&profile(vec![unknown(1)]));
    assert_eq!(
        counts(&signal, &labels("checkout", "2.4")).profiles_unknown,
        1
    );
    time.advance(Duration::from_secs(1));
    other.decide(decide(1, None)).await.unwrap();
    signal.synchronize().await.unwrap();
    assert_eq!(gauge(&signal).await, 1);
    let restarted = Start::new(folder.path(), &time).open().await;
    assert!(restarted.ignored(&identity(1)).is_none() && gauge(&restarted).await == 1);
}

#[tokio::test]
async fn a_decision_beats_those_that_it_knew_of_whatever_the_clocks_say() {
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    let fast = Start::new(folder.path(), &time).open().await;
    let late = time.behind(3 * 24 * HOUR);
    let slow = Start::new(folder.path(), &late).open().await;
    fast.decide(decide(1, Some("a"))).await.unwrap();
    let taken_back = slow.decide(decide(1, None)).await.unwrap();
    assert!(taken_back.is_some(), "it need not have read it before");
    assert!(slow.decide(decide(1, None)).await.unwrap().is_none());
    fast.synchronize().await.unwrap();
    assert_eq!((reason(&fast), reason(&slow)), (None, None));
    slow.decide(decide(1, Some("b"))).await.unwrap();
    fast.synchronize().await.unwrap();
    assert_eq!(reason(&fast).as_deref(), Some("b"));
    assert_eq!(reason(&slow).as_deref(), Some("b"));
    assert_eq!(decisions(folder.path()).len(), 1, "what is beaten is gone");
}

#[tokio::test]
async fn what_was_taken_back_leaves_nothing_after_a_day() {
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    let signal = Start::new(folder.path(), &time).open().await;
    for reason in [Some("a"), None] {
        signal.decide(decide(1, reason)).await.unwrap();
    }
    signal.decide(decide(2, Some("stays"))).await.unwrap();
    signal.synchronize().await.unwrap();
    assert_eq!(decisions(folder.path()).len(), 2);
    time.advance(25 * HOUR);
    signal.synchronize().await.unwrap();
    assert_eq!(decisions(folder.path()).len(), 1);
    assert!(signal.ignored(&identity(2)).is_some());
}

#[tokio::test]
async fn a_damaged_decision_costs_itself_only_and_one_out_of_reach_lets_nobody_decide() {
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    let before = Start::new(folder.path(), &time).open().await;
    for id in [1, 2] {
        before.decide(decide(id, Some("vendor"))).await.unwrap();
    }
    let text = |path: &PathBuf| fs::read_to_string(path).unwrap();
    let id = identity(1).to_string();
    let mut written = decisions(folder.path()).into_iter();
    let first = written.find(|path| text(path).contains(&id)).unwrap();
    let store = FailingStore::open(folder.path());
    let start = || Start::new(folder.path(), &time).over(&store);

    let name = first.file_name().unwrap().to_str().unwrap().to_owned();
    store.fail(ErrorKind::TimedOut, move |operation, key| {
        operation == Operation::Get && key.ends_with(&name)
    });
    let signal = start().open().await;
    assert!(reason(&signal).is_none() && signal.ignored(&identity(2)).is_some());
    signal.observe(&profile(vec![unknown(1)]));
    time.advance(GRACE);
    assert_eq!(shown(&signal), Some(0), "within the grace");
    signal.decide(decide(1, None)).await.unwrap_err();
    store.mend();
    signal.decide(decide(1, Some("again"))).await.unwrap();
    assert_eq!(reason(&signal).as_deref(), Some("again"));
    assert!(!first.exists(), "it knew of that one");

    fs::write(&first, "{ damaged").unwrap();
    let signal = start().open().await;
    assert_eq!(reason(&signal).as_deref(), Some("again"));
    signal.decide(decide(1, None)).await.unwrap();
    assert!(first.exists(), "what cannot be read is left alone");
}

#[tokio::test]
async fn an_ignored_build_id_counts_for_no_service_and_all_are_listed_in_order() {
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    let signal = Start::new(folder.path(), &time).open().await;
    let mut of_cart = profile(vec![unknown(1), unknown(4)]);
    of_cart.labels = labels("cart", "1");
    signal.observe(&of_cart);
    signal.observe(&profile(vec![unknown(1)]));
    for id in [3, 1, 2, 5] {
        signal.decide(decide(id, Some("vendor"))).await.unwrap();
    }
    signal.decide(decide(5, None)).await.unwrap();
    time.advance(GRACE + Duration::from_secs(1));
    assert_eq!(gauge(&signal).await, 0);
    let cart = counts(&signal, &labels("cart", "1")).unknown_build_ids;
    assert_eq!(cart, Some(1), "the other one");
    let page = signal.all_ignored(None, 2);
    assert_eq!(page[0].0.identity, identity(1));
    assert_eq!(page[0].1.as_ref().unwrap().entry.profiles, 2);
    assert!(page[1].1.is_none(), "no profile had it");
    let rest = signal.all_ignored(Some(&page[1].0.identity), 9);
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0].0.identity, identity(3));
}
