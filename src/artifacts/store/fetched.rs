//! Blobs that were fetched from afar, as files on this disk.
//!
//! A file gets its name once all of its bytes are there and have the hash of its blob. Nothing is
//! synced: after a crash, and whenever a file is not the one that this process verified, it is
//! compared with that hash before its first use, and fetched again when it is another one.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::{
    Lease, LocalFile, ObjectKey, StagedFile, StoreError, StoreFuture, StoredBlob, Verification,
    blocking,
};
use crate::artifacts::ContentHash;
use crate::artifacts::fingerprint::Fingerprint;
use crate::artifacts::single_flight::SingleFlight;

/// Files whose hashes are remembered; each takes some 200 bytes.
const VERIFIED_MAX: u64 = 100_000;

/// The fetched files of one data folder.
#[derive(Debug)]
pub(super) struct FetchedFiles {
    folder: PathBuf,
    verified: Verified,
    flights: SingleFlight<ObjectKey, Result<Presence, Arc<StoreError>>>,
}

/// What files were when they had which hash.
type Verified = moka::sync::Cache<ObjectKey, (ContentHash, Fingerprint)>;

/// Whether there is a file once a flight has landed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Fetched,
    Absent,
}

impl FetchedFiles {
    /// The files in `folder`, which is made when it is not there.
    pub(super) fn open(folder: PathBuf, tasks: TaskTracker) -> io::Result<Self> {
        fs::create_dir_all(&folder)?;
        Ok(Self {
            folder,
            verified: moka::sync::Cache::new(VERIFIED_MAX),
            flights: SingleFlight::new(tasks),
        })
    }

    /// The file of a blob, fetched when it is not here; `None` when `fetch` finds nothing.
    /// Whoever asks meanwhile waits for the same fetch, which goes on when all of them leave.
    ///
    /// `fetch` vouches for the hash of what it hands over.
    pub(super) async fn get(
        &self,
        blob: &StoredBlob,
        fetch: impl FnOnce() -> StoreFuture<'static, Option<StagedFile>>,
    ) -> Result<Option<LocalFile>, StoreError> {
        let place = self.place(&blob.key, blob.sha256);
        if let Some(file) = place.clone().verified_file().await? {
            return Ok(Some(file));
        }
        let landing = self.flights.join(blob.key.clone(), || {
            let (place, fetching) = (place.clone(), fetch());
            async move { place.fill(fetching).await.map_err(Arc::new) }
        });
        let failed = |detail| StoreError::from_io("fetching", &blob.key, io::Error::other(detail));
        let landed = landing.await.ok_or_else(|| failed("it was cut off"))?;
        match landed.map_err(StoreError::Shared)? {
            Presence::Absent => Ok(None),
            Presence::Fetched => {
                let file = place.verified_file().await?;
                let gone = || failed("somebody removed or changed its file just now");
                file.map(Some).ok_or_else(gone)
            }
        }
    }

    /// Takes in the file of a blob that was put just now. Failing to costs a fetch later.
    pub(super) async fn adopt(&self, key: &ObjectKey, sha256: ContentHash, staged: StagedFile) {
        let place = self.place(key, sha256);
        let adopted = blocking(move || place.take(staged)).await;
        if let Err(error) = adopted {
            tracing::warn!(%key, %error, "{key}, which was put, is not kept here: {error}");
        }
    }

    /// Removes the file of an object that was removed.
    pub(super) async fn remove(&self, key: &ObjectKey) -> Result<(), StoreError> {
        let (path, key) = (self.path(key), key.clone());
        blocking(move || match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::from_io("removing the file of", &key, error))
            }
            _ => Ok(()),
        })
        .await
    }

    fn path(&self, key: &ObjectKey) -> PathBuf {
        // A key may be longer than a file name.
        let name = ContentHash::of(key.as_str().as_bytes());
        self.folder.join(name.to_string())
    }

    fn place(&self, key: &ObjectKey, sha256: ContentHash) -> Place {
        Place {
            path: self.path(key),
            key: key.clone(),
            sha256,
            verified: self.verified.clone(),
        }
    }
}

/// Where one file belongs.
#[derive(Clone, Debug)]
struct Place {
    path: PathBuf,
    key: ObjectKey,
    sha256: ContentHash,
    verified: Verified,
}

impl Place {
    /// The file, if it is there and the one that this process verified.
    async fn verified_file(self) -> Result<Option<LocalFile>, StoreError> {
        blocking(move || {
            let Some((file, fingerprint)) = self.open()? else {
                return Ok(None);
            };
            let is_verified = self.verified.get(&self.key) == Some((self.sha256, fingerprint));
            Ok(is_verified.then_some(LocalFile {
                file,
                size_bytes: fingerprint.size_bytes,
                path: self.path,
                verification: Verification::Done,
                lease: Lease::unlimited(),
            }))
        })
        .await
    }

    /// Verifies what lies there, or fetches.
    async fn fill(
        self,
        fetching: StoreFuture<'static, Option<StagedFile>>,
    ) -> Result<Presence, StoreError> {
        let place = self.clone();
        if blocking(move || place.verify()).await? {
            return Ok(Presence::Fetched);
        }
        let Some(staged) = fetching.await? else {
            return Ok(Presence::Absent);
        };
        blocking(move || self.take(staged)).await?;
        Ok(Presence::Fetched)
    }

