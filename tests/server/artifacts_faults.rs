//! Artifacts over a store that fails: nothing half, nothing lost silently, nothing wrong remembered.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use unhex::artifacts::record::Provenance;
use unhex::artifacts::store::StoreError;
use unhex::artifacts::{
    ArtifactKind, ContentEncoding, DeleteError, IngestError, LocateError, Origin, PublishError,
    Target, Upload,
};
use unhex_build_id::BuildId;

use crate::artifacts_store::{Operation, Room, download, upload};
use crate::calls::program;

const DEBUGINFO: ArtifactKind = ArtifactKind::Debuginfo;

/// The blobs that lie in the folder.
fn blobs(room: &Room) -> Vec<PathBuf> {
    walkdir::WalkDir::new(room.folder.path().join("builds"))
        .into_iter()
        .filter_map(Result::ok)
        .map(walkdir::DirEntry::into_path)
        .filter(|path| path.is_file() && path.parent().unwrap().ends_with("blob"))
        .collect()
}

fn staged(room: &Room) -> usize {
    walkdir::WalkDir::new(room.folder.path().join("staging"))
        .into_iter()
        .filter(|entry| entry.as_ref().unwrap().file_type().is_file())
        .count()
}

#[tokio::test]
async fn a_full_disk_fails_the_upload_leaves_nothing_and_the_next_one_succeeds() {
    let room = Room::new();
    let (program, id) = (program().bytes(), program().build_id());
    room.store.fail(ErrorKind::StorageFull, |operation, _| {
        operation == Operation::PutFile
    });
    let failed = upload(&room.artifacts, (&id, DEBUGINFO), &program).await;
    let Err(IngestError::Publish(PublishError::Store(StoreError::Full { .. }))) = failed else {
        panic!("{failed:?}");
    };
    assert_eq!(download(&room.artifacts, &id, DEBUGINFO).await, None);
    assert_eq!((blobs(&room).len(), staged(&room)), (0, 0));
    room.store.mend();
    let stored = upload(&room.artifacts, (&id, DEBUGINFO), &program)
        .await
        .unwrap();
    assert!(stored.changed);
    assert_eq!(
        download(&room.artifacts, &id, DEBUGINFO).await,
        Some(program)
    );
}

#[tokio::test]
async fn a_full_disk_fails_a_deletion_with_its_reason_and_deletes_nothing() {
    let room = Room::new();
    let (program, id) = (program().bytes(), program().build_id());
    upload(&room.artifacts, (&id, DEBUGINFO), &program)
        .await
        .unwrap();
    let build_id: BuildId = id.parse().unwrap();
    room.store.fail(ErrorKind::StorageFull, |operation, _| {
        operation == Operation::Put
    });
    let failed = room
        .artifacts
        .delete(&build_id, Provenance::default())
        .await;
    assert!(
        matches!(
            failed,
            Err(DeleteError::Publish(PublishError::Store(
                StoreError::Full { .. }
            )))
        ),
        "{failed:?}"
    );
    room.store.mend();
    assert_eq!(
        download(&room.artifacts, &id, DEBUGINFO).await,
        Some(program)
    );
}

#[tokio::test]
async fn a_crash_between_blob_and_record_leaves_the_old_state_and_a_blob_for_the_sweeper() {
    let room = Room::new();
    let (program, id) = (program().bytes(), program().build_id());
    room.store.fail(ErrorKind::Other, |operation, key| {
        operation == Operation::Put && key.contains("/rec/")
    });
    upload(&room.artifacts, (&id, DEBUGINFO), &program)
        .await
        .unwrap_err();
    room.store.mend();
    assert_eq!(download(&room.artifacts, &id, DEBUGINFO).await, None);
    assert_eq!(blobs(&room).len(), 1);

    room.artifacts.sweep().await.unwrap();
    assert_eq!(blobs(&room).len(), 1, "it may still be on its way in");
    upload(&room.artifacts, (&id, DEBUGINFO), &program)
        .await
        .unwrap();
    let named = blobs(&room).len();
    room.advance(Duration::from_hours(25));
    let swept = room.artifacts.sweep().await.unwrap();
    assert_eq!(swept.objects, 1);
    assert_eq!(blobs(&room).len(), named - 1);
    assert_eq!(
        download(&room.artifacts, &id, DEBUGINFO).await,
        Some(program)
    );
}

#[tokio::test]
async fn a_store_that_cannot_be_read_is_no_answer_and_is_not_remembered() {
    let room = Room::new();
    let (program, id) = (program().bytes(), program().build_id());
    upload(&room.artifacts, (&id, DEBUGINFO), &program)
        .await
        .unwrap();
    let replica = room.replica();
    let build_id: BuildId = id.parse().unwrap();
    for broken in [Operation::List, Operation::Get, Operation::Open] {
        room.store
            .fail(ErrorKind::TimedOut, move |operation, _| operation == broken);
        let answer = replica.locate(&build_id, DEBUGINFO).await;
        assert!(
            matches!(answer, Err(LocateError::Store { .. })),
            "{broken:?}: {answer:?}"
        );
        room.store.mend();
        if broken == Operation::Open {
            assert_eq!(
                download(&replica, &id, DEBUGINFO).await.as_ref(),
                Some(&program)
            );
        }
    }
}

