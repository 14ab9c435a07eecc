//! Cases in which it would be easy to be wrong: after restarts, with odd clocks, odd weights and several
//! replicas that see different things.

use std::io::ErrorKind;
use std::time::Duration;

use unhex::signal::{Observation, ObservedModule};
use unhex_api::symbolize::ModuleStatus;

use crate::failing::{FailingStore, Operation};
use crate::replica::{Start, Time, counts, gauge, labels, module, profile, shown, unknown};

const BEHIND_GRACE: Duration = Duration::from_secs(601);
const HOUR: Duration = Duration::from_hours(1);

/// A profile of `addresses` addresses with symbols.
fn found(addresses: u64) -> ObservedModule {
    let mut found = module(1_000_000, ModuleStatus::Found, 100 * addresses);
    found.addresses = addresses;
    found
}

fn of(service: &str, modules: Vec<ObservedModule>) -> Observation {
    Observation {
        labels: labels(service, "2.4"),
        ..profile(modules)
    }
}

#[tokio::test]
async fn nothing_counts_before_the_store_was_asked_behind_the_grace() {
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    let signal = Start::new(folder.path(), &time).open().await;
    signal.observe(&profile(vec![unknown(1)]));
    signal.check().await;
    time.advance(BEHIND_GRACE);
    assert_eq!(shown(&signal), Some(0), "it may have been uploaded since");
    assert_eq!(gauge(&signal).await, 1);
}

#[tokio::test]
async fn a_restart_asks_about_all_that_would_count_before_it_says_anything() {
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    let before = Start::new(folder.path(), &time).open().await;
    for id in 0..2_500 {
        let name = format!("s{id}");
        before.observe(&of(&name, vec![unknown(id)]));
    }
    before.observe(&profile((0..2_500).map(unknown).collect()));
    before.synchronize().await.unwrap();
    drop(before);
    time.advance(BEHIND_GRACE);
    let after = Start::new(folder.path(), &time).open().await;
    assert_eq!(shown(&after), None, "each is less than a hundredth");
    let mut known = after.profile_counts().into_iter();
    assert!(known.all(|counts| counts.unknown_build_ids.is_some_and(|number| number > 0)));
}

#[tokio::test]
async fn a_store_that_cannot_be_asked_begins_no_alert_and_ends_none() {
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    let before = Start::new(folder.path(), &time).open().await;
    before.observe(&profile(vec![unknown(1)]));
    before.observe(&of("calm", vec![found(1)]));
    before.synchronize().await.unwrap();
    drop(before);
    time.advance(BEHIND_GRACE);
    let store = FailingStore::open(folder.path());
    store.fail(ErrorKind::TimedOut, |operation, key| {
        operation == Operation::List && key.starts_with("builds")
    });
    let start = Start::new(folder.path(), &time).over(&store);
    let signal = start.open().await;
    let calm = || counts(&signal, &labels("calm", "2.4")).unknown_build_ids;
    assert_eq!((shown(&signal), calm()), (None, Some(0)));
    time.advance(Duration::from_mins(3));
    signal.check().await;
    assert_eq!(
        shown(&signal),
        None,
        "no series, or an alert would end or begin"
    );
    time.advance(Duration::from_mins(2));
    assert_eq!(shown(&signal), Some(1), "before the alert forgets it");
    store.mend();
    assert_eq!(gauge(&signal).await, 1);
}

#[tokio::test]
async fn all_replicas_know_how_large_a_service_is() {
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    let one = Start::new(folder.path(), &time).open().await;
    let two = Start::new(folder.path(), &time).open().await;
    one.observe(&profile(vec![found(1_000)]));
    two.observe(&profile(vec![unknown(1)]));
    for signal in [&one, &two, &one] {
        signal.synchronize().await.unwrap();
    }
    time.advance(BEHIND_GRACE);
    assert_eq!((gauge(&one).await, gauge(&two).await), (0, 0));
    drop(one);
    time.advance(HOUR);
    let three = Start::new(folder.path(), &time).open().await;
    three.observe(&profile(vec![unknown(1)]));
    assert_eq!(gauge(&three).await, 0, "who started anew knows it too");
}

