//! When conversions run, what of them is kept, and what waits for them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::FutureExt;
use tokio::sync::Semaphore;
use unhex::artifacts::{
    ArtifactKind, ContentHash, IndexFailure, IndexFailureKind, IndexHome, IndexLookup,
    IndexProgress, LocateError,
};
use unhex::conversion::{Converted, ConverterUnavailable};
use unhex_build_id::BuildId;
use unhex_testkit::fixture::{Program, build_id_of, dwz_multifile};

use crate::artifacts_backends::on_every_store;
use crate::artifacts_store::{Room, converted, until, upload};
use crate::calls::{bytes, program};

on_every_store!(
    a_supplementary_file_that_comes_later_completes_the_index,
    a_sound_supplementary_file_completes_what_damaged_ones_did_not,
    an_upload_answers_with_its_index_and_the_next_look_up_converts_nothing,
    the_executable_that_comes_after_the_debuginfo_leads_to_a_new_index,
    a_newer_converter_converts_again_on_demand_and_an_older_failure_is_tried_again,
    a_converter_that_cannot_be_run_says_nothing_of_the_files,
    those_who_wait_for_one_conversion_share_it_and_may_leave,
    an_index_of_fewer_files_serves_while_the_better_one_is_made,
    an_index_that_is_cut_or_missing_is_made_anew_once_an_hour,
);

const DEBUGINFO: ArtifactKind = ArtifactKind::Debuginfo;
const EXECUTABLE: ArtifactKind = ArtifactKind::Executable;

/// The program's build ID as text and as itself.
fn ids() -> (String, BuildId) {
    let id = program().build_id();
    let build_id = id.parse().unwrap();
    (id, build_id)
}

/// A file and its build ID.
struct File {
    id: String,
    bytes: Vec<u8>,
}

/// A debug file that asks for a supplementary one, and that.
fn with_supplement() -> (File, File) {
    let text = |name: &str| {
        format!(
            "struct shared {{ int a, b, c, d; char e[40]; struct shared *next; }}; \
                 enum colour {{ RED, GREEN, BLUE }}; struct shared x_{name}; enum colour c_{name}; \
                 int f_{name}(struct shared *s) {{ return s->a + s->d; }} int main(void) {{ return 0; }}"
        )
    };
    let build = |name| Program::c(text(name)).flags(&["-g"]).name(name).build();
    let (one, two) = (build("one"), build("two"));
    let dwz = dwz_multifile(&[&one, &two]);
    let supplement = File {
        id: build_id_of(&dwz.supplement).unwrap(),
        bytes: bytes(&dwz.supplement),
    };
    let debug = File {
        id: one.build_id(),
        bytes: bytes(&dwz.programs[0]),
    };
    (debug, supplement)
}

async fn ready(room: &Room, id: &BuildId) -> Option<String> {
    match room.artifacts.index(id).await.unwrap() {
        IndexLookup::Ready(index) => Some(std::fs::read_to_string(index.path).unwrap()),
        _ => None,
    }
}

async fn an_upload_answers_with_its_index_and_the_next_look_up_converts_nothing(room: Room) {
    let (id, build_id) = ids();
    let stored = upload(&room.artifacts, (&id, DEBUGINFO), &program().bytes())
        .await
        .unwrap();
    assert_eq!(stored.index, IndexProgress::Ready);
    assert_eq!((stored.functions, stored.lines), (2, 3));
    assert!(ready(&room, &build_id).await.is_some());
    upload(&room.artifacts, (&id, DEBUGINFO), &program().bytes())
        .await
        .unwrap();
    assert!(matches!(
        room.replica().index(&build_id).await,
        Ok(IndexLookup::Ready(_))
    ));
    assert_eq!(room.converter.runs(), 1);
}

async fn the_executable_that_comes_after_the_debuginfo_leads_to_a_new_index(room: Room) {
    let (id, build_id) = ids();
    let debug = bytes(program().debug_only());
    upload(&room.artifacts, (&id, DEBUGINFO), &debug)
        .await
        .unwrap();
    let first = ready(&room, &build_id).await.unwrap();
    assert!(first.contains("executable: None"), "{first}");
    let stripped = bytes(program().stripped());
    upload(&room.artifacts, (&id, EXECUTABLE), &stripped)
        .await
        .unwrap();
    let second = ready(&room, &build_id).await.unwrap();
    assert!(second.contains("executable: Some"), "{second}");
    let IndexLookup::Ready(index) = room.artifacts.index(&build_id).await.unwrap() else {
        panic!("it was ready");
    };
    assert!(index.segments.is_some());
}

