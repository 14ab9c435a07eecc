//! What the sweeper removes, and what it must leave alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{Barrier, Semaphore};
use unhex::artifacts::record::Provenance;
use unhex::artifacts::store::ObjectKey;
use unhex::artifacts::{ArtifactKind, IndexFailure, IndexFailureKind, IndexLookup};
use unhex::conversion::ConverterUnavailable;
use unhex_build_id::{BuildId, FileHash, Identity};

use crate::artifacts_backends::on_every_store;
use crate::artifacts_store::{Operation, Room, converted, download, until, upload};
use crate::calls::{bytes, program};

on_every_store!(
    a_superseded_index_is_swept_and_the_one_of_today_stays,
    a_stale_failure_is_swept_and_the_one_of_today_stays,
    an_index_that_lands_after_a_deletion_is_swept,
    dead_aliases_hide_no_file_and_are_swept,
    an_alias_that_is_swept_while_its_file_comes_back_is_put_again,
    an_alias_that_a_killed_sweeper_took_is_put_by_the_next_sweep,
    spare_copies_are_swept_and_those_before_the_first_sound_one_stay,
    nothing_young_is_swept,
    uploads_that_nobody_completed_are_swept,
    build_ids_of_which_nothing_is_to_be_swept_cost_no_read,
    an_alias_of_any_age_goes_with_its_record,
);

const DEBUGINFO: ArtifactKind = ArtifactKind::Debuginfo;
const EXECUTABLE: ArtifactKind = ArtifactKind::Executable;
const DAY: Duration = Duration::from_hours(25);
const WEEK: Duration = Duration::from_hours(8 * 24);

async fn records(room: &Room, kind: &str) -> usize {
    room.keys(&format!("/rec/{kind}.")).await.len()
}

async fn aliases(room: &Room) -> Vec<ObjectKey> {
    let listed = room.plain_store().list_all("alias/".to_owned()).await;
    listed.unwrap().into_iter().map(|entry| entry.key).collect()
}

/// The program, its build ID, and the identity that an alias leads from.
fn file() -> (Vec<u8>, String, Identity) {
    let bytes = program().bytes();
    let identity = Identity::FileHash(FileHash::of(&bytes));
    (bytes, program().build_id(), identity)
}

async fn a_superseded_index_is_swept_and_the_one_of_today_stays(room: Room) {
    let id = program().build_id();
    let (debug, stripped) = (bytes(program().debug_only()), bytes(program().stripped()));
    for (kind, file) in [(DEBUGINFO, &debug), (EXECUTABLE, &stripped)] {
        upload(&room.artifacts, (&id, kind), file).await.unwrap();
    }
    assert_eq!(records(&room, "index").await, 2);
    let blobs = room.keys("/blob/").await.len();
    room.advance(DAY);
    room.artifacts.sweep().await.unwrap();
    assert_eq!(records(&room, "index").await, 1);
    assert_eq!(room.keys("/blob/").await.len(), blobs - 1);
    let runs = room.converter.runs();
    let build_id: BuildId = id.parse().unwrap();
    let found = room.replica().index(&build_id).await.unwrap();
    let IndexLookup::Ready(index) = found else {
        panic!("{found:?}");
    };
    assert_eq!(index.sources.len(), 2);
    assert_eq!(room.converter.runs(), runs);
}

async fn a_stale_failure_is_swept_and_the_one_of_today_stays(room: Room) {
    let (file, id, _) = file();
    let failure = IndexFailure {
        kind: IndexFailureKind::Malformed,
        detail: "as told".to_owned(),
    };
    room.converter.answer(Ok(Err(failure)));
    upload(&room.artifacts, (&id, DEBUGINFO), &file)
        .await
        .unwrap();
    let today = records(&room, "failure").await;
    room.advance(DAY);
    room.artifacts.sweep().await.unwrap();
    assert_eq!(records(&room, "failure").await, today);
    room.converter.version.store(2, Ordering::SeqCst);
    room.artifacts.sweep().await.unwrap();
    assert_eq!(records(&room, "failure").await, today, "none is made yet");
    room.converter.answer(converted());
    let build_id: BuildId = id.parse().unwrap();
    until(|| async {
        let found = room.artifacts.index(&build_id).await.unwrap();
        matches!(found, IndexLookup::Ready(_)).then_some(())
    })
    .await;
    room.artifacts.sweep().await.unwrap();
    assert_eq!(records(&room, "failure").await, 0);
}

