//! Uploads that race, on one server and on two over one store.

use std::sync::Arc;

use tokio::sync::Barrier;
use unhex::artifacts::ArtifactKind;
use unhex_build_id::BuildId;
use unhex_testkit::fixture::Program;

use crate::artifacts_backends::on_every_store;
use crate::artifacts_store::{Operation, Room, download, upload};
use crate::calls::{bytes, program};

on_every_store!(
    of_two_codes_that_race_both_are_kept_and_every_replica_sees_the_same_winner,
    the_same_file_that_races_itself_is_one_file_to_every_reader,
    different_files_of_one_build_uploaded_at_once_all_come_in_and_the_best_is_served,
    an_upload_is_seen_at_once_here_and_within_seconds_on_a_replica_that_knew_it_absent,
);

const DEBUGINFO: ArtifactKind = ArtifactKind::Debuginfo;

/// Makes so many blob puts of files wait for each other: all have looked at the state by then.
fn meet_at_the_blob(room: &Room, count: usize) {
    let barrier = Arc::new(Barrier::new(count));
    room.store.set(move |operation, _| {
        let barrier = Arc::clone(&barrier);
        Box::pin(async move {
            if operation == Operation::PutFile {
                barrier.wait().await;
            }
            Ok(())
        })
    });
    // Indexes are put as files too and would wait for ever.
    room.converter
        .answer(Err(unhex::conversion::ConverterUnavailable {
            detail: "switched off".to_owned(),
        }));
}

async fn of_two_codes_that_race_both_are_kept_and_every_replica_sees_the_same_winner(room: Room) {
    let first = program();
    let id = first.build_id();
    let second = Program::c("int main(void) { return 7; } int other(void) { return 8; }")
        .flags(&["-O1", "-g"])
        .build_id(&id)
        .build();
    let replica = room.replica();
    meet_at_the_blob(&room, 2);
    let (first, second) = (first.bytes(), second.bytes());
    let (one, two) = tokio::join!(
        upload(&room.artifacts, (&id, DEBUGINFO), &first),
        upload(&replica, (&id, DEBUGINFO), &second),
    );
    one.unwrap();
    two.unwrap();
    let build_id: BuildId = id.parse().unwrap();
    let fresh = room.replica();
    let state = fresh.state(&build_id).await.unwrap();
    assert_eq!((state.artifacts.len(), state.conflicts.len()), (1, 1));
    assert!(!state.conflicts[0].difference.is_empty());
    let winner = download(&fresh, &id, DEBUGINFO).await.unwrap();
    assert!(winner == first || winner == second);
    for artifacts in [&room.artifacts, &replica] {
        let seen = crate::artifacts_store::until(|| async {
            let state = artifacts.state(&build_id).await.unwrap();
            (state.conflicts.len() == 1).then_some(state)
        });
        assert_eq!(seen.await.generation, state.generation);
        assert_eq!(
            download(artifacts, &id, DEBUGINFO).await.as_ref(),
            Some(&winner)
        );
    }
    room.store.mend();
    let later = upload(&fresh, (&id, DEBUGINFO), &second).await;
    let again = upload(&fresh, (&id, DEBUGINFO), &first).await;
    assert!(
        later.is_err() != again.is_err(),
        "the loser is refused from now on: {later:?} {again:?}"
    );
}

async fn the_same_file_that_races_itself_is_one_file_to_every_reader(room: Room) {
    let program = program();
    let (id, file) = (program.build_id(), program.bytes());
    meet_at_the_blob(&room, 4);
    let uploads = (0..4).map(|_| upload(&room.artifacts, (&id, DEBUGINFO), &file));
    for stored in futures_util::future::join_all(uploads).await {
        assert_eq!(stored.unwrap().build_id.to_string(), id);
    }
    assert_eq!(download(&room.artifacts, &id, DEBUGINFO).await, Some(file));
    let state = room.artifacts.state(&id.parse().unwrap()).await.unwrap();
    assert_eq!((state.artifacts.len(), state.conflicts.len()), (4, 0));
}

async fn different_files_of_one_build_uploaded_at_once_all_come_in_and_the_best_is_served(
    room: Room,
) {
    let program = program();
    let id = program.build_id();
    let files = [
        bytes(program.stripped()),
        bytes(program.objcopy("symtab", &["--strip-debug"])),
        bytes(program.debug_only()),
        program.bytes(),
    ];
    meet_at_the_blob(&room, files.len());
    let uploads = files
        .iter()
        .map(|file| upload(&room.artifacts, (&id, DEBUGINFO), file));
    for stored in futures_util::future::join_all(uploads).await {
        stored.unwrap();
    }
    assert_eq!(
        download(&room.artifacts, &id, DEBUGINFO).await,
        Some(program.bytes())
    );
    let executable = download(&room.artifacts, &id, ArtifactKind::Executable).await;
    assert_eq!(executable, Some(program.bytes()));
    let state = room.artifacts.state(&id.parse().unwrap()).await.unwrap();
    assert_eq!((state.artifacts.len(), state.conflicts.len()), (4, 0));
}

async fn an_upload_is_seen_at_once_here_and_within_seconds_on_a_replica_that_knew_it_absent(
    room: Room,
) {
    let program = program();
    let (id, file) = (program.build_id(), program.bytes());
    let replica = room.replica();
    for artifacts in [&room.artifacts, &replica] {
        assert_eq!(download(artifacts, &id, DEBUGINFO).await, None);
    }
    upload(&room.artifacts, (&id, DEBUGINFO), &file)
        .await
        .unwrap();
    assert_eq!(
        download(&room.artifacts, &id, DEBUGINFO).await.as_ref(),
        Some(&file)
    );
    let seen = crate::artifacts_store::until(|| download(&replica, &id, DEBUGINFO)).await;
    assert_eq!(seen, file);
}
