//! The regular files of a zip archive.

use std::fs::File;
use std::io::BufReader;

use super::bounded::{Bounded, too_large};
use super::{ArchiveError, EachMember, Member};

/// # Errors
/// If the archive is damaged or unpacks to more than `bytes_max`, and those of `each`.
pub(super) fn unpack(
    file: File,
    bytes_max: u64,
    each: &mut EachMember<'_>,
) -> Result<(), ArchiveError> {
    let mut archive = ::zip::ZipArchive::new(BufReader::new(file)).map_err(damaged)?;
    let mut left = bytes_max;
    for index in 0..archive.len() {
        let entry = archive.by_index(index).map_err(damaged)?;
        if !entry.is_file() {
            continue;
        }
        let name = String::from_utf8_lossy(entry.name_raw()).into_owned();
        let mut reader = Bounded::new(entry, left);
        let mut member = Member {
            name,
            reader: &mut reader,
        };
        let flow = each(&mut member)?;
        left = reader.left();
        if left == 0 {
            return Err(too_large(bytes_max).into());
        }
        if flow.is_break() {
            return Ok(());
        }
    }
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "the signature of map_err")]
fn damaged(error: ::zip::result::ZipError) -> ArchiveError {
    ArchiveError::Damaged {
        format: "zip archive",
        detail: error.to_string(),
    }
}
