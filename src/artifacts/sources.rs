//! Bundles of source files: zip archives whose keys are canonical absolute paths without the
//! leading `/`.
//!
//! A bundle is read once whole when it arrives, so that a bomb or a broken member is refused then
//! and not served later.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use zip::ZipArchive;

use super::source_path::canonical_source_path;

/// What an open bundle counts at least: each holds a file open, and files are scarcer than memory.
const WEIGHT_BYTES_MIN: u32 = 256 << 10;

/// Bounds on a bundle of sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceLimits {
    /// Files in a bundle.
    pub files_max: u64,
    /// Length of one file.
    pub file_bytes_max: u64,
    /// Length of all files together.
    pub bytes_max: u64,
}

/// Why a file is no bundle of sources.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourcesError {
    /// Not a zip archive, or a damaged one.
    #[error("it is no sound zip archive: {0}")]
    NotZip(String),
    /// An archive without files.
    #[error("the zip archive has no files")]
    Empty,
    /// A key that no look-up can find.
    #[error(
        "the key {key:?} is {problem}; keys are canonical absolute paths without the leading '/'"
    )]
    Key {
        /// The key.
        key: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A member that cannot be read.
    #[error("the member {key:?} cannot be read: {detail}")]
    Member {
        /// Its key.
        key: String,
        /// Why.
        detail: String,
    },
    /// More than is accepted.
    #[error("{what} exceeds the limit of {max}")]
    TooLarge {
        /// What is too large, and how large it is.
        what: String,
        /// The limit.
        max: u64,
    },
}

/// An open bundle.
#[derive(Clone)]
pub(super) struct Bundle {
    archive: ZipArchive<SharedFile>,
    members: Arc<HashMap<Box<str>, usize>>,
}

/// Reads a whole bundle and answers how many files it has.
///
/// # Errors
/// If it is no zip archive, has a key that is not canonical, is damaged, or exceeds a limit.
pub(super) fn check_bundle(file: File, limits: &SourceLimits) -> Result<u64, SourcesError> {
    check_count(&file, limits)?;
    let directory = file.try_clone().map_err(not_zip)?;
    let mut bundle = Bundle::open(file)?;
    // The reader keeps the last of them; whether it is what the uploader meant, nobody knows.
    if bundle.archive.has_duplicate_names() {
        let detail = "two members have the same key".to_owned();
        return Err(SourcesError::NotZip(detail));
    }
    let start = bundle.archive.central_directory_start();
    check_all_counted(&directory, start, bundle.archive.len())?;
    let mut bytes_left = limits.bytes_max;
    for at in 0..bundle.archive.len() {
        let member = bundle.archive.by_index(at).map_err(not_zip)?;
        let key = String::from_utf8_lossy(member.name_raw()).into_owned();
        check_key(&key, std::str::from_utf8(member.name_raw()).is_ok())?;
        if member.is_symlink() {
            return Err(SourcesError::Key {
                key,
                problem: "a symbolic link",
            });
        }
        let bytes_max = limits.file_bytes_max.min(bytes_left);
        let mut within = member.take(bytes_max.saturating_add(1));
        let read =
            io::copy(&mut within, &mut io::sink()).map_err(|error| SourcesError::Member {
                key: key.clone(),
                detail: error.to_string(),
            })?;
        if read > limits.file_bytes_max {
            let what = format!("the member {key:?} in bytes");
            return Err(SourcesError::TooLarge {
                what,
                max: limits.file_bytes_max,
            });
        }
        bytes_left = bytes_left
            .checked_sub(read)
            .ok_or_else(|| SourcesError::TooLarge {
                what: "the length of all members in bytes".to_owned(),
                max: limits.bytes_max,
            })?;
    }
    match bundle.members.len() {
        0 => Err(SourcesError::Empty),
        files => Ok(files.try_into().unwrap_or(u64::MAX)),
    }
}

fn check_key(key: &str, is_utf8: bool) -> Result<(), SourcesError> {
    let problem = if !is_utf8 {
        "not UTF-8"
    } else if key.is_empty() {
        "empty"
    } else if key.ends_with('/') {
        "a folder"
    } else if key.starts_with('/') {
        "written with a leading '/'"
    } else if canonical_source_path(&format!("/{key}")).as_deref() != Some(&format!("/{key}")) {
        "not canonical"
    } else {
        return Ok(());
    };
    Err(SourcesError::Key {
        key: key.to_owned(),
        problem,
    })
}

