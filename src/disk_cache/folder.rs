//! The folder itself: finding, keeping and removing files, and leaving room on the disk.
//!
//! The last use of a file is its access time, so that the order outlives
//! the process; the modification time stays what it was.

use std::fmt;
use std::fs::{self, File, FileTimes};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tempfile::NamedTempFile;

use super::accounts::{Accounts, Victim};
use super::beside;
use super::key::{FileKey, FileName};
use crate::metrics::CacheMeter;

/// A use is written to the disk when the last one that was written is older.
const USE_WRITTEN_AFTER: Duration = Duration::from_mins(10);

/// Files that can be had again, at most so many bytes of them. Cheap to clone.
#[derive(Clone)]
pub struct BoundedFolder(Arc<Shared>);

/// What a [`BoundedFolder`] is made of.
#[derive(Debug)]
pub struct FolderSettings {
    /// The folder, which is made when it is not there. When another process uses it, one beside it
    /// is taken: `NAME-2` and so on.
    pub folder: PathBuf,
    /// The most bytes of all files.
    pub bytes_max: u64,
    /// Files go before less than this is free on the disk.
    pub free_bytes_min: u64,
    /// What becomes of the files of an earlier process.
    pub leftovers: Leftovers,
    /// Where its use is counted.
    pub meter: CacheMeter,
}

/// What becomes of the files of an earlier process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftovers {
    /// They are found again, whatever a crash may have made of them.
    Keep,
    /// They are removed.
    Remove,
}

/// A file, and its place in the folder for as long as this lives.
#[derive(Debug)]
pub struct HeldFile {
    /// Opened for reading.
    pub file: File,
    /// Where it lies.
    pub path: PathBuf,
    /// Keeps it there.
    pub hold: Hold,
}

/// Keeps a file at its path until it is dropped.
pub struct Hold {
    folder: Arc<Shared>,
    number: u64,
}

/// Room for a file that is on its way, until it is dropped.
pub struct Reservation {
    folder: Arc<Shared>,
    /// `None` once the file is there.
    bytes: Option<u64>,
}

struct Shared {
    folder: PathBuf,
    accounts: Mutex<Accounts>,
    free_bytes_min: u64,
    meter: CacheMeter,
    /// Locked as long as this lives.
    _lock: File,
}

impl BoundedFolder {
    /// The files in a folder. Costs a look at each, and reads none.
    ///
    /// # Errors
    /// If the folder cannot be made or read.
    pub fn open(settings: FolderSettings) -> io::Result<Self> {
        let (folder, lock) = beside::claim_one(&settings.folder)?;
        settings.meter.bounded_by(settings.bytes_max);
        let shared = Shared {
            folder,
            accounts: Mutex::new(Accounts::new(settings.bytes_max)),
            free_bytes_min: settings.free_bytes_min,
            meter: settings.meter,
            _lock: lock,
        };
        shared.take_leftovers(&settings.folder, settings.leftovers)?;
        Ok(Self(Arc::new(shared)))
    }

