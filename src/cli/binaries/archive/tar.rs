//! The regular files of a tar stream.

use std::io::Read;

use super::{ArchiveError, EachMember, Member};

/// # Errors
/// If the archive is damaged, and those of `each`.
pub(super) fn unpack(reader: impl Read, each: &mut EachMember<'_>) -> Result<(), ArchiveError> {
    let mut archive = tar::Archive::new(reader);
    for entry in archive.entries()? {
        let mut entry = entry?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let mut member = Member {
            name,
            reader: &mut entry,
        };
        if each(&mut member)?.is_break() {
            return Ok(());
        }
    }
    Ok(())
}
