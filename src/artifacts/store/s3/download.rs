//! Blobs from the bucket into a file on this disk: ranges in parallel, hashed in order.
//!
//! A range that breaks off is fetched again alone. The file is handed over only when it has the hash
//! that was asked for. How much is in memory does not depend on how large the blobs are or how many
//! are fetched at once.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use sha2::{Digest as _, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::task::AbortOnDropHandle;

use super::bucket::{Bucket, joined};
use super::failure::Failure;
use super::retry::Failed;
use crate::artifacts::ContentHash;
use crate::artifacts::store::frames::{self, Frame};
use crate::artifacts::store::{
    BlobForm, GetLimit, StagedFile, Staging, StoreError, StoredBlob, blocking,
};
use crate::metrics::Direction;

/// Bytes of one range of a blob that lies there as it is.
const RANGE_BYTES: u64 = 4 << 20;

/// Ranges of one blob that are fetched at once.
const RANGES_AT_ONCE: usize = 8;

/// Ranges of all blobs in memory at once: each takes at most 4 MiB compressed and 4 MiB not, of frames
/// as this version writes them, and at most 16 MiB each of others.
pub(super) const RANGES_MAX: usize = 16;

/// A range of the stored object, and what it becomes.
#[derive(Clone, Debug)]
struct Piece {
    place: Range<u64>,
    frame: Option<Frame>,
    /// Where it lies in the blob.
    offset: u64,
}

/// Bytes of the blob that are written and wait to be hashed, as they came; they count until they are.
struct Fetched {
    bytes: Vec<Bytes>,
    _permit: OwnedSemaphorePermit,
}

/// A piece, or `None` when its object does not exist.
type FetchedOrAbsent = Result<Option<Fetched>, StoreError>;

/// A piece that is being fetched.
type Begun = BoxFuture<'static, FetchedOrAbsent>;

/// One blob on its way.
#[derive(Clone)]
pub(super) struct Download {
    pub(super) bucket: Arc<Bucket>,
    /// Permits for ranges of all blobs.
    pub(super) ranges: Arc<Semaphore>,
    pub(super) staging: Arc<Staging>,
    pub(super) blob: Arc<StoredBlob>,
}

impl Download {
    /// Fetches the blob into a staged file; `None` when there is definitely none.
    pub(super) async fn fetch(self) -> Result<Option<StagedFile>, StoreError> {
        match self.fetch_once().await {
            // A bit that fell over on the way, perhaps.
            Err(StoreError::Damaged { .. }) => self.fetch_once().await,
            fetched => fetched,
        }
    }

    async fn fetch_once(&self) -> Result<Option<StagedFile>, StoreError> {
        let key = &self.blob.key;
        let (staging, named) = (Arc::clone(&self.staging), key.clone());
        let staged = blocking(move || {
            let opened = || {
                let staged = staging.file()?;
                let file = staged.as_file().try_clone()?;
                Ok((staged, Arc::new(file)))
            };
            opened().map_err(|error| StoreError::from_io("staging", &named, error))
        });
        let (staged, file) = staged.await?;
        let pieces = pieces(&self.blob);
        if pieces.is_empty() {
            // Only whether it is there is a question.
            let found = self.bucket.get(key, GetLimit { bytes_max: 0 }).await?;
            return Ok(found.map(|_empty| staged));
        }
        let mut fetched = self.clone().fetch_in_order(pieces, file);
        // Apart, so that new pieces are begun while others are hashed.
        let (to_hash, waiting) = mpsc::channel(RANGES_AT_ONCE);
        let hashing = AbortOnDropHandle::new(tokio::spawn(hash_in_order(waiting)));
        while let Some(piece) = fetched.try_next().await? {
            let Some(piece) = piece else {
                return Ok(None);
            };
            if to_hash.send(piece).await.is_err() {
                break;
            }
        }
        drop(to_hash);
        let found = hashing.await.map_err(|ended| cut_off(&ended))??;
        if found == self.blob.sha256 {
            return Ok(Some(staged));
        }
        let detail = format!(
            "its SHA-256 is {found}, its record says {}",
            self.blob.sha256
        );
        tracing::error!(%key, %detail, "the blob {key} is damaged");
        Err(self.damaged(detail))
    }

