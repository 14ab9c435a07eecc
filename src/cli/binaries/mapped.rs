//! A file's bytes in memory, without reading what nobody looks at.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::Path;

use memmap2::Mmap;

/// A file that is mapped for reading; an empty one has no bytes.
#[derive(Debug)]
pub(crate) struct Mapped(Option<Mmap>);

impl Mapped {
    /// Maps the whole of an open file.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        if file.metadata()?.len() == 0 {
            return Ok(Self(None));
        }
        #[expect(unsafe_code, reason = "memmap2 has no other way to map a file")]
        // SAFETY: the mapping is private to reading and handed out as `&[u8]` only. Somebody who
        // truncates the file meanwhile ends this command by SIGBUS, which harms nobody else: it
        // is the user's own file or a temporary one that no other program knows.
        let map = unsafe { Mmap::map(file)? };
        Ok(Self(Some(map)))
    }

    /// Maps the whole of the file at `path`.
    ///
    /// # Errors
    /// If it cannot be opened or the system refuses.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Self::of(&File::open(path)?)
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}
