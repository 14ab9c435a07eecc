//! A file mapped into memory, read-only: the one place here that needs `unsafe`.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use memmap2::Mmap;

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
        let map = if file.metadata()?.len() == 0 {
            None
        } else {
            Some(map(&file)?)
        };
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

#[expect(
    unsafe_code,
    reason = "mapping a file is unsafe while others may change it"
)]
fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: staged files are written by this process alone and complete by now, blobs are never
    // changed once they are there; both lie in folders that belong to this program.
    unsafe { Mmap::map(file) }
}
