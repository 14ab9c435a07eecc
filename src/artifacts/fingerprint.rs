//! What tells a file from another one without reading it: what changes when somebody changes it.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;

/// Where a file lies, how long it is, and when it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    device: u64,
    inode: u64,
    pub(super) size_bytes: u64,
    modified: (i64, i64),
}

impl Fingerprint {
    /// Of the file as it is now.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size_bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }
}
