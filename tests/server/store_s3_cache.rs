//! What a store in a bucket keeps on this disk: within its bound, whole, and no more than it needs.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use unhex::artifacts::ContentHash;
use unhex::artifacts::store::{
    BlobContent, Glance, NewBlob, ObjectKey, ObjectStore, S3Store, StoredBlob,
};
use unhex::config::S3Config;
use unhex_testkit::fault_proxy::{FaultProxy, Seen};
use unhex_testkit::s3_server::S3Server;

use crate::artifacts_backends::{bucket_config, s3_store, s3_store_within};

/// How long anything may take on a busy machine.
const DEADLINE: Duration = Duration::from_mins(1);

fn bytes(seed: u64, size_bytes: usize) -> Vec<u8> {
    let mut state = seed;
    let numbers = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state.to_be_bytes()
    });
    numbers.flatten().take(size_bytes).collect()
}

async fn put(store: &S3Store, name: &str, bytes: &[u8]) -> StoredBlob {
    let mut staged = store.staging().file().unwrap();
    staged.write_all(bytes).unwrap();
    let key: ObjectKey = name.parse().unwrap();
    let blob = NewBlob {
        staged,
        sha256: ContentHash::of(bytes),
        content: BlobContent::SymbolIndex,
    };
    let form = store.put_file(key.clone(), blob).await.unwrap();
    StoredBlob {
        key,
        form,
        sha256: ContentHash::of(bytes),
        size_bytes: bytes.len().try_into().unwrap(),
    }
}

/// What lies in the folder of fetched files.
fn kept_bytes(data: &TempDir) -> u64 {
    let files = std::fs::read_dir(data.path().join("fetched")).unwrap();
    files
        .filter_map(|file| file.unwrap().metadata().ok())
        .map(|metadata| metadata.len())
        .sum()
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = tokio::time::Instant::now() + DEADLINE;
    while !is_so() {
        assert!(
            tokio::time::Instant::now() < end,
            "waited in vain for {what}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn config() -> Option<(S3Config, &'static S3Server)> {
    let server = S3Server::shared()?;
    Some((bucket_config(&server.bucket(), server.endpoint()), server))
}

#[tokio::test(flavor = "multi_thread")]
async fn files_come_and_go_within_the_bound_and_whoever_holds_one_has_it_whole() {
    const BOUND: u64 = 400 << 10;
    let Some((config, _)) = config() else {
        return;
    };
    let elsewhere = TempDir::new().unwrap();
    let writer = s3_store(config.clone(), &elsewhere).await;
    let mut files = Vec::new();
    for seed in 0..8 {
        let bytes = bytes(seed, 100 << 10);
        files.push((put(&writer, &format!("a/{seed}"), &bytes).await, bytes));
    }
    let data = TempDir::new().unwrap();
    let store = Arc::new(s3_store_within(config, &data, BOUND).await);
    let readers = (0..8_usize).map(|reader| {
        let (store, files) = (Arc::clone(&store), files.clone());
        tokio::spawn(async move {
            for turn in 0..12 {
                let (blob, bytes) = &files[(reader * 5 + turn * 3) % files.len()];
                let file = store.open(blob.clone()).await.unwrap().unwrap();
                // Others push it out meanwhile, but for the lease.
                tokio::task::yield_now().await;
                assert!(std::fs::read(&file.path).unwrap() == *bytes);
            }
        })
    });
    for reader in futures_util::future::join_all(readers).await {
        reader.unwrap();
    }
    until("the files to be within the bound", || {
        kept_bytes(&data) <= BOUND
    })
    .await;
    assert!(kept_bytes(&data) > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_beyond_the_bound_is_served_and_gone_with_its_last_reader() {
    let Some((config, _)) = config() else {
        return;
    };
    let elsewhere = TempDir::new().unwrap();
    let giant = bytes(1, 300 << 10);
    let blob = put(&s3_store(config.clone(), &elsewhere).await, "a/b", &giant).await;
    let data = TempDir::new().unwrap();
    let store = s3_store_within(config, &data, 100 << 10).await;
    let (one, two) = tokio::join!(store.open(blob.clone()), store.open(blob.clone()));
    let (one, two) = (one.unwrap().unwrap(), two.unwrap().unwrap());
    drop(one);
    assert!(std::fs::read(&two.path).unwrap() == giant);
    drop(two);
    until("the file to be gone", || kept_bytes(&data) == 0).await;
    assert!(store.open(blob).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn more_ranges_than_may_be_in_memory_do_not_wait_for_each_other() {
    let Some((config, _)) = config() else {
        return;
    };
    let elsewhere = TempDir::new().unwrap();
    let writer = s3_store(config.clone(), &elsewhere).await;
    // Nine ranges each, of which eight are fetched at once; sixteen may be in memory.
    let large = bytes(1, (32 << 20) + 1);
    let mut blobs = Vec::new();
    for name in ["a/1", "a/2", "a/3"] {
        blobs.push(put(&writer, name, &large).await);
    }
    let data = TempDir::new().unwrap();
    let store = s3_store(config, &data).await;
    let opening = blobs.into_iter().map(|blob| store.open(blob));
    let opening = futures_util::future::join_all(opening);
    let opened = tokio::time::timeout(DEADLINE, opening).await.unwrap();
    for file in opened {
        let path = file.unwrap().unwrap().path;
        assert!(std::fs::read(path).unwrap() == large);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_glance_fetches_nothing_and_knows_of_damage_that_was_read() {
    let Some((_, server)) = config() else {
        return;
    };
    let proxy = FaultProxy::before(server.endpoint());
    let bucket = server.bucket();
    let config = bucket_config(&bucket, &proxy.url());
    let elsewhere = TempDir::new().unwrap();
    let whole = bytes(1, 9_000);
    let blob = put(&s3_store(config.clone(), &elsewhere).await, "a/b", &whole).await;
    let data = TempDir::new().unwrap();
    let store = s3_store(config, &data).await;
    let glance = || store.glance(blob.clone());
    assert!(matches!(glance().await.unwrap(), Glance::There));
    let fetches = |seen: &&Seen| seen.method == "GET" && seen.path.contains("/a/b");
    assert_eq!(proxy.seen().iter().filter(fetches).count(), 0);

    let mut flipped = whole.clone();
    flipped[4_000] ^= 1;
    server.put(&bucket, "some/prefix/a/b", &flipped);
    assert!(matches!(glance().await.unwrap(), Glance::There));
    store.open(blob.clone()).await.unwrap_err();
    assert!(matches!(glance().await.unwrap(), Glance::Damaged));
    server.put(&bucket, "some/prefix/a/b", &whole);
    // It is looked for again once the damage is no longer believed.
    let mended = async {
        while store.open(blob.clone()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(DEADLINE, mended).await.unwrap();
    server.put(&bucket, "some/prefix/a/b", b"cut");
    assert!(matches!(glance().await.unwrap(), Glance::Damaged));
    store.delete(blob.key.clone()).await.unwrap();
    assert!(matches!(glance().await.unwrap(), Glance::Absent));
}
