//! What every implementation of the object store has to keep: the contract that artifacts rest on.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use unhex::artifacts::ContentHash;
use unhex::artifacts::store::{
    BlobContent, BlobForm, GetLimit, ListQuery, NewBlob, ObjectKey, ObjectStore, PAGE_ENTRIES_MAX,
    StoreError, StoredBlob,
};

use crate::artifacts_backends::on_every_store;
use crate::artifacts_store::Room;

on_every_store!(
    an_object_is_put_once_and_read_whole,
    of_those_who_put_one_key_at_once_exactly_one_succeeds,
    a_staged_file_becomes_an_object_and_leaves_the_staging_folder,
    a_blob_is_put_once_and_what_it_was_stays,
    an_open_object_stays_readable_when_it_is_removed,
    pages_of_a_listing_are_in_byte_order_and_meet_without_gap,
    pages_of_folders_are_in_byte_order_and_meet_without_gap,
    all_objects_are_listed_also_when_they_are_more_than_a_page,
    a_key_is_free_again_after_its_object_was_removed,
);

const LIMIT: GetLimit = GetLimit { bytes_max: 100 };

fn key(text: &str) -> ObjectKey {
    text.parse().unwrap()
}

/// Puts objects whose content is their key.
async fn put(store: &dyn ObjectStore, keys: &[&str]) {
    for text in keys {
        let bytes = Bytes::from((*text).to_owned());
        store.put(key(text), bytes).await.unwrap();
    }
}

fn new_blob(store: &dyn ObjectStore, bytes: &[u8], content: BlobContent) -> NewBlob {
    let mut staged = store.staging().file().unwrap();
    staged.write_all(bytes).unwrap();
    NewBlob {
        staged,
        sha256: ContentHash::of(bytes),
        content,
    }
}

fn blob(name: &str, form: &BlobForm, bytes: &[u8]) -> StoredBlob {
    StoredBlob {
        key: key(name),
        form: form.clone(),
        sha256: ContentHash::of(bytes),
        size_bytes: bytes.len().try_into().unwrap(),
    }
}

fn query(prefix: &str, after: Option<&str>, entries_max: usize) -> ListQuery {
    ListQuery {
        prefix: prefix.to_owned(),
        after: after.map(str::to_owned),
        entries_max,
    }
}

async fn an_object_is_put_once_and_read_whole(room: Room) {
    let store = room.plain_store();
    put(&*store, &["a/b"]).await;
    let again = store.put(key("a/b"), Bytes::from_static(b"other")).await;
    assert!(matches!(again, Err(StoreError::Exists { .. })), "{again:?}");
    assert_eq!(store.get(key("a/b"), LIMIT).await.unwrap().unwrap(), "a/b");
    assert_eq!(store.get(key("a/b/c"), LIMIT).await.unwrap(), None);
    let small = store.get(key("a/b"), GetLimit { bytes_max: 2 }).await;
    assert!(
        matches!(small, Err(StoreError::TooLarge { size_bytes: 3, .. })),
        "{small:?}"
    );
    store.delete(key("a/b")).await.unwrap();
    store.delete(key("a/b")).await.unwrap();
    assert_eq!(store.get(key("a/b"), LIMIT).await.unwrap(), None);
}

async fn of_those_who_put_one_key_at_once_exactly_one_succeeds(room: Room) {
    let store = room.plain_store();
    let puts = (0..8).map(|number| store.put(key("a/b"), format!("{number}").into()));
    let ended = futures_util::future::join_all(puts).await;
    let won: Vec<usize> = (0..8).filter(|&number| ended[number].is_ok()).collect();
    assert_eq!(won.len(), 1, "{ended:?}");
    let lost = ended.iter().filter_map(|end| end.as_ref().err());
    for error in lost {
        assert!(matches!(error, StoreError::Exists { .. }), "{error:?}");
    }
    let found = store.get(key("a/b"), LIMIT).await.unwrap().unwrap();
    assert_eq!(found, won[0].to_string());
}

async fn a_staged_file_becomes_an_object_and_leaves_the_staging_folder(room: Room) {
    let store = room.plain_store();
    for (name, content) in [
        ("x/file", BlobContent::Artifact),
        ("x/index", BlobContent::SymbolIndex),
    ] {
        let file = new_blob(&*store, b"blob", content);
        let form = store.put_file(key(name), file).await.unwrap();
        let opened = store
            .open(blob(name, &form, b"blob"))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(opened.size_bytes, 4);
        assert_eq!(std::fs::read(&opened.path).unwrap(), b"blob");
    }
    assert_eq!(room.staged(), 0);
}

