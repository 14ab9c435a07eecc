//! Objects in a bucket of an S3 server: AWS, Ceph, `MinIO`, Garage.
//!
//! Artifacts lie there as independent zstd frames, symbol indexes as they are. What is read is kept
//! as a file on this disk, named by its hash. Nothing relies on conditions that a server may not
//! keep: every key is put once by one server, or with the same bytes by all.
//!
//! A listing shows every put that was answered, as AWS has promised since 2020 and Ceph, `MinIO` and
//! Garage do.

mod bucket;
mod client;
mod direct;
mod download;
mod failure;
mod listing;
mod meter;
mod retry;
mod unfinished;
mod upload;
mod whole;

use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use super::fetched::{CacheBounds, FetchedFiles};
use super::frames::{self, Packed};
use super::{
    BlobContent, BlobForm, DirectUploads, GetLimit, Glance, ListQuery, LocalFile, NewBlob,
    ObjectEntry, ObjectKey, ObjectStore, StagedFile, Staging, StoreError, StoreFuture, StoredBlob,
    blocking,
};
use crate::artifacts::ContentHash;
use crate::config::S3Config;
use crate::metrics::Metrics;

use self::bucket::Bucket;
use self::download::Download;
use self::upload::Content;

/// An object store in a bucket.
#[derive(Debug)]
pub struct S3Store {
    bucket: Arc<Bucket>,
    fetched: FetchedFiles,
    ranges: Arc<Semaphore>,
    staging: Arc<Staging>,
}

/// What an [`S3Store`] is made of.
#[derive(Debug)]
pub struct S3Parts {
    /// The bucket.
    pub config: S3Config,
    /// A folder on this disk for files on their way and files that were fetched.
    pub data: PathBuf,
    /// How much of that disk fetched files may take.
    pub cache: CacheBounds,
    /// Where its requests are counted.
    pub metrics: Arc<Metrics>,
    /// Counts fetches, which go on when those who asked leave.
    pub tasks: TaskTracker,
}

impl S3Store {
    /// The store in a bucket. It is not asked yet, see [`ObjectStore::check`].
    ///
    /// # Errors
    /// If the folder on this disk cannot be made or written.
    pub async fn open(parts: S3Parts) -> Result<Self, StoreError> {
        let (data, cache, tasks) = (parts.data, parts.cache, parts.tasks);
        let (staging, fetched) = blocking(move || {
            let failed = |error| StoreError::from_io("opening", &data.display(), error);
            let staging = Staging::open(&data.join("staging")).map_err(failed)?;
            let fetched = FetchedFiles::open(data.join("fetched"), cache, tasks);
            let fetched = fetched.map_err(failed)?;
            Ok((staging, fetched))
        })
        .await?;
        Ok(Self {
            bucket: Arc::new(Bucket::connect(parts.config, parts.metrics).await),
            fetched,
            ranges: Arc::new(Semaphore::new(download::RANGES_MAX)),
            staging: Arc::new(staging),
        })
    }

    fn download(&self, blob: StoredBlob) -> Download {
        Download {
            bucket: Arc::clone(&self.bucket),
            ranges: Arc::clone(&self.ranges),
            staging: Arc::clone(&self.staging),
            blob: Arc::new(blob),
        }
    }

    async fn put_packed(&self, key: ObjectKey, blob: NewBlob) -> Result<BlobForm, StoreError> {
        let staging = Arc::clone(&self.staging);
        let named = key.clone();
        let prepared = blocking(move || {
            let prepared = prepare(&staging, blob.staged, blob.content)
                .map_err(|error| StoreError::from_io("packing", &named, error))?;
            if prepared.sha256 == blob.sha256 {
                return Ok(prepared);
            }
            Err(StoreError::Altered {
                key: named.to_string(),
                expected: blob.sha256,
                found: prepared.sha256,
            })
        });
        let prepared = prepared.await?;
        let stored = prepared.packed.as_ref().unwrap_or(&prepared.staged);
        let size_bytes = match &prepared.form {
            BlobForm::Identity => prepared.size_bytes,
            BlobForm::ZstdFrames(table) => table.packed_size_bytes(),
        };
        let content = Content {
            path: stored.path(),
            size_bytes,
        };
        self.bucket.put_file(&key, content).await?;
        // Whoever put it reads it next.
        self.fetched
            .adopt(&key, prepared.sha256, prepared.staged)
            .await;
        Ok(prepared.form)
    }
}

