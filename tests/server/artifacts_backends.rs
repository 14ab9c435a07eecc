//! The implementations of the object store, each of which passes every test of artifacts.
//!
//! A test is a function of a [`Room`](crate::artifacts_store::Room); [`on_every_store`] makes it run
//! once over each implementation, in a module of that name.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tempfile::TempDir;
use tokio_util::task::TaskTracker;
use unhex::artifacts::store::{CacheBounds, LocalStore, ObjectKey, ObjectStore, S3Parts, S3Store};
use unhex::config::{S3Config, S3Credentials, S3Patience};
use unhex::metrics::{Cache, Metrics};
use unhex_testkit::s3_server::S3Server;

/// One implementation with nothing in it yet, and what people and disks do behind its back.
pub trait Backend: Send + Sync {
    /// The store.
    fn store(&self) -> Arc<dyn ObjectStore>;

    /// Whether files are fetched from afar before they can be read.
    fn fetches(&self) -> bool {
        false
    }

    /// Lets the object at a key be other bytes, or none. Every later reader finds them, those too
    /// whose store has opened the object before.
    fn overwrite<'a>(&'a self, key: &'a ObjectKey, bytes: Option<&'a [u8]>) -> BoxFuture<'a, ()>;
}

/// Makes a module of tests for each implementation out of functions that take a room.
macro_rules! on_every_store {
    ($($test:ident),+ $(,)?) => {
        mod local {
            $(
                #[tokio::test]
                async fn $test() {
                    let backend = $crate::artifacts_backends::Local::new();
                    super::$test($crate::artifacts_store::Room::over(backend)).await;
                }
            )+
        }

        mod s3 {
            $(
                #[tokio::test]
                async fn $test() {
                    let Some(backend) = $crate::artifacts_backends::Bucket::new().await else {
                        return;
                    };
                    super::$test($crate::artifacts_store::Room::over(backend)).await;
                }
            )+
        }
    };
}

pub(crate) use on_every_store;

/// A folder.
pub struct Local {
    folder: TempDir,
    store: Arc<LocalStore>,
}

impl Local {
    pub fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let store = Arc::new(LocalStore::open(folder.path()).unwrap());
        Self { folder, store }
    }
}

impl Backend for Local {
    fn store(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.store) as Arc<dyn ObjectStore>
    }

    fn overwrite<'a>(&'a self, key: &'a ObjectKey, bytes: Option<&'a [u8]>) -> BoxFuture<'a, ()> {
        let path = key.path_below(self.folder.path());
        async move {
            fs::remove_file(&path).unwrap();
            if let Some(bytes) = bytes {
                fs::write(&path, bytes).unwrap();
            }
        }
        .boxed()
    }
}

/// A bucket of a real S3 server.
pub struct Bucket {
    server: &'static S3Server,
    name: String,
    data: TempDir,
    store: Arc<S3Store>,
}

impl Bucket {
    pub async fn new() -> Option<Self> {
        let server = S3Server::shared()?;
        let name = server.bucket();
        let data = TempDir::new().unwrap();
        let config = bucket_config(&name, server.endpoint());
        let store = Arc::new(s3_store(config, &data).await);
        Some(Self {
            server,
            name,
            data,
            store,
        })
    }
}

/// A bucket at an endpoint, asked again at once.
pub fn bucket_config(name: &str, endpoint: &str) -> S3Config {
    S3Config {
        endpoint: Some(endpoint.to_owned()),
        region: Some("us-east-1".to_owned()),
        credentials: Some(S3Credentials {
            access_key: S3Server::ACCESS_KEY.to_owned(),
            secret_key: S3Server::SECRET_KEY.to_owned(),
        }),
        patience: S3Patience {
            first_pause: Duration::from_millis(1),
            ..S3Patience::default()
        },
        ..S3Config::new(format!("s3://{name}/some/prefix").parse().unwrap())
    }
}

/// A store in a bucket, with a folder of its own.
pub async fn s3_store(config: S3Config, data: &TempDir) -> S3Store {
    s3_store_within(config, data, 1 << 30).await
}

/// A store in a bucket, with a folder of its own for at most so many bytes.
pub async fn s3_store_within(config: S3Config, data: &TempDir, bytes_max: u64) -> S3Store {
    let parts = S3Parts {
        config,
        data: data.path().to_owned(),
        cache: CacheBounds {
            bytes_max,
            free_bytes_min: 0,
            meter: Metrics::new().cache(Cache::Files),
        },
        metrics: Arc::new(Metrics::new()),
        tasks: TaskTracker::new(),
    };
    S3Store::open(parts).await.unwrap()
}

impl Backend for Bucket {
    fn fetches(&self) -> bool {
        true
    }

    fn store(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.store) as Arc<dyn ObjectStore>
    }

    fn overwrite<'a>(&'a self, key: &'a ObjectKey, bytes: Option<&'a [u8]>) -> BoxFuture<'a, ()> {
        async move {
            // What was fetched is kept, and whoever has it need not ask.
            for fetched in fs::read_dir(self.data.path().join("fetched")).unwrap() {
                fs::remove_file(fetched.unwrap().path()).unwrap();
            }
            let full_key = format!("some/prefix/{key}");
            match bytes {
                Some(bytes) => self.server.put(&self.name, &full_key, bytes),
                None => self.store.delete(key.clone()).await.unwrap(),
            }
        }
        .boxed()
    }
}