async fn a_blob_is_put_once_and_what_it_was_stays(room: Room) {
    let store = room.plain_store();
    let file = new_blob(&*store, b"first", BlobContent::Artifact);
    let form = store.put_file(key("x/y"), file);
    let form = form.await.unwrap();
    let other = new_blob(&*store, b"second", BlobContent::Artifact);
    let again = store.put_file(key("x/y"), other);
    let again = again.await;
    assert!(matches!(again, Err(StoreError::Exists { .. })), "{again:?}");
    let opened = store.open(blob("x/y", &form, b"first")).await;
    let opened = opened.unwrap().unwrap();
    assert_eq!(std::fs::read(&opened.path).unwrap(), b"first");
    assert_eq!(room.staged(), 0);
}

async fn an_open_object_stays_readable_when_it_is_removed(room: Room) {
    let store = room.plain_store();
    let file = new_blob(&*store, b"blob", BlobContent::Artifact);
    let form = store.put_file(key("x/y"), file);
    let blob = blob("x/y", &form.await.unwrap(), b"blob");
    let mut opened = store.open(blob.clone()).await.unwrap().unwrap();
    store.delete(key("x/y")).await.unwrap();
    let mut read = Vec::new();
    opened.file.read_to_end(&mut read).unwrap();
    assert_eq!(read, b"blob");
    assert!(store.open(blob).await.unwrap().is_none());
}

async fn pages_of_a_listing_are_in_byte_order_and_meet_without_gap(room: Room) {
    // '.' sorts before '/', and "ab" before "abcd": the order of keys, not of folders.
    let keys = ["b/ab.x", "b/ab/1", "b/ab/rec/z", "b/abcd/1", "c/1"];
    let store = room.plain_store();
    put(&*store, &keys).await;
    let mut seen: Vec<String> = Vec::new();
    loop {
        let after = seen.last().map(String::as_str);
        let page = store.list(query("b/", after, 2)).await.unwrap();
        for entry in &page {
            let length = entry.key.as_str().len();
            assert_eq!(entry.size_bytes, u64::try_from(length).unwrap());
        }
        seen.extend(page.iter().map(|entry| entry.key.to_string()));
        if page.len() < 2 {
            break;
        }
    }
    assert_eq!(seen, keys[..4]);
    assert_eq!(store.list(query("b/ab/", None, 9)).await.unwrap().len(), 2);
    let behind = store.list(query("b/", Some("b/ab/0"), 9)).await.unwrap();
    assert_eq!(behind.len(), 3, "`after` need not exist");
    assert_eq!(store.list(query("nothing/", None, 9)).await.unwrap(), []);
}

async fn pages_of_folders_are_in_byte_order_and_meet_without_gap(room: Room) {
    let store = room.plain_store();
    put(
        &*store,
        &["b/ab/1", "b/ab/2", "b/abcd/x/1", "b/c/1", "b/no"],
    )
    .await;
    let folders = async |after, count| store.list_folders(query("b/", after, count)).await.unwrap();
    assert_eq!(folders(None, 9).await, ["ab", "abcd", "c"]);
    assert_eq!(folders(None, 2).await, ["ab", "abcd"]);
    assert_eq!(folders(Some("b/ab/"), 9).await, ["abcd", "c"]);
    assert_eq!(folders(Some("b/c/"), 9).await, Vec::<String>::new());
}

async fn all_objects_are_listed_also_when_they_are_more_than_a_page(room: Room) {
    let store = room.plain_store();
    let keys: BTreeSet<String> = (0..=PAGE_ENTRIES_MAX)
        .map(|number| format!("many/{number}"))
        .collect();
    let puts = keys.iter().map(|name| store.put(key(name), Bytes::new()));
    let puts: Vec<_> = stream::iter(puts).buffer_unordered(32).collect().await;
    assert!(puts.iter().all(Result::is_ok));
    let listed = store.list_all("many/".to_owned()).await.unwrap();
    let listed: Vec<String> = listed.iter().map(|entry| entry.key.to_string()).collect();
    assert_eq!(listed, keys.into_iter().collect::<Vec<_>>());
}

async fn a_key_is_free_again_after_its_object_was_removed(room: Room) {
    let store = room.plain_store();
    for round in ["first", "second"] {
        store.put(key("a/b/c"), round.into()).await.unwrap();
        let found = store.get(key("a/b/c"), LIMIT).await.unwrap().unwrap();
        assert_eq!(found, round);
        store.delete(key("a/b/c")).await.unwrap();
    }
    assert_eq!(store.list_all("a/".to_owned()).await.unwrap(), []);
}
