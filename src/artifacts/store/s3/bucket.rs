//! One bucket: small objects whole, existence, removal.
//!
//! A small object carries the hash of its bytes, so that an answer that was cut short on its way,
//! with a length that was made to fit, is not taken for the object.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::ServerSideEncryption;
use bytes::Bytes;

use super::client::{self, Provider};
use super::failure::{Failure, chain};
use super::retry::{Failed, Retries};
use crate::artifacts::ContentHash;
use crate::artifacts::store::{GetLimit, ObjectKey, StoreError};
use crate::config::{S3Config, S3Encryption};
use crate::metrics::{Direction, Metrics, S3Repeat};

/// The metadata of a small object: the SHA-256 of its bytes.
const SHA256: &str = "unhex-sha256";

/// The metadata by which a put knows its own object: its answer may have been lost.
const PUT: &str = "unhex-put";

/// Pieces of a body from which on they are put together: each takes some 100 bytes beside its own.
const BODY_PIECES_MAX: usize = 1_000;

/// A body that goes in the time of a request without one, at 105 KB/s: records and agreements have a
/// few kilobytes, some records and parts of the ledger many megabytes.
const QUICK_BYTES_MAX: usize = 1 << 20;

/// How long something that is sent is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// As long as a request without a body.
    Quick,
    /// As long as a part of a file takes on a slow line, each time.
    Long,
}

/// What is put in one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Put {
    /// Its hash, which goes with it if it is known.
    pub(super) sha256: Option<ContentHash>,
    pub(super) pace: Pace,
}

/// A bucket, and how it is spoken to.
#[derive(Debug)]
pub(super) struct Bucket {
    pub(super) client: Client,
    /// As clients of this server reach the bucket: presigned URLs are made with it.
    pub(super) direct_client: Client,
    pub(super) provider: Provider,
    pub(super) config: S3Config,
    pub(super) retries: Retries,
    pub(super) metrics: Arc<Metrics>,
    /// Whether the server knows `If-None-Match`; some say that they don't.
    conditions: AtomicBool,
}

impl Bucket {
    pub(super) async fn connect(config: S3Config, metrics: Arc<Metrics>) -> Self {
        let (client, provider) = client::connect(&config, Arc::clone(&metrics)).await;
        let direct_client = client::direct(&client, &config);
        Self {
            client,
            direct_client,
            provider,
            retries: Retries::new(config.patience, Arc::clone(&metrics)),
            config,
            metrics,
            conditions: AtomicBool::new(true),
        }
    }

    pub(super) fn name(&self) -> &str {
        self.config.url.bucket()
    }

    /// The key as the bucket has it.
    pub(super) fn full_key(&self, key: &ObjectKey) -> String {
        format!("{}{key}", self.config.url.prefix())
    }

    /// What is asked for at rest, and with which key.
    pub(super) fn encryption(&self) -> (Option<ServerSideEncryption>, Option<String>) {
        let kind = self.config.encryption.map(|kind| match kind {
            S3Encryption::Aes256 => ServerSideEncryption::Aes256,
            S3Encryption::Kms => ServerSideEncryption::AwsKms,
            S3Encryption::KmsDsse => ServerSideEncryption::AwsKmsDsse,
        });
        (kind, self.config.kms_key.clone())
    }

    /// The settings of a request that waits until parts were put together.
    pub(super) fn patient(&self) -> aws_sdk_s3::config::Builder {
        let patience = &self.config.patience;
        let mut timeouts = client::timeouts(patience, patience.part);
        timeouts.set_operation_timeout(Some(patience.part.saturating_mul(patience.attempts)));
        aws_sdk_s3::config::Builder::new().timeout_config(timeouts.build())
    }

    /// The settings of a request that sends something, which [`Self::send`] tries again, and the SDK
    /// does not: the attempts of both would be multiplied.
    pub(super) fn once(&self, pace: Pace) -> aws_sdk_s3::config::Builder {
        let patience = &self.config.patience;
        let time = match pace {
            Pace::Quick => patience.answer,
            Pace::Long => patience.part,
        };
        let timeouts = client::timeouts(patience, time).operation_timeout(time);
        aws_sdk_s3::config::Builder::new()
            .timeout_config(timeouts.build())
            .retry_config(RetryConfig::disabled())
    }

