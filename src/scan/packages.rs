//! Packages and other archives: which ELF files and sources are in one, and getting one of them out.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;
use unhex_symbols::elf::ElfSummary;

use super::entry::{Archived, Member, Traits, member_path, path_hash};
use super::headers::Headers;
use crate::archive::{self, ArchiveError, ArchiveLimits, Format};
use crate::config::{ScanConfig, ScanKind};

/// Members up to this length are looked at in memory, larger ones in a nameless file: most are
/// smaller, and each thread has one at a time.
const IN_MEMORY_BYTES_MAX: u64 = 4 << 20;

/// Bytes that tell what an archive is: tar has its mark at 257.
const HEAD_BYTES: usize = 512;

/// Bounds on archives, and where their members go meanwhile.
#[derive(Clone, Debug)]
pub(super) struct PackageLimits {
    pub(super) archive: ArchiveLimits,
    /// A folder on this server's own disk.
    pub(super) staging: PathBuf,
    /// Ends what is going on.
    pub(super) stopping: CancellationToken,
}

impl PackageLimits {
    fn check_stop(&self) -> io::Result<()> {
        if self.stopping.is_cancelled() {
            // As an error of the system, which says nothing of the archive.
            return Err(io::Error::from(rustix::io::Errno::INTR));
        }
        Ok(())
    }
}

/// The format of an archive that is to be looked into, by its name.
pub(super) fn format_of(path: &Path, config: &ScanConfig) -> Option<Format> {
    let format = Format::of_name(path);
    let kind = match format {
        Some(Format::Deb) => Some(ScanKind::Deb),
        Some(Format::Rpm) => Some(ScanKind::Rpm),
        Some(Format::Tar) => Some(ScanKind::Tar),
        Some(Format::Zip) | None => None,
    };
    if kind.is_some_and(|kind| config.kinds.contains(&kind)) {
        return format;
    }
    let name = path.file_name()?.to_string_lossy();
    let is_asked_for = config
        .archives
        .iter()
        .any(|ending| name.ends_with(ending.as_str()));
    is_asked_for.then_some(format.unwrap_or(Format::Tar))
}

/// What an archive has to serve.
///
/// # Errors
/// If it is damaged, not supported, exceeds a limit or cannot be read.
pub(super) fn contents(
    file: &File,
    format: Format,
    limits: &PackageLimits,
) -> Result<Archived, ArchiveError> {
    let (mut members, mut sources) = (Vec::new(), Vec::new());
    let format = told_format(file, format)?;
    let whole = archive::unpack(file.try_clone()?, format, &limits.archive, &mut |member| {
        limits.check_stop()?;
        if member.is_elf() {
            let (name, modified) = (member.label.as_str().into(), member.modified);
            let (traits, size_bytes) = look_at(&mut member.content(), limits)?;
            members.extend(traits.map(|traits| Member {
                name,
                size_bytes,
                modified,
                traits,
            }));
        } else {
            sources.push(path_hash(member_path(&member.label).as_bytes()));
        }
        Ok(ControlFlow::Continue(()))
    });
    // Nothing ended it before its end.
    let _to_its_end = whole?;
    sources.sort_unstable();
    sources.dedup();
    Ok(Archived {
        members: members.into(),
        sources: sources.into(),
    })
}

/// The format that the first bytes show, if they show one.
fn told_format(file: &File, format: Format) -> io::Result<Format> {
    let mut head = [0; HEAD_BYTES];
    let length = file.read_at(&mut head, 0)?;
    Ok(Format::of_head(head.get(..length).unwrap_or_default()).unwrap_or(format))
}

/// What a member is, and how long.
fn look_at(
    content: &mut dyn Read,
    limits: &PackageLimits,
) -> Result<(Option<Traits>, u64), ArchiveError> {
    let mut start = Vec::new();
    let start_bytes = content.take(IN_MEMORY_BYTES_MAX).read_to_end(&mut start)?;
    let size_bytes = u64::try_from(start_bytes).unwrap_or(u64::MAX);
    // One that is damaged is passed over, as if it were a file of its own.
    if size_bytes < IN_MEMORY_BYTES_MAX {
        let summary = ElfSummary::read_with(&start, |_text| None);
        return Ok((summary.ok().and_then(Traits::of), size_bytes));
    }
    let mut file = tempfile::tempfile_in(&limits.staging)?;
    file.write_all(&start)?;
    drop(start);
    let bytes_max = limits.archive.member_bytes_max;
    let rest = io::copy(&mut content.take(bytes_max), &mut file)?;
    let size_bytes = size_bytes.saturating_add(rest);
    if size_bytes > bytes_max {
        // Whatever it is, it could not be served.
        return Ok((None, size_bytes));
    }
    let headers = Headers::read(&file, size_bytes)?;
    let summary = headers.and_then(|headers| headers.summary().ok());
    Ok((summary.and_then(Traits::of), size_bytes))
}

/// Writes the member of a name to `to`, the first one of several. Answers whether there is one.
///
/// # Errors
/// If the archive is damaged before its end, exceeds a limit or cannot be read, or `to` cannot be
/// written.
pub(super) fn extract(
    file: &File,
    format: Format,
    limits: &PackageLimits,
    (is_wanted, to): (&dyn Fn(&str) -> bool, &mut File),
) -> Result<bool, ArchiveError> {
    let format = told_format(file, format)?;
    let unpacked = archive::unpack(file.try_clone()?, format, &limits.archive, &mut |member| {
        limits.check_stop()?;
        if !is_wanted(&member.label) {
            return Ok(ControlFlow::Continue(()));
        }
        let bytes_max = limits.archive.member_bytes_max;
        let label = member.label.clone();
        let content = member.content();
        let written = io::copy(&mut content.take(bytes_max.saturating_add(1)), to)?;
        if written > bytes_max {
            return Err(ArchiveError::MemberTooLarge {
                name: label,
                bytes_max,
            });
        }
        Ok(ControlFlow::Break(()))
    });
    Ok(unpacked?.is_break())
}
