//! When a build ID counts, on one replica and on several, before and behind a restart.

use std::time::Duration;

use unhex::signal::{Missing, MissingQuery};
use unhex_api::symbolize::ModuleStatus;

use crate::replica::{
    Start, Time, counts, gauge, identity, labels, module, profile, shown, unknown,
};

const GRACE: Duration = Duration::from_mins(10);
const HOUR: Duration = Duration::from_hours(1);

#[tokio::test]
async fn a_build_id_counts_behind_the_grace_until_a_day_after_its_last_profile() {
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    let signal = Start::new(folder.path(), &time).open().await;
    signal.observe(&profile(vec![unknown(1)]));
    assert_eq!(gauge(&signal).await, 0, "CI may still upload");
    time.advance(GRACE + Duration::from_secs(1));
    assert_eq!(gauge(&signal).await, 1);
    time.advance(23 * HOUR);
    assert_eq!(gauge(&signal).await, 1);
    time.advance(HOUR);
    assert_eq!(gauge(&signal).await, 0, "the binary is retired");
}

#[tokio::test]
async fn a_restart_changes_nothing_but_the_counters() {
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    let before = Start::new(folder.path(), &time).open().await;
    before.observe(&profile(vec![
        unknown(1),
        module(2, ModuleStatus::Found, 9_900),
    ]));
    before.synchronize().await.unwrap();
    let listed = before.missing_one(&identity(1)).unwrap();
    drop(before);
    let after = Start::new(folder.path(), &time).open().await;
    time.advance(GRACE + Duration::from_secs(1));
    assert_eq!(gauge(&after).await, 1);
    let again = after.missing_one(&identity(1)).unwrap();
    assert_eq!(again.entry, listed.entry);
    assert!(
        (again.standings[0].share - 0.5).abs() < 1e-9,
        "of two addresses"
    );
    assert_eq!(counts(&after, &labels("checkout", "2.4")).profiles, 0);
}

