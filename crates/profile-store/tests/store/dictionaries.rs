//! The dictionaries of hours under maintenance: merged while everything stays known, swept a day later, gone when their hour is.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::TryStreamExt as _;
use jiff::SignedDuration;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use unhex_pprof::{FrameHash, StackHash};
use unhex_profile_store::files::{Packing, StackRow, StacksWanted, read_stacks, stacks_to_parquet};
use unhex_profile_store::objects::Objects;
use unhex_profile_store::table::dictionary::{
    DictionaryFile, DictionaryListing, DictionaryName, DictionaryObject, DictionaryState,
    DictionaryTable, Merge,
};
use unhex_profile_store::table::names::{ContentHash, PublishId};

use crate::fleet::{Now, at_once, replica, rows};
use crate::ingested::{hour, minute, put};
use crate::watched::{Last, Watched};

/// Stacks of one file, as an append puts them.
async fn put_stacks(objects: &Objects, id: PublishId, numbers: std::ops::Range<u8>) {
    let stacks = numbers.map(|number| StackRow {
        service: "checkout".into(),
        stack: StackHash([number; 16]),
        frames: vec![FrameHash([number; 16])].into(),
    });
    let written = stacks_to_parquet(stacks.collect(), Packing::Fresh).unwrap();
    let name = DictionaryName {
        hour: hour(),
        id,
        table: DictionaryTable::Stacks,
        sha256: ContentHash::of(&written.bytes),
        rows: written.rows,
    };
    objects.put(&name.to_string(), written.bytes).await.unwrap();
}

async fn keys(objects: &Objects) -> Vec<(String, u64)> {
    let listed: Vec<_> = objects.list("dic/", None).try_collect().await.unwrap();
    listed
        .into_iter()
        .map(|listed| (listed.key, listed.bytes))
        .collect()
}

/// The live files, and the stacks that they know.
async fn known(objects: &Objects) -> (usize, BTreeSet<u8>) {
    let mut listing = DictionaryListing::default();
    let mut merges = Vec::new();
    for (key, bytes) in keys(objects).await {
        listing.add(&key, bytes);
        if let Ok(DictionaryObject::Merge(name)) = key.parse() {
            let json = objects.get(&key).await.unwrap().unwrap();
            merges.push(Arc::new(Merge::read(&json, name).unwrap()));
        }
    }
    let state = DictionaryState::of(hour(), &listing, merges);
    let files: Vec<DictionaryFile> = state.live(DictionaryTable::Stacks).collect();
    let wanted = StacksWanted {
        services: None,
        stacks: Arc::new((0..=255).map(|number| StackHash([number; 16])).collect()),
    };
    let stacks = read_stacks(objects, &files, &wanted).await.unwrap();
    (files.len(), stacks.keys().map(|stack| stack.0[0]).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dictionary_is_merged_swept_and_gone_with_its_hour() {
    let objects = crate::replicas::in_memory();
    let now = Now::at(minute(30));
    let (replica, _spill) = replica(&objects, &now, at_once());
    let other = crate::fleet::replica(&objects, &now, at_once());
    put(&objects, now.publish(1), &rows(1, 10)).await;
    let mut all = BTreeSet::new();
    for part in 0..40 {
        put_stacks(&objects, now.publish(part), part * 3..part * 3 + 5).await;
        all.extend(part * 3..part * 3 + 5);
        if part % 13 == 12 {
            let rounds = [&replica, &other.0].map(|one| Box::pin(one.round_of_recent()));
            for round in futures_util::future::join_all(rounds).await {
                assert_eq!(round.failed, 0);
            }
            assert_eq!(known(&objects).await.1, all, "after {part}");
        }
    }
    assert!(
        known(&objects).await.0 < 20,
        "{:?}",
        known(&objects).await.0
    );
    now.set(minute(60 + 61));
    for _ in 0..3 {
        assert_eq!(replica.round().await.unwrap().failed, 0);
        assert_eq!(known(&objects).await.1, all);
    }
    assert_eq!(known(&objects).await.0, 1, "one file");
    for _ in 0..3 {
        now.pass(25 * 60);
        assert_eq!(replica.round().await.unwrap().failed, 0);
        assert_eq!(known(&objects).await, (1, all.clone()));
    }
    assert_eq!(keys(&objects).await.len(), 1, "all else is swept");
    now.set(minute(0) + SignedDuration::from_hours(24 * 91));
    for _ in 0..4 {
        assert_eq!(replica.round().await.unwrap().failed, 0);
        now.pass(25 * 60);
    }
    assert_eq!(keys(&objects).await, []);
    assert!(replica.counters().read().merges > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_change_of_a_merge_forgets_nothing() {
    for last in [Last::Fails, Last::IsLost] {
        for after in 0.. {
            let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
            let sound = Objects::over(Arc::clone(&store));
            let now = Now::at(minute(30));
            for part in 0..20 {
                put_stacks(&sound, now.publish(part), part..part + 2).await;
            }
            let dying = Watched::stopping(store, after, last);
            let (dies, _spill) = replica(&Objects::over(dying), &now, at_once());
            let lived = dies.round_of_recent().await.failed == 0;
            let all: BTreeSet<u8> = (0..21).collect();
            assert_eq!(known(&sound).await.1, all, "{last:?} after {after}");
            let (heir, _spill) = replica(&sound, &now, at_once());
            assert_eq!(heir.round_of_recent().await.failed, 0);
            assert_eq!(known(&sound).await, (1, all), "{last:?} after {after}");
            if lived {
                assert_eq!(after, 2, "an output and a record");
                break;
            }
        }
    }
}