/// Looks at the end of the archive for the number of its members, before anything is allocated for
/// each of them (APPNOTE.TXT 4.3.16 and 4.3.14).
fn check_count(file: &File, limits: &SourceLimits) -> Result<(), SourcesError> {
    const TAIL_BYTES: u64 = 22 + 0xffff + 20 + 56;
    let failed = |error: io::Error| SourcesError::NotZip(error.to_string());
    let length = file.metadata().map_err(failed)?.len();
    let mut tail = Vec::new();
    let mut from = SharedFile {
        file: Arc::new(file.try_clone().map_err(failed)?),
        position: 0,
    };
    from.position = length.saturating_sub(TAIL_BYTES);
    from.take(TAIL_BYTES)
        .read_to_end(&mut tail)
        .map_err(failed)?;
    // Every candidate is looked at: which of several the reader takes does not matter then.
    let le = |at: usize, bytes: usize| {
        let field = tail.get(at..at.checked_add(bytes)?)?;
        Some(
            field
                .iter()
                .rev()
                .fold(0_u64, |value, byte| value << 8 | u64::from(*byte)),
        )
    };
    let signature = |at: usize, word: &[u8]| tail.get(at..).is_some_and(|t| t.starts_with(word));
    let counts = (0..tail.len()).filter_map(|at| {
        if signature(at, b"PK\x05\x06") {
            le(at.checked_add(10)?, 2)
        } else if signature(at, b"PK\x06\x06") {
            le(at.checked_add(32)?, 8)
        } else {
            None
        }
    });
    match counts.max() {
        Some(count) if count > limits.files_max => Err(SourcesError::TooLarge {
            what: format!("a bundle of {count} files"),
            max: limits.files_max,
        }),
        Some(_) => Ok(()),
        None => Err(SourcesError::NotZip(
            "it has no end of central directory".to_owned(),
        )),
    }
}

/// Refuses an archive whose directory goes on behind the number of members that its end says: the
/// reader would leave those out in silence (APPNOTE.TXT 4.3.12).
fn check_all_counted(file: &File, start: u64, members: usize) -> Result<(), SourcesError> {
    const HEADER_BYTES: u64 = 46;
    const LENGTHS_AT: u64 = 28;
    let mut at = start;
    for _ in 0..members {
        let mut lengths = [0; 6];
        file.read_exact_at(&mut lengths, at.saturating_add(LENGTHS_AT))
            .map_err(not_zip)?;
        let [name, name_high, extra, extra_high, comment, comment_high] = lengths;
        let length = [
            [name, name_high],
            [extra, extra_high],
            [comment, comment_high],
        ]
        .map(|bytes| u64::from(u16::from_le_bytes(bytes)));
        at = at
            .saturating_add(HEADER_BYTES)
            .saturating_add(length.iter().sum());
    }
    let mut next = [0; 4];
    let read = file.read_exact_at(&mut next, at);
    if read.is_ok() && next == *b"PK\x01\x02" {
        let detail = format!("it has more members than the {members} that its end says");
        return Err(SourcesError::NotZip(detail));
    }
    Ok(())
}

fn not_zip(error: impl std::fmt::Display) -> SourcesError {
    SourcesError::NotZip(error.to_string())
}

impl Bundle {
    /// The bundle in `file`.
    pub(super) fn open(file: File) -> Result<Self, SourcesError> {
        let file = SharedFile {
            file: Arc::new(file),
            position: 0,
        };
        let mut archive = ZipArchive::new(file).map_err(not_zip)?;
        let mut members = HashMap::with_capacity(archive.len());
        for at in 0..archive.len() {
            let member = archive.by_index_raw(at).map_err(not_zip)?;
            let key = String::from_utf8_lossy(member.name_raw());
            members.insert(key.into(), at);
        }
        Ok(Self {
            archive,
            members: Arc::new(members),
        })
    }

    /// Roughly how much memory it takes, at least so much that few enough files are open.
    pub(super) fn weight_bytes(&self) -> u32 {
        let bytes: usize = self.members.keys().map(|key| key.len() + 300).sum();
        u32::try_from(bytes)
            .unwrap_or(u32::MAX)
            .max(WEIGHT_BYTES_MIN)
    }

    /// The bytes of the file at an absolute path in canonical form, or `None` when it has none.
    pub(super) fn read(
        &self,
        path: &str,
        limits: &SourceLimits,
    ) -> Result<Option<Bytes>, SourcesError> {
        let key = path.strip_prefix('/').unwrap_or(path);
        let Some(at) = self.members.get(key) else {
            return Ok(None);
        };
        let failed = |detail| SourcesError::Member {
            key: key.to_owned(),
            detail,
        };
        let mut archive = self.archive.clone();
        let member = archive.by_index(*at).map_err(not_zip)?;
        let mut bytes = Vec::new();
        member
            .take(limits.file_bytes_max)
            .read_to_end(&mut bytes)
            .map_err(|error| failed(error.to_string()))?;
        Ok(Some(bytes.into()))
    }
}

impl std::fmt::Debug for Bundle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bundle({} members)", self.members.len())
    }
}

