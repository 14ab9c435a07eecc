//! Opening blobs: each file is compared with its hash before its first use by this process.
//!
//! Disks and people damage files. A blob that is not what its record says is an error, never
//! absence; what was compared once is compared again when inode, length or time have changed.
//!
//! Symbol indexes are not compared with their hash: whoever opens one compares the checksums of its
//! sections and the hashes of the files that it says it was made from. That covers every byte that
//! is read, and in the mapping that is read, for a fraction of the time of a SHA-256; a second look
//! at all bytes would find nothing more.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use moka::policy::EvictionPolicy;
use tokio_util::task::TaskTracker;
use unhex_build_id::BuildId;

use super::content_hash::ContentHash;
use super::fingerprint::Fingerprint;
use super::layout::{self, UploadId};
use super::located::LocateError;
use super::record::ArtifactRecord;
use super::single_flight::{Landing, SingleFlight};
use super::state::Stored;
use super::store::{
    BlobForm, Glance, LocalFile, ObjectKey, ObjectStore, StoreError, StoredBlob, Verification,
};

/// Blobs whose hashes are remembered; each takes some 300 bytes.
const VERIFIED_MAX: u64 = 100_000;

/// How long a blob counts as damaged without being read again: each reading costs its length, and
/// memory fails, too.
const DAMAGE_KEPT: Duration = Duration::from_mins(10);

/// Damaged blobs that are remembered; each takes some 500 bytes.
const DAMAGED_MAX: u64 = 10_000;

/// Which blob, and what it has to be.
#[derive(Clone, Debug)]
pub(super) struct BlobRef<'a> {
    pub(super) id: &'a BuildId,
    pub(super) sha256: ContentHash,
    pub(super) upload: UploadId,
    pub(super) form: &'a BlobForm,
    pub(super) size_bytes: u64,
}

impl<'a> BlobRef<'a> {
    /// The blob of an uploaded file.
    pub(super) fn of(id: &'a BuildId, artifact: &'a Stored<ArtifactRecord>) -> Self {
        let body = &artifact.body;
        Self {
            id,
            sha256: body.sha256,
            upload: artifact.name.upload,
            form: &body.blob,
            size_bytes: body.size_bytes,
        }
    }
}

/// The blobs of a store.
#[derive(Debug)]
pub(super) struct Blobs {
    store: Arc<dyn ObjectStore>,
    verified: moka::sync::Cache<ObjectKey, Fingerprint>,
    /// Those that are not what their records say, and what was found.
    damaged: moka::sync::Cache<(ObjectKey, Fingerprint), LocateError>,
    hashing: SingleFlight<(ObjectKey, Fingerprint), Result<(), LocateError>>,
}

impl Blobs {
    pub(super) fn new(store: Arc<dyn ObjectStore>, tasks: TaskTracker) -> Self {
        Self {
            store,
            // What was just compared gets in whatever others are asked for more often: without it each
            // request would read the whole file.
            verified: moka::sync::Cache::builder()
                .eviction_policy(EvictionPolicy::lru())
                .max_capacity(VERIFIED_MAX)
                .build(),
            damaged: moka::sync::Cache::builder()
                .time_to_live(DAMAGE_KEPT)
                .max_capacity(DAMAGED_MAX)
                .build(),
            hashing: SingleFlight::new(tasks),
        }
    }

    /// The blob as a complete file that has been compared with its hash.
    pub(super) async fn open(&self, blob: &BlobRef<'_>) -> Result<LocalFile, LocateError> {
        let (key, file) = self.find(blob).await?;
        if file.verification == Verification::Done {
            return Ok(file);
        }
        let fingerprint = file.fingerprint;
        if self.verified.get(&key) == Some(fingerprint) {
            return Ok(file);
        }
        let landing = self.compare(key, (&file, fingerprint), blob.sha256);
        landing
            .await
            .unwrap_or_else(|| Err(cut_off(&"the task ended")))?;
        Ok(file)
    }

    /// The blob as a file that is as long as it should be, and is not compared with its hash.
    pub(super) async fn open_unread(&self, blob: &BlobRef<'_>) -> Result<LocalFile, LocateError> {
        self.find(blob).await.map(|(_, file)| file)
    }

    /// Whether the store keeps the blob as it has to be: read anew, and not taken from what this disk
    /// has of it.
    pub(super) async fn is_whole(&self, blob: &BlobRef<'_>) -> Result<bool, LocateError> {
        let (_, stored) = stored(blob)?;
        match self.store.keeps_whole(stored).await? {
            Some(is_whole) => Ok(is_whole),
            None => self.open(blob).await.map(|_whole| true),
        }
    }

