//! The store in a bucket when the network and the server fail, and what only a bucket has.

use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tempfile::TempDir;
use unhex::artifacts::ContentHash;
use unhex::artifacts::store::{
    BlobContent, BlobForm, GetLimit, ListQuery, NewBlob, ObjectKey, ObjectStore, S3Store,
    StoreError, StoredBlob,
};
use unhex::config::{S3Config, S3Encryption, S3Patience};
use unhex_testkit::fault_proxy::{Fault, FaultProxy, Seen};
use unhex_testkit::s3_server::S3Server;

use crate::artifacts_backends::{bucket_config, s3_store};
use crate::server::DEADLINE;

const LIMIT: GetLimit = GetLimit { bytes_max: 1 << 20 };

/// A bucket behind a proxy that spoils what it is told to.
struct Spoilt {
    proxy: FaultProxy,
    config: S3Config,
    data: TempDir,
    store: S3Store,
}

impl Spoilt {
    async fn new() -> Option<Self> {
        Self::with(|_| ()).await
    }

    async fn with(change: impl FnOnce(&mut S3Config)) -> Option<Self> {
        let server = S3Server::shared()?;
        let proxy = FaultProxy::before(server.endpoint());
        let mut config = bucket_config(&server.bucket(), &proxy.url());
        // What hangs is given up soon; on a busy machine a sound answer may take a second.
        config.patience = S3Patience {
            answer: Duration::from_secs(4),
            stall: Duration::from_secs(2),
            ..config.patience
        };
        change(&mut config);
        let data = TempDir::new().unwrap();
        let store = s3_store(config.clone(), &data).await;
        Some(Self {
            proxy,
            config,
            data,
            store,
        })
    }

    /// A second server with caches of its own.
    async fn replica(&self) -> (TempDir, S3Store) {
        let data = TempDir::new().unwrap();
        let store = s3_store(self.config.clone(), &data).await;
        (data, store)
    }

    async fn put(&self, name: &str, bytes: &[u8], content: BlobContent) -> StoredBlob {
        put(&self.store, name, bytes, content).await.unwrap()
    }

    fn requests(&self, method: &str, part: &str) -> usize {
        let seen = self.proxy.seen();
        let counts = |seen: &&Seen| seen.method == method && seen.path.contains(part);
        seen.iter().filter(counts).count()
    }
}

async fn put(
    store: &S3Store,
    name: &str,
    bytes: &[u8],
    content: BlobContent,
) -> Result<StoredBlob, StoreError> {
    let mut staged = store.staging().file().unwrap();
    staged.write_all(bytes).unwrap();
    let blob = NewBlob {
        staged,
        sha256: ContentHash::of(bytes),
        content,
    };
    let form = store.put_file(key(name), blob).await?;
    Ok(StoredBlob {
        key: key(name),
        form,
        sha256: ContentHash::of(bytes),
        size_bytes: bytes.len().try_into().unwrap(),
    })
}

async fn read(store: &S3Store, blob: &StoredBlob) -> Result<Vec<u8>, StoreError> {
    let file = store.open(blob.clone()).await?.expect("it is there");
    Ok(std::fs::read(file.path).unwrap())
}

