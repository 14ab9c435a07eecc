//! Where the file of a mapping is to be had: through the mapping itself, else by its path, which may have become
//! another file since.
//!
//! A path is looked up as the process sees it, below its own root, and so that links in it cannot lead out of there.
//! Nothing but regular files is opened: opening a device can do anything.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use unhex_symbols::segments::Mapping;

use crate::sample::ProcessId;

/// An opened file, and how much is known of it.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) file: File,
    pub(super) key: FileKey,
    pub(super) found: Found,
}

/// How a file was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Through the mapping: it is what is mapped.
    ByMapping,
    /// By a path: it may be another one by now.
    ByPath,
}

/// What tells a file, in one state of it, from all others of the host: a number of an inode comes back soon after its
/// file was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileKey {
    device: u64,
    pub(super) inode: u64,
    size_bytes: i64,
    changed: (i64, u64),
}

impl FileKey {
    fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            size_bytes: stat.st_size,
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

/// The files that may be the one that a process has mapped, the likeliest first; each is opened when it is asked for.
pub(super) fn candidates<'p>(
    process: ProcessId,
    mapping: Mapping,
    path: &'p [u8],
) -> impl Iterator<Item = Candidate> + 'p {
    let by_mapping = move || {
        let (start, end) = (mapping.start.0, mapping.end.0);
        let link = format!("/proc/{}/map_files/{start:x}-{end:x}", process.0);
        let handle = rustix::fs::openat(
            CWD,
            link.as_str(),
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
        );
        open(&handle.ok()?, Found::ByMapping)
    };
    let below_root = move || open(&below_root_of(process, path)?, Found::ByPath);
    let plain = move || {
        let path = absolute(path)?;
        let handle = rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        open(&handle.ok()?, Found::ByPath)
    };
    let ways: [Box<dyn Fn() -> Option<Candidate> + 'p>; 3] =
        [Box::new(by_mapping), Box::new(below_root), Box::new(plain)];
    ways.into_iter().filter_map(|way| way())
}

fn absolute(path: &[u8]) -> Option<&Path> {
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    path.is_absolute().then_some(path)
}

fn below_root_of(process: ProcessId, path: &[u8]) -> Option<OwnedFd> {
    let root = format!("/proc/{}/root", process.0);
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let root =
        rustix::fs::openat(CWD, root.as_str(), flags | OFlags::DIRECTORY, Mode::empty()).ok()?;
    rustix::fs::openat2(
        root,
        absolute(path)?,
        flags,
        Mode::empty(),
        ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
    )
    .ok()
}

/// Opens what a handle stands for, if it is a regular file.
fn open(handle: &OwnedFd, found: Found) -> Option<Candidate> {
    let before = rustix::fs::fstat(handle.as_fd()).ok()?;
    if FileType::from_raw_mode(before.st_mode) != FileType::RegularFile {
        return None;
    }
    let link = format!("/proc/self/fd/{}", handle.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = rustix::fs::openat(CWD, link.as_str(), flags, Mode::empty()).ok()?;
    Some(Candidate {
        key: FileKey::of(&before),
        file: File::from(file),
        found,
    })
}
