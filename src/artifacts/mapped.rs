//! A file mapped into memory, read-only: the one place here that needs `unsafe`.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::{Mmap, MmapOptions};

use super::ContentHash;

/// A whole file as bytes.
#[derive(Debug)]
pub(super) struct Mapped {
    path: PathBuf,
    map: Option<Mmap>,
}

impl Mapped {
    /// Maps a staged file or a blob.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        // An empty file cannot be mapped.
        let size_bytes = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        let map = (size_bytes > 0)
            .then(|| map(&file, size_bytes))
            .transpose()?;
        Ok(Self {
            path: path.to_owned(),
            map,
        })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.map.as_deref().unwrap_or_default()
    }

    /// The hash of a range of the file, read and not through the map, which would make it resident.
    pub(super) fn hash_of(&self, range: Range<u64>) -> io::Result<ContentHash> {
        let mut file = self.reopen()?;
        file.seek(SeekFrom::Start(range.start))?;
        ContentHash::of_reader(file.take(range.end.saturating_sub(range.start)))
    }

    /// The same file, opened anew at offset 0.
    pub(super) fn reopen(&self) -> io::Result<File> {
        File::open(&self.path)
    }
}

/// An open file and a map of it, of which nothing is read until somebody looks.
#[derive(Debug)]
pub struct FileMap {
    map: Mmap,
    _open: Arc<File>,
}

impl FileMap {
    /// Of a file of that length that an [`Artifact`](super::Artifact) has.
    ///
    /// # Errors
    /// If the system cannot map it; an empty file cannot be mapped.
    pub fn of(file: Arc<File>, size_bytes: u64) -> io::Result<Self> {
        let map = map(
            &file,
            usize::try_from(size_bytes).map_err(io::Error::other)?,
        )?;
        Ok(Self { map, _open: file })
    }
}

impl AsRef<[u8]> for FileMap {
    fn as_ref(&self) -> &[u8] {
        &self.map
    }
}

#[expect(
    unsafe_code,
    reason = "mapping a file is unsafe while others may change it"
)]
fn map(file: &File, size_bytes: usize) -> io::Result<Mmap> {
    // SAFETY: staged files are written by this process alone and complete by now, blobs are never
    // changed once they are there; both lie in folders that belong to this program.
    unsafe { MmapOptions::new().len(size_bytes).map(file) }
}