/// The blob, once what was wrong with it on its way is no longer believed of the blob itself.
async fn read_soon(store: &S3Store, blob: &StoredBlob) -> Vec<u8> {
    let read_once = async {
        loop {
            match read(store, blob).await {
                Err(StoreError::Damaged { .. }) => {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                read => return read.unwrap(),
            }
        }
    };
    let read = tokio::time::timeout(Duration::from_mins(1), read_once);
    read.await.expect("it is looked for again")
}

fn key(text: &str) -> ObjectKey {
    text.parse().unwrap()
}

fn everything() -> ListQuery {
    ListQuery {
        prefix: "a/".to_owned(),
        after: None,
        entries_max: 9,
    }
}

/// Bytes of which zstd saves a third.
fn sample(size_bytes: usize) -> Vec<u8> {
    let mut state = 7_u64;
    let mut bytes = Vec::with_capacity(size_bytes + 12);
    while bytes.len() < size_bytes {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        bytes.extend_from_slice(&state.to_be_bytes());
        bytes.extend_from_slice(b"same");
    }
    bytes.truncate(size_bytes);
    bytes
}

/// What passes when it is tried again.
fn faults() -> [Fault; 8] {
    [
        Fault::status(503),
        Fault::status(500),
        Fault::Reset,
        Fault::Close,
        Fault::ResetInBody,
        Fault::Truncate,
        Fault::WrongLength,
        Fault::Hang,
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_once_is_tried_again_and_is_no_absence() {
    let Some(spoilt) = Spoilt::new().await else {
        return;
    };
    let record = Bytes::from_static(b"{\"a\": \"record of some length\"}");
    spoilt
        .store
        .put(key("a/record"), record.clone())
        .await
        .unwrap();
    let file = sample(300_000);
    let blob = spoilt.put("a/blob", &file, BlobContent::Artifact).await;
    assert!(matches!(blob.form, BlobForm::ZstdFrames(_)), "{blob:?}");
    let index = spoilt.put("a/index", &file, BlobContent::SymbolIndex).await;
    assert_eq!(index.form, BlobForm::Identity);
    for fault in faults()
        .into_iter()
        .chain([Fault::HangInBody, Fault::FlipByte])
    {
        let next = || spoilt.proxy.fail_next([fault.clone()]);
        next();
        let got = spoilt.store.get(key("a/record"), LIMIT).await;
        assert_eq!(got.unwrap(), Some(record.clone()), "{fault:?}");
        for blob in [&blob, &index] {
            let (_data, replica) = spoilt.replica().await;
            next();
            assert!(read(&replica, blob).await.unwrap() == file, "{fault:?}");
            // A file whose last attempt was the sound one is fetched no more.
            let requests = spoilt.proxy.requests();
            assert!(read(&replica, blob).await.unwrap() == file);
            assert_eq!(spoilt.proxy.requests(), requests);
        }
    }
    for fault in faults().into_iter().chain([Fault::HangInBody]) {
        spoilt.proxy.fail_next([fault.clone()]);
        let listed = spoilt.store.list(everything()).await.unwrap();
        assert_eq!(listed.len(), 3, "{fault:?}");
    }
    assert!(spoilt.data.path().join("fetched").is_dir());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_always_fails_is_an_error_and_never_absence_nor_half_a_file() {
    let Some(spoilt) = Spoilt::with(|config| config.patience.attempts = 2).await else {
        return;
    };
    let blob = spoilt
        .put("a/blob", &sample(90_000), BlobContent::Artifact)
        .await;
    spoilt
        .store
        .put(key("a/record"), Bytes::from_static(b"record"))
        .await
        .unwrap();
    let more = [
        Fault::HangInBody,
        Fault::FlipByte,
        Fault::html(),
        Fault::status(404),
    ];
    for fault in faults().into_iter().chain(more) {
        let (_data, replica) = spoilt.replica().await;
        spoilt.proxy.fail(fault.clone());
        let context = format!("{fault:?}");
        let record = replica.get(key("a/record"), LIMIT).await;
        record.expect_err(&context);
        replica.open(blob.clone()).await.expect_err(&context);
        // A flipped byte of a listing shows only where answers are encrypted.
        if fault != Fault::FlipByte {
            replica.list(everything()).await.expect_err(&context);
            let folders = replica.list_folders(everything()).await;
            folders.expect_err(&context);
        }
        spoilt.proxy.fail(Fault::None);
        assert!(
            read_soon(&replica, &blob).await == sample(90_000),
            "{fault:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_put_whose_answer_is_lost_is_done_once_and_does_not_call_itself_taken() {
    let soon = |config: &mut S3Config| config.patience.part = config.patience.answer;
    let Some(spoilt) = Spoilt::with(soon).await else {
        return;
    };
    let more = [Fault::LoseAnswer, Fault::html()];
    for fault in faults().into_iter().chain(more) {
        let name = format!("a/{}", spoilt.proxy.requests());
        spoilt.proxy.fail_next([fault.clone()]);
        let bytes = Bytes::from(name.clone());
        spoilt.store.put(key(&name), bytes.clone()).await.unwrap();
        let got = spoilt.store.get(key(&name), LIMIT).await;
        assert_eq!(got.unwrap(), Some(bytes), "{fault:?}");
        let again = spoilt
            .store
            .put(key(&name), Bytes::from_static(b"other"))
            .await;
        assert!(matches!(again, Err(StoreError::Exists { .. })), "{again:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_file_goes_in_parts_and_a_part_that_fails_is_sent_again_alone() {
    let Some(spoilt) = Spoilt::new().await else {
        return;
    };
    // Other tests of this process measure its memory.
    let file = sample(17 << 20);
    let part = |seen: &Seen| seen.path.contains("partNumber=2");
    for fault in [Fault::status(503), Fault::LoseAnswer, Fault::Reset] {
        let before = spoilt.requests("PUT", "partNumber=");
        spoilt.proxy.fail_where(1, fault.clone(), part);
        let name = format!("a/{before}");
        let blob = spoilt.put(&name, &file, BlobContent::SymbolIndex).await;
        assert_eq!(
            spoilt.requests("PUT", "partNumber=") - before,
            3,
            "{fault:?}"
        );
        let (_data, replica) = spoilt.replica().await;
        assert!(read(&replica, &blob).await.unwrap() == file, "{fault:?}");
    }
    let complete = |seen: &Seen| seen.method == "POST" && !seen.path.contains("uploads");
    spoilt.proxy.fail_where(1, Fault::LoseAnswer, complete);
    let file = sample(26 << 20);
    let blob = spoilt.put("a/packed", &file, BlobContent::Artifact).await;
    assert!(matches!(blob.form, BlobForm::ZstdFrames(_)), "{blob:?}");
    let (_data, replica) = spoilt.replica().await;
    assert!(read(&replica, &blob).await.unwrap() == file);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_is_sent_six_times_at_most() {
    let Some(spoilt) = Spoilt::new().await else {
        return;
    };
    let sent = |seen: &Seen| seen.method == "PUT" && !seen.path.contains("partNumber=1");
    spoilt
        .proxy
        .fail_where(usize::MAX, Fault::status(503), sent);
    let index = BlobContent::SymbolIndex;
    for (name, size_bytes, of_it) in [
        ("a/parts", 17 << 20, "partNumber=2"),
        ("a/small", 100, "a/small"),
    ] {
        let file = sample(size_bytes);
        put(&spoilt.store, name, &file, index).await.unwrap_err();
        assert_eq!(spoilt.requests("PUT", of_it), 6, "{name}");
    }
    let record = Bytes::from_static(b"a record");
    spoilt.store.put(key("a/record"), record).await.unwrap_err();
    assert_eq!(spoilt.requests("PUT", "a/record"), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_changed_since_it_was_hashed_is_not_put() {
    let Some(spoilt) = Spoilt::new().await else {
        return;
    };
    for content in [BlobContent::Artifact, BlobContent::SymbolIndex] {
        let mut bytes = sample(17 << 20);
        let expected = ContentHash::of(&bytes);
        bytes[9 << 20] ^= 0x10;
        let mut staged = spoilt.store.staging().file().unwrap();
        staged.write_all(&bytes).unwrap();
        let blob = NewBlob {
            staged,
            sha256: expected,
            content,
        };
        let put = spoilt.store.put_file(key("a/blob"), blob).await;
        assert!(matches!(put, Err(StoreError::Altered { .. })), "{put:?}");
        assert!(put.unwrap_err().to_string().contains(&expected.to_string()));
    }
    assert_eq!(spoilt.proxy.requests(), 0, "nothing was sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_that_is_not_understood_is_no_absence() {
    let Some(spoilt) = Spoilt::with(|config| config.patience.attempts = 2).await else {
        return;
    };
    let answer = |element: &str, inner: &str| {
        let body = format!("<{element}>{inner}</{element}>");
        let fault = Fault::answer(200, &[("content-type", "application/xml")], body.as_bytes());
        spoilt.proxy.fail(fault);
    };
    let objects = |inner: &str| answer("ListBucketResult", inner);
    let last = "<IsTruncated>false</IsTruncated>";
    let entry = |key: &str, rest: &str| {
        format!("{last}<Contents><Key>some/prefix/{key}</Key>{rest}</Contents>")
    };
    let (size, time) = (
        "<Size>1</Size>",
        "<LastModified>2026-01-01T00:00:00.000Z</LastModified>",
    );
    let blob = StoredBlob {
        key: key("a/b"),
        form: BlobForm::Identity,
        sha256: ContentHash::of(b"b"),
        size_bytes: 1,
    };
    let ancient = "<LastModified>1969-01-01T00:00:00.000Z</LastModified>";
    for inner in [
        entry("a/b", size),
        entry("a/b", time),
        entry("a/b", &format!("{size}{ancient}")),
        entry("a/b", &format!("<Size>-1</Size>{time}")),
        "<IsTruncated>true</IsTruncated>".to_owned(),
        format!("{last}<Contents><Key>elsewhere/a/b</Key>{size}{time}</Contents>"),
    ] {
        objects(&inner);
        spoilt.store.list(everything()).await.expect_err(&inner);
        spoilt.store.glance(blob.clone()).await.expect_err(&inner);
    }
    // A page that names itself as the next one.
    objects("<IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken>");
    spoilt.store.list(everything()).await.unwrap_err();
    // What no store puts is passed over, whatever is said of it.
    objects(&entry("a/NOT OURS", ""));
    assert_eq!(spoilt.store.list(everything()).await.unwrap(), []);
    objects(&entry("a/b", &format!("{size}{time}")));
    assert_eq!(spoilt.store.list(everything()).await.unwrap().len(), 1);

    let uploads = |inner: &str| answer("ListMultipartUploadsResult", inner);
    let now = SystemTime::now();
    let again = "<IsTruncated>true</IsTruncated><NextKeyMarker>a</NextKeyMarker>";
    let nameless = format!("{last}<Upload><Key>some/prefix/a/b</Key></Upload>");
    for inner in ["<IsTruncated>true</IsTruncated>", again, &nameless] {
        uploads(inner);
        let aborted = spoilt.store.abort_unfinished(now);
        let aborted = tokio::time::timeout(DEADLINE, aborted).await;
        aborted.expect("it ends").expect_err(inner);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_is_given_up_leaves_no_parts_and_the_sweeper_takes_those_of_the_dead() {
    let Some(spoilt) = Spoilt::with(|config| config.patience.attempts = 2).await else {
        return;
    };
    let file = sample(17 << 20);
    let part = |seen: &Seen| seen.path.contains("partNumber=2");
    spoilt
        .proxy
        .fail_where(usize::MAX, Fault::status(503), part);
    let index = BlobContent::SymbolIndex;
    put(&spoilt.store, "a/1", &file, index).await.unwrap_err();
    assert_eq!(spoilt.requests("DELETE", "uploadId="), 1);
    let later = SystemTime::now() + Duration::from_hours(1);
    assert_eq!(spoilt.store.abort_unfinished(later).await.unwrap(), 0);

    let part_or_abort = |seen: &Seen| seen.path.contains("partNumber=2") || seen.method == "DELETE";
    spoilt
        .proxy
        .fail_where(usize::MAX, Fault::status(503), part_or_abort);
    put(&spoilt.store, "a/2", &file, index).await.unwrap_err();
    let failed = spoilt.store.abort_unfinished(later).await.unwrap();
    assert_eq!(failed, 0, "none of which was aborted");
    spoilt.proxy.fail_where(0, Fault::None, |_| false);
    let earlier = SystemTime::now() - Duration::from_hours(1);
    assert_eq!(spoilt.store.abort_unfinished(earlier).await.unwrap(), 0);
    assert_eq!(spoilt.store.abort_unfinished(later).await.unwrap(), 1);
    assert_eq!(spoilt.store.abort_unfinished(later).await.unwrap(), 0);
    assert_eq!(spoilt.store.list(everything()).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_is_fetched_once_for_all_who_ask_and_outlives_the_process() {
    let Some(spoilt) = Spoilt::new().await else {
        return;
    };
    let file = sample(11 << 20);
    let blob = spoilt.put("a/blob", &file, BlobContent::Artifact).await;
    assert!(read(&spoilt.store, &blob).await.unwrap() == file);
    assert_eq!(spoilt.requests("GET", "a/blob"), 0, "it was put here");
    let (data, replica) = spoilt.replica().await;
    let replica = Arc::new(replica);
    let reads = (0..8).map(|_| read(&replica, &blob));
    for found in futures_util::future::join_all(reads).await {
        assert!(found.unwrap() == file);
    }
    let requests = spoilt.requests("GET", "a/blob");
    assert_eq!(requests, 3, "frames of 4 MiB");
    drop(replica);
    let restarted = s3_store(spoilt.config.clone(), &data).await;
    assert!(read(&restarted, &blob).await.unwrap() == file);
    assert_eq!(spoilt.requests("GET", "a/blob"), requests);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_file_is_there_or_not_like_any_other() {
    let Some(spoilt) = Spoilt::new().await else {
        return;
    };
    for content in [BlobContent::Artifact, BlobContent::SymbolIndex] {
        let name = format!("a/{}", spoilt.proxy.requests());
        let blob = spoilt.put(&name, b"", content).await;
        let (_data, replica) = spoilt.replica().await;
        assert_eq!(read(&replica, &blob).await.unwrap(), b"");
        let absent = StoredBlob {
            key: key("a/absent"),
            ..blob
        };
        assert!(replica.open(absent).await.unwrap().is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn encryption_is_asked_for_with_every_object() {
    let with_key = |config: &mut S3Config| {
        config.encryption = Some(S3Encryption::Kms);
        config.kms_key = Some("the-key".to_owned());
    };
    let Some(spoilt) = Spoilt::with(with_key).await else {
        return;
    };
    // This server has no keys; what it is asked is what counts.
    spoilt
        .proxy
        .fail(Fault::answer(200, &[("ETag", "\"x\"")], b""));
    drop(spoilt.store.put(key("a/b"), Bytes::new()).await);
    let index = BlobContent::SymbolIndex;
    drop(put(&spoilt.store, "a/c", b"small", index).await);
    spoilt
        .proxy
        .fail_where(1, Fault::None, |seen| seen.method == "GET");
    drop(put(&spoilt.store, "a/d", &sample(17 << 20), index).await);
    let asked = |seen: &&Seen| seen.method == "PUT" || seen.path.contains("?uploads");
    let seen = spoilt.proxy.seen();
    let asked: Vec<&Seen> = seen.iter().filter(asked).collect();
    assert_eq!(asked.len(), 3);
    for seen in asked {
        let kind = seen.header("x-amz-server-side-encryption");
        let key = seen.header("x-amz-server-side-encryption-aws-kms-key-id");
        assert_eq!((kind, key), (Some("aws:kms"), Some("the-key")), "{seen:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_knows_no_conditions_is_put_to_without() {
    let Some(spoilt) = Spoilt::new().await else {
        return;
    };
    let conditional = |seen: &Seen| seen.header("if-none-match").is_some();
    spoilt
        .proxy
        .fail_where(usize::MAX, Fault::status(501), conditional);
    spoilt
        .store
        .put(key("a/b"), Bytes::from_static(b"bytes"))
        .await
        .unwrap();
    spoilt
        .store
        .put(key("a/c"), Bytes::from_static(b"bytes"))
        .await
        .unwrap();
    let asked = spoilt
        .proxy
        .seen()
        .iter()
        .filter(|seen| conditional(seen))
        .count();
    let got = spoilt.store.get(key("a/b"), LIMIT).await.unwrap().unwrap();
    assert_eq!((got, asked), (Bytes::from_static(b"bytes"), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_says_nothing_is_not_asked_again_and_again() {
    let soon = |config: &mut S3Config| {
        config.patience.answer = Duration::from_millis(100);
        config.patience.whole = Duration::from_millis(250);
        config.patience.attempts = 1_000;
    };
    let Some(spoilt) = Spoilt::with(soon).await else {
        return;
    };
    spoilt.proxy.fail(Fault::Hang);
    let blob = StoredBlob {
        key: key("a/b"),
        form: BlobForm::Identity,
        sha256: ContentHash::of(b"b"),
        size_bytes: 1,
    };
    spoilt.store.get(key("a/b"), LIMIT).await.unwrap_err();
    spoilt.store.list(everything()).await.unwrap_err();
    spoilt.store.open(blob.clone()).await.unwrap_err();
    spoilt.store.glance(blob).await.unwrap_err();
    let small = Bytes::from_static(b"a record");
    spoilt.store.put(key("a/c"), small).await.unwrap_err();
    let requests = spoilt.proxy.requests();
    assert!((5..=25).contains(&requests), "{requests} requests");
}

#[tokio::test]
async fn what_must_be_mended_says_how() {
    let Some(server) = S3Server::shared() else {
        return;
    };
    let data = TempDir::new().unwrap();
    let bucket = server.bucket();
    let config = bucket_config(&bucket, server.endpoint());
    let mut no_bucket = bucket_config("no-such-bucket", server.endpoint());
    let mut no_such_key = config.clone();
    no_such_key.credentials.as_mut().unwrap().access_key = "nobody".to_owned();
    let mut no_such_secret = config.clone();
    no_such_secret.credentials.as_mut().unwrap().secret_key = "guessed".to_owned();
    no_bucket.region = None;
    for (config, word) in [
        (no_bucket, "make it or correct --s3"),
        (no_such_key, "the credentials are wrong"),
        (no_such_secret, "the credentials are wrong"),
    ] {
        let store = s3_store(config, &data).await;
        let errors = [
            store.check().await.unwrap_err(),
            store.get(key("a/b"), LIMIT).await.unwrap_err(),
            store.list(everything()).await.unwrap_err(),
            store.put(key("a/b"), Bytes::new()).await.unwrap_err(),
        ];
        for error in errors {
            assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
            assert!(error.to_string().contains(word), "{error}");
        }
    }
    s3_store(config, &data).await.check().await.unwrap();
}
