//! Files into the bucket: small ones in one request, larger ones in parts.
//!
//! A part that failed is sent again alone; when one cannot be sent at all, the upload is aborted, so
//! that its parts cost nothing. Uploads of servers that died are aborted by the sweeper.

use std::io;
use std::path::Path;

use aws_sdk_s3::primitives::{ByteStream, Length};
use aws_sdk_s3::types::{ChecksumAlgorithm, CompletedMultipartUpload, CompletedPart};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::bucket::{Bucket, Pace, Put, strange};
use super::client::Provider;
use super::failure::{Failure, chain};
use super::retry::Failed;
use crate::artifacts::store::{ListQuery, ObjectKey, StoreError};
use crate::metrics::{Direction, S3Repeat};

/// The usual part: large enough that requests cost little, small enough to send again. What is not
/// larger goes in one request.
const PART_BYTES: u64 = 16 << 20;

/// Parts that an upload may have at most.
const PARTS_MAX: u64 = 10_000;

/// Parts of one file that are sent at once.
const PARTS_AT_ONCE: usize = 4;

/// A file to be put.
#[derive(Clone, Copy, Debug)]
pub(super) struct Content<'a> {
    pub(super) path: &'a Path,
    pub(super) size_bytes: u64,
}

/// A multipart upload that was begun.
pub(super) struct Begun<'a> {
    pub(super) bucket: &'a Bucket,
    pub(super) key: &'a ObjectKey,
    pub(super) id: String,
}

/// A part of a file.
#[derive(Clone, Copy, Debug)]
struct Part {
    number: i32,
    offset: u64,
    size_bytes: u64,
}

impl Bucket {
    /// Puts a file under a key that has no object yet.
    pub(super) async fn put_file(
        &self,
        key: &ObjectKey,
        content: Content<'_>,
    ) -> Result<(), StoreError> {
        if content.size_bytes <= PART_BYTES {
            let whole = Part {
                number: 1,
                offset: 0,
                size_bytes: content.size_bytes,
            };
            let put = Put {
                sha256: None,
                pace: Pace::Long,
            };
            self.put_once(key, put, || read(key, content.path, whole))
                .await?;
        } else {
            self.put_in_parts(key, content).await?;
        }
        let size_bytes = usize::try_from(content.size_bytes).unwrap_or(usize::MAX);
        self.metrics.s3_moved(Direction::Sent, size_bytes);
        Ok(())
    }

    async fn put_in_parts(&self, key: &ObjectKey, content: Content<'_>) -> Result<(), StoreError> {
        // The end of an upload is no place to ask: not every server takes a condition there.
        if self.size_of(key).await?.is_some() {
            let key = key.to_string();
            return Err(StoreError::Exists { key });
        }
        let begun = self.begin(key).await?;
        let sent = match begun.send(content).await {
            Ok(parts) => begun.complete(parts, content.size_bytes).await,
            Err(error) => Err(error),
        };
        if sent.is_err() {
            let _whether_not = begun.abort().await;
        }
        sent
    }

    async fn begin<'a>(&'a self, key: &'a ObjectKey) -> Result<Begun<'a>, StoreError> {
        let (encryption, kms_key) = self.encryption();
        let create = self
            .client
            .create_multipart_upload()
            .bucket(self.name())
            .key(self.full_key(key))
            .set_server_side_encryption(encryption)
            .set_ssekms_key_id(kms_key)
            .set_checksum_algorithm(self.checksum());
        let created = Box::pin(create.send()).await.map_err(Failure::from);
        let created =
            created.map_err(|failure| failure.into_error("beginning", key, self.name()))?;
        let id = created.upload_id.ok_or_else(|| {
            let source = io::Error::other("the S3 server gives the upload no ID");
            StoreError::from_io("beginning", key, source)
        })?;
        Ok(Begun {
            bucket: self,
            key,
            id,
        })
    }

    /// The checksum of parts, which AWS compares when they are put together.
    fn checksum(&self) -> Option<ChecksumAlgorithm> {
        (self.provider == Provider::Aws).then_some(ChecksumAlgorithm::Crc32)
    }

    /// The length of an object, or `None` when there is none.
    pub(super) async fn size_of(&self, key: &ObjectKey) -> Result<Option<u64>, StoreError> {
        // A HEAD has no body that could say which kind of 404 it is. Of all keys that begin so, the key
        // itself is the first.
        let query = ListQuery {
            prefix: key.to_string(),
            after: None,
            entries_max: 1,
        };
        let found = self.list(&query).await?;
        let found = found.first().filter(|entry| entry.key == *key);
        Ok(found.map(|entry| entry.size_bytes))
    }
}

