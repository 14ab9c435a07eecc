//! Blobs that were fetched from afar, as files on this disk: bounded by bytes, the least recently
//! used out.
//!
//! A file gets its name once all of its bytes are there and have the hash of its blob. Nothing is
//! synced: after a crash, and whenever a file is not the one that this process verified, it is
//! compared with that hash before its first use, and fetched again when it is another one.
//!
//! When the disk is full, files that nobody uses make room and the fetch is tried once more; then it
//! is an error, which says nothing about what exists.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use moka::policy::EvictionPolicy;
use rustix::io::Errno;
use tokio_util::task::TaskTracker;

use super::{
    Lease, LocalFile, ObjectKey, StagedFile, StoreError, StoreFuture, StoredBlob, Verification,
    blocking,
};
use crate::artifacts::ContentHash;
use crate::artifacts::fingerprint::Fingerprint;
use crate::artifacts::single_flight::SingleFlight;
use crate::disk_cache::{BoundedFolder, FileKey, FolderSettings, HeldFile, Leftovers, Reservation};
use crate::metrics::CacheMeter;

/// Files whose hashes are remembered: as many as the folder holds; each takes some 200 bytes.
const VERIFIED_MAX: u64 = 200_000;

/// How long it is remembered that a blob is damaged: somebody may mend it.
const DAMAGE_KEPT: Duration = Duration::from_mins(10);

/// How many times as long as it took to find damage nobody looks again: fetching the whole blob for
/// everybody who asks would leave nothing for sound ones, and it may have come about on the way.
const DAMAGE_BELIEVED_FACTOR: u32 = 10;

/// Damaged blobs that are remembered; each takes some 300 bytes.
const DAMAGED_MAX: u64 = 10_000;

/// How much of this disk files may take that were fetched.
#[derive(Clone, Debug)]
pub struct CacheBounds {
    /// The most bytes of all of them, but for those in use.
    pub bytes_max: u64,
    /// They go before less than this is free on the disk.
    pub free_bytes_min: u64,
    /// Where their use is counted.
    pub meter: CacheMeter,
}

/// The fetched files of one data folder.
#[derive(Debug)]
pub(super) struct FetchedFiles {
    files: BoundedFolder,
    verified: Verified,
    damaged: moka::sync::Cache<ObjectKey, Damage>,
    flights: SingleFlight<ObjectKey, Result<Presence, Arc<StoreError>>>,
}

/// What files were when they had which hash.
type Verified = moka::sync::Cache<ObjectKey, (ContentHash, Fingerprint)>;

/// What is wrong with a blob, and until when that is believed without another look.
#[derive(Clone, Debug)]
struct Damage {
    detail: String,
    believed_until: Instant,
}

/// Whether there is a file once a flight has landed. It stays there until all who waited have it.
#[derive(Clone, Debug)]
enum Presence {
    Fetched(Lease),
    Absent,
}