    /// The file of a key, if it is here. Whoever asks counts what came of it, by [`Self::meter`].
    ///
    /// # Errors
    /// If it is here and cannot be opened.
    pub fn find(&self, key: &FileKey) -> io::Result<Option<HeldFile>> {
        let now = SystemTime::now();
        let held = self.0.accounts.lock().hold(key, now);
        let Some((name, used_before)) = held else {
            return Ok(None);
        };
        let hold = Hold {
            folder: Arc::clone(&self.0),
            number: name.number,
        };
        let path = self.0.folder.join(name.to_string());
        let file = match File::open(&path) {
            // Somebody has tidied up.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Unless another one was kept meanwhile.
                let victim = self.0.accounts.lock().forget_one(&name);
                self.0.unlink(victim);
                return Ok(None);
            }
            opened => opened?,
        };
        self.0.show();
        let since = now.duration_since(used_before);
        if since.is_ok_and(|since| since > USE_WRITTEN_AFTER) {
            note_use(&file, now);
        }
        Ok(Some(HeldFile { file, path, hold }))
    }

    /// Makes room for a file of so many bytes that will be kept: until this is dropped they count as
    /// if it was there.
    pub fn reserve(&self, bytes: u64) -> Reservation {
        self.0.accounts.lock().reserve(bytes);
        self.0.trim(0);
        Reservation {
            folder: Arc::clone(&self.0),
            bytes: Some(bytes),
        }
    }

    /// Keeps a complete file, which lies on the same disk, under a key, in the room that was made for
    /// it; another one that has the key goes.
    ///
    /// # Errors
    /// If it cannot be moved there.
    pub fn keep(
        &self,
        key: FileKey,
        staged: NamedTempFile,
        room: Option<Reservation>,
    ) -> io::Result<HeldFile> {
        let size_bytes = staged.as_file().metadata()?.len();
        let number = self.0.accounts.lock().number();
        let name = FileName { key, number };
        let path = self.0.folder.join(name.to_string());
        let file = staged.persist(&path).map_err(|error| error.error)?;
        let now = SystemTime::now();
        note_use(&file, now);
        let reserved_bytes = room.and_then(|mut room| room.bytes.take());
        let mut accounts = self.0.accounts.lock();
        // At once, or it would count twice and others would go for it.
        if let Some(bytes) = reserved_bytes {
            accounts.unreserve(bytes);
        }
        let replaced = accounts.take(name, size_bytes, now);
        drop(accounts);
        let hold = Hold {
            folder: Arc::clone(&self.0),
            number,
        };
        self.0.unlink(replaced);
        self.0.trim(0);
        // At offset 0, and not writable.
        let file = File::open(&path)?;
        Ok(HeldFile { file, path, hold })
    }

    /// Removes the file of a key, once nobody holds it; it is not found any more.
    pub fn remove(&self, key: &FileKey) {
        let victim = self.0.accounts.lock().forget(key);
        self.0.unlink(victim);
        self.0.show();
    }

    /// Gives up files until the disk has room for so many bytes beyond what always stays free.
    pub fn make_room(&self, bytes: u64) {
        self.0.trim(bytes);
    }

    /// Where questions to it are counted.
    pub fn meter(&self) -> &CacheMeter {
        &self.0.meter
    }

    /// Gives up the least recently used files until at least so many bytes are freed, or all of them
    /// are held: for when the disk is full.
    pub fn surrender(&self, bytes: u64) {
        self.0.evict(|accounts| accounts.surrender(bytes));
        self.0.show();
    }
}

impl Shared {
    /// Finds the files of an earlier process again, and those in folders beside this one that no
    /// process uses: nobody else would ever count them.
    fn take_leftovers(&self, first: &Path, leftovers: Leftovers) -> io::Result<()> {
        let mut found = beside::leftovers(&self.folder, first)?;
        found.sort_unstable_by_key(|file| (file.used, file.name.number));
        for file in found {
            let mut accounts = self.accounts.lock();
            let earlier = accounts.found(file.name, file.size_bytes, file.used);
            let removed = (leftovers == Leftovers::Remove).then(|| accounts.forget(&file.name.key));
            drop(accounts);
            self.unlink(earlier.into_iter().chain(removed.flatten()));
        }
        self.trim(0);
        Ok(())
    }

    /// Removes files until the rest is within the bounds and the disk has room for `wanted_bytes`.
    fn trim(&self, wanted_bytes: u64) {
        self.evict(Accounts::excess);
        let free_bytes = rustix::fs::statvfs(&self.folder)
            .map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize));
        // What is on its way is not on the disk, or in part.
        let on_its_way = self.accounts.lock().expected_bytes();
        let wanted_bytes = wanted_bytes.saturating_add(on_its_way);
        let least = self.free_bytes_min.saturating_add(wanted_bytes);
        if free_bytes < least {
            self.evict(|accounts| accounts.surrender(least.saturating_sub(free_bytes)));
        }
        self.show();
    }

    fn evict(&self, choose: impl FnOnce(&mut Accounts) -> Vec<Victim>) {
        let victims = choose(&mut self.accounts.lock());
        self.meter.evicted(victims.len());
        self.unlink(victims);
    }

    fn unlink(&self, victims: impl IntoIterator<Item = Victim>) {
        for victim in victims {
            let path = self.folder.join(victim.to_string());
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    let path = path.display();
                    tracing::warn!(%path, %error, "{path} stays, until the next start: {error}");
                }
                _ => {}
            }
        }
    }

    fn show(&self) {
        let accounts = self.accounts.lock();
        let (files, bytes) = accounts.totals();
        let oldest_use = accounts.oldest_use();
        drop(accounts);
        let files = u64::try_from(files).unwrap_or(u64::MAX);
        self.meter.holds(files, bytes);
        self.meter.oldest_use(oldest_use);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut accounts = self.folder.accounts.lock();
        let released = accounts.release(self.number, SystemTime::now());
        let over = accounts.excess();
        drop(accounts);
        if released.is_none() && over.is_empty() {
            return self.folder.show();
        }
        self.folder.meter.evicted(over.len());
        let (folder, victims) = (Arc::clone(&self.folder), over.into_iter().chain(released));
        let unlink = move || {
            folder.unlink(victims);
            folder.show();
        };
        // Whoever drops it may be an async thread, and removing a large file takes a while.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(unlink)),
            Err(_none) => unlink(),
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(bytes) = self.bytes.take() {
            self.folder.accounts.lock().unreserve(bytes);
        }
    }
}