impl ObjectStore for S3Store {
    fn put(&self, key: ObjectKey, bytes: Bytes) -> StoreFuture<'_, ()> {
        async move { self.bucket.put(&key, bytes).await }.boxed()
    }

    fn put_file(&self, key: ObjectKey, blob: NewBlob) -> StoreFuture<'_, BlobForm> {
        self.put_packed(key, blob).boxed()
    }

    fn get(&self, key: ObjectKey, limit: GetLimit) -> StoreFuture<'_, Option<Bytes>> {
        async move { self.bucket.get(&key, limit).await }.boxed()
    }

    fn open(&self, blob: StoredBlob) -> StoreFuture<'_, Option<LocalFile>> {
        let download = self.download(blob.clone());
        let fetch = move || download.clone().fetch().boxed();
        async move { self.fetched.get(&blob, fetch).await }.boxed()
    }

    fn keeps_whole(&self, blob: StoredBlob) -> StoreFuture<'_, Option<bool>> {
        async move {
            match self.download(blob).fetch().await {
                Ok(fetched) => Ok(Some(fetched.is_some())),
                Err(StoreError::Damaged { .. }) => Ok(Some(false)),
                Err(error) => Err(error),
            }
        }
        .boxed()
    }

    fn glance(&self, blob: StoredBlob) -> StoreFuture<'_, Glance> {
        async move {
            if self.fetched.is_known_damaged(&blob.key) {
                return Ok(Glance::Damaged);
            }
            Ok(match self.bucket.size_of(&blob.key).await? {
                None => Glance::Absent,
                Some(found) if found == blob.stored_size_bytes() => Glance::There,
                Some(_other) => Glance::Damaged,
            })
        }
        .boxed()
    }

    fn make_room(&self, bytes: u64) {
        self.fetched.make_room(bytes);
    }

    fn list(&self, query: ListQuery) -> StoreFuture<'_, Vec<ObjectEntry>> {
        async move { self.bucket.list(&query).await }.boxed()
    }

    fn list_folders(&self, query: ListQuery) -> StoreFuture<'_, Vec<String>> {
        async move { self.bucket.list_folders(&query).await }.boxed()
    }

    fn delete(&self, key: ObjectKey) -> StoreFuture<'_, ()> {
        async move {
            self.bucket.delete(&key).await?;
            self.fetched.remove(&key).await
        }
        .boxed()
    }

    fn check(&self) -> StoreFuture<'_, ()> {
        self.bucket.check().boxed()
    }

    fn abort_unfinished(&self, before: SystemTime) -> StoreFuture<'_, u64> {
        self.bucket.abort_begun_before(before).boxed()
    }

    fn direct_uploads(&self) -> Option<&dyn DirectUploads> {
        self.bucket.config.offers_direct_uploads().then_some(self)
    }

    fn staging(&self) -> &Staging {
        &self.staging
    }
}

/// A file, and what of it is put.
struct Prepared {
    staged: StagedFile,
    size_bytes: u64,
    sha256: ContentHash,
    form: BlobForm,
    /// The frames, when it is put as such.
    packed: Option<StagedFile>,
}

fn prepare(staging: &Staging, staged: StagedFile, content: BlobContent) -> io::Result<Prepared> {
    let size_bytes = staged.as_file().metadata()?.len();
    let whole = |staged: StagedFile, sha256| Prepared {
        staged,
        size_bytes,
        sha256,
        form: BlobForm::Identity,
        packed: None,
    };
    if content == BlobContent::SymbolIndex {
        let sha256 = ContentHash::of_reader(File::open(&staged)?)?;
        return Ok(whole(staged, sha256));
    }
    let mut packed = staging.file()?;
    let Packed { table, sha256 } = frames::pack(File::open(&staged)?, packed.as_file_mut())?;
    packed.flush()?;
    // What is compressed already, such as bundles of sources, gains nothing.
    if table.packed_size_bytes() >= size_bytes - size_bytes / 16 {
        return Ok(whole(staged, sha256));
    }
    Ok(Prepared {
        size_bytes,
        sha256,
        form: BlobForm::ZstdFrames(table),
        packed: Some(packed),
        staged,
    })
}
