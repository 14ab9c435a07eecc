//! Folders beside each other, one for each server over the same disk.
//!
//! Two servers never share a folder, since neither knows what the other holds: the second one takes
//! another folder beside it. What it leaves there when it is gone is found by the next server that
//! starts.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, flock};

use super::key::FileName;

/// Servers that may keep folders beside each other.
const FOLDERS_MAX: usize = 16;

/// Makes and locks the folder, or the first one beside it that nobody uses.
pub(super) fn claim_one(folder: &Path) -> io::Result<(PathBuf, File)> {
    for number in 1..=FOLDERS_MAX {
        let path = numbered(folder, number);
        fs::create_dir_all(&path)?;
        match lock(&path) {
            Ok(lock) => return Ok((path, lock)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                tracing::info!(path = %path.display(), "another server keeps its files there");
            }
            Err(error) => return Err(error),
        }
    }
    let folder = folder.display();
    let detail = format!("{FOLDERS_MAX} servers keep their files in {folder} and beside it");
    Err(io::Error::other(detail))
}

/// Locks a folder as long as the file is open, unless another process has it.
fn lock(folder: &Path) -> io::Result<File> {
    let lock = File::open(folder)?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    Ok(lock)
}

/// A file that an earlier process left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leftover {
    pub(super) name: FileName,
    pub(super) size_bytes: u64,
    pub(super) used: SystemTime,
}

/// The files of an earlier process, with those in folders beside this one that no process uses: they
/// are moved here, since nobody else would ever count them.
pub(super) fn leftovers(folder: &Path, first: &Path) -> io::Result<Vec<Leftover>> {
    let mut found = leftovers_in(folder)?;
    let mut number = found.iter().map(|file| file.name.number).max();
    for other in (1..=FOLDERS_MAX).map(|number| numbered(first, number)) {
        // One that is not there, or that a process uses; this one, too.
        let Ok(_lock) = lock(&other) else {
            continue;
        };
        for file in leftovers_in(&other)? {
            let next = number.unwrap_or_default().saturating_add(1);
            number = Some(next);
            let name = FileName {
                key: file.name.key,
                number: next,
            };
            let (old, new) = (file.name.to_string(), name.to_string());
            fs::rename(other.join(old), folder.join(new))?;
            found.push(Leftover { name, ..file });
        }
    }
    Ok(found)
}

fn leftovers_in(folder: &Path) -> io::Result<Vec<Leftover>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        // Files of other names are somebody else's.
        let Some(Ok(name)) = name.to_str().map(str::parse::<FileName>) else {
            continue;
        };
        let metadata = entry.metadata()?;
        found.push(Leftover {
            name,
            size_bytes: metadata.len(),
            used: metadata.accessed().or_else(|_| metadata.modified())?,
        });
    }
    Ok(found)
}

fn numbered(folder: &Path, number: usize) -> PathBuf {
    if number == 1 {
        return folder.to_owned();
    }
    let mut name = folder.as_os_str().to_owned();
    name.push(format!("-{number}"));
    name.into()
}
