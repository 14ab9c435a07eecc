//! Making something known: blob first, then aliases, then the record that names them.
//!
//! A crash between the steps leaves a blob or an alias that nobody follows, and the sweeper removes
//! both. It spares those younger than a day; a publish that takes longer than an hour gives up, so
//! that no record ever names a blob that was swept away.

use std::time::Duration;

use bytes::Bytes;
use unhex_build_id::BuildId;

use super::Inner;
use super::layout::{self, UploadId};
use super::record::{RECORD_BYTES_MAX, Record, RecordBody};
use super::store::{BlobForm, NewBlob, StoreError};

/// The longest that may pass between the beginning of a publish and its record.
pub(super) const PUBLISH_AGE_MAX: Duration = Duration::from_hours(1);

/// Why something was not made known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It took too long; the blob may be swept away by now.
    #[error("publishing took longer than {} minutes", PUBLISH_AGE_MAX.as_secs() / 60)]
    TooSlow,
    /// A record that is no JSON; never happens.
    #[error("the record cannot be written: {0}")]
    Encoding(#[from] serde_json::Error),
    /// A record that nobody would read again, since it is beyond the bound of readers.
    #[error("the record of it has {bytes} bytes, at most {RECORD_BYTES_MAX} are read again")]
    RecordTooLarge {
        /// The length of its JSON.
        bytes: usize,
    },
}

/// Something that is being published under one upload ID.
pub(super) struct Publish<'a> {
    pub(super) inner: &'a Inner,
    pub(super) id: &'a BuildId,
    pub(super) upload: UploadId,
}

impl<'a> Publish<'a> {
    pub(super) fn begin(inner: &'a Inner, id: &'a BuildId) -> Self {
        Self {
            inner,
            id,
            upload: inner.clock.upload_id(),
        }
    }

    /// Puts the blob, whose hash is known.
    pub(super) async fn blob(&self, blob: NewBlob) -> Result<BlobForm, PublishError> {
        let key = layout::blob(self.id, blob.sha256, self.upload).map_err(StoreError::from)?;
        Ok(self.inner.store.put_file(key, blob).await?)
    }

    /// Whether the record may be put: asked before its blob is.
    pub(super) fn check(&self, body: &RecordBody) -> Result<(), PublishError> {
        let record = Record::new(self.id.clone(), self.upload, body.clone());
        encode(&record).map(drop)
    }

    /// Puts the record; from now on everybody knows.
    pub(super) async fn record(self, body: RecordBody) -> Result<(), PublishError> {
        let record = Record::new(self.id.clone(), self.upload, body);
        let key = layout::record(self.id, &record.name()).map_err(StoreError::from)?;
        let json = encode(&record)?;
        let age = self.inner.clock.now().duration_since(self.upload.began());
        if age.unwrap_or_default() > PUBLISH_AGE_MAX {
            return Err(PublishError::TooSlow);
        }
        let put = self.inner.store.put(key, json).await;
        // Also after an error: the record may be there.
        self.inner.catalog.note_published(self.id);
        Ok(put?)
    }
}

/// The JSON of a record, if readers would take it: one that they do not makes all that is known of its
/// build ID uncertain, for ever.
fn encode(record: &Record) -> Result<Bytes, PublishError> {
    let json = record.to_json()?;
    let bytes = json.len();
    if u64::try_from(bytes).unwrap_or(u64::MAX) > RECORD_BYTES_MAX {
        return Err(PublishError::RecordTooLarge { bytes });
    }
    Ok(json.into())
}