async fn a_newer_converter_converts_again_on_demand_and_an_older_failure_is_tried_again(
    room: Room,
) {
    let (id, build_id) = ids();
    let failure = IndexFailure {
        kind: IndexFailureKind::Malformed,
        detail: "cyclic".to_owned(),
    };
    room.converter.answer(Ok(Err(failure.clone())));
    let stored = upload(&room.artifacts, (&id, DEBUGINFO), &program().bytes())
        .await
        .unwrap();
    assert_eq!(
        (stored.index, stored.detail.as_str()),
        (IndexProgress::Failed, "cyclic")
    );
    for artifacts in [room.artifacts.clone(), room.replica()] {
        let lookup = artifacts.index(&build_id).await.unwrap();
        let IndexLookup::Failed(found) = lookup else {
            panic!("{lookup:?}");
        };
        assert_eq!(found, failure);
    }
    assert_eq!(room.converter.runs(), 1, "a failure is remembered");

    room.converter.answer(converted());
    room.converter.version.store(2, Ordering::SeqCst);
    let index = until(|| ready(&room, &build_id)).await;
    assert!(index.starts_with("2 "), "{index}");
    assert_eq!(room.converter.runs(), 2);
}

async fn a_converter_that_cannot_be_run_says_nothing_of_the_files(room: Room) {
    let (id, build_id) = ids();
    let absent = ConverterUnavailable {
        detail: "no such program".to_owned(),
    };
    room.converter.answer(Err(absent));
    let stored = upload(&room.artifacts, (&id, DEBUGINFO), &program().bytes())
        .await
        .unwrap();
    assert_eq!(stored.index, IndexProgress::Converting);
    let lookup = room.artifacts.index(&build_id).await;
    assert!(
        matches!(lookup, Err(LocateError::Converter { .. })),
        "{lookup:?}"
    );
    room.converter.answer(converted());
    let index = until(|| async {
        match room.artifacts.index(&build_id).await {
            Ok(IndexLookup::Ready(index)) => Some(index),
            _ => None,
        }
    });
    assert!(index.await.size_bytes > 0);
}

async fn those_who_wait_for_one_conversion_share_it_and_may_leave(room: Room) {
    let (id, build_id) = ids();
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
    let file = program().bytes();
    let first = upload(&room.artifacts, (&id, DEBUGINFO), &file);
    // The first uploader leaves while it waits.
    tokio::select! {
        uploaded = first => panic!("answered before the index: {uploaded:?}"),
        () = until(|| async { (room.converter.runs() == 1).then_some(()) }) => {}
    }
    let lookup = room.artifacts.index(&build_id).await.unwrap();
    assert!(matches!(lookup, IndexLookup::Converting), "{lookup:?}");
    gate.add_permits(1);
    assert!(until(|| ready(&room, &build_id)).await.starts_with("1 "));
    assert_eq!(room.converter.runs(), 1);
}

async fn an_index_of_fewer_files_serves_while_the_better_one_is_made(room: Room) {
    let (id, build_id) = ids();
    let debug = bytes(program().debug_only());
    upload(&room.artifacts, (&id, DEBUGINFO), &debug)
        .await
        .unwrap();
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
    let stripped = bytes(program().stripped());
    let second = tokio::spawn(async move {
        upload(&artifacts, (&id, EXECUTABLE), &stripped)
            .await
            .unwrap()
    });
    until(|| async { (room.converter.runs() == 2).then_some(()) }).await;
    let meanwhile = ready(&room, &build_id).await.unwrap();
    assert!(meanwhile.contains("executable: None"), "{meanwhile}");
    gate.add_permits(1);
    assert_eq!(second.await.unwrap().index, IndexProgress::Ready);
    assert!(
        ready(&room, &build_id)
            .await
            .unwrap()
            .contains("executable: Some")
    );
}

