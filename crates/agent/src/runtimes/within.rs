//! Files as a process sees them: opened under its root, from which no link leads out.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags};

/// Opens a path of a process for reading, `process` being its folder under `/proc`. Neither waits for the writer of a pipe, nor follows a link
/// in the last place.
///
/// # Errors
/// If it is not there, or may not be read.
pub(crate) fn open(process: &Path, path: &Path) -> io::Result<File> {
    let root = rustix::fs::open(
        process.join("root"),
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let file = rustix::fs::openat2(
        root,
        path,
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
    )?;
    Ok(File::from(file))
}
