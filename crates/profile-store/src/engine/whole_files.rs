//! Small files as a whole, and kept: an hour that is not compacted yet has thousands of them, and each would cost a request for the footer and one
//! for the columns, at every query.
//!
//! Files never change, so that what is kept is good for ever. Larger files are read by ranges.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::common::Result as QueryResult;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::ParquetFileReaderFactory;
use datafusion::datasource::physical_plan::parquet::CachedParquetFileReaderFactory;
use datafusion::execution::cache::cache_manager::FileMetadataCache;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures_util::FutureExt as _;
use futures_util::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use moka::future::Cache;
use object_store::path::Path as Key;
use object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, Result,
};
use parquet::arrow::async_reader::AsyncFileReader;

/// Bytes up to which a file is read as a whole: a second of samples has some tens of KB, and a bucket takes as long for 1 MiB as for its footer.
const WHOLE_BYTES_MAX: u64 = 1 << 20;

/// Files that are fetched at once before a query reads them: its parts would fetch one after another.
const FETCHES_AT_ONCE: usize = 32;

/// Files that a query fetches itself, when it comes to them.
const FETCHED_LATER_MAX: usize = 8;

/// A store whose objects are read as a whole, and kept.
#[derive(Clone)]
pub(super) struct WholeFiles {
    inner: Arc<dyn ObjectStore>,
    kept: Cache<Key, Bytes>,
    bytes_max: u64,
}

/// Readers of files: the small from what is kept, the others by ranges.
#[derive(Debug)]
pub(super) struct Readers {
    whole: CachedParquetFileReaderFactory,
    ranges: CachedParquetFileReaderFactory,
}

impl Readers {
    pub(super) fn new(whole: &WholeFiles, footers: &Arc<FileMetadataCache>) -> Self {
        let over = |store| CachedParquetFileReaderFactory::new(store, Arc::clone(footers));
        Self {
            whole: over(Arc::new(whole.clone())),
            ranges: over(Arc::clone(&whole.inner)),
        }
    }
}

impl ParquetFileReaderFactory for Readers {
    fn create_reader(
        &self,
        partition_index: usize,
        file: PartitionedFile,
        metadata_size_hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> QueryResult<Box<dyn AsyncFileReader + Send>> {
        let readers = if file.object_meta.size <= WHOLE_BYTES_MAX {
            &self.whole
        } else {
            &self.ranges
        };
        readers.create_reader(partition_index, file, metadata_size_hint, metrics)
    }
}

impl WholeFiles {
    /// Keeps at most so many bytes.
    pub(super) fn new(inner: Arc<dyn ObjectStore>, bytes_max: u64) -> Self {
        let kept = Cache::builder()
            .max_capacity(bytes_max)
            .weigher(|_, bytes: &Bytes| u32::try_from(bytes.len()).unwrap_or(u32::MAX))
            .build();
        Self {
            inner,
            kept,
            bytes_max,
        }
    }

    /// Fetches those of some files that are small, as far as there is room for them.
    pub(super) async fn fetch(&self, files: impl Iterator<Item = (Key, u64)>) -> Result<()> {
        let mut room = self.bytes_max / 2;
        let small = files.filter(|(_, bytes)| *bytes <= WHOLE_BYTES_MAX);
        let small = small.take_while(|(_, bytes)| {
            let left = room.checked_sub(*bytes);
            room = left.unwrap_or(0);
            left.is_some()
        });
        let missing: Vec<Key> = small
            .map(|(key, _)| key)
            .filter(|key| !self.kept.contains_key(key))
            .collect();
        if missing.len() <= FETCHED_LATER_MAX {
            return Ok(());
        }
        let fetches: Vec<_> = missing.iter().map(|key| self.whole(key).boxed()).collect();
        let fetches = stream::iter(fetches).buffer_unordered(FETCHES_AT_ONCE);
        fetches.try_for_each(|_| std::future::ready(Ok(()))).await
    }

    async fn whole(&self, key: &Key) -> Result<Bytes> {
        let fetching = async { self.inner.get(key).await?.bytes().await };
        let fetched = self.kept.try_get_with_by_ref(key, fetching).await;
        // Several may wait for one answer, so that it is shared.
        fetched.map_err(|error| match &*error {
            Error::NotFound { path, .. } => Error::NotFound {
                path: path.clone(),
                source: Box::new(error),
            },
            _ => Error::Generic {
                store: "small files",
                source: Box::new(error),
            },
        })
    }
}

/// A part of the bytes; one that is not there is an error of whoever asks.
fn part(bytes: &Bytes, range: Range<u64>) -> Result<Bytes> {
    let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    let range = place(range.start)..place(range.end);
    if bytes.get(range.clone()).is_none() {
        return Err(Error::Generic {
            store: "small files",
            source: format!("bytes {range:?} of {}", bytes.len()).into(),
        });
    }
    Ok(bytes.slice(range))
}

impl fmt::Debug for WholeFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "small files of {}", self.inner)
    }
}

impl fmt::Display for WholeFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[async_trait]
impl ObjectStore for WholeFiles {
    async fn get_opts(&self, key: &Key, options: GetOptions) -> Result<GetResult> {
        let bytes = self.whole(key).await?;
        let size = bytes.len() as u64;
        let range = match options.range {
            None => 0..size,
            Some(range) => range.as_range(size).map_err(|source| Error::Generic {
                store: "small files",
                source: source.into(),
            })?,
        };
        let part = part(&bytes, range.clone())?;
        Ok(GetResult {
            payload: GetResultPayload::Stream(stream::once(async { Ok(part) }).boxed()),
            meta: ObjectMeta {
                location: key.clone(),
                last_modified: UNIX_EPOCH.into(),
                size,
                e_tag: None,
                version: None,
            },
            range,
            attributes: Attributes::default(),
        })
    }

    async fn get_ranges(&self, key: &Key, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let bytes = self.whole(key).await?;
        ranges
            .iter()
            .map(|range| part(&bytes, range.clone()))
            .collect()
    }

    async fn put_opts(
        &self,
        key: &Key,
        bytes: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.inner.put_opts(key, bytes, options).await
    }

    async fn put_multipart_opts(
        &self,
        key: &Key,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(key, options).await
    }

    fn delete_stream(
        &self,
        keys: BoxStream<'static, Result<Key>>,
    ) -> BoxStream<'static, Result<Key>> {
        self.inner.delete_stream(keys)
    }

    fn list(&self, prefix: Option<&Key>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Key>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Key, to: &Key, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
