//! Several replicas that compact and sweep one table at once, while rows come: each reading has each row once.

use std::sync::Arc;

use futures_util::TryStreamExt as _;
use object_store::memory::InMemory;
use unhex_profile_store::objects::Objects;

use crate::backends::over_each;
use crate::fleet::{Now, Reader, at_once, replica, rows};
use crate::ingested::{Row, hour, minute, put, sums_of};

/// A table in memory.
pub(crate) fn in_memory() -> Objects {
    Objects::over(Arc::new(InMemory::new()))
}

/// Everything that lies in the table's folders.
pub(crate) async fn keys(objects: &Objects) -> Vec<String> {
    let mut keys = Vec::new();
    for folder in ["seg/", "out/", "rec/"] {
        let listed: Vec<_> = objects.list(folder, None).try_collect().await.unwrap();
        keys.extend(listed.into_iter().map(|listed| listed.key));
    }
    keys
}

/// Replicas compact and sweep in rounds that overlap, rows come in between, and the time goes on.
async fn compact_at_once(objects: Objects, replicas: usize, rounds: u64) {
    let now = Now::at(minute(60));
    let reader = Reader::of(&objects, &now);
    let fleet: Vec<_> = (0..replicas)
        .map(|_| replica(&objects, &now, at_once()))
        .collect();
    let mut all: Vec<Row> = Vec::new();
    for round in 0..rounds {
        for part in 0..3 {
            let segment = round * 3 + part;
            let rows = rows(segment, 20);
            put(&objects, now.publish(u8::try_from(segment).unwrap()), &rows).await;
            all.extend(rows);
        }
        let tasks: Vec<_> = fleet
            .iter()
            .map(|(replica, _)| {
                let replica = Arc::clone(replica);
                tokio::spawn(async move { replica.round().await.unwrap() })
            })
            .collect();
        let expected = sums_of(&all);
        while !tasks.iter().all(tokio::task::JoinHandle::is_finished) {
            assert_eq!(
                reader.sums(hour()).await,
                [expected.clone(), expected.clone()]
            );
        }
        for task in tasks {
            assert_eq!(task.await.unwrap().failed, 0);
        }
        assert_eq!(
            reader.sums(hour()).await,
            [expected.clone(), expected.clone()]
        );
        now.pass(if round % 4 == 3 { 25 * 60 } else { 11 });
    }
    for _ in 0..3 {
        now.pass(25 * 60);
        for (replica, _) in &fleet {
            assert_eq!(replica.round().await.unwrap().failed, 0);
        }
    }
    let expected = sums_of(&all);
    assert_eq!(reader.sums(hour()).await, [expected.clone(), expected]);
    assert_eq!(keys(&objects).await.len(), 3, "two outputs and a record");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_that_compact_at_once_lose_nothing_and_double_nothing() {
    over_each(async |objects| compact_at_once(objects, 2, 4).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_replicas_that_compact_and_sweep_for_days_lose_nothing_and_double_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let objects = Objects::folder(folder.path()).unwrap();
    compact_at_once(objects, 3, 12).await;
}
