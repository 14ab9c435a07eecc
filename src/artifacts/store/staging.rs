//! Where files lie until they are put: a folder of this process, removed after its death.
//!
//! The folder is locked as long as its process lives; whoever finds one unlocked removes it, so that
//! a killed server leaves nothing behind for longer than its successor's start.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock};

/// A folder without a name is locked and named in microseconds, unless its process was killed.
const UNNAMED_AGE_MAX: Duration = Duration::from_hours(24);

/// A file that is removed unless it is put.
pub type StagedFile = tempfile::NamedTempFile;

/// The staging folder of this process.
#[derive(Debug)]
pub struct Staging {
    folder: PathBuf,
    _lock: File,
}

impl Staging {
    /// A new folder below `parent`; those of dead processes are removed.
    ///
    /// # Errors
    /// If the folder cannot be made or locked.
    pub fn open(parent: &Path) -> io::Result<Self> {
        fs::create_dir_all(parent)?;
        remove_dead(parent)?;
        // Locked under a name that nobody tries to remove, so that there is no instant at which a
        // living folder is unlocked.
        let unnamed = tempfile::Builder::new()
            .prefix(".new-")
            .tempdir_in(parent)?;
        let lock = File::open(unnamed.path())?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        let name = unnamed.path().file_name().unwrap_or_default();
        let folder = parent.join(name.to_string_lossy().trim_start_matches(".new-"));
        fs::rename(unnamed.keep(), &folder)?;
        Ok(Self {
            folder,
            _lock: lock,
        })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A new empty file.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn file(&self) -> io::Result<StagedFile> {
        tempfile::Builder::new().tempfile_in(&self.folder)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            tracing::warn!(%error, folder = %self.folder.display(), "removing the staging folder");
        }
    }
}

fn remove_dead(parent: &Path) -> io::Result<()> {
    for entry in fs::read_dir(parent)? {
        let path = entry?.path();
        let is_unnamed = path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if !path.is_dir() || (is_unnamed && !is_old(&path)) {
            continue;
        }
        let Ok(folder) = File::open(&path) else {
            continue;
        };
        if flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok()
            && let Err(error) = fs::remove_dir_all(&path)
        {
            tracing::warn!(%error, folder = %path.display(), "removing a dead staging folder");
        }
    }
    Ok(())
}

/// Whether a folder is as it is for longer than any process takes to lock and name it.
fn is_old(folder: &Path) -> bool {
    let modified = fs::metadata(folder).and_then(|metadata| metadata.modified());
    let age = modified.map(|modified| SystemTime::now().duration_since(modified));
    age.is_ok_and(|age| age.is_ok_and(|age| age > UNNAMED_AGE_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_dead_process_is_removed_and_that_of_a_living_one_stays() {
        let parent = tempfile::tempdir().unwrap();
        let living = Staging::open(parent.path()).unwrap();
        let file = living.file().unwrap();
        let dead = parent.path().join("dead");
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join("half"), b"half").unwrap();
        let second = Staging::open(parent.path()).unwrap();
        assert!(!dead.exists());
        assert!(file.path().exists());
        assert_ne!(second.folder(), living.folder());
    }

    #[test]
    fn a_folder_that_was_never_named_is_removed_once_it_is_old() {
        let parent = tempfile::tempdir().unwrap();
        let unnamed = |name: &str, age: Duration| {
            let folder = parent.path().join(name);
            fs::create_dir(&folder).unwrap();
            let then = SystemTime::now() - age;
            let file = File::open(&folder).unwrap();
            file.set_modified(then).unwrap();
            folder
        };
        let old = unnamed(".new-old", UNNAMED_AGE_MAX * 2);
        let young = unnamed(".new-young", Duration::ZERO);
        let _staging = Staging::open(parent.path()).unwrap();
        assert!(!old.exists());
        assert!(young.exists(), "its process may be about to lock it");
    }
}
