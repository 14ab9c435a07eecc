//! Presigned URLs, and reading back what came by them.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::presigning::PresigningConfig;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt as _, StreamExt as _};

use super::S3Store;
use super::bucket::{Bucket, joined};
use super::failure::{Failure, chain};
use super::retry::Failed;
use crate::artifacts::store::{DirectBody, DirectUploads, ObjectKey, StoreError, StoreFuture};
use crate::metrics::Direction;

/// Bytes of one range: what was put is read once, in order, and never whole in memory.
const RANGE_BYTES: u64 = 8 << 20;

/// Ranges that are on their way at once.
const RANGES_AT_ONCE: usize = 2;

impl DirectUploads for S3Store {
    fn presign_put(&self, key: ObjectKey, lifetime: Duration) -> StoreFuture<'_, String> {
        async move { self.bucket.presign_put(&key, lifetime).await }.boxed()
    }

    fn take_back(&self, key: ObjectKey, bytes_max: u64) -> StoreFuture<'_, Option<DirectBody>> {
        let bucket = Arc::clone(&self.bucket);
        async move { take_back(bucket, key, bytes_max).await }.boxed()
    }
}

/// One version of an object that was put.
#[derive(Debug)]
struct Put {
    bucket: Arc<Bucket>,
    key: ObjectKey,
    size_bytes: u64,
    e_tag: Option<String>,
}

async fn take_back(
    bucket: Arc<Bucket>,
    key: ObjectKey,
    bytes_max: u64,
) -> Result<Option<DirectBody>, StoreError> {
    let Some((head, size_bytes)) = bucket.look_at(&key).await? else {
        return Ok(None);
    };
    let put = Arc::new(Put {
        bucket,
        key,
        size_bytes,
        e_tag: head.e_tag,
    });
    let pieces = if size_bytes > bytes_max {
        stream::empty().boxed()
    } else {
        put.pieces()
    };
    Ok(Some(DirectBody {
        encoding: head.content_encoding,
        size_bytes,
        pieces,
    }))
}

impl Put {
    fn pieces(self: Arc<Self>) -> BoxStream<'static, Result<Bytes, StoreError>> {
        let count = self.size_bytes.div_ceil(RANGE_BYTES);
        let reading = move |index: u64| {
            let put = Arc::clone(&self);
            async move { put.range(index * RANGE_BYTES).await }
        };
        stream::iter((0..count).map(reading))
            .buffered(RANGES_AT_ONCE)
            .boxed()
    }

    async fn range(&self, start: u64) -> Result<Bytes, StoreError> {
        let end = self.size_bytes.min(start.saturating_add(RANGE_BYTES));
        let bytes = self.bucket.retries.run(|| self.attempt(start, end)).await?;
        self.bucket
            .metrics
            .s3_moved(Direction::Received, bytes.len());
        Ok(bytes)
    }

    async fn attempt(&self, start: u64, end: u64) -> Result<Bytes, Failed> {
        let Self { bucket, key, .. } = self;
        let range = format!("bytes={start}-{}", end.saturating_sub(1));
        let got = bucket.ask(key, range).await.map_err(|failure| {
            Failed::Finally(failure.into_error("reading back", key, bucket.name()))
        })?;
        // Two versions must not become one file.
        if got.e_tag != self.e_tag {
            return Err(Failed::Finally(StoreError::Damaged {
                key: key.to_string(),
                detail: "it was put again while it was read".to_owned(),
            }));
        }
        let pieces = bucket.body(key, got, end.saturating_sub(start)).await?;
        Ok(joined(&pieces))
    }
}

impl Bucket {
    async fn presign_put(&self, key: &ObjectKey, lifetime: Duration) -> Result<String, StoreError> {
        let failed = |detail: String| StoreError::Refused {
            key: key.to_string(),
            doing: "presigning",
            detail,
        };
        let lifetime = PresigningConfig::expires_in(lifetime);
        let lifetime = lifetime.map_err(|error| failed(chain(&error)))?;
        let put = self
            .direct_client
            .put_object()
            .bucket(self.name())
            .key(self.full_key(key));
        let signed = Box::pin(put.presigned(lifetime)).await;
        let signed = signed.map_err(|error| failed(chain(&error)))?;
        Ok(signed.uri().to_owned())
    }

    /// What is said of an object and how long it is, or `None` when there is definitely none.
    async fn look_at(&self, key: &ObjectKey) -> Result<Option<(GetObjectOutput, u64)>, StoreError> {
        // A HEAD has no body that could say which kind of 404 it is.
        match self.ask(key, "bytes=0-0".to_owned()).await {
            Ok(output) => {
                let range = output
                    .content_range()
                    .and_then(|range| range.rsplit_once('/'));
                let whole = range.and_then(|(_, whole)| whole.parse().ok());
                match whole {
                    Some(size_bytes) => Ok(Some((output, size_bytes))),
                    None => Err(StoreError::Damaged {
                        key: key.to_string(),
                        detail: "the S3 server does not say how long it is".to_owned(),
                    }),
                }
            }
            // An empty object has no first byte.
            Err(failure) if failure.is_beyond() => {
                Ok(Some((GetObjectOutput::builder().build(), 0)))
            }
            Err(failure) if failure.is_absence() => Ok(None),
            Err(failure) => Err(failure.into_error("looking at", key, self.name())),
        }
    }

    async fn ask(&self, key: &ObjectKey, range: String) -> Result<GetObjectOutput, Failure> {
        let get = self
            .client
            .get_object()
            .bucket(self.name())
            .key(self.full_key(key))
            .range(range);
        Box::pin(get.send()).await.map_err(Failure::from)
    }
}
