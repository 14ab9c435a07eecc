//! The regular files of a tar stream.

use std::io::Read;
use std::ops::ControlFlow;

use super::ArchiveError;
use super::member::RawMember;
use super::unpacker::EachRaw;

/// # Errors
/// If the archive is damaged, and those of `each`.
pub(super) fn unpack(
    reader: impl Read,
    each: &mut EachRaw<'_>,
) -> Result<ControlFlow<()>, ArchiveError> {
    let mut archive = tar::Archive::new(reader);
    for entry in archive.entries()? {
        let mut entry = entry?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let member = RawMember {
            name,
            modified: entry.header().mtime().unwrap_or_default(),
            reader: &mut entry,
        };
        if each(member)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}
