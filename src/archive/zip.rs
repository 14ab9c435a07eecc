//! The regular files of a zip archive.

use std::fs::File;
use std::io::BufReader;
use std::ops::ControlFlow;

use super::ArchiveError;
use super::bounded::{Bounded, Budget};
use super::member::RawMember;
use super::unpacker::EachRaw;

/// # Errors
/// If the archive is damaged or unpacks to more than `budget`, and those of `each`.
pub(super) fn unpack(
    file: File,
    budget: &Budget,
    each: &mut EachRaw<'_>,
) -> Result<ControlFlow<()>, ArchiveError> {
    let mut archive = ::zip::ZipArchive::new(BufReader::new(file)).map_err(damaged)?;
    for index in 0..archive.len() {
        let entry = archive.by_index(index).map_err(damaged)?;
        if !entry.is_file() {
            continue;
        }
        let name = String::from_utf8_lossy(entry.name_raw()).into_owned();
        let member = RawMember {
            name,
            modified: 0,
            reader: &mut Bounded::new(entry, budget.clone()),
        };
        if each(member)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn damaged(error: ::zip::result::ZipError) -> ArchiveError {
    match error {
        ::zip::result::ZipError::Io(error) if error.raw_os_error().is_some() => error.into(),
        error => ArchiveError::Damaged {
            format: "zip archive",
            detail: error.to_string(),
        },
    }
}
