//! Objects: the same over a folder and a bucket, and what is a folder's or a bucket's own.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::{ObjectStoreExt as _, PutMode, PutOptions, PutPayload};
use parking_lot::Mutex;
use unhex_profile_store::objects::{
    Listed, Objects, ObjectsError, Operation, Outcome, Request, S3Options,
};
use unhex_testkit::s3_server::S3Server;

use crate::backends::{options, over_each};

async fn keys(objects: &Objects, prefix: &str, after: Option<&str>) -> BTreeSet<String> {
    let listed: Vec<Listed> = objects.list(prefix, after).try_collect().await.unwrap();
    listed.into_iter().map(|object| object.key).collect()
}

fn set(keys: &[&str]) -> BTreeSet<String> {
    keys.iter().map(|&key| key.to_owned()).collect()
}

#[tokio::test]
async fn what_was_put_is_read_listed_and_removed() {
    over_each(|objects| async move {
        let (one, two) = ("seg/2026-12-01/13/a.parquet", "seg/2026-12-01/14/b.parquet");
        assert_eq!(objects.get(one).await.unwrap(), None);
        for key in [one, two, "rec/2026-12-01/13/c.json"] {
            objects.put(key, Bytes::from(key.to_owned())).await.unwrap();
        }
        assert_eq!(objects.get(one).await.unwrap().unwrap(), one);
        objects.put(one, Bytes::from_static(b"anew")).await.unwrap();
        assert_eq!(objects.get(one).await.unwrap().unwrap(), "anew");
        assert_eq!(keys(&objects, "seg/", None).await, set(&[one, two]));
        assert_eq!(keys(&objects, "seg/", Some(one)).await, set(&[two]));
        assert_eq!(
            keys(&objects, "seg/2026-12-01/13/", None).await,
            set(&[one])
        );
        assert_eq!(
            keys(&objects, "seg/2026-12-01/1", None).await,
            set(&[one, two])
        );
        assert_eq!(keys(&objects, "out/", None).await, set(&[]));
        assert_eq!(keys(&objects, "", None).await.len(), 3);
        let listed: Vec<Listed> = objects.list(one, None).try_collect().await.unwrap();
        assert_eq!(listed[0].bytes, 4);
        objects.delete(one).await.unwrap();
        objects.delete(one).await.unwrap();
        assert_eq!(keys(&objects, "seg/", None).await, set(&[two]));
        assert_eq!(objects.get(one).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn folders_are_those_that_hold_something() {
    over_each(|objects| async move {
        assert_eq!(objects.folders("").await.unwrap(), Vec::<String>::new());
        assert_eq!(objects.folders("seg/").await.unwrap(), Vec::<String>::new());
        for hour in ["2026-12-01/13", "2026-12-01/14", "2026-12-02/00"] {
            let key = format!("seg/{hour}/a.parquet");
            objects.put(&key, Bytes::from_static(b"a")).await.unwrap();
        }
        assert_eq!(objects.folders("").await.unwrap(), ["seg"]);
        assert_eq!(
            objects.folders("seg/").await.unwrap(),
            ["2026-12-01", "2026-12-02"]
        );
        let key = "seg/2026-12-02/00/a.parquet";
        objects.delete(key).await.unwrap();
        assert_eq!(objects.folders("seg/").await.unwrap(), ["2026-12-01"]);
        objects.put(key, Bytes::from_static(b"a")).await.unwrap();
        assert_eq!(objects.folders("seg/2026-12-02/").await.unwrap(), ["00"]);
    })
    .await;
}

#[tokio::test]
async fn an_object_of_many_parts_comes_back_as_it_was_put() {
    over_each(|objects| async move {
        let long: Vec<u8> = (0..40_000_003_u32).map(|at| at.to_le_bytes()[1]).collect();
        let long = Bytes::from(long);
        objects.put("out/long", long.clone()).await.unwrap();
        assert!(objects.get("out/long").await.unwrap().unwrap() == long);
        let (store, key) = (objects.store(), "out/long".into());
        let range = store.get_range(&key, 39_999_999..40_000_003).await;
        assert_eq!(range.unwrap(), long.slice(39_999_999..));
    })
    .await;
}

#[tokio::test]
async fn many_writers_and_removers_of_one_folder_do_not_lose_an_object() {
    over_each(|objects| async move {
        let work = (0..64).map(|number| {
            let objects = objects.clone();
            async move {
                let key = format!("seg/2026-12-01/13/{number}");
                objects.put(&key, Bytes::from(key.clone())).await.unwrap();
                if number % 2 == 0 {
                    objects.delete(&key).await.unwrap();
                }
            }
        });
        futures_util::stream::iter(work)
            .buffer_unordered(16)
            .collect::<()>()
            .await;
        assert_eq!(keys(&objects, "seg/", None).await.len(), 32);
    })
    .await;
}

#[tokio::test]
async fn an_observer_is_told_of_every_request_and_its_bytes() {
    over_each(|objects| async move {
        let told: Arc<Mutex<Vec<Request>>> = Arc::default();
        let telling = Arc::clone(&told);
        let objects = objects.observed(Arc::new(move |request| telling.lock().push(*request)));
        objects
            .put("a/b", Bytes::from_static(b"12345"))
            .await
            .unwrap();
        let store = objects.store();
        store
            .get_ranges(&"a/b".into(), &[0..2, 3..4])
            .await
            .unwrap();
        assert_eq!(objects.get("a/c").await.unwrap(), None);
        assert_eq!(keys(&objects, "a/", None).await.len(), 1);
        objects.delete("a/b").await.unwrap();
        let told: Vec<(Operation, Outcome)> = told
            .lock()
            .iter()
            .map(|r| (r.operation, r.outcome))
            .collect();
        let done = |operation| (operation, Outcome::Done);
        assert_eq!(told.first(), Some(&done(Operation::Put)));
        assert!(told.contains(&done(Operation::Get)), "{told:?}");
        assert!(
            told.contains(&(Operation::Get, Outcome::Absent)),
            "{told:?}"
        );
        assert!(told.contains(&done(Operation::List)), "{told:?}");
        assert_eq!(told.last(), Some(&done(Operation::Delete)));
    })
    .await;
}

#[tokio::test]
async fn a_create_that_finds_an_object_leaves_it() {
    over_each(|objects| async move {
        let create = |bytes: &'static [u8]| {
            let store = objects.store();
            async move {
                let options = PutOptions::from(PutMode::Create);
                let payload = PutPayload::from_static(bytes);
                store
                    .put_opts(&"_delta_log/0.json".into(), payload, options)
                    .await
            }
        };
        create(b"first").await.unwrap();
        let second = create(b"second").await;
        assert!(
            matches!(second, Err(object_store::Error::AlreadyExists { .. })),
            "{second:?}"
        );
        let kept = objects.get("_delta_log/0.json").await.unwrap().unwrap();
        assert_eq!(kept, "first");
    })
    .await;
}

#[tokio::test]
async fn what_a_writer_left_that_died_is_not_listed_and_goes_when_it_is_old() {
    let folder = tempfile::tempdir().unwrap();
    let objects = Objects::folder(folder.path()).unwrap();
    let left = folder.path().join(".staging/left");
    std::fs::write(&left, b"half").unwrap();
    assert_eq!(keys(&objects, "", None).await, set(&[]));
    assert_eq!(objects.folders("").await.unwrap(), Vec::<String>::new());
    let _again = Objects::folder(folder.path()).unwrap();
    assert!(left.exists(), "somebody may be at work on it");
    let old = std::time::SystemTime::now() - Duration::from_hours(2);
    let file = std::fs::File::options().write(true).open(&left).unwrap();
    file.set_modified(old).unwrap();
    let _again = Objects::folder(folder.path()).unwrap();
    assert!(!left.exists());
}

#[tokio::test]
async fn a_put_that_fails_leaves_nothing_behind_and_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let objects = Objects::folder(folder.path()).unwrap();
    objects
        .put("seg/x", Bytes::from_static(b"file"))
        .await
        .unwrap();
    // A file stands where a folder has to be.
    let error = objects
        .put("seg/x/y", Bytes::from_static(b"y"))
        .await
        .unwrap_err();
    assert!(matches!(error, ObjectsError::Failed { .. }), "{error:?}");
    assert_eq!(
        std::fs::read_dir(folder.path().join(".staging"))
            .unwrap()
            .count(),
        0
    );
    assert_eq!(objects.get("seg/x").await.unwrap().unwrap(), "file");
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, b"").unwrap();
    let error = Objects::folder(&path).unwrap_err().to_string();
    assert!(error.contains("file cannot be used"), "{error}");
}

#[tokio::test]
async fn a_bucket_that_cannot_be_used_says_what_to_mend() {
    let Some(server) = S3Server::shared() else {
        return;
    };
    let said = |options: S3Options| async move {
        let error = Objects::bucket(&options).await.unwrap_err();
        let cause = std::error::Error::source(&error);
        format!(
            "{error}: {}",
            cause.map(ToString::to_string).unwrap_or_default()
        )
    };
    let absent = said(options(server, "no-such-bucket/p")).await;
    assert!(absent.contains("does not exist"), "{absent}");
    let mut wrong = options(server, &server.bucket());
    if let Some(credentials) = &mut wrong.credentials {
        credentials.secret_key = "wrong".to_owned();
    }
    let wrong = said(wrong).await;
    assert!(wrong.contains("credentials are wrong"), "{wrong}");
}

#[tokio::test]
async fn a_server_that_is_away_is_an_error_after_bounded_attempts_with_and_without_tls() {
    for endpoint in ["http://127.0.0.1:1", "https://127.0.0.1:1"] {
        let mut options = S3Options::new("s3://bucket/p".parse().unwrap());
        options.endpoint = Some(endpoint.to_owned());
        options.credentials = Some(unhex_profile_store::objects::S3Credentials {
            access_key: "AK".to_owned(),
            secret_key: "SK".to_owned(),
        });
        options.patience.first_pause = Duration::from_millis(1);
        options.patience.retries = 2;
        let error = Objects::bucket(&options).await.unwrap_err();
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        assert!(cause.unwrap().contains("listing"), "{error:?}");
    }
}
