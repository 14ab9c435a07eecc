//! What is damaged in the store costs itself only: other files, other build IDs and uploads go on.

use std::io::{ErrorKind, Write as _};
use std::sync::atomic::Ordering;
use std::time::Duration;

use unhex::artifacts::record::Provenance;
use unhex::artifacts::store::GetLimit;
use unhex::artifacts::{
    ArtifactKind, ContentEncoding, ContentHash, Deletion, IndexFailure, IndexFailureKind,
    IndexLookup, IndexProgress, IngestError, LocateError, Offer,
};
use unhex_build_id::{BuildId, FileHash, Identity};
use unhex_symbols::quality::Quality;
use unhex_testkit::fixture::Program;

use crate::artifacts_backends::on_every_store;
use crate::artifacts_store::{Operation, Room, download, until, upload};
use crate::calls::program;

on_every_store!(
    a_sound_copy_of_a_damaged_file_is_converted_and_is_not_uploaded_again_and_again,
    one_record_beyond_all_bounds_stops_no_list_no_sweep_and_not_its_own_deletion,
    a_build_id_that_cannot_be_listed_keeps_no_other_from_being_swept,
    a_build_id_that_cannot_be_read_keeps_no_other_from_being_listed,
    a_record_that_was_changed_and_is_still_json_is_not_believed,
    a_record_that_was_mended_is_known_again,
    an_offer_is_answered_by_the_record_and_damage_is_found_behind_the_answer,
    an_upload_that_is_durable_is_answered_whatever_is_known_of_its_index,
    the_symbols_of_files_that_cannot_be_converted_are_good_for_nothing,
    an_upload_in_zstd_with_too_large_a_window_is_refused,
    a_damaged_bundle_of_sources_hides_no_file_of_another_bundle,
    a_record_of_a_newer_version_is_no_absence_and_keeps_its_blob,
);

const DEBUGINFO: ArtifactKind = ArtifactKind::Debuginfo;

/// A program beside that of the other tests.
fn other() -> unhex_testkit::fixture::Fixture {
    Program::c("int main(void) { return 5; }")
        .flags(&["-g"])
        .build()
}

async fn a_sound_copy_of_a_damaged_file_is_converted_and_is_not_uploaded_again_and_again(
    room: Room,
) {
    let (program, id) = (program().bytes(), program().build_id());
    upload(&room.artifacts, (&id, DEBUGINFO), &program)
        .await
        .unwrap();
    let mut flipped = program.clone();
    flipped[program.len() / 2] ^= 1;
    room.overwrite(&room.blob_of(&program).await, Some(&flipped))
        .await;
    let replica = room.replica();
    upload(&replica, (&id, DEBUGINFO), &program).await.unwrap();
    let blobs = room.keys("/blob/").await.len();
    upload(&replica, (&id, DEBUGINFO), &program).await.unwrap();
    assert_eq!(room.keys("/blob/").await.len(), blobs);

    room.converter.version.store(2, Ordering::SeqCst);
    let (fresh, build_id) = (room.replica(), id.parse::<BuildId>().unwrap());
    until(|| async {
        match fresh.index(&build_id).await {
            Ok(IndexLookup::Ready(_)) => Some(()),
            Ok(IndexLookup::Converting) => None,
            other => panic!("{other:?}"),
        }
    })
    .await;
}

async fn one_record_beyond_all_bounds_stops_no_list_no_sweep_and_not_its_own_deletion(room: Room) {
    let (bytes, id) = (program().bytes(), program().build_id());
    upload(&room.artifacts, (&id, DEBUGINFO), &bytes)
        .await
        .unwrap();
    upload(
        &room.artifacts,
        (&other().build_id(), DEBUGINFO),
        &other().bytes(),
    )
    .await
    .unwrap();
    let build_id: BuildId = id.parse().unwrap();
    for record in room.keys(&format!("{id}/rec/debuginfo")).await {
        room.overwrite(&record, Some(&vec![b' '; 17 << 20])).await;
    }
    let replica = room.replica();
    let listed = replica.list(None, 100).await.unwrap();
    let mut ids: Vec<String> = listed.iter().map(|found| found.id.to_string()).collect();
    ids.sort();
    let mut expected = vec![id.clone(), other().build_id()];
    expected.sort();
    assert_eq!(ids, expected, "what cannot be read may be a file");
    assert!(
        listed
            .iter()
            .any(|found| found.state.as_ref().unwrap().check_readable().is_err())
    );

    let identity = Identity::FileHash(FileHash::of(&bytes));
    let answer = replica.resolve(&identity).await;
    assert!(
        matches!(answer, Err(LocateError::Damaged { .. })),
        "{answer:?}"
    );

    room.advance(Duration::from_hours(25));
    let blobs = room.keys("/blob/").await.len();
    replica.sweep().await.unwrap();
    assert_eq!(room.keys("/blob/").await.len(), blobs);
    let deleted = replica.delete(&build_id, Provenance::default()).await;
    assert_eq!(deleted.unwrap(), Deletion::Deleted);
    assert_eq!(download(&replica, &id, DEBUGINFO).await, None);
}