#[tokio::test]
async fn a_nightly_job_is_as_large_as_in_the_night_before() {
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    let signal = Start::new(folder.path(), &time).open().await;
    signal.observe(&profile(vec![unknown(1), found(1_000)]));
    time.advance(25 * HOUR);
    assert_eq!(counts(&signal, &labels("checkout", "2.4")).profiles, 0);
    signal.observe(&profile(vec![unknown(1), found(10)]));
    assert_eq!(gauge(&signal).await, 0);
}

#[tokio::test]
async fn a_library_of_many_services_counts_for_each_of_them_all_the_time() {
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    let signal = Start::new(folder.path(), &time).open().await;
    let services: Vec<String> = (0..60).map(|number| format!("s{number}")).collect();
    let everybody = || {
        for service in &services {
            signal.observe(&of(service, vec![unknown(1)]));
        }
    };
    everybody();
    time.advance(BEHIND_GRACE);
    everybody();
    for service in &services {
        let counts = counts(&signal, &labels(service, "2.4"));
        assert_eq!(counts.unknown_build_ids, Some(1), "{service}");
    }
}

#[tokio::test]
async fn profiles_without_any_weight_count_and_absurd_weights_hide_nothing() {
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    let signal = Start::new(folder.path(), &time).open().await;
    let bare = |id, weight| ObservedModule {
        addresses: 0,
        ..module(id, ModuleStatus::UnknownBuildId, weight)
    };
    let send = || {
        signal.observe(&of("weightless", vec![bare(1, 0)]));
        let mut absurd = found(0);
        absurd.weight = u64::MAX;
        signal.observe(&of("absurd", vec![absurd]));
        signal.observe(&of("absurd", vec![bare(2, 5)]));
    };
    send();
    time.advance(BEHIND_GRACE);
    send();
    for service in ["weightless", "absurd"] {
        let counts = counts(&signal, &labels(service, "2.4"));
        assert_eq!(counts.unknown_build_ids, Some(1), "{service}");
    }
}

#[tokio::test]
async fn a_clock_that_is_set_back_ends_no_alert() {
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    time.set(5 * HOUR);
    let signal = Start::new(folder.path(), &time).open().await;
    signal.observe(&profile(vec![unknown(1)]));
    time.advance(BEHIND_GRACE);
    assert_eq!(gauge(&signal).await, 1);
    time.set(HOUR);
    assert_eq!(gauge(&signal).await, 1);
    time.advance(23 * HOUR);
    assert_eq!(gauge(&signal).await, 1);
    time.advance(HOUR);
    assert_eq!(gauge(&signal).await, 0, "a day is a day");
}

#[tokio::test]
async fn what_a_replica_with_a_fast_clock_saw_is_retired_like_all_else() {
    let (folder, fast) = (tempfile::tempdir().unwrap(), Time::new());
    let time = fast.behind(30 * 24 * HOUR);
    let ahead = Start::new(folder.path(), &fast).open().await;
    ahead.observe(&profile(vec![unknown(1)]));
    ahead.synchronize().await.unwrap();
    drop(ahead);
    let signal = Start::new(folder.path(), &time).open().await;
    time.advance(BEHIND_GRACE);
    assert_eq!(gauge(&signal).await, 1);
    time.advance(24 * HOUR);
    assert_eq!(gauge(&signal).await, 0);
}

#[tokio::test]
async fn a_service_that_sent_one_profile_counts_until_it_is_a_day_old() {
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    let signal = Start::new(folder.path(), &time).open().await;
    signal.observe(&profile(vec![unknown(1), found(3)]));
    for _ in 0..23 {
        time.advance(HOUR);
        signal.synchronize().await.unwrap();
        assert_eq!(gauge(&signal).await, 1);
    }
    time.advance(HOUR + BEHIND_GRACE);
    assert_eq!(gauge(&signal).await, 0);
}
