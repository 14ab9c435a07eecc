//! The files in an archive, one after another and bounded: `.deb`, `.rpm`, `.tar` and `.zip`.
//!
//! Everything streams: a member that is an ELF file goes into a temporary file, all others are
//! passed over. Names of members are for people only. What is unpacked is counted, so that a few
//! kilobytes cannot become a full disk or an endless wait.

mod ar;
mod bounded;
mod cpio;
mod decoder;
mod member;
mod rpm;
mod tar;
mod unpacker;
mod zip;

use std::fs::File;
use std::io::{self, BufReader, Seek as _};
use std::ops::ControlFlow;
use std::path::Path;

use bounded::Budget;
pub(crate) use member::Member;
use unpacker::{Level, Unpacker};

/// Bounds on what is unpacked.
#[derive(Clone, Debug)]
pub(crate) struct ArchiveLimits {
    /// Largest binary in an archive: the server takes none that is larger by default.
    pub(crate) member_bytes_max: u64,
    /// What any archive may unpack to: enough for the debug packages of kernels and browsers.
    pub(crate) unpacked_bytes_min: u64,
    /// Times its own size that an archive may unpack to, if that is more: real ones reach 20.
    pub(crate) expansion_max: u64,
    /// Files in one archive: a distribution's largest packages have about 100,000.
    pub(crate) members_max: u64,
    /// Memory of one xz decoder: `xz -9` takes 65 MiB.
    pub(crate) xz_memory_bytes_max: u64,
}

impl Default for ArchiveLimits {
    fn default() -> Self {
        Self {
            member_bytes_max: 8 << 30,
            unpacked_bytes_min: 16 << 30,
            expansion_max: 100,
            members_max: 1_000_000,
            xz_memory_bytes_max: 512 << 20,
        }
    }
}

/// An archive format that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// A Debian package.
    Deb,
    /// A Red Hat package.
    Rpm,
    /// A tar archive, compressed or not.
    Tar,
    /// A zip archive.
    Zip,
}

/// Endings of file names, and what they stand for.
const ENDINGS: &[(&str, Format)] = &[
    (".deb", Format::Deb),
    (".ddeb", Format::Deb),
    (".udeb", Format::Deb),
    (".rpm", Format::Rpm),
    (".tar", Format::Tar),
    (".tar.gz", Format::Tar),
    (".tgz", Format::Tar),
    (".tar.xz", Format::Tar),
    (".txz", Format::Tar),
    (".tar.zst", Format::Tar),
    (".tar.bz2", Format::Tar),
    (".tbz2", Format::Tar),
    (".tzst", Format::Tar),
    (".zip", Format::Zip),
];

/// Why an archive could not be read to its end. What came before is good all the same.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ArchiveError {
    /// It cannot be read, or its compression is damaged.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// It is not built as its format says.
    #[error("a damaged {format}: {detail}")]
    Damaged {
        /// The format, for people.
        format: &'static str,
        /// What was found, and where.
        detail: String,
    },
    /// It is sound, but of a kind that is not supported.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// It has more members than the limit.
    #[error("more than {0} files")]
    TooMany(u64),
    /// It has archives in archives in archives.
    #[error("archives in archives, more than {0} deep")]
    TooDeep(u8),
    /// One of its binaries is larger than the limit.
    #[error("{name} is larger than the limit of {bytes_max} bytes")]
    MemberTooLarge {
        /// The member.
        name: String,
        /// The limit.
        bytes_max: u64,
    },
}

/// What it is that something cannot be read whole: `damaged` if it ends, else what failed.
fn error_at_end(error: io::Error, damaged: ArchiveError) -> ArchiveError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged,
        _ => error.into(),
    }
}

impl Format {
    /// The format that the ending of a file name promises.
    pub(crate) fn of_name(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        ENDINGS
            .iter()
            .find(|(ending, _)| name.ends_with(ending))
            .map(|(_, format)| *format)
    }

    /// The ending of a file name that promises a format.
    pub(crate) fn ending_of(path: &Path) -> Option<&'static str> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let known = ENDINGS.iter().find(|(ending, _)| name.ends_with(ending));
        known.map(|(ending, _)| *ending)
    }

    /// The format that the first 512 bytes show. Compressed ones do not show what is in them.
    pub(crate) fn of_head(head: &[u8]) -> Option<Self> {
        if head.starts_with(b"!<arch>\ndebian-binary") {
            Some(Self::Deb)
        } else if head.starts_with(&[0xed, 0xab, 0xee, 0xdb]) {
            Some(Self::Rpm)
        } else if head.starts_with(b"PK\x03\x04") {
            Some(Self::Zip)
        } else if head.get(257..262) == Some(b"ustar") {
            Some(Self::Tar)
        } else {
            None
        }
    }
}

/// Told of each regular file of an archive; may end the unpacking.
pub(crate) type EachMember<'a> =
    dyn FnMut(&mut Member<'_>) -> Result<ControlFlow<()>, ArchiveError> + 'a;

/// Tells `each` of the regular files in an archive, in its order, and of those in archives in it:
/// a container image is a tar of tars.
///
/// # Errors
/// If an archive is damaged, not supported or exceeds a limit, and those of `each`.
pub(crate) fn unpack(
    mut file: File,
    format: Format,
    limits: &ArchiveLimits,
    each: &mut EachMember<'_>,
) -> Result<ControlFlow<()>, ArchiveError> {
    file.rewind()?;
    let archive_bytes = file.metadata()?.len();
    let bytes_max = archive_bytes
        .saturating_mul(limits.expansion_max)
        .max(limits.unpacked_bytes_min);
    let mut unpacker = Unpacker {
        limits,
        budget: Budget::new(bytes_max),
        members: 0,
        each,
    };
    let level = Level::default();
    if format == Format::Zip {
        let budget = unpacker.budget.clone();
        zip::unpack(file, &budget, &mut |raw| unpacker.member(raw, &level))
    } else {
        let raw = BufReader::with_capacity(256 << 10, file);
        unpacker.stream(raw, format, &level)
    }
}