async fn an_index_that_is_cut_or_missing_is_made_anew_once_an_hour(room: Room) {
    let (id, build_id) = ids();
    upload(&room.artifacts, (&id, DEBUGINFO), &program().bytes())
        .await
        .unwrap();
    for damage in [Some(&b"cut"[..]), None] {
        let replica = room.replica();
        let runs = room.converter.runs();
        let IndexLookup::Ready(index) = replica.index(&build_id).await.unwrap() else {
            panic!("it was ready");
        };
        let IndexHome::Record(name) = index.home else {
            panic!("it is in the store");
        };
        let whole = std::fs::read(&index.path).unwrap();
        let keys = room.keys(&format!(".{}", name.upload)).await;
        let blob = keys.iter().find(|key| key.as_str().contains("/blob/"));
        room.overwrite(blob.unwrap(), damage).await;
        let lookup = replica.index(&build_id).await.unwrap();
        assert!(matches!(lookup, IndexLookup::Converting), "{lookup:?}");
        let again = until(|| async {
            match replica.index(&build_id).await.unwrap() {
                IndexLookup::Ready(again) => Some(again),
                _ => None,
            }
        });
        let again = again.await;
        assert_eq!(std::fs::read(&again.path).unwrap(), whole);
        assert_eq!(room.converter.runs(), runs + 1);
        assert!(
            replica.forget_index(&build_id, &index).await.unwrap(),
            "it is gone"
        );
        assert!(!replica.forget_index(&build_id, &again).await.unwrap());
        assert_eq!(room.converter.runs(), runs + 1);
    }
}

async fn a_supplementary_file_that_comes_later_completes_the_index(room: Room) {
    let (debug, supplement) = with_supplement();
    let (id, supplement_id) = (debug.id, supplement.id);
    let (debug, supplement) = (debug.bytes, supplement.bytes);
    let wants = supplement_id.clone();
    room.converter.set(move |sources| {
        let missing = sources.supplement.is_none().then(|| wants.clone());
        let answer = converted().map(|facts| {
            facts.map(|facts| Converted {
                needs_supplement: missing,
                ..facts
            })
        });
        async move { answer }.boxed()
    });
    upload(&room.artifacts, (&id, DEBUGINFO), &debug)
        .await
        .unwrap();
    let build_id: BuildId = id.parse().unwrap();
    let first = ready(&room, &build_id).await.unwrap();
    assert!(first.contains("supplement: None"), "{first}");
    assert_eq!(room.converter.runs(), 1);

    upload(&room.artifacts, (&supplement_id, DEBUGINFO), &supplement)
        .await
        .unwrap();
    let second = until(|| async {
        let index = ready(&room, &build_id).await?;
        index.contains("supplement: Some").then_some(index)
    });
    second.await;
    let runs = room.converter.runs();
    ready(&room, &build_id).await.unwrap();
    assert_eq!(room.converter.runs(), runs, "a complete index stays");
}

async fn a_sound_supplementary_file_completes_what_damaged_ones_did_not(room: Room) {
    let (debug, supplement) = with_supplement();
    // The same supplementary file to its headers, other bytes to the converter and to the store.
    let padded = |padding: &[u8]| [&supplement.bytes[..], padding].concat();
    let (malformed, damaged) = (padded(b"1"), padded(b"22"));
    let sound = ContentHash::of(&supplement.bytes).0;
    let wants = supplement.id.clone();
    room.converter.set(move |sources| {
        let found = sources.supplement.as_ref();
        let is_sound = found.is_some_and(|found| found.sha256 == sound);
        let missing = (!is_sound).then(|| wants.clone());
        let answer = converted().map(|facts| {
            facts.map(|facts| Converted {
                needs_supplement: missing,
                ..facts
            })
        });
        async move { answer }.boxed()
    });
    let artifacts = &room.artifacts;
    for file in [&malformed, &damaged] {
        upload(artifacts, (&supplement.id, DEBUGINFO), file)
            .await
            .unwrap();
    }
    room.overwrite(&room.blob_of(&damaged).await, Some(&vec![0; damaged.len()]))
        .await;
    let replica = room.replica();
    upload(&replica, (&debug.id, DEBUGINFO), &debug.bytes)
        .await
        .unwrap();
    let build_id: BuildId = debug.id.parse().unwrap();
    let with_supplement = async || {
        let found = replica.index(&build_id).await.unwrap();
        let IndexLookup::Ready(index) = found else {
            panic!("an incomplete index serves meanwhile: {found:?}");
        };
        std::fs::read_to_string(index.path).unwrap()
    };
    let malformed = format!("{:?}", ContentHash::of(&malformed).0);
    assert!(with_supplement().await.contains(&malformed));
    let runs = room.converter.runs();
    with_supplement().await;
    assert_eq!(room.converter.runs(), runs, "each is tried once");
    upload(&replica, (&supplement.id, DEBUGINFO), &supplement.bytes)
        .await
        .unwrap();
    let sound = format!("{sound:?}");
    until(|| async { with_supplement().await.contains(&sound).then_some(()) }).await;
}