    /// Attempts to send something, each with the settings of [`Self::once`].
    pub(super) async fn send<T, F>(
        &self,
        (what, pace): (S3Repeat, Pace),
        attempt: impl FnMut() -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Failed>>,
    {
        let whole = match pace {
            Pace::Quick => self.config.patience.whole,
            Pace::Long => Duration::MAX,
        };
        self.retries.run_within(what, whole, attempt).await
    }

    /// Puts an object that fits into memory.
    pub(super) async fn put(&self, key: &ObjectKey, bytes: Bytes) -> Result<(), StoreError> {
        let size_bytes = bytes.len();
        let put = Put {
            sha256: Some(ContentHash::of(&bytes)),
            pace: if size_bytes > QUICK_BYTES_MAX {
                Pace::Long
            } else {
                Pace::Quick
            },
        };
        let body = || std::future::ready(Ok(ByteStream::from(bytes.clone())));
        self.put_once(key, put, body).await?;
        self.metrics.s3_moved(Direction::Sent, size_bytes);
        Ok(())
    }

    /// Puts an object in one request, under a key that has none yet where the server can tell.
    pub(super) async fn put_once<F>(
        &self,
        key: &ObjectKey,
        Put { sha256, pace }: Put,
        body: impl Fn() -> F,
    ) -> Result<(), StoreError>
    where
        F: Future<Output = Result<ByteStream, StoreError>>,
    {
        let token = format!("{:032x}", rand::random::<u128>());
        let mut metadata = HashMap::from([(PUT.to_owned(), token.clone())]);
        metadata.extend(sha256.map(|sha256| (SHA256.to_owned(), sha256.to_string())));
        let failed = |failure: Failure| failure.into_error("writing", key, self.name());
        self.send((S3Repeat::PutObject, pace), || async {
            let body = body().await.map_err(Failed::Finally)?;
            let conditional = self.conditions.load(Ordering::Relaxed);
            let (encryption, kms_key) = self.encryption();
            let put = self
                .client
                .put_object()
                .bucket(self.name())
                .key(self.full_key(key))
                .set_if_none_match(conditional.then(|| "*".to_owned()))
                .set_server_side_encryption(encryption)
                .set_ssekms_key_id(kms_key)
                .set_metadata(Some(metadata.clone()))
                .body(body)
                .customize()
                .config_override(self.once(pace));
            match Box::pin(put.send()).await.map_err(Failure::from) {
                Ok(put) if put.e_tag().is_some() => Ok(()),
                Ok(_) => Err(strange("writing", key)),
                Err(failure) if failure.is_taken() => self.is_own(key, &token).await,
                Err(failure) if conditional && failure.is_not_implemented() => {
                    tracing::warn!("the S3 server knows no If-None-Match; objects are put without");
                    self.conditions.store(false, Ordering::Relaxed);
                    Err(Failed::ThisTime(failed(failure)))
                }
                // Two puts of one key at once: the next attempt sees which of them was first.
                Err(failure) => Err(failure.into_failed_once("writing", key, self.name())),
            }
        })
        .await
    }

    /// Whether the object that is there was put by an attempt whose answer was lost.
    async fn is_own(&self, key: &ObjectKey, token: &str) -> Result<(), Failed> {
        let head = self
            .client
            .head_object()
            .bucket(self.name())
            .key(self.full_key(key));
        let found = Box::pin(head.send()).await.map_err(Failure::from);
        let found = found.map_err(|failure| {
            Failed::Finally(failure.into_error("looking at", key, self.name()))
        })?;
        let put = found.metadata().and_then(|metadata| metadata.get(PUT));
        if put.is_some_and(|put| put == token) {
            return Ok(());
        }
        let key = key.to_string();
        Err(Failed::Finally(StoreError::Exists { key }))
    }

    /// An object that fits into memory, or `None` when there is definitely none.
    pub(super) async fn get(
        &self,
        key: &ObjectKey,
        limit: GetLimit,
    ) -> Result<Option<Bytes>, StoreError> {
        let attempt = || self.get_once(key, limit);
        let got = match self.retries.run(attempt).await {
            // A bit that fell over on the way, perhaps.
            Err(StoreError::Damaged { .. }) => self.retries.run(attempt).await?,
            got => got?,
        };
        if let Some(bytes) = &got {
            self.metrics.s3_moved(Direction::Received, bytes.len());
        }
        Ok(got)
    }

    async fn get_once(&self, key: &ObjectKey, limit: GetLimit) -> Result<Option<Bytes>, Failed> {
        let get = self
            .client
            .get_object()
            .bucket(self.name())
            .key(self.full_key(key));
        let output = match Box::pin(get.send()).await.map_err(Failure::from) {
            Ok(output) => output,
            Err(failure) if failure.is_absence() => return Ok(None),
            Err(failure) => {
                return Err(Failed::Finally(failure.into_error(
                    "reading",
                    key,
                    self.name(),
                )));
            }
        };
        let size_bytes = output
            .content_length()
            .and_then(|length| u64::try_from(length).ok());
        let size_bytes = size_bytes.unwrap_or_default();
        if size_bytes > limit.bytes_max {
            return Err(Failed::Finally(StoreError::TooLarge {
                key: key.to_string(),
                size_bytes,
                bytes_max: limit.bytes_max,
            }));
        }
        let put_sha256 = output
            .metadata()
            .and_then(|metadata| metadata.get(SHA256))
            .cloned();
        let pieces = self.body(key, output, size_bytes).await?;
        let bytes = joined(&pieces);
        let found = ContentHash::of(&bytes).to_string();
        match put_sha256 {
            Some(put) if put != found => Err(Failed::Finally(StoreError::Damaged {
                key: key.to_string(),
                detail: format!("its SHA-256 is {found}, that of what was put is {put}"),
            })),
            _ => Ok(Some(bytes)),
        }
    }

    /// All of the body of S3's answer, which has to have `size_bytes`, in the pieces that it came in.
    pub(super) async fn body(
        &self,
        key: &ObjectKey,
        output: GetObjectOutput,
        size_bytes: u64,
    ) -> Result<Vec<Bytes>, Failed> {
        if output.e_tag().is_none() {
            return Err(strange("reading", key));
        }
        let size = usize::try_from(size_bytes).map_err(|error| broken(key, error.to_string()))?;
        let (mut pieces, mut found) = (Vec::new(), 0_usize);
        let mut body = output.body;
        loop {
            let next = tokio::time::timeout(self.config.patience.stall, body.try_next()).await;
            let piece = match next {
                Ok(Ok(piece)) => piece,
                Ok(Err(error)) => return Err(broken(key, chain(&error))),
                Err(elapsed) => return Err(broken(key, format!("its body stalls: {elapsed}"))),
            };
            let is_end = piece.is_none();
            let piece = piece.unwrap_or_default();
            found = found.saturating_add(piece.len());
            if is_end && found == size {
                return Ok(pieces);
            }
            if is_end || found > size {
                let detail = format!("its body has {found} bytes or more, not {size}");
                return Err(broken(key, detail));
            }
            pieces.push(piece);
            if pieces.len() >= BODY_PIECES_MAX {
                pieces = vec![joined(&pieces)];
            }
        }
    }

    /// Removes an object; removing what is not there is no error.
    pub(super) async fn delete(&self, key: &ObjectKey) -> Result<(), StoreError> {
        let delete = self
            .client
            .delete_object()
            .bucket(self.name())
            .key(self.full_key(key));
        match Box::pin(delete.send()).await.map_err(Failure::from) {
            Ok(_) => Ok(()),
            Err(failure) if failure.is_absence() => Ok(()),
            Err(failure) => Err(failure.into_error("removing", key, self.name())),
        }
    }
}

/// Pieces one behind the other, without a copy when there is one only.
pub(super) fn joined(pieces: &[Bytes]) -> Bytes {
    match pieces {
        [only] => only.clone(),
        pieces => pieces.concat().into(),
    }
}

/// An answer without what S3 says of every object: something in between has answered.
pub(super) fn strange(doing: &'static str, key: &dyn fmt::Display) -> Failed {
    let source = io::Error::other("the answer is not that of an S3 server");
    Failed::ThisTime(StoreError::from_io(doing, key, source))
}

/// A body that is not what it has to be, this time.
fn broken(key: &ObjectKey, detail: String) -> Failed {
    Failed::ThisTime(StoreError::from_io(
        "reading",
        key,
        io::Error::other(detail),
    ))
}