impl Begun<'_> {
    /// Sends all parts, several at once.
    async fn send(&self, content: Content<'_>) -> Result<Vec<CompletedPart>, StoreError> {
        let sending = parts(content.size_bytes)
            .map(|part| Box::pin(async move { self.send_part(content.path, part).await }));
        let mut sent: Vec<CompletedPart> = stream::iter(sending)
            .buffer_unordered(PARTS_AT_ONCE)
            .try_collect()
            .await?;
        sent.sort_by_key(CompletedPart::part_number);
        Ok(sent)
    }

    /// Sends one part, alone again when that fails.
    async fn send_part(&self, path: &Path, part: Part) -> Result<CompletedPart, StoreError> {
        let Self { bucket, key, id } = self;
        bucket
            .send((S3Repeat::UploadPart, Pace::Long), || async {
                let body = read(key, path, part).await.map_err(Failed::Finally)?;
                let upload = bucket
                    .client
                    .upload_part()
                    .bucket(bucket.name())
                    .key(bucket.full_key(key))
                    .upload_id(id)
                    .part_number(part.number)
                    .set_checksum_algorithm(bucket.checksum())
                    .body(body)
                    .customize()
                    .config_override(bucket.once(Pace::Long));
                let sent = Box::pin(upload.send()).await.map_err(Failure::from);
                let sent = sent.map_err(|failure| {
                    failure.into_failed_once("sending a part of", key, bucket.name())
                })?;
                let e_tag = sent
                    .e_tag
                    .ok_or_else(|| strange("sending a part of", key))?;
                Ok(CompletedPart::builder()
                    .part_number(part.number)
                    .e_tag(e_tag)
                    .set_checksum_crc32(sent.checksum_crc32)
                    .build())
            })
            .await
    }

    /// Makes the object of its parts.
    async fn complete(&self, parts: Vec<CompletedPart>, size_bytes: u64) -> Result<(), StoreError> {
        let Self { bucket, key, id } = self;
        let all = CompletedMultipartUpload::builder().set_parts(Some(parts));
        let complete = bucket
            .client
            .complete_multipart_upload()
            .bucket(bucket.name())
            .key(bucket.full_key(key))
            .upload_id(id)
            .multipart_upload(all.build())
            .customize()
            .config_override(bucket.patient());
        match Box::pin(complete.send()).await.map_err(Failure::from) {
            Ok(_) => Ok(()),
            // An attempt whose answer was lost may have completed it.
            Err(failure) if failure.is_unknown_upload() => {
                if bucket.size_of(key).await? == Some(size_bytes) {
                    return Ok(());
                }
                Err(failure.into_error("completing", key, bucket.name()))
            }
            Err(failure) => Err(failure.into_error("completing", key, bucket.name())),
        }
    }

    /// Gives the upload up, and says whether that went well; otherwise it is left to the sweeper.
    pub(super) async fn abort(&self) -> bool {
        let Self { bucket, key, id } = self;
        let abort = bucket
            .client
            .abort_multipart_upload()
            .bucket(bucket.name())
            .key(bucket.full_key(key))
            .upload_id(id);
        let aborted = Box::pin(abort.send()).await;
        if let Err(error) = &aborted {
            let detail = chain(error);
            tracing::warn!(%key, %detail, "an upload of {key} was not aborted: {detail}");
        }
        aborted.is_ok()
    }
}

/// The parts of a file, in order.
fn parts(size_bytes: u64) -> impl Iterator<Item = Part> {
    let part_bytes = size_bytes.div_ceil(PARTS_MAX).max(PART_BYTES);
    (1..)
        .zip(0..size_bytes.div_ceil(part_bytes))
        .map(move |(number, index)| {
            let offset = index * part_bytes;
            Part {
                number,
                offset,
                size_bytes: part_bytes.min(size_bytes - offset),
            }
        })
}

/// A part as the body of a request, read while it is sent.
async fn read(key: &ObjectKey, path: &Path, part: Part) -> Result<ByteStream, StoreError> {
    let body = ByteStream::read_from()
        .path(path)
        .offset(part.offset)
        .length(Length::Exact(part.size_bytes))
        .build()
        .await;
    body.map_err(|error| StoreError::from_io("reading", key, io::Error::other(chain(&error))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_file_and_are_never_too_many() {
        for size_bytes in [1, PART_BYTES, PART_BYTES + 1, 8 << 30, 1 << 40] {
            let parts: Vec<Part> = parts(size_bytes).collect();
            assert!(parts.len() <= 10_000, "{size_bytes}: {}", parts.len());
            let mut end = 0;
            for (part, number) in parts.iter().zip(1..) {
                assert_eq!((part.number, part.offset), (number, end));
                end += part.size_bytes;
            }
            assert_eq!(end, size_bytes);
        }
    }
}