/// How many segments the ledger has; its folder goes with the last one.
fn segments(root: &std::path::Path) -> usize {
    match std::fs::read_dir(root.join("signal/ledger")) {
        Ok(entries) => entries.count(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn what_one_replica_sees_counts_on_all_and_what_crashed_is_kept_for_a_week() {
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    let one = Start::new(folder.path(), &time).open().await;
    let two = Start::new(folder.path(), &time).open().await;
    one.observe(&profile(vec![unknown(1)]));
    two.observe(&profile(vec![unknown(1), unknown(2)]));
    for signal in [&one, &two, &one] {
        signal.synchronize().await.unwrap();
    }
    time.advance(GRACE + Duration::from_secs(1));
    assert_eq!((gauge(&one).await, gauge(&two).await), (2, 2));
    assert_eq!(one.missing_one(&identity(1)).unwrap().entry.profiles, 2);
    drop(one);
    time.advance(HOUR);
    let three = Start::new(folder.path(), &time).open().await;
    assert_eq!(gauge(&three).await, 2);
    time.advance(8 * 24 * HOUR);
    for signal in [&two, &three, &two] {
        signal.synchronize().await.unwrap();
    }
    let left = segments(folder.path());
    assert!(left <= 1, "{left} segments are left");
    assert!(three.missing_one(&identity(1)).is_none());
}

#[tokio::test]
async fn many_restarts_leave_few_segments_and_lose_nothing() {
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    for id in 0..40 {
        let signal = Start::new(folder.path(), &time).open().await;
        signal.observe(&profile(vec![unknown(id), unknown(100)]));
        signal.synchronize().await.unwrap();
        time.advance(GRACE);
    }
    let signal = Start::new(folder.path(), &time).open().await;
    signal.synchronize().await.unwrap();
    let entry = signal.missing_one(&identity(100)).unwrap().entry;
    assert_eq!(entry.profiles, 40);
    assert!((0..40).all(|id| signal.missing_one(&identity(id)).is_some()));
    let left = segments(folder.path());
    assert!((1..25).contains(&left), "{left} segments are left");
}

#[tokio::test]
async fn parts_of_one_profile_count_once() {
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    let signal = Start::new(folder.path(), &time).open().await;
    let found = module(2, ModuleStatus::Found, 5);
    for modules in [vec![found], vec![unknown(1)], vec![unknown(1), unknown(3)]] {
        let mut part = profile(modules);
        part.profile_id = Some("p".to_owned());
        signal.observe(&part);
    }
    let counts = counts(&signal, &labels("checkout", "2.4"));
    assert_eq!((counts.profiles, counts.profiles_unknown), (1, 1));
    assert_eq!(
        counts.frames,
        [("symbolized", 5), ("unknown_build_id", 300)]
    );
    assert_eq!(signal.missing_one(&identity(1)).unwrap().entry.profiles, 1);
}

#[tokio::test]
async fn frames_are_counted_by_what_became_of_them_and_how_often_they_were_seen() {
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    let signal = Start::new(folder.path(), &time).open().await;
    let mut found = module(1, ModuleStatus::Found, 10);
    found.weight_without_function = 3;
    let mut no_identity = module(2, ModuleStatus::Malformed, 4);
    no_identity.identity = None;
    let mut vdso = module(3, ModuleStatus::UnknownBuildId, 6);
    vdso.name = Some("[vdso]".to_owned());
    let bare = module(4, ModuleStatus::NoDebugInfo, 5);
    let busy = module(5, ModuleStatus::Pending, 2);
    signal.observe(&profile(vec![found, no_identity, vdso, bare, busy]));
    let counts = counts(&signal, &labels("checkout", "2.4"));
    let expected = [
        ("symbolized", 7),
        ("no_debug_info", 5),
        ("no_function", 3),
        ("unavailable", 6),
        ("ignored", 6),
    ];
    assert_eq!(counts.frames, expected);
}

#[tokio::test]
async fn what_may_pass_by_itself_counts_only_behind_the_grace() {
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    let signal = Start::new(folder.path(), &time).open().await;
    let unavailable = || profile(vec![module(1, ModuleStatus::Unavailable, 1)]);
    let of = || counts(&signal, &labels("checkout", "2.4"));
    signal.observe(&unavailable());
    assert_eq!(of().profiles_unknown, 0);
    assert!(signal.missing_one(&identity(1)).is_none());
    time.advance(GRACE + Duration::from_secs(1));
    signal.observe(&unavailable());
    assert_eq!(
        (of().profiles_unknown, of().unknown_build_ids),
        (1, Some(1))
    );
    let missing = signal.missing_one(&identity(1)).unwrap().missing;
    assert_eq!(missing, Missing::Unavailable);
    signal.check().await;
    let missing = signal.missing_one(&identity(1)).unwrap().missing;
    assert_eq!(missing, Missing::UnknownBuildId, "as the store says");
}

#[tokio::test]
async fn what_is_a_small_share_of_its_service_bothers_nobody() {
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    let signal = Start::new(folder.path(), &time).open().await;
    let mut rest = module(2, ModuleStatus::Found, 99_000);
    rest.addresses = 1_000;
    signal.observe(&profile(vec![unknown(1), rest]));
    time.advance(GRACE + Duration::from_secs(1));
    assert_eq!(gauge(&signal).await, 0, "a thousandth");
    signal.observe(&profile(vec![module(
        1,
        ModuleStatus::UnknownBuildId,
        1_000,
    )]));
    assert_eq!(gauge(&signal).await, 1, "a hundredth");
}

#[tokio::test]
async fn a_build_id_with_symbols_is_gone_at_once() {
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    let signal = Start::new(folder.path(), &time).open().await;
    let other = Start::new(folder.path(), &time).open().await;
    other.observe(&profile(vec![unknown(1)]));
    other.synchronize().await.unwrap();
    signal.observe(&profile(vec![unknown(1)]));
    signal.synchronize().await.unwrap();
    time.advance(GRACE + Duration::from_secs(1));
    assert_eq!(gauge(&signal).await, 1);
    signal.observe(&profile(vec![module(1, ModuleStatus::Found, 1)]));
    assert_eq!(shown(&signal), Some(0));
    signal.synchronize().await.unwrap();
    assert_eq!(shown(&signal), Some(0), "whatever the others noted before");
    assert!(
        signal
            .missing(&MissingQuery {
                limit: 9,
                ..MissingQuery::default()
            })
            .is_empty()
    );
}

#[tokio::test]
async fn ignored_names_never_count() {
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    let mut start = Start::new(folder.path(), &time);
    start.config.ignore_modules = vec!["libnvidia-*".to_owned()];
    let signal = start.open().await;
    for name in [
        "[vdso]",
        "linux-vdso.so.1",
        "/usr/lib/libnvidia-glcore.so.1",
    ] {
        let mut ignored = unknown(1);
        ignored.name = Some(name.to_owned());
        signal.observe(&profile(vec![ignored]));
    }
    time.advance(GRACE + Duration::from_secs(1));
    let counts = counts(&signal, &labels("checkout", "2.4"));
    assert_eq!((counts.profiles, counts.profiles_unknown), (3, 0));
    assert_eq!(
        (counts.unknown_build_ids, signal.ledger_len()),
        (Some(0), 0)
    );
}

#[tokio::test]
async fn a_store_that_cannot_be_written_keeps_the_ledger_in_memory_until_it_can() {
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    let signal = Start::new(folder.path(), &time).open().await;
    let segments = folder.path().join("signal");
    std::fs::write(&segments, "in the way").unwrap();
    signal.observe(&profile(vec![unknown(1)]));
    assert!(signal.synchronize().await.is_err());
    std::fs::remove_file(&segments).unwrap();
    signal.synchronize().await.unwrap();
    time.advance(GRACE + Duration::from_secs(1));
    let after = Start::new(folder.path(), &time).open().await;
    assert_eq!((gauge(&signal).await, gauge(&after).await), (1, 1));
}