#[tokio::test]
async fn a_damaged_or_missing_blob_is_never_absence_and_an_upload_mends_it() {
    let room = Room::new();
    let (program, id) = (program().bytes(), program().build_id());
    upload(&room.artifacts, (&id, DEBUGINFO), &program)
        .await
        .unwrap();
    let blob = blobs(&room)
        .into_iter()
        .find(|blob| std::fs::read(blob).unwrap() == program);
    let blob = blob.unwrap();
    let build_id: BuildId = id.parse().unwrap();
    let mut flipped = program.clone();
    flipped[program.len() / 2] ^= 1;
    for damage in [Some(flipped), Some(program[..100].to_vec()), None] {
        std::fs::remove_file(&blob).unwrap();
        if let Some(bytes) = &damage {
            std::fs::write(&blob, bytes).unwrap();
        }
        for artifacts in [room.artifacts.clone(), room.replica()] {
            let answer = artifacts.locate(&build_id, DEBUGINFO).await;
            assert!(
                matches!(answer, Err(LocateError::Damaged { .. })),
                "{answer:?}"
            );
        }
        if damage.is_none() {
            break;
        }
    }
    upload(&room.artifacts, (&id, DEBUGINFO), &program)
        .await
        .unwrap();
    assert_eq!(
        download(&room.artifacts, &id, DEBUGINFO).await.as_ref(),
        Some(&program)
    );
    assert_eq!(
        download(&room.replica(), &id, DEBUGINFO).await,
        Some(program)
    );
}

#[tokio::test]
async fn a_record_that_cannot_be_read_makes_absence_uncertain() {
    let room = Room::new();
    let (program, id) = (program().bytes(), program().build_id());
    upload(&room.artifacts, (&id, DEBUGINFO), &program)
        .await
        .unwrap();
    let record = walkdir::WalkDir::new(room.folder.path().join("builds"))
        .into_iter()
        .map(|entry| entry.unwrap().into_path())
        .find(|path| path.to_string_lossy().contains("/rec/debuginfo."))
        .unwrap();
    std::fs::write(record, "{").unwrap();
    let build_id: BuildId = id.parse().unwrap();
    let replica = room.replica();
    for kind in [DEBUGINFO, ArtifactKind::Executable] {
        let answer = replica.locate(&build_id, kind).await;
        assert!(
            matches!(answer, Err(LocateError::Damaged { .. })),
            "{answer:?}"
        );
    }
    let answer = replica.index(&build_id).await;
    assert!(
        matches!(answer, Err(LocateError::Damaged { .. })),
        "{answer:?}"
    );
    upload(&replica, (&id, DEBUGINFO), &program).await.unwrap();
    assert_eq!(download(&replica, &id, DEBUGINFO).await, Some(program));
}

#[tokio::test]
async fn a_publish_that_takes_longer_than_an_hour_gives_up() {
    let room = Room::new();
    let (program, id) = (program().bytes(), program().build_id());
    let ahead = std::sync::Arc::clone(&room.ahead);
    room.store.set(move |operation, _| {
        let ahead = std::sync::Arc::clone(&ahead);
        Box::pin(async move {
            if operation == Operation::PutFile {
                ahead.fetch_add(3_700, std::sync::atomic::Ordering::SeqCst);
            }
            Ok(())
        })
    });
    let failed = upload(&room.artifacts, (&id, DEBUGINFO), &program).await;
    assert!(
        matches!(failed, Err(IngestError::Publish(PublishError::TooSlow))),
        "{failed:?}"
    );
    assert_eq!(download(&room.artifacts, &id, DEBUGINFO).await, None);
}

#[tokio::test]
async fn what_was_deleted_is_swept_after_a_day_and_what_lives_stays() {
    let room = Room::new();
    let (program, id) = (program().bytes(), program().build_id());
    let build_id: BuildId = id.parse().unwrap();
    upload(&room.artifacts, (&id, DEBUGINFO), &program)
        .await
        .unwrap();
    room.artifacts
        .delete(&build_id, Provenance::default())
        .await
        .unwrap();
    assert_eq!(room.artifacts.sweep().await.unwrap().objects, 0);
    room.advance(Duration::from_hours(25));
    for _ in 0..3 {
        room.artifacts.sweep().await.unwrap();
    }
    let left = walkdir::WalkDir::new(room.folder.path().join("builds"))
        .into_iter()
        .filter(|entry| entry.as_ref().unwrap().file_type().is_file())
        .count();
    assert_eq!(left, 0, "blobs, records and the tombstone are gone");
    upload(&room.artifacts, (&id, DEBUGINFO), &program)
        .await
        .unwrap();
    room.artifacts.sweep().await.unwrap();
    assert_eq!(
        download(&room.artifacts, &id, DEBUGINFO).await,
        Some(program)
    );
}

#[tokio::test]
async fn a_record_that_nobody_would_read_again_is_refused_and_nothing_of_it_is_kept() {
    let room = Room::new();
    let id = program().build_id();
    let mut receiver = room.artifacts.receive(ContentEncoding::Identity);
    receiver.write(program().bytes().into()).await.unwrap();
    let received = receiver.finish().await.unwrap();
    let refused = room.artifacts.ingest(
        received,
        Upload {
            target: Target::FromFile,
            origin: Origin::Upload,
            provenance: Provenance {
                file_name: Some("x".repeat(17 << 20)),
                ..Provenance::default()
            },
        },
    );
    let refused = refused.await;
    let Err(IngestError::Publish(PublishError::RecordTooLarge { .. })) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!((blobs(&room).len(), staged(&room)), (0, 0));
    upload(&room.artifacts, (&id, DEBUGINFO), &program().bytes())
        .await
        .unwrap();
}
