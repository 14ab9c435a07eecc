//! When conversions run, what of them is kept, and what waits for them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::FutureExt;
use tokio::sync::Semaphore;
use unhex::artifacts::{
    ArtifactKind, IndexFailure, IndexFailureKind, IndexLookup, IndexProgress, LocateError,
};
use unhex::conversion::{Converted, ConverterUnavailable};
use unhex_build_id::BuildId;
use unhex_testkit::fixture::{Program, build_id_of, dwz_multifile};

use crate::artifacts_backends::on_every_store;
use crate::artifacts_store::{Room, converted, until, upload};
use crate::calls::{bytes, program};

on_every_store!(
    a_supplementary_file_that_comes_later_completes_the_index,
    an_upload_answers_with_its_index_and_the_next_look_up_converts_nothing,
    the_executable_that_comes_after_the_debuginfo_leads_to_a_new_index,
    a_newer_converter_converts_again_on_demand_and_an_older_failure_is_tried_again,
    a_converter_that_cannot_be_run_says_nothing_of_the_files,
    those_who_wait_for_one_conversion_share_it_and_may_leave,
    an_index_of_fewer_files_serves_while_the_better_one_is_made,
    a_damaged_index_is_made_anew,
);

const DEBUGINFO: ArtifactKind = ArtifactKind::Debuginfo;
const EXECUTABLE: ArtifactKind = ArtifactKind::Executable;

/// The program's build ID as text and as itself.
fn ids() -> (String, BuildId) {
    let id = program().build_id();
    let build_id = id.parse().unwrap();
    (id, build_id)
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
    let waits = tokio::time::timeout(std::time::Duration::from_millis(500), first);
    assert!(
        waits.await.is_err(),
        "the first uploader leaves while it waits"
    );
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

async fn a_damaged_index_is_made_anew(room: Room) {
    let (id, build_id) = ids();
    upload(&room.artifacts, (&id, DEBUGINFO), &program().bytes())
        .await
        .unwrap();
    let IndexLookup::Ready(index) = room.artifacts.index(&build_id).await.unwrap() else {
        panic!("it was ready");
    };
    let whole = std::fs::read(&index.path).unwrap();
    let key = room.blob_of(&whole).await;
    room.overwrite(&key, Some(&vec![0; whole.len()])).await;
    let lookup = room.artifacts.index(&build_id).await.unwrap();
    assert!(matches!(lookup, IndexLookup::Converting), "{lookup:?}");
    assert!(until(|| ready(&room, &build_id)).await.starts_with("1 "));
    assert_eq!(room.converter.runs(), 2);
}

async fn a_supplementary_file_that_comes_later_completes_the_index(room: Room) {
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
    let (debug, supplement) = (bytes(&dwz.programs[0]), bytes(&dwz.supplement));
    let (id, supplement_id) = (one.build_id(), build_id_of(&dwz.supplement).unwrap());
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