impl FetchedFiles {
    /// The files in `folder`, which is made when it is not there.
    pub(super) fn open(
        folder: PathBuf,
        bounds: CacheBounds,
        tasks: TaskTracker,
    ) -> io::Result<Self> {
        let files = BoundedFolder::open(FolderSettings {
            folder,
            bytes_max: bounds.bytes_max,
            free_bytes_min: bounds.free_bytes_min,
            leftovers: Leftovers::Keep,
            meter: bounds.meter,
        })?;
        Ok(Self {
            files,
            // What was just verified is asked for at once, so that it must get in.
            verified: moka::sync::Cache::builder()
                .eviction_policy(EvictionPolicy::lru())
                .max_capacity(VERIFIED_MAX)
                .build(),
            damaged: moka::sync::Cache::builder()
                .time_to_live(DAMAGE_KEPT)
                .max_capacity(DAMAGED_MAX)
                .build(),
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
        fetch: impl Fn() -> StoreFuture<'static, Option<StagedFile>> + Send + Sync + 'static,
    ) -> Result<Option<LocalFile>, StoreError> {
        let place = self.place(&blob.key, blob.sha256);
        if let Some(file) = place.clone().verified_file().await? {
            self.files.meter().hit();
            return Ok(Some(file));
        }
        let known = self.damaged.get(&blob.key);
        if let Some(Damage { detail, .. }) = known.filter(Damage::is_believed) {
            let key = blob.key.to_string();
            return Err(StoreError::Damaged { key, detail });
        }
        self.files.meter().miss();
        let landing = self.flights.join(blob.key.clone(), || {
            let (place, size_bytes) = (place.clone(), blob.size_bytes);
            let (key, damaged) = (blob.key.clone(), self.damaged.clone());
            async move {
                let began = Instant::now();
                let filled = place.fill(size_bytes, fetch).await;
                match &filled {
                    Ok(_) => damaged.invalidate(&key),
                    Err(StoreError::Damaged { detail, .. }) => {
                        damaged.insert(key, Damage::found(detail, began.elapsed()));
                    }
                    Err(_) => {}
                }
                filled.map_err(Arc::new)
            }
        });
        let failed = |detail| StoreError::from_io("fetching", &blob.key, io::Error::other(detail));
        let landed = landing.await.ok_or_else(|| failed("it was cut off"))?;
        match landed.map_err(StoreError::Shared)? {
            Presence::Absent => Ok(None),
            Presence::Fetched(_in_use) => {
                let file = place.verified_file().await?;
                let gone = || failed("somebody removed or changed its file just now");
                file.map(Some).ok_or_else(gone)
            }
        }
    }

    /// Takes in the file of a blob that was put just now. Failing to costs a fetch later.
    pub(super) async fn adopt(&self, key: &ObjectKey, sha256: ContentHash, staged: StagedFile) {
        let place = self.place(key, sha256);
        let adopted = blocking(move || place.take(staged, None)).await;
        if let Err(error) = adopted {
            tracing::warn!(%key, %error, "{key}, which was put, is not kept here: {error}");
        }
    }

    /// Removes the file of an object that was removed.
    pub(super) async fn remove(&self, key: &ObjectKey) -> Result<(), StoreError> {
        let (files, key) = (self.files.clone(), file_key(key));
        blocking(move || {
            files.remove(&key);
            Ok(())
        })
        .await
    }

    /// Whether the blob was found damaged lately, and not sound since.
    pub(super) fn is_known_damaged(&self, key: &ObjectKey) -> bool {
        self.damaged.contains_key(key)
    }

    /// Gives up files until the disk has room for so many bytes.
    pub(super) fn make_room(&self, bytes: u64) {
        self.files.make_room(bytes);
    }

    fn place(&self, key: &ObjectKey, sha256: ContentHash) -> Place {
        Place {
            files: self.files.clone(),
            key: key.clone(),
            sha256,
            verified: self.verified.clone(),
        }
    }
}

impl Damage {
    fn found(detail: &str, took: Duration) -> Self {
        let believed = took.saturating_mul(DAMAGE_BELIEVED_FACTOR);
        Self {
            detail: detail.to_owned(),
            believed_until: Instant::now() + believed.min(DAMAGE_KEPT),
        }
    }

    fn is_believed(&self) -> bool {
        Instant::now() < self.believed_until
    }
}

fn file_key(key: &ObjectKey) -> FileKey {
    FileKey::of(key.as_str().as_bytes())
}

/// Where one file belongs.
#[derive(Clone, Debug)]
struct Place {
    files: BoundedFolder,
    key: ObjectKey,
    sha256: ContentHash,
    verified: Verified,
}

impl Place {
    /// The file, if it is there and the one that this process verified.
    async fn verified_file(self) -> Result<Option<LocalFile>, StoreError> {
        blocking(move || {
            let Some((held, fingerprint)) = self.find()? else {
                return Ok(None);
            };
            let is_verified = self.verified.get(&self.key) == Some((self.sha256, fingerprint));
            Ok(is_verified.then(|| LocalFile {
                file: held.file,
                size_bytes: fingerprint.size_bytes,
                fingerprint,
                path: held.path,
                verification: Verification::Done,
                lease: Lease::guarded_by(Arc::new(held.hold)),
            }))
        })
        .await
    }

    /// Verifies what lies there, or fetches; once more when the disk was full and has room then.
    async fn fill(
        self,
        size_bytes: u64,
        fetch: impl Fn() -> StoreFuture<'static, Option<StagedFile>>,
    ) -> Result<Presence, StoreError> {
        let place = self.clone();
        if let Some(lease) = blocking(move || place.verify()).await? {
            return Ok(Presence::Fetched(lease));
        }
        match self.fetch(fetch(), size_bytes).await {
            Err(error) if error.is_full() => {
                tracing::warn!(%error, "the disk is full, fetched files make room: {error}");
                let files = self.files.clone();
                let give_up = move || {
                    files.surrender(size_bytes);
                    Ok(())
                };
                blocking(give_up).await?;
                self.fetch(fetch(), size_bytes).await
            }
            fetched => fetched,
        }
    }

    async fn fetch(
        &self,
        fetching: StoreFuture<'static, Option<StagedFile>>,
        size_bytes: u64,
    ) -> Result<Presence, StoreError> {
        let files = self.files.clone();
        let room = blocking(move || Ok(files.reserve(size_bytes))).await?;
        let Some(staged) = fetching.await? else {
            return Ok(Presence::Absent);
        };
        let place = self.clone();
        blocking(move || place.take(staged, Some(room)).map(Presence::Fetched)).await
    }

    /// The sound file that lies there; one that is not sound is removed.
    fn verify(&self) -> Result<Option<Lease>, StoreError> {
        let Some((held, fingerprint)) = self.find()? else {
            return Ok(None);
        };
        let found = ContentHash::of_reader(held.file);
        if matches!(found, Ok(found) if found == self.sha256) {
            self.note(fingerprint);
            return Ok(Some(Lease::guarded_by(Arc::new(held.hold))));
        }
        let (key, path) = (&self.key, held.path.display());
        let found = found.map_or_else(|error| error.to_string(), |found| found.to_string());
        tracing::warn!(%key, %path, %found, "{path} is not {key}, which is fetched again");
        self.files.remove(&file_key(&self.key));
        Ok(None)
    }

    /// Moves a complete file there.
    fn take(&self, staged: StagedFile, room: Option<Reservation>) -> Result<Lease, StoreError> {
        let failed = |error| self.failed("keeping", error);
        let held = self.files.keep(file_key(&self.key), staged, room);
        let held = held.map_err(failed)?;
        self.note(Fingerprint::of(&held.file).map_err(failed)?);
        Ok(Lease::guarded_by(Arc::new(held.hold)))
    }

    /// The file, if it is there and can be opened; one that cannot be is as good as none, since the
    /// blob can be had again.
    fn find(&self) -> Result<Option<(HeldFile, Fingerprint)>, StoreError> {
        let looked_at = |held: HeldFile| {
            let fingerprint = Fingerprint::of(&held.file)?;
            Ok((held, fingerprint))
        };
        let found = self.files.find(&file_key(&self.key));
        match found.and_then(|held| held.map(looked_at).transpose()) {
            Ok(found) => Ok(found),
            // This is about the process, not about the file.
            Err(error) if is_lack(&error) => Err(self.failed("opening", error)),
            Err(error) => {
                let key = &self.key;
                tracing::warn!(%key, %error, "the file of {key} cannot be opened: {error}");
                self.files.remove(&file_key(key));
                Ok(None)
            }
        }
    }

    fn note(&self, fingerprint: Fingerprint) {
        self.verified
            .insert(self.key.clone(), (self.sha256, fingerprint));
    }

    fn failed(&self, doing: &'static str, error: io::Error) -> StoreError {
        StoreError::from_io(doing, &format_args!("the file of {}", self.key), error)
    }
}

/// Whether an error means that there were too many open files or too little memory.
fn is_lack(error: &io::Error) -> bool {
    let error = Errno::from_io_error(error);
    matches!(error, Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::FutureExt as _;

    use super::*;
    use crate::artifacts::store::BlobForm;
    use crate::metrics::{Cache, Metrics};

    struct Room {
        folder: Arc<tempfile::TempDir>,
        files: Option<FetchedFiles>,
        fetches: Arc<AtomicUsize>,
        /// How many of the next fetches find a full disk.
        full: Arc<AtomicUsize>,
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

    fn full() -> StoreError {
        StoreError::from_io("fetching", &"it", io::ErrorKind::StorageFull.into())
    }

    impl Room {
        fn new() -> Self {
            let mut room = Self {
                folder: Arc::new(tempfile::tempdir().unwrap()),
                files: None,
                fetches: Arc::default(),
                full: Arc::default(),
            };
            room.reopen();
            room
        }

        fn reopen(&mut self) {
            self.files = None;
            let bounds = CacheBounds {
                bytes_max: 1 << 20,
                free_bytes_min: 0,
                meter: Metrics::new().cache(Cache::Files),
            };
            let folder = self.folder.path().join("fetched");
            self.files = Some(FetchedFiles::open(folder, bounds, TaskTracker::new()).unwrap());
        }

        fn files(&self) -> &FetchedFiles {
            self.files.as_ref().unwrap()
        }

        /// Gets the file, fetching it by a copy.
        async fn try_get(&self) -> Result<LocalFile, StoreError> {
            let (fetches, full_disks) = (Arc::clone(&self.fetches), Arc::clone(&self.full));
            let folder = Arc::clone(&self.folder);
            let fetch = move || {
                fetches.fetch_add(1, Ordering::SeqCst);
                let full_disks = full_disks
                    .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
                let mut staged = tempfile::NamedTempFile::new_in(folder.path()).unwrap();
                staged.write_all(BYTES).unwrap();
                let fetched = full_disks.map_or(Ok(Some(staged)), |_| Err(full()));
                std::future::ready(fetched).boxed()
            };
            let file = self.files().get(&blob(), fetch).await?;
            Ok(file.unwrap())
        }

        async fn get(&self) -> PathBuf {
            let file = self.try_get().await.unwrap();
            assert_eq!(fs::read(&file.path).unwrap(), BYTES);
            file.path
        }

        fn fetches(&self) -> usize {
            self.fetches.load(Ordering::SeqCst)
        }
    }

    #[tokio::test]
    async fn a_file_is_fetched_once_and_outlives_the_process() {
        let mut room = Room::new();
        room.get().await;
        room.get().await;
        room.reopen();
        room.get().await;
        assert_eq!(room.fetches(), 1);
    }

    #[tokio::test]
    async fn a_file_that_was_damaged_or_removed_is_fetched_again() {
        let mut room = Room::new();
        let path = room.get().await;
        fs::write(&path, b"other bytes").unwrap();
        let path = room.get().await;
        fs::remove_file(&path).unwrap();
        let path = room.get().await;
        fs::write(&path, b"half of what").unwrap();
        room.reopen();
        room.get().await;
        assert_eq!(room.fetches(), 4);
    }

    #[tokio::test]
    async fn what_is_absent_or_fails_is_asked_for_again() {
        let room = Room::new();
        let blob = blob();
        let absent = room.files().get(&blob, || async { Ok(None) }.boxed());
        assert!(absent.await.unwrap().is_none());
        let failing = || {
            let error = StoreError::from_io("fetching", &"it", io::ErrorKind::TimedOut.into());
            async { Err(error) }.boxed()
        };
        let failed = room.files().get(&blob, failing).await;
        assert!(failed.unwrap_err().to_string().contains("timed out"));
        room.get().await;
    }

    #[tokio::test]
    async fn a_file_that_was_put_needs_no_fetch() {
        let room = Room::new();
        let mut staged = tempfile::NamedTempFile::new_in(room.folder.path()).unwrap();
        staged.write_all(BYTES).unwrap();
        let blob = blob();
        room.files().adopt(&blob.key, blob.sha256, staged).await;
        room.get().await;
        assert_eq!(room.fetches(), 0);
        room.files().remove(&blob.key).await.unwrap();
        room.files().remove(&blob.key).await.unwrap();
        room.get().await;
        assert_eq!(room.fetches(), 1);
    }

    #[tokio::test]
    async fn a_full_disk_makes_room_once_and_is_an_error_then() {
        let room = Room::new();
        room.full.store(1, Ordering::SeqCst);
        room.get().await;
        assert_eq!(room.fetches(), 2);
        room.files().remove(&blob().key).await.unwrap();
        room.full.store(2, Ordering::SeqCst);
        let error = room.try_get().await.unwrap_err();
        assert!(error.is_full(), "{error}");
        assert_eq!(room.fetches(), 4);
        room.get().await;
    }

    #[tokio::test]
    async fn a_blob_that_was_damaged_is_not_fetched_for_everybody_who_asks() {
        let room = Room::new();
        let blob = blob();
        let found = Damage::found("as told", Duration::from_hours(1));
        room.files().damaged.insert(blob.key.clone(), found);
        let error = room.try_get().await.unwrap_err();
        assert!(matches!(&error, StoreError::Damaged { detail, .. } if detail == "as told"));
        assert_eq!(room.fetches(), 0);
    }

    #[tokio::test]
    async fn damage_is_remembered_until_the_blob_is_sound_and_looked_for_again() {
        let room = Room::new();
        let blob = blob();
        let damaged = || {
            let key = "it".to_owned();
            let detail = "as told".to_owned();
            async { Err(StoreError::Damaged { key, detail }) }.boxed()
        };
        room.files().get(&blob, damaged).await.unwrap_err();
        assert!(room.files().is_known_damaged(&blob.key));
        let deadline = Instant::now() + Duration::from_mins(1);
        while room.try_get().await.is_err() {
            assert!(Instant::now() < deadline, "it is never looked for again");
            tokio::task::yield_now().await;
        }
        assert!(!room.files().is_known_damaged(&blob.key));
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_read_is_fetched_again() {
        let mut room = Room::new();
        let path = room.get().await;
        fs::remove_file(&path).unwrap();
        // Opened, it cannot be read.
        fs::create_dir(&path).unwrap();
        room.get().await;
        assert_eq!(room.fetches(), 2);
        room.reopen();
        room.get().await;
        assert_eq!(room.fetches(), 2);
    }
}