async fn a_build_id_that_cannot_be_listed_keeps_no_other_from_being_swept(room: Room) {
    let (one, two) = (program(), other());
    let mut ids = [one.build_id(), two.build_id()];
    for program in [&one, &two] {
        let id = program.build_id();
        upload(&room.artifacts, (&id, DEBUGINFO), &program.bytes())
            .await
            .unwrap();
        let id: BuildId = id.parse().unwrap();
        room.artifacts
            .delete(&id, Provenance::default())
            .await
            .unwrap();
    }
    ids.sort();
    let first = format!("{}/rec/", ids[0]);
    room.store.fail(ErrorKind::Other, move |operation, key| {
        operation == Operation::List && key.contains(&first)
    });
    room.advance(Duration::from_hours(25));
    room.artifacts.sweep().await.unwrap();
    let left = async |id: &str| room.keys(&format!("{id}/blob/")).await.len();
    assert!(left(&ids[0]).await > 0);
    assert_eq!(left(&ids[1]).await, 0);
}

async fn a_build_id_that_cannot_be_read_keeps_no_other_from_being_listed(room: Room) {
    for program in [program(), other()] {
        let id = program.build_id();
        upload(&room.artifacts, (&id, DEBUGINFO), &program.bytes())
            .await
            .unwrap();
    }
    let (broken, sound) = (program().build_id(), other().build_id());
    let part = format!("{broken}/rec/");
    room.store.fail(ErrorKind::TimedOut, move |operation, key| {
        operation == Operation::Get && key.contains(&part)
    });
    let listed = room.replica().list(None, 100).await.unwrap();
    let known = |id: &str| {
        let found = listed.iter().find(|found| found.id.to_string() == id);
        found.unwrap().state.is_ok()
    };
    assert_eq!((known(&broken), known(&sound)), (false, true));
}

async fn a_record_that_was_changed_and_is_still_json_is_not_believed(room: Room) {
    let (program, id) = (program().bytes(), program().build_id());
    upload(&room.artifacts, (&id, DEBUGINFO), &program)
        .await
        .unwrap();
    let limit = GetLimit { bytes_max: 1 << 20 };
    let records = room.keys("/rec/debuginfo.").await;
    let record = room.plain_store().get(records[0].clone(), limit).await;
    let record = String::from_utf8(record.unwrap().unwrap().to_vec()).unwrap();
    let changed = record.replace(
        r#""kinds":["executable","debuginfo"]"#,
        r#""kinds":["debuginfo"]"#,
    );
    assert_ne!(record, changed);
    room.overwrite(&records[0], Some(changed.as_bytes())).await;
    let executable = ArtifactKind::Executable;
    let answer = room
        .replica()
        .locate(&id.parse().unwrap(), executable)
        .await;
    assert!(
        matches!(answer, Err(LocateError::Damaged { .. })),
        "{answer:?}"
    );
}

async fn a_record_that_was_mended_is_known_again(room: Room) {
    let (program, id) = (program().bytes(), program().build_id());
    upload(&room.artifacts, (&id, DEBUGINFO), &program)
        .await
        .unwrap();
    let limit = GetLimit { bytes_max: 1 << 20 };
    let records = room.keys("/rec/debuginfo.").await;
    let record = room.plain_store().get(records[0].clone(), limit).await;
    let record = record.unwrap().unwrap();
    let cut = record.slice(..record.len() / 2);
    room.overwrite(&records[0], Some(&cut)).await;
    let replica = room.replica();
    let build_id: BuildId = id.parse().unwrap();
    let answer = replica.locate(&build_id, DEBUGINFO).await;
    assert!(
        matches!(answer, Err(LocateError::Damaged { .. })),
        "{answer:?}"
    );
    room.overwrite(&records[0], Some(&record)).await;
    let found = until(|| async { replica.locate(&build_id, DEBUGINFO).await.ok().flatten() });
    assert_eq!(found.await.size_bytes, program.len() as u64);
}

async fn an_offer_is_answered_by_the_record_and_damage_is_found_behind_the_answer(room: Room) {
    let (program, id) = (program().bytes(), program().build_id());
    upload(&room.artifacts, (&id, DEBUGINFO), &program)
        .await
        .unwrap();
    let offer = Offer {
        build_id: id.parse().unwrap(),
        kind: DEBUGINFO,
        sha256: ContentHash::of(&program),
    };
    let mut flipped = program.clone();
    flipped[program.len() / 2] ^= 1;
    room.overwrite(&room.blob_of(&program).await, Some(&flipped))
        .await;
    let replica = room.replica();
    // What is fetched is compared before anybody has it.
    assert!(replica.known(&offer).await.unwrap().is_some() || room.fetches());
    until(|| async { replica.known(&offer).await.unwrap().is_none().then_some(()) }).await;
    upload(&replica, (&id, DEBUGINFO), &program).await.unwrap();
    assert!(replica.known(&offer).await.unwrap().is_some());
}

