//! Opening blobs: each is compared with its hash before its first use by this process.
//!
//! Disks and people damage files. A blob that is not what its record says is an error, never
//! absence; what was compared once is compared again when inode, length or time have changed.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use tokio_util::task::TaskTracker;
use unhex_build_id::BuildId;

use super::content_hash::ContentHash;
use super::layout::{self, UploadId};
use super::located::LocateError;
use super::single_flight::SingleFlight;
use super::store::{BlobForm, LocalFile, ObjectKey, ObjectStore, StoreError};

/// Blobs whose hashes are remembered; each takes some 300 bytes.
const VERIFIED_MAX: u64 = 100_000;

/// Which blob, and what it has to be.
#[derive(Clone, Debug)]
pub(super) struct BlobRef<'a> {
    pub(super) id: &'a BuildId,
    pub(super) sha256: ContentHash,
    pub(super) upload: UploadId,
    pub(super) form: &'a BlobForm,
    pub(super) size_bytes: u64,
}

/// The blobs of a store.
#[derive(Debug)]
pub(super) struct Blobs {
    store: Arc<dyn ObjectStore>,
    verified: moka::sync::Cache<ObjectKey, Fingerprint>,
    hashing: SingleFlight<(ObjectKey, Fingerprint), Result<(), LocateError>>,
}

/// What changes when somebody changes a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Fingerprint {
    device: u64,
    inode: u64,
    size_bytes: u64,
    modified: (i64, i64),
}

impl Fingerprint {
    fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size_bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }
}

impl Blobs {
    pub(super) fn new(store: Arc<dyn ObjectStore>, tasks: TaskTracker) -> Self {
        Self {
            store,
            verified: moka::sync::Cache::new(VERIFIED_MAX),
            hashing: SingleFlight::new(tasks),
        }
    }

    /// The blob as a complete file that has been compared with its hash.
    pub(super) async fn open(&self, blob: BlobRef<'_>) -> Result<LocalFile, LocateError> {
        let key = layout::blob(blob.id, blob.sha256, blob.upload).map_err(StoreError::from)?;
        let damaged = |detail: String| LocateError::Damaged {
            key: key.to_string(),
            detail,
        };
        let opened = self.store.open(key.clone(), blob.form.clone()).await?;
        let file = opened.ok_or_else(|| damaged("it is missing".to_owned()))?;
        if file.size_bytes != blob.size_bytes {
            let (found, expected) = (file.size_bytes, blob.size_bytes);
            return Err(damaged(format!(
                "it has {found} bytes, its record says {expected}"
            )));
        }
        let unreadable = |error| LocateError::from(StoreError::from_io("reading", &key, error));
        let fingerprint = Fingerprint::of(&file.file).map_err(unreadable)?;
        if self.verified.get(&key) == Some(fingerprint) {
            return Ok(file);
        }
        // A second open file, since reading moves the offset of a duplicated one.
        let (path, lease) = (file.path.clone(), file.lease.clone());
        let landing = self.hashing.join((key.clone(), fingerprint), || {
            let (key, expected) = (key.clone(), blob.sha256);
            let verified = self.verified.clone();
            async move {
                let compare = move || compare(&path, &key, expected);
                let compared = tokio::task::spawn_blocking(compare).await;
                drop(lease);
                let (key, found) = compared.unwrap_or_else(|error| Err(cut_off(&error)))?;
                verified.insert(key, found);
                Ok(())
            }
        });
        landing
            .await
            .unwrap_or_else(|| Err(cut_off(&"the task ended")))?;
        Ok(file)
    }
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
) -> Result<(ObjectKey, Fingerprint), LocateError> {
    let hashed = || {
        let file = File::open(path)?;
        let fingerprint = Fingerprint::of(&file)?;
        Ok((ContentHash::of_reader(file)?, fingerprint))
    };
    let (found, fingerprint) =
        hashed().map_err(|error| StoreError::from_io("reading", key, error))?;
    if found == expected {
        return Ok((key.clone(), fingerprint));
    }
    let detail = format!("its SHA-256 is {found}, its record says {expected}");
    tracing::error!(%key, %detail, "the blob {key} is damaged");
    Err(LocateError::Damaged {
        key: key.to_string(),
        detail,
    })
}