    /// The pieces, each fetched and written by a task, so that only hashing waits for what is before.
    ///
    /// Permits are taken in the order of the pieces: the one that is to be hashed first never waits
    /// for a later one.
    fn fetch_in_order(
        self,
        pieces: Vec<Piece>,
        file: Arc<File>,
    ) -> BoxStream<'static, FetchedOrAbsent> {
        let begin = move |piece| -> BoxFuture<'static, Result<Begun, StoreError>> {
            let (this, file) = (self.clone(), Arc::clone(&file));
            async move {
                let permit = Arc::clone(&this.ranges).acquire_owned().await;
                let permit = permit.map_err(|closed| cut_off(&closed))?;
                let task = tokio::spawn(async move { this.piece(piece, (file, permit)).await });
                let task = AbortOnDropHandle::new(task);
                let begun = async move { task.await.map_err(|ended| cut_off(&ended))? };
                Ok(begun.boxed())
            }
            .boxed()
        };
        let begun = stream::iter(pieces).then(begin);
        begun.try_buffered(RANGES_AT_ONCE).boxed()
    }

    async fn piece(
        &self,
        piece: Piece,
        (file, permit): (Arc<File>, OwnedSemaphorePermit),
    ) -> FetchedOrAbsent {
        let attempt = || self.attempt(&piece);
        let Some(bytes) = self.bucket.retries.run(attempt).await? else {
            return Ok(None);
        };
        let key = self.blob.key.clone();
        blocking(move || {
            let mut offset = piece.offset;
            for bytes in &bytes {
                let written = file.write_all_at(bytes, offset);
                written.map_err(|error| StoreError::from_io("keeping", &key, error))?;
                offset = offset.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
            }
            Ok(Some(Fetched {
                bytes,
                _permit: permit,
            }))
        })
        .await
    }

    async fn attempt(&self, piece: &Piece) -> Result<Option<Vec<Bytes>>, Failed> {
        let Some(stored) = self.range(&piece.place).await? else {
            return Ok(None);
        };
        let received = stored.iter().map(Bytes::len).sum();
        self.bucket.metrics.s3_moved(Direction::Received, received);
        let Some(frame) = piece.frame.clone() else {
            return Ok(Some(stored));
        };
        let unpacked = blocking(move || Ok(frames::unpack(&joined(&stored), &frame))).await;
        let unpacked = unpacked.map_err(Failed::Finally)?;
        // All of it came, so that coming again helps once at most, which is tried for the whole blob.
        let damaged = |error: io::Error| Failed::Finally(self.damaged(error.to_string()));
        let unpacked = unpacked.map_err(damaged)?;
        Ok(Some(vec![unpacked.into()]))
    }

    async fn range(&self, place: &Range<u64>) -> Result<Option<Vec<Bytes>>, Failed> {
        let (bucket, key) = (&self.bucket, &self.blob.key);
        let size_bytes = place.end.saturating_sub(place.start);
        let get = bucket
            .client
            .get_object()
            .bucket(bucket.name())
            .key(bucket.full_key(key))
            .range(format!(
                "bytes={}-{}",
                place.start,
                place.end.saturating_sub(1)
            ));
        match Box::pin(get.send()).await.map_err(Failure::from) {
            Ok(output) => {
                self.check_size(output.content_range())?;
                bucket.body(key, output, size_bytes).await.map(Some)
            }
            Err(failure) if failure.is_absence() => Ok(None),
            Err(failure) if failure.is_beyond() => Err(Failed::Finally(
                self.damaged("it is shorter than its record says".to_owned()),
            )),
            Err(failure) => Err(Failed::Finally(failure.into_error(
                "reading",
                key,
                bucket.name(),
            ))),
        }
    }

    /// Compares the length of the whole object with what it has to be: `bytes 0-9/100`.
    fn check_size(&self, content_range: Option<&str>) -> Result<(), Failed> {
        let whole = content_range.and_then(|range| range.rsplit_once('/'));
        let whole = whole.and_then(|(_, whole)| whole.parse::<u64>().ok());
        let expected = self.blob.stored_size_bytes();
        match whole {
            Some(found) if found != expected => Err(Failed::Finally(
                self.damaged(format!("it has {found} bytes, its record says {expected}")),
            )),
            _ => Ok(()),
        }
    }

    fn damaged(&self, detail: String) -> StoreError {
        StoreError::Damaged {
            key: self.blob.key.to_string(),
            detail,
        }
    }
}

/// The hash of all the pieces.
async fn hash_in_order(mut waiting: mpsc::Receiver<Fetched>) -> Result<ContentHash, StoreError> {
    let mut hash = Sha256::new();
    let mut pieces = Vec::new();
    while waiting.recv_many(&mut pieces, RANGES_AT_ONCE).await > 0 {
        let pieces = std::mem::take(&mut pieces);
        hash = blocking(move || {
            for piece in pieces {
                piece.bytes.iter().for_each(|bytes| hash.update(bytes));
            }
            Ok(hash)
        })
        .await?;
    }
    Ok(ContentHash(hash.finalize().into()))
}

fn cut_off(error: &dyn std::error::Error) -> StoreError {
    let detail = format!("it was cut off: {error}");
    StoreError::from_io("fetching", &"a range", io::Error::other(detail))
}

/// What is to be fetched, in order.
fn pieces(blob: &StoredBlob) -> Vec<Piece> {
    match &blob.form {
        BlobForm::Identity => (0..blob.size_bytes.div_ceil(RANGE_BYTES))
            .map(|index| {
                let start = index * RANGE_BYTES;
                Piece {
                    place: start..blob.size_bytes.min(start + RANGE_BYTES),
                    frame: None,
                    offset: start,
                }
            })
            .collect(),
        BlobForm::ZstdFrames(table) => {
            let mut offset: u64 = 0;
            let pieces = table.frames().map(|frame| {
                let start = offset;
                offset = offset.saturating_add(frame.size_bytes.into());
                Piece {
                    place: frame.packed.clone(),
                    frame: Some(frame),
                    offset: start,
                }
            });
            pieces.collect()
        }
    }
}