    /// Whether the blob is there and not known to be damaged. One that lies on this disk is compared
    /// with its hash behind the answer, so that a later question knows better; none is fetched.
    pub(super) async fn is_there(&self, blob: &BlobRef<'_>) -> Result<bool, LocateError> {
        let (key, stored) = stored(blob)?;
        let file = match self.store.glance(stored).await? {
            Glance::Absent | Glance::Damaged => return Ok(false),
            Glance::There => return Ok(true),
            Glance::Here(file) if file.size_bytes != blob.size_bytes => return Ok(false),
            Glance::Here(file) => file,
        };
        if file.verification == Verification::Done {
            return Ok(true);
        }
        let fingerprint = file.fingerprint;
        if self.damaged.contains_key(&(key.clone(), fingerprint)) {
            return Ok(false);
        }
        if self.verified.get(&key) != Some(fingerprint) {
            drop(self.compare(key, (&file, fingerprint), blob.sha256));
        }
        Ok(true)
    }

    /// The file of a blob, if it is there and as long as its record says.
    async fn find(&self, blob: &BlobRef<'_>) -> Result<(ObjectKey, LocalFile), LocateError> {
        let (key, stored) = stored(blob)?;
        let damaged = |detail: String| LocateError::Damaged {
            key: key.to_string(),
            detail,
        };
        let opened = self.store.open(stored).await?;
        let file = opened.ok_or_else(|| damaged("it is missing".to_owned()))?;
        if file.size_bytes != blob.size_bytes {
            let (found, expected) = (file.size_bytes, blob.size_bytes);
            return Err(damaged(format!(
                "it has {found} bytes, its record says {expected}"
            )));
        }
        Ok((key, file))
    }

    /// Joins or begins the comparison of a file with its hash; one that failed is not done again.
    fn compare(
        &self,
        key: ObjectKey,
        (file, fingerprint): (&LocalFile, Fingerprint),
        expected: ContentHash,
    ) -> Landing<Result<(), LocateError>> {
        // A second open file, since reading moves the offset of a duplicated one.
        let (path, lease) = (file.path.clone(), file.lease.clone());
        self.hashing.join((key.clone(), fingerprint), || {
            let (verified, damaged) = (self.verified.clone(), self.damaged.clone());
            async move {
                if let Some(known) = damaged.get(&(key.clone(), fingerprint)) {
                    return Err(known);
                }
                let compared = {
                    let key = key.clone();
                    tokio::task::spawn_blocking(move || compare(&path, &key, expected)).await
                };
                drop(lease);
                match compared.unwrap_or_else(|error| Err(cut_off(&error))) {
                    Ok(found) => verified.insert(key, found),
                    Err(error) => {
                        if matches!(error, LocateError::Damaged { .. }) {
                            damaged.insert((key, fingerprint), error.clone());
                        }
                        return Err(error);
                    }
                }
                Ok(())
            }
        })
    }
}

/// Where a blob lies, and what it has to be.
fn stored(blob: &BlobRef<'_>) -> Result<(ObjectKey, StoredBlob), StoreError> {
    let key = layout::blob(blob.id, blob.sha256, blob.upload)?;
    let stored = StoredBlob {
        key: key.clone(),
        form: blob.form.clone(),
        sha256: blob.sha256,
        size_bytes: blob.size_bytes,
    };
    Ok((key, stored))
}

fn cut_off(error: &dyn std::fmt::Display) -> LocateError {
    LocateError::Store {
        detail: format!("comparing a blob with its hash was cut off: {error}"),
    }
}

fn compare(
    path: &std::path::Path,
    key: &ObjectKey,
    expected: ContentHash,
) -> Result<Fingerprint, LocateError> {
    let hashed = || {
        let file = File::open(path)?;
        let fingerprint = Fingerprint::of(&file)?;
        Ok((ContentHash::of_reader(file)?, fingerprint))
    };
    let (found, fingerprint) =
        hashed().map_err(|error| StoreError::from_io("reading", key, error))?;
    if found == expected {
        return Ok(fingerprint);
    }
    let detail = format!("its SHA-256 is {found}, its record says {expected}");
    tracing::error!(%key, %detail, "the blob {key} is damaged");
    Err(LocateError::Damaged {
        key: key.to_string(),
        detail,
    })
}