async fn an_index_that_lands_after_a_deletion_is_swept(room: Room) {
    let (file, id, _) = file();
    let gate = Arc::new(Semaphore::new(0));
    let at_gate = Arc::clone(&gate);
    room.converter.set(move |_| {
        let gate = Arc::clone(&at_gate);
        async move {
            gate.acquire().await.unwrap().forget();
            converted()
        }
        .boxed()
    });
    let artifacts = room.artifacts.clone();
    let name = id.clone();
    let uploading =
        tokio::spawn(async move { upload(&artifacts, (&name, DEBUGINFO), &file).await });
    until(|| async { (room.converter.runs() == 1).then_some(()) }).await;
    let build_id: BuildId = id.parse().unwrap();
    let deleted = room.artifacts.delete(&build_id, Provenance::default());
    deleted.await.unwrap();
    gate.add_permits(1);
    uploading.await.unwrap().unwrap();
    assert_eq!(records(&room, "index").await, 1);
    room.advance(DAY);
    for _ in 0..3 {
        room.artifacts.sweep().await.unwrap();
    }
    assert_eq!(
        room.keys("").await,
        [],
        "the folder of the build ID is empty"
    );
    assert_eq!(aliases(&room).await, []);
}

async fn dead_aliases_hide_no_file_and_are_swept(room: Room) {
    let (file, id, identity) = file();
    upload(&room.artifacts, (&id, DEBUGINFO), &file)
        .await
        .unwrap();
    let living = aliases(&room).await;
    let (folder, _) = living[0].as_str().rsplit_once('/').unwrap();
    for number in 0..150_u8 {
        // They stand before and behind the living one.
        let dead = format!("{folder}/{number:02x}{number:02x}")
            .parse()
            .unwrap();
        room.plain_store().put(dead, "{}".into()).await.unwrap();
    }
    let found = room.artifacts.resolve(&identity).await.unwrap();
    assert_eq!(found.map(|id| id.to_string()), Some(id.clone()));
    let build_id: BuildId = id.parse().unwrap();
    room.advance(DAY);
    room.artifacts.sweep().await.unwrap();
    assert_eq!(aliases(&room).await, living);
    room.artifacts
        .delete(&build_id, Provenance::default())
        .await
        .unwrap();
    let found = room.artifacts.resolve(&identity).await.unwrap();
    assert_eq!(found, None, "that is definite, whatever was of it");
    room.artifacts.sweep().await.unwrap();
    assert_eq!(aliases(&room).await, []);
}

async fn an_alias_that_is_swept_while_its_file_comes_back_is_put_again(room: Room) {
    let (file, id, identity) = file();
    upload(&room.artifacts, (&id, DEBUGINFO), &file)
        .await
        .unwrap();
    let build_id: BuildId = id.parse().unwrap();
    let deleted = room.artifacts.delete(&build_id, Provenance::default());
    deleted.await.unwrap();
    let (store, alias) = (room.plain_store(), aliases(&room).await.remove(0));
    let key = alias.clone();
    room.store.set(move |operation, key_of_put| {
        let (store, alias) = (Arc::clone(&store), alias.clone());
        Box::pin(async move {
            if operation == Operation::Put && key_of_put.contains("/rec/debuginfo.") {
                store.delete(alias).await?;
            }
            Ok(())
        })
    });
    upload(&room.artifacts, (&id, DEBUGINFO), &file)
        .await
        .unwrap();
    assert!(aliases(&room).await.contains(&key));
    let found = room.replica().resolve(&identity).await.unwrap();
    assert_eq!(found, Some(build_id));
}

async fn an_alias_that_a_killed_sweeper_took_is_put_by_the_next_sweep(room: Room) {
    let (file, id, identity) = file();
    upload(&room.artifacts, (&id, DEBUGINFO), &file)
        .await
        .unwrap();
    let before = aliases(&room).await;
    for alias in &before {
        room.plain_store().delete(alias.clone()).await.unwrap();
    }
    assert_eq!(room.replica().resolve(&identity).await.unwrap(), None);
    room.replica().sweep().await.unwrap();
    assert_eq!(aliases(&room).await, before);
    let found = room.replica().resolve(&identity).await.unwrap();
    assert_eq!(found.map(|id| id.to_string()), Some(id));
}