/// A file that many readers share, each with its own position.
#[derive(Clone)]
struct SharedFile {
    file: Arc<File>,
    position: u64,
}

impl Read for SharedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.position)?;
        self.position += u64::try_from(read).unwrap_or_default();
        Ok(read)
    }
}

impl Seek for SharedFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.file.metadata()?.len().checked_add_signed(by),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use zip::write::SimpleFileOptions;

    use super::*;

    const LIMITS: SourceLimits = SourceLimits {
        files_max: 100,
        file_bytes_max: 1 << 20,
        bytes_max: 1 << 20,
    };

    fn bundle(members: &[(&str, &[u8])]) -> File {
        let mut zip = zip::ZipWriter::new(tempfile::tempfile().unwrap());
        for (key, bytes) in members {
            zip.start_file(*key, SimpleFileOptions::default()).unwrap();
            zip.write_all(bytes).unwrap();
        }
        zip.finish().unwrap()
    }

    #[test]
    fn members_are_found_by_their_absolute_path() {
        let limits = LIMITS;
        let file = bundle(&[("src/a b+ü.c", b"int x;"), ("src/empty.c", b"")]);
        assert_eq!(check_bundle(file.try_clone().unwrap(), &limits).unwrap(), 2);
        let bundle = Bundle::open(file).unwrap();
        assert_eq!(
            bundle.read("/src/a b+ü.c", &limits).unwrap().unwrap(),
            "int x;"
        );
        assert_eq!(bundle.read("/src/empty.c", &limits).unwrap().unwrap(), "");
        assert_eq!(bundle.read("/src/a", &limits).unwrap(), None);
    }

    #[test]
    fn bombs_and_keys_that_no_lookup_finds_are_refused() {
        let limits = SourceLimits {
            files_max: 3,
            file_bytes_max: 1000,
            bytes_max: 1500,
        };
        let refused = |members: &[(&str, &[u8])]| {
            check_bundle(bundle(members), &limits)
                .unwrap_err()
                .to_string()
        };
        let large = [0; 1001];
        assert!(refused(&[("a", &large)]).contains("limit of 1000"));
        let (half, more) = ([0; 900], [0; 700]);
        assert!(refused(&[("a", &half), ("b", &more)]).contains("limit of 1500"));
        let many: [(&str, &[u8]); 4] = [("a", b""), ("b", b""), ("c", b""), ("d", b"")];
        assert!(refused(&many).contains("limit of 3"));
        for key in ["/abs.c", "a/../b.c", "a//b.c", "./a.c"] {
            assert!(
                refused(&[(key, b"x")]).contains("canonical absolute"),
                "{key}"
            );
        }
        assert!(refused(&[]).contains("no files"));
    }

    #[test]
    fn members_that_the_end_does_not_count_are_not_left_out_in_silence() {
        let mut bytes = Vec::new();
        let mut file = bundle(&[("a.c", b"a"), ("b.c", b"b")]);
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        let end = bytes.windows(4).rposition(|w| w == b"PK\x05\x06").unwrap();
        bytes[end + 8] = 1;
        bytes[end + 10] = 1;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let refused = check_bundle(file, &LIMITS).unwrap_err().to_string();
        assert!(refused.contains("more members than the 1"), "{refused}");
    }

    #[test]
    fn two_members_with_the_same_key_and_an_empty_key_are_refused() {
        let renamed = |from: &[u8], to: &[u8]| {
            let file = bundle(&[("first.c", b"1"), ("other.c", b"2")]);
            let mut bytes = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
            file.read_exact_at(&mut bytes, 0).unwrap();
            for at in 0..bytes.len() - from.len() {
                if bytes[at..].starts_with(from) {
                    bytes[at..at + to.len()].copy_from_slice(to);
                }
            }
            let copy = tempfile::tempfile().unwrap();
            (&copy).write_all(&bytes).unwrap();
            check_bundle(copy, &LIMITS)
        };
        assert_eq!(renamed(b"other.c", b"third.c").unwrap(), 2);
        let refused = renamed(b"other.c", b"first.c").unwrap_err().to_string();
        assert!(refused.contains("the same key"), "{refused}");
        let refused = check_bundle(bundle(&[("", b"x")]), &LIMITS).unwrap_err();
        assert!(refused.to_string().contains("is empty"), "{refused}");
    }

    #[test]
    fn a_truncated_archive_is_refused() {
        let file = bundle(&[("a.c", &[7; 500])]);
        let length = file.metadata().unwrap().len();
        for cut in 0..length {
            let copy = tempfile::tempfile().unwrap();
            let mut bytes = vec![0; usize::try_from(cut).unwrap()];
            file.read_exact_at(&mut bytes, 0).unwrap();
            (&copy).write_all(&bytes).unwrap();
            assert!(check_bundle(copy, &LIMITS).is_err(), "{cut}");
        }
    }
}
