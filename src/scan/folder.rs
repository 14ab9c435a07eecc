//! What scanned files were made into, on disk, bounded: members of archives and symbol indexes.
//!
//! Both can be made again. They are synced before they get their name, so that what is found after a
//! crash is whole.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::{NamedTempFile, TempPath};
use unhex_build_id::Hex;

use crate::artifacts::store::Lease;
use crate::disk_cache::{BoundedFolder, FileKey, FolderSettings, HeldFile, Leftovers};
use crate::metrics::CacheMeter;

/// What a file is kept under: another one for other bytes.
pub(super) type Key = [u8; 32];

/// Where a folder is, and its bounds.
#[derive(Debug)]
pub(super) struct Place<'a> {
    pub(super) folder: PathBuf,
    /// Where files lie on their way, on the same disk; emptied by each start.
    pub(super) staging: &'a Path,
    pub(super) bytes_max: u64,
    /// What always stays free on the disk.
    pub(super) free_bytes_min: u64,
    pub(super) meter: CacheMeter,
}

/// The folder.
#[derive(Debug)]
pub(super) struct Folder {
    files: BoundedFolder,
    staging: PathBuf,
}

/// A file that stays at its path as long as this lives.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) path: PathBuf,
    pub(super) lease: Lease,
}

impl Kept {
    fn of(held: HeldFile) -> (File, Self) {
        let lease = Lease::guarded_by(Arc::new(held.hold));
        let path = held.path;
        (held.file, Self { path, lease })
    }

    /// The file, open at its start.
    ///
    /// # Errors
    /// If somebody has removed it.
    pub(super) fn open(&self) -> io::Result<File> {
        File::open(&self.path)
    }
}

impl Folder {
    /// Makes the folder, or takes over what an earlier server left.
    ///
    /// # Errors
    /// If it cannot be made or read.
    pub(super) fn open(place: Place<'_>) -> io::Result<Self> {
        let files = BoundedFolder::open(FolderSettings {
            folder: place.folder,
            bytes_max: place.bytes_max,
            free_bytes_min: place.free_bytes_min,
            leftovers: Leftovers::Keep,
            meter: place.meter,
        })?;
        Ok(Self {
            files,
            staging: place.staging.to_owned(),
        })
    }

    /// The file of a key, if it is there.
    ///
    /// # Errors
    /// If that is not known.
    pub(super) fn find(&self, key: &Key) -> io::Result<Option<(File, Kept)>> {
        let found = self.files.find(&FileKey::of(key))?;
        let meter = self.files.meter();
        if found.is_some() {
            meter.hit();
        } else {
            meter.miss();
        }
        Ok(found.map(Kept::of))
    }

    /// A new file that can be kept.
    ///
    /// # Errors
    /// If the disk is full or gone.
    pub(super) fn incoming(&self) -> io::Result<NamedTempFile> {
        NamedTempFile::new_in(&self.staging)
    }

    /// Where somebody else may make the file of a key.
    pub(super) fn incoming_path(&self, key: &Key) -> PathBuf {
        self.staging.join(format!("{}.scanned", Hex(key)))
    }

    /// A file that was made so, to be kept.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(super) fn incoming_at(path: PathBuf) -> io::Result<NamedTempFile> {
        let path = TempPath::try_from_path(path)?;
        Ok(NamedTempFile::from_parts(File::open(&path)?, path))
    }

    /// Keeps a complete file under a key.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn keep(&self, key: &Key, incoming: NamedTempFile) -> io::Result<(File, Kept)> {
        incoming.as_file().sync_data()?;
        let held = self.files.keep(FileKey::of(key), incoming, None)?;
        Ok(Kept::of(held))
    }

    /// Removes the file of a key.
    pub(super) fn remove(&self, key: &Key) {
        self.files.remove(&FileKey::of(key));
    }
}