/// Writes down that a file was used; failing to costs it its place in the order of the next start.
fn note_use(file: &File, now: SystemTime) {
    if let Err(error) = file.set_times(FileTimes::new().set_accessed(now)) {
        tracing::debug!(%error, "the use of a file is not written down: {error}");
    }
}

impl fmt::Debug for BoundedFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BoundedFolder({})", self.0.folder.display())
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hold({})", self.number)
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reservation({:?} bytes)", self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;
    use crate::metrics::{Cache, Metrics};

    struct Room {
        folder: tempfile::TempDir,
        metrics: Metrics,
    }

    impl Room {
        fn new() -> Self {
            Self {
                folder: tempfile::tempdir().unwrap(),
                metrics: Metrics::new(),
            }
        }

        fn settings(&self, bytes_max: u64) -> FolderSettings {
            FolderSettings {
                folder: self.folder.path().join("files"),
                bytes_max,
                free_bytes_min: 0,
                leftovers: Leftovers::Keep,
                meter: self.metrics.cache(Cache::Files),
            }
        }

        fn open(&self, bytes_max: u64) -> BoundedFolder {
            BoundedFolder::open(self.settings(bytes_max)).unwrap()
        }

        fn keep(&self, files: &BoundedFolder, name: &str, size_bytes: usize) -> HeldFile {
            let mut staged = NamedTempFile::new_in(self.folder.path()).unwrap();
            staged
                .write_all(&vec![name.as_bytes()[0]; size_bytes])
                .unwrap();
            files.keep(key(name), staged, None).unwrap()
        }

        fn on_disk(&self) -> usize {
            fs::read_dir(self.folder.path().join("files"))
                .unwrap()
                .count()
        }

        fn metric(&self, name: &str) -> f64 {
            let text = String::from_utf8(self.metrics.render(&[]).unwrap()).unwrap();
            let line = format!("{name}{{cache=\"files\"}} ");
            let value = text.lines().find_map(|text| text.strip_prefix(&line));
            value.unwrap().parse().unwrap()
        }
    }

    fn key(name: &str) -> FileKey {
        FileKey::of(name.as_bytes())
    }

    const KIB: usize = 1 << 10;

    #[test]
    fn what_was_not_used_for_longest_goes_and_the_metrics_say_so() {
        let room = Room::new();
        let files = room.open(100 << 10);
        for name in ["a", "b", "c"] {
            drop(room.keep(&files, name, 20 * KIB));
        }
        let mut held = files.find(&key("a")).unwrap().unwrap();
        drop(room.keep(&files, "d", 50 * KIB));
        assert!(files.find(&key("b")).unwrap().is_none());
        assert_eq!(room.on_disk(), 2);
        let mut text = String::new();
        held.file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "a".repeat(20 * KIB));
        assert!((room.metric("unhex_cache_evictions_total") - 2.0).abs() < 0.1);
        assert!((room.metric("unhex_cache_entries") - 2.0).abs() < 0.1);
        assert!((room.metric("unhex_cache_bytes") - f64::from(78 << 10)).abs() < 0.1);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let age =
            now.unwrap().as_secs_f64() - room.metric("unhex_cache_oldest_use_timestamp_seconds");
        assert!((0.0..60.0).contains(&age), "{age}");
    }

    #[test]
    fn a_file_that_is_held_stays_at_its_path_whatever_becomes_of_its_key() {
        let room = Room::new();
        let files = room.open(30 << 10);
        let first = room.keep(&files, "a", 20 * KIB);
        let second = room.keep(&files, "a", 10 * KIB);
        files.remove(&key("a"));
        files.surrender(u64::MAX);
        assert_eq!(fs::metadata(&first.path).unwrap().len(), 20 << 10);
        assert_eq!(fs::metadata(&second.path).unwrap().len(), 10 << 10);
        assert!(files.find(&key("a")).unwrap().is_none());
        drop((first, second));
        assert_eq!(room.on_disk(), 0);
    }

    #[test]
    fn the_files_and_the_order_of_their_use_outlive_the_process_and_can_be_removed() {
        let room = Room::new();
        let files = room.open(100 << 10);
        let age = |held: &HeldFile, hours: u64| {
            let then = SystemTime::now() - Duration::from_hours(hours);
            note_use(&held.file, then);
        };
        for (name, hours) in [("a", 2), ("b", 3), ("c", 1)] {
            age(&room.keep(&files, name, 20 * KIB), hours);
        }
        fs::write(room.folder.path().join("files/other"), "somebody else's").unwrap();
        drop(files);
        let files = room.open(60 << 10);
        assert!(files.find(&key("b")).unwrap().is_none(), "the oldest goes");
        // Its use is written down, since the last one is old.
        drop(files.find(&key("a")).unwrap().unwrap());
        drop(files);
        let files = room.open(30 << 10);
        assert!(files.find(&key("c")).unwrap().is_none());
        assert!(files.find(&key("a")).unwrap().is_some());
        drop(files);
        let settings = FolderSettings {
            leftovers: Leftovers::Remove,
            ..room.settings(1 << 20)
        };
        let files = BoundedFolder::open(settings).unwrap();
        assert!(files.find(&key("a")).unwrap().is_none());
        assert_eq!(room.on_disk(), 1, "only the file of somebody else");
    }

    #[test]
    fn a_second_process_gets_a_folder_of_its_own() {
        let room = Room::new();
        let first = room.open(1 << 20);
        drop(room.keep(&first, "a", KIB));
        let second = room.open(1 << 20);
        assert!(second.find(&key("a")).unwrap().is_none());
        let held = room.keep(&second, "a", KIB);
        assert!(held.path.starts_with(room.folder.path().join("files-2")));
        drop(first);
        let third = room.open(1 << 20);
        assert!(third.find(&key("a")).unwrap().is_some());
    }

    #[test]
    fn files_of_a_process_that_is_gone_are_found_again_from_beside_and_count() {
        let room = Room::new();
        let first = room.open(1 << 20);
        let second = room.open(1 << 20);
        drop(room.keep(&first, "a", KIB));
        drop(room.keep(&second, "a", 2 * KIB));
        drop(room.keep(&second, "b", KIB));
        drop((first, second));
        let files = room.open(1 << 20);
        for name in ["a", "b"] {
            let held = files.find(&key(name)).unwrap().unwrap();
            assert!(held.path.starts_with(room.folder.path().join("files/")));
        }
        assert_eq!(room.on_disk(), 2, "one of two with the same key");
        assert!((room.metric("unhex_cache_entries") - 2.0).abs() < 0.1);
    }

    #[test]
    fn a_file_that_was_on_its_way_counts_once_when_it_is_there() {
        let room = Room::new();
        let files = room.open(100 << 10);
        drop(room.keep(&files, "a", 40 * KIB));
        let reserved = files.reserve(40 << 10);
        let mut staged = NamedTempFile::new_in(room.folder.path()).unwrap();
        staged.write_all(&vec![7; 40 * KIB]).unwrap();
        drop(files.keep(key("b"), staged, Some(reserved)).unwrap());
        assert!(files.find(&key("a")).unwrap().is_some());
        // Nothing is set aside any more.
        drop(room.keep(&files, "c", 4 * KIB));
        assert!(files.find(&key("b")).unwrap().is_some());
    }

    #[test]
    fn files_go_before_the_disk_is_full() {
        let room = Room::new();
        let files = BoundedFolder::open(FolderSettings {
            free_bytes_min: u64::MAX,
            ..room.settings(1 << 20)
        });
        let files = files.unwrap();
        let held = room.keep(&files, "a", KIB);
        drop(room.keep(&files, "b", KIB));
        drop(files.reserve(KIB as u64));
        assert!(files.find(&key("b")).unwrap().is_none());
        assert!(held.path.exists());
    }

    #[test]
    fn a_file_that_somebody_removed_is_absent_and_can_be_kept_again() {
        let room = Room::new();
        let files = room.open(1 << 20);
        let path = room.keep(&files, "a", KIB).path;
        fs::remove_file(path).unwrap();
        assert!(files.find(&key("a")).unwrap().is_none());
        drop(room.keep(&files, "a", KIB));
        assert!(files.find(&key("a")).unwrap().is_some());
        assert!((room.metric("unhex_cache_entries") - 1.0).abs() < 0.1);
    }
}