async fn an_upload_that_is_durable_is_answered_whatever_is_known_of_its_index(room: Room) {
    let (program, id) = (program().bytes(), program().build_id());
    let recorded = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    room.store.fail(ErrorKind::Other, move |operation, key| {
        if operation == Operation::Put && key.contains("/rec/") {
            recorded.store(true, Ordering::SeqCst);
        }
        operation == Operation::List && recorded.load(Ordering::SeqCst)
    });
    let stored = upload(&room.artifacts, (&id, DEBUGINFO), &program)
        .await
        .unwrap();
    assert_eq!(stored.index, IndexProgress::Converting);
    assert!(stored.detail.contains("it is stored"), "{}", stored.detail);
    assert!(stored.changed, "there was no other file");
    room.store.mend();
    assert_eq!(
        download(&room.artifacts, &id, DEBUGINFO).await,
        Some(program)
    );
}

async fn the_symbols_of_files_that_cannot_be_converted_are_good_for_nothing(room: Room) {
    room.converter.answer(Ok(Err(IndexFailure {
        kind: IndexFailureKind::Malformed,
        detail: "as told".to_owned(),
    })));
    let (program, id) = (program().bytes(), program().build_id());
    let stored = upload(&room.artifacts, (&id, DEBUGINFO), &program)
        .await
        .unwrap();
    assert_eq!(
        (stored.index, stored.quality),
        (IndexProgress::Failed, Quality::None)
    );
}

async fn an_upload_in_zstd_with_too_large_a_window_is_refused(room: Room) {
    for (window_descriptor, is_taken) in [((26 - 10) << 3, true), ((27 - 10) << 3, false)] {
        // One frame with one raw block of one byte.
        let frame = [0x28, 0xb5, 0x2f, 0xfd, 0, window_descriptor, 9, 0, 0, b'x'];
        let mut receiver = room.artifacts.receive(ContentEncoding::Zstd);
        let written = receiver.write(frame.to_vec().into()).await;
        let received = match written {
            Ok(()) => receiver.finish().await.map(drop),
            Err(error) => Err(error),
        };
        match received {
            Ok(()) => assert!(is_taken),
            Err(error) => assert!(
                !is_taken && matches!(error, IngestError::Encoding { .. }),
                "{error:?}"
            ),
        }
    }
}

async fn a_damaged_bundle_of_sources_hides_no_file_of_another_bundle(room: Room) {
    let id = program().build_id();
    let bundle = |name: &str| {
        let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        zip.start_file(name, zip::write::SimpleFileOptions::default())
            .unwrap();
        zip.write_all(name.as_bytes()).unwrap();
        zip.finish().unwrap().into_inner()
    };
    let (first, second) = (bundle("src/first.c"), bundle("src/second.c"));
    for bundle in [&first, &second] {
        upload(&room.artifacts, (&id, ArtifactKind::Sources), bundle)
            .await
            .unwrap();
    }
    let build_id: BuildId = id.parse().unwrap();
    room.overwrite(&room.blob_of(&first).await, Some(&vec![0; first.len()]))
        .await;
    let replica = room.replica();
    let found = replica
        .source(&build_id, "/src/second.c")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(&found.bytes[..], b"src/second.c");
    let uncertain = replica.source(&build_id, "/src/first.c").await;
    assert!(matches!(uncertain, Err(LocateError::Damaged { .. })));
    upload(&replica, (&id, ArtifactKind::Sources), &first)
        .await
        .unwrap();
    let found = replica
        .source(&build_id, "/src/first.c")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(&found.bytes[..], b"src/first.c");
    assert!(
        replica
            .source(&build_id, "/src/none.c")
            .await
            .unwrap()
            .is_none()
    );
}

async fn a_record_of_a_newer_version_is_no_absence_and_keeps_its_blob(room: Room) {
    let (program, id) = (program().bytes(), program().build_id());
    upload(&room.artifacts, (&id, DEBUGINFO), &program)
        .await
        .unwrap();
    let limit = GetLimit { bytes_max: 1 << 20 };
    for record in room.keys("/rec/").await {
        let (folder, name) = record.as_str().rsplit_once('/').unwrap();
        let (_, rest) = name.split_once('.').unwrap();
        let newer = format!("{folder}/minidump.{rest}").parse().unwrap();
        let store = room.plain_store();
        let bytes = store.get(record.clone(), limit).await.unwrap().unwrap();
        store.put(newer, bytes).await.unwrap();
        store.delete(record).await.unwrap();
    }
    let blobs = room.keys("/blob/").await;
    room.advance(Duration::from_hours(48));
    let replica = room.replica();
    replica.sweep().await.unwrap();
    assert_eq!(room.keys("/blob/").await, blobs);
    let uncertain = replica.locate(&id.parse().unwrap(), DEBUGINFO).await;
    assert!(
        matches!(uncertain, Err(LocateError::Damaged { .. })),
        "{uncertain:?}"
    );
}
