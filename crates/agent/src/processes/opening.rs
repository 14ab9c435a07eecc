//! Where the file of a mapping is to be had: through the mapping itself, else by its path, which may have become
//! another file since.
//!
//! Nothing here waits for anybody. A path is looked up as the process sees it, below its own root, so that links in it
//! cannot lead out of there, and only as far as the kernel has it in memory. Nothing but regular files is opened, since
//! opening a device can do anything, and none of a file system that a program of some user serves.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags};
use unhex_symbols::segments::Mapping;

use super::mounts::{self, Place};
use crate::sample::ProcessId;

/// A regular file that may be the one that is mapped.
#[derive(Debug)]
pub(super) struct Candidate {
    handle: OwnedFd,
    place: Place,
    /// The process that sees it, by its folder in `/proc`.
    whose: String,
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
    device: (u32, u32),
    pub(super) inode: u64,
    size_bytes: u64,
    changed: (i64, u32),
}

impl FileKey {
    fn of(stat: &Statx) -> Self {
        Self {
            device: (stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
            size_bytes: stat.stx_size,
            changed: (stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec),
        }
    }
}

/// The files that may be the one that a process has mapped, the likeliest first; each is looked for when it is asked
/// for.
pub(super) fn candidates<'p>(
    process: ProcessId,
    mapping: Mapping,
    path: &'p [u8],
) -> impl Iterator<Item = Candidate> + 'p {
    let ways: [Box<dyn Fn() -> Option<Candidate> + 'p>; 3] = [
        Box::new(move || by_mapping(process, mapping)),
        Box::new(move || below_root_of(process, path)),
        Box::new(move || plain(path)),
    ];
    ways.into_iter().filter_map(|way| way())
}

const HANDLE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

fn by_mapping(process: ProcessId, mapping: Mapping) -> Option<Candidate> {
    let (start, end) = (mapping.start.0, mapping.end.0);
    let link = format!("/proc/{}/map_files/{start:x}-{end:x}", process.0);
    let handle = rustix::fs::openat(CWD, link.as_str(), HANDLE, Mode::empty()).ok()?;
    Candidate::of(handle, process.0.to_string(), Found::ByMapping)
}

fn below_root_of(process: ProcessId, path: &[u8]) -> Option<Candidate> {
    let root = format!("/proc/{}/root", process.0);
    let root = rustix::fs::openat(
        CWD,
        root.as_str(),
        HANDLE | OFlags::DIRECTORY,
        Mode::empty(),
    );
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let handle = looked_up(&root.ok()?, path, resolve)?;
    Candidate::of(handle, process.0.to_string(), Found::ByPath)
}

fn plain(path: &[u8]) -> Option<Candidate> {
    let root = rustix::fs::openat(CWD, "/", HANDLE | OFlags::DIRECTORY, Mode::empty());
    let handle = looked_up(&root.ok()?, path, ResolveFlags::NO_MAGICLINKS)?;
    Candidate::of(handle, "self".to_owned(), Found::ByPath)
}

/// Looks a path up as far as it is in memory; a process that runs has it there.
fn looked_up(root: &OwnedFd, path: &[u8], resolve: ResolveFlags) -> Option<OwnedFd> {
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    if !path.is_absolute() {
        return None;
    }
    let open = |resolve| rustix::fs::openat2(root, path, HANDLE, Mode::empty(), resolve);
    match open(resolve | ResolveFlags::CACHED) {
        // Linux before 5.12.
        Err(rustix::io::Errno::INVAL) => open(resolve).ok(),
        found => found.ok(),
    }
}

impl Candidate {
    /// What a handle stands for, if it is a regular file; what is known of it without asking anybody.
    fn of(handle: OwnedFd, whose: String, found: Found) -> Option<Self> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
        let stat = rustix::fs::statx(&handle, "", flags, wanted).ok()?;
        if FileType::from_raw_mode(stat.stx_mode.into()) != FileType::RegularFile {
            return None;
        }
        let key = FileKey::of(&stat);
        let place = Place {
            mount: stat.stx_mnt_id,
            device: key.device,
        };
        Some(Self {
            handle,
            place,
            whose,
            key,
            found,
        })
    }

    /// The file, to be read.
    pub(super) fn open(&self) -> Option<File> {
        if !mounts::answers(&self.whose, self.place) {
            return None;
        }
        let link = format!("/proc/self/fd/{}", self.handle.as_raw_fd());
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = rustix::fs::openat(CWD, link.as_str(), flags, Mode::empty()).ok()?;
        Some(File::from(file))
    }
}