    /// Whether a sound file lies there; one that is not is removed.
    fn verify(&self) -> Result<bool, StoreError> {
        let Some((file, fingerprint)) = self.open()? else {
            return Ok(false);
        };
        let found =
            ContentHash::of_reader(file).map_err(|error| self.failed("verifying", error))?;
        if found == self.sha256 {
            self.note(fingerprint);
            return Ok(true);
        }
        let (key, path) = (&self.key, self.path.display());
        tracing::warn!(%key, %path, "{path} is not {key}, which is fetched again");
        fs::remove_file(&self.path).map_err(|error| self.failed("removing", error))?;
        Ok(false)
    }

    /// Moves a complete file there.
    fn take(&self, staged: StagedFile) -> Result<(), StoreError> {
        let failed = |error| self.failed("keeping", error);
        let persisted = staged.persist(&self.path);
        let file = persisted.map_err(|error| failed(error.error))?;
        self.note(Fingerprint::of(&file).map_err(failed)?);
        Ok(())
    }

    fn open(&self) -> Result<Option<(File, Fingerprint)>, StoreError> {
        let failed = |error| self.failed("opening", error);
        let file = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(failed)?,
        };
        let fingerprint = Fingerprint::of(&file).map_err(failed)?;
        Ok(Some((file, fingerprint)))
    }

    fn note(&self, fingerprint: Fingerprint) {
        self.verified
            .insert(self.key.clone(), (self.sha256, fingerprint));
    }

    fn failed(&self, doing: &'static str, error: io::Error) -> StoreError {
        StoreError::from_io(doing, &self.path.display(), error)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::FutureExt as _;

    use super::*;
    use crate::artifacts::store::BlobForm;

    struct Room {
        folder: tempfile::TempDir,
        files: FetchedFiles,
        fetches: Arc<AtomicUsize>,
    }

    const BYTES: &[u8] = b"the bytes of a blob";

    fn blob() -> StoredBlob {
        StoredBlob {
            key: "builds/ab/abcd/blob/x".parse().unwrap(),
            form: BlobForm::Identity,
            sha256: ContentHash::of(BYTES),
            size_bytes: 19,
        }
    }

    impl Room {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let files = reopened(&folder);
            let fetches = Arc::default();
            Self {
                folder,
                files,
                fetches,
            }
        }

        /// Gets the file, fetching it by a copy.
        async fn get(&self) -> Vec<u8> {
            let fetch = || {
                let fetches = Arc::clone(&self.fetches);
                let mut staged = tempfile::NamedTempFile::new_in(self.folder.path()).unwrap();
                staged.write_all(BYTES).unwrap();
                async move {
                    fetches.fetch_add(1, Ordering::SeqCst);
                    Ok(Some(staged))
                }
                .boxed()
            };
            let file = self.files.get(&blob(), fetch).await;
            fs::read(file.unwrap().unwrap().path).unwrap()
        }

        fn fetches(&self) -> usize {
            self.fetches.load(Ordering::SeqCst)
        }
    }

    fn reopened(folder: &tempfile::TempDir) -> FetchedFiles {
        FetchedFiles::open(folder.path().join("fetched"), TaskTracker::new()).unwrap()
    }

    #[tokio::test]
    async fn a_file_is_fetched_once_and_outlives_the_process() {
        let mut room = Room::new();
        assert_eq!(room.get().await, BYTES);
        assert_eq!(room.get().await, BYTES);
        room.files = reopened(&room.folder);
        assert_eq!(room.get().await, BYTES);
        assert_eq!(room.fetches(), 1);
    }

    #[tokio::test]
    async fn a_file_that_was_damaged_or_removed_is_fetched_again() {
        let mut room = Room::new();
        room.get().await;
        let path = room.files.path(&blob().key);
        fs::write(&path, b"other bytes").unwrap();
        assert_eq!(room.get().await, BYTES);
        fs::remove_file(&path).unwrap();
        assert_eq!(room.get().await, BYTES);
        fs::write(&path, b"half of what").unwrap();
        room.files = reopened(&room.folder);
        assert_eq!(room.get().await, BYTES);
        assert_eq!(room.fetches(), 4);
    }

    #[tokio::test]
    async fn what_is_absent_or_fails_is_asked_for_again() {
        let room = Room::new();
        let blob = blob();
        let absent = room.files.get(&blob, || async { Ok(None) }.boxed());
        assert!(absent.await.unwrap().is_none());
        let failing = || {
            let error = StoreError::from_io("fetching", &"it", io::ErrorKind::TimedOut.into());
            async { Err(error) }.boxed()
        };
        let failed = room.files.get(&blob, failing).await;
        assert!(failed.unwrap_err().to_string().contains("timed out"));
        assert_eq!(room.get().await, BYTES);
    }

    #[tokio::test]
    async fn a_file_that_was_put_needs_no_fetch() {
        let room = Room::new();
        let mut staged = tempfile::NamedTempFile::new_in(room.folder.path()).unwrap();
        staged.write_all(BYTES).unwrap();
        room.files.adopt(&blob().key, blob().sha256, staged).await;
        assert_eq!(room.get().await, BYTES);
        assert_eq!(room.fetches(), 0);
        room.files.remove(&blob().key).await.unwrap();
        room.files.remove(&blob().key).await.unwrap();
        assert_eq!(room.get().await, BYTES);
        assert_eq!(room.fetches(), 1);
    }
}
