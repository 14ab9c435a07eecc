//! Artifacts over a store that fails: nothing half, nothing lost silently, nothing wrong remembered.

use std::io::ErrorKind;
use std::time::Duration;

use unhex::artifacts::record::Provenance;
use unhex::artifacts::store::StoreError;
use unhex::artifacts::{
    ArtifactKind, ContentEncoding, DeleteError, IngestError, LocateError, Origin, PublishError,
    Target, Upload,
};
use unhex_build_id::BuildId;

use crate::artifacts_backends::on_every_store;
use crate::artifacts_store::{Operation, Room, download, upload};
use crate::calls::program;

on_every_store!(
    a_full_disk_fails_the_upload_leaves_nothing_and_the_next_one_succeeds,
    a_full_disk_fails_a_deletion_with_its_reason_and_deletes_nothing,
    a_crash_between_blob_and_record_leaves_the_old_state_and_a_blob_for_the_sweeper,
    a_store_that_cannot_be_read_is_no_answer_and_is_not_remembered,
    a_damaged_or_missing_blob_is_never_absence_and_an_upload_mends_it,
    a_record_that_cannot_be_read_makes_absence_uncertain,
    a_publish_that_takes_longer_than_an_hour_gives_up,
    what_was_deleted_is_swept_after_a_day_and_what_lives_stays,
    a_record_that_nobody_would_read_again_is_refused_and_nothing_of_it_is_kept,
);

const DEBUGINFO: ArtifactKind = ArtifactKind::Debuginfo;

/// How many blobs are there.
async fn blobs(room: &Room) -> usize {
    room.keys("/blob/").await.len()
}

async fn a_full_disk_fails_the_upload_leaves_nothing_and_the_next_one_succeeds(room: Room) {
    let (program, id) = (program().bytes(), program().build_id());
    room.store.fail(ErrorKind::StorageFull, |operation, _| {
        operation == Operation::PutFile
    });
    let failed = upload(&room.artifacts, (&id, DEBUGINFO), &program).await;
    let Err(IngestError::Publish(PublishError::Store(StoreError::Full { .. }))) = failed else {
        panic!("{failed:?}");
    };
    assert_eq!(download(&room.artifacts, &id, DEBUGINFO).await, None);
    assert_eq!((blobs(&room).await, room.staged()), (0, 0));
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

async fn a_full_disk_fails_a_deletion_with_its_reason_and_deletes_nothing(room: Room) {
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

async fn a_crash_between_blob_and_record_leaves_the_old_state_and_a_blob_for_the_sweeper(
    room: Room,
) {
    let (program, id) = (program().bytes(), program().build_id());
    room.store.fail(ErrorKind::Other, |operation, key| {
        operation == Operation::Put && key.contains("/rec/")
    });
    upload(&room.artifacts, (&id, DEBUGINFO), &program)
        .await
        .unwrap_err();
    room.store.mend();
    assert_eq!(download(&room.artifacts, &id, DEBUGINFO).await, None);
    assert_eq!(blobs(&room).await, 1);

    room.artifacts.sweep().await.unwrap();
    assert_eq!(blobs(&room).await, 1, "it may still be on its way in");
    upload(&room.artifacts, (&id, DEBUGINFO), &program)
        .await
        .unwrap();
    let named = blobs(&room).await;
    room.advance(Duration::from_hours(25));
    let swept = room.artifacts.sweep().await.unwrap();
    assert_eq!(swept.objects, 1);
    assert_eq!(blobs(&room).await, named - 1);
    assert_eq!(
        download(&room.artifacts, &id, DEBUGINFO).await,
        Some(program)
    );
}

async fn a_store_that_cannot_be_read_is_no_answer_and_is_not_remembered(room: Room) {
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

async fn a_damaged_or_missing_blob_is_never_absence_and_an_upload_mends_it(room: Room) {
    let (program, id) = (program().bytes(), program().build_id());
    upload(&room.artifacts, (&id, DEBUGINFO), &program)
        .await
        .unwrap();
    let blob = room.blob_of(&program).await;
    let build_id: BuildId = id.parse().unwrap();
    let mut flipped = program.clone();
    flipped[program.len() / 2] ^= 1;
    for damage in [Some(flipped), Some(program[..100].to_vec()), None] {
        room.overwrite(&blob, damage.as_deref()).await;
        for artifacts in [room.artifacts.clone(), room.replica()] {
            let answer = artifacts.locate(&build_id, DEBUGINFO).await;
            assert!(
                matches!(answer, Err(LocateError::Damaged { .. })),
                "{answer:?}"
            );
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

async fn a_record_that_cannot_be_read_makes_absence_uncertain(room: Room) {
    let (program, id) = (program().bytes(), program().build_id());
    upload(&room.artifacts, (&id, DEBUGINFO), &program)
        .await
        .unwrap();
    let records = room.keys("/rec/debuginfo.").await;
    room.overwrite(&records[0], Some(b"{")).await;
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

async fn a_publish_that_takes_longer_than_an_hour_gives_up(room: Room) {
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

async fn what_was_deleted_is_swept_after_a_day_and_what_lives_stays(room: Room) {
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
    let left = room.keys("").await.len();
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

async fn a_record_that_nobody_would_read_again_is_refused_and_nothing_of_it_is_kept(room: Room) {
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
    assert_eq!((blobs(&room).await, room.staged()), (0, 0));
    upload(&room.artifacts, (&id, DEBUGINFO), &program().bytes())
        .await
        .unwrap();
}
