//! The regular files of a cpio stream in the "new ASCII" format, which is the payload of an `.rpm`.

use std::io::{self, Read};
use std::ops::ControlFlow;

use super::ArchiveError;
use super::member::RawMember;
use super::unpacker::EachRaw;

const HEADER_BYTES: usize = 110;

/// Longest name: Linux has no longer path.
const NAME_BYTES_MAX: u64 = 4_096;

/// The bits of `c_mode` that tell the kind, and their value for a regular file.
const MODE_KIND: u64 = 0o170_000;
const MODE_REGULAR: u64 = 0o100_000;

/// # Errors
/// If the archive is damaged or of another cpio format, and those of `each`.
pub(super) fn unpack(
    mut reader: impl Read,
    each: &mut EachRaw<'_>,
) -> Result<ControlFlow<()>, ArchiveError> {
    loop {
        let mut header = [0; HEADER_BYTES];
        reader.read_exact(&mut header)?;
        if header.starts_with(b"07070X") {
            let what = "an RPM package with files of more than 4 GB";
            return Err(ArchiveError::Unsupported(what.to_owned()));
        }
        if !header.starts_with(b"070701") && !header.starts_with(b"070702") {
            return Err(damaged("a file header without its mark"));
        }
        let mode = field(&header, 1)?;
        let modified = field(&header, 5)?;
        let size_bytes = field(&header, 6)?;
        let name_bytes = field(&header, 11)?;
        if name_bytes > NAME_BYTES_MAX {
            return Err(damaged("a file name of more than 4,096 bytes"));
        }
        let mut name = Vec::new();
        reader.by_ref().take(name_bytes).read_to_end(&mut name)?;
        let name = name.strip_suffix(&[0]).unwrap_or(&name);
        skip(&mut reader, padding(110 + name_bytes))?;
        if name == b"TRAILER!!!" {
            return Ok(ControlFlow::Continue(()));
        }
        let mut content = reader.by_ref().take(size_bytes);
        if mode & MODE_KIND == MODE_REGULAR && size_bytes > 0 {
            let name = String::from_utf8_lossy(name).into_owned();
            let member = RawMember {
                name,
                modified,
                reader: &mut content,
            };
            if each(member)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        let left = content.limit();
        skip(&mut reader, left.saturating_add(padding(size_bytes)))?;
    }
}

/// The hex field of 8 digits at `index`, after the magic of 6.
fn field(header: &[u8; HEADER_BYTES], index: usize) -> Result<u64, ArchiveError> {
    let start = 6 + index * 8;
    let digits = header.get(start..start + 8).unwrap_or_default();
    std::str::from_utf8(digits)
        .ok()
        .and_then(|digits| u64::from_str_radix(digits, 16).ok())
        .ok_or_else(|| damaged("a file header with something else than hex digits"))
}

fn padding(bytes: u64) -> u64 {
    bytes.wrapping_neg() % 4
}

fn skip(reader: &mut impl Read, bytes: u64) -> Result<(), ArchiveError> {
    let skipped = io::copy(&mut reader.take(bytes), &mut io::sink())?;
    if skipped < bytes {
        return Err(damaged("it ends within a file"));
    }
    Ok(())
}

fn damaged(detail: &str) -> ArchiveError {
    ArchiveError::Damaged {
        format: "RPM package",
        detail: detail.to_owned(),
    }
}