async fn spare_copies_are_swept_and_those_before_the_first_sound_one_stay(room: Room) {
    let (file, id, _) = file();
    let barrier = Arc::new(Barrier::new(4));
    room.store.set(move |operation, _| {
        let barrier = Arc::clone(&barrier);
        Box::pin(async move {
            if operation == Operation::PutFile {
                barrier.wait().await;
            }
            Ok(())
        })
    });
    room.converter.answer(Err(ConverterUnavailable {
        detail: "switched off".to_owned(),
    }));
    let uploads = (0..4).map(|_| upload(&room.artifacts, (&id, DEBUGINFO), &file));
    for stored in futures_util::future::join_all(uploads).await {
        stored.unwrap();
    }
    room.store.mend();
    let build_id: BuildId = id.parse().unwrap();
    let state = room.artifacts.state(&build_id).await.unwrap();
    let names: Vec<String> = state
        .artifacts
        .iter()
        .map(|artifact| artifact.name.upload.to_string())
        .collect();
    let first = format!("/blob/{}.{}", state.artifacts[0].name.sha256, names[0]);
    let first = room.keys(&first).await.remove(0);
    room.overwrite(&first, Some(b"damaged")).await;
    room.advance(DAY);
    room.replica().sweep().await.unwrap();
    let left = room.keys("/rec/debuginfo.").await;
    let is_left = |name: &String| left.iter().any(|key| key.as_str().contains(name));
    let left: Vec<bool> = names.iter().map(is_left).collect();
    assert_eq!(left, [true, true, false, false]);
    assert_eq!(room.keys("/blob/").await.len(), 2);
    assert_eq!(download(&room.replica(), &id, DEBUGINFO).await, Some(file));
}

async fn nothing_young_is_swept(room: Room) {
    let id = program().build_id();
    let (debug, stripped) = (bytes(program().debug_only()), bytes(program().stripped()));
    for (kind, file) in [(DEBUGINFO, &debug), (EXECUTABLE, &stripped)] {
        upload(&room.artifacts, (&id, kind), file).await.unwrap();
    }
    let build_id: BuildId = id.parse().unwrap();
    let deleted = room.artifacts.delete(&build_id, Provenance::default());
    deleted.await.unwrap();
    let (keys, aliases_before) = (room.keys("").await, aliases(&room).await);
    room.advance(Duration::from_hours(23));
    assert_eq!(room.artifacts.sweep().await.unwrap().objects, 0);
    assert_eq!(room.keys("").await, keys);
    assert_eq!(aliases(&room).await, aliases_before);
}

async fn uploads_that_nobody_completed_are_swept(room: Room) {
    let store = room.plain_store();
    let left = || async {
        let listed = store.list_all("uploads/".to_owned()).await;
        listed.unwrap().len()
    };
    let upload = "uploads/01a22cdf8cb5f6f38a8aee1bf2033d36";
    for name in ["body", "offer.json"] {
        let key: ObjectKey = format!("{upload}/{name}").parse().unwrap();
        store.put(key, b"whatever".as_slice().into()).await.unwrap();
    }
    room.artifacts.sweep().await.unwrap();
    assert_eq!(left().await, 2);
    room.advance(DAY);
    room.artifacts.sweep().await.unwrap();
    assert_eq!(left().await, 0);
}

async fn build_ids_of_which_nothing_is_to_be_swept_cost_no_read(room: Room) {
    let (file, id, _) = file();
    upload(&room.artifacts, (&id, DEBUGINFO), &file)
        .await
        .unwrap();
    let keys = room.keys("").await;
    let reads = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reads);
    room.store.set(move |operation, _| {
        if matches!(operation, Operation::Get | Operation::Open) {
            counted.fetch_add(1, Ordering::SeqCst);
        }
        std::future::ready(Ok(())).boxed()
    });
    room.replica().sweep().await.unwrap();
    assert!(reads.swap(0, Ordering::SeqCst) > 0, "it is young");
    room.advance(WEEK);
    let swept = room.replica().sweep().await.unwrap();
    assert_eq!((swept.objects, reads.load(Ordering::SeqCst)), (0, 0));
    assert_eq!(room.keys("").await, keys);
}

async fn an_alias_of_any_age_goes_with_its_record(room: Room) {
    let (file, id, identity) = file();
    upload(&room.artifacts, (&id, DEBUGINFO), &file)
        .await
        .unwrap();
    room.advance(WEEK);
    room.artifacts.sweep().await.unwrap();
    assert!(!aliases(&room).await.is_empty());
    let build_id: BuildId = id.parse().unwrap();
    let deleted = room.artifacts.delete(&build_id, Provenance::default());
    deleted.await.unwrap();
    room.replica().sweep().await.unwrap();
    assert_eq!(aliases(&room).await, []);
    assert_eq!(records(&room, "debuginfo").await, 0);
    let found = room.replica().resolve(&identity).await.unwrap();
    assert_eq!(found, None);
}
