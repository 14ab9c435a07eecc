//! The headers of an `.rpm` before its payload: lead, signature, header (rpm's "Package format V4").

use std::io::{self, BufRead, Read as _};

use super::{ArchiveError, error_at_end};

const LEAD_BYTES: u64 = 96;

/// Largest header: those of packages with 100,000 files have about 30 MB.
const HEADER_BYTES_MAX: u64 = 256 << 20;

/// Reads up to where the compressed payload starts.
///
/// # Errors
/// If a header is damaged.
pub(super) fn skip_to_payload(reader: &mut impl BufRead) -> Result<(), ArchiveError> {
    skip(reader, LEAD_BYTES)?;
    let signature_bytes = skip_header(reader)?;
    skip(
        reader,
        signature_bytes.next_multiple_of(8) - signature_bytes,
    )?;
    skip_header(reader)?;
    Ok(())
}

/// Skips one header structure and returns its length.
fn skip_header(reader: &mut impl BufRead) -> Result<u64, ArchiveError> {
    let mut intro = [0; 16];
    reader
        .read_exact(&mut intro)
        .map_err(|error| error_at_end(error, damaged("it ends within a header")))?;
    let [
        0x8e,
        0xad,
        0xe8,
        1,
        _,
        _,
        _,
        _,
        n0,
        n1,
        n2,
        n3,
        s0,
        s1,
        s2,
        s3,
    ] = intro
    else {
        return Err(damaged("a header without its mark"));
    };
    let entries = u64::from(u32::from_be_bytes([n0, n1, n2, n3]));
    let store_bytes = u64::from(u32::from_be_bytes([s0, s1, s2, s3]));
    let rest = entries * 16 + store_bytes;
    if rest > HEADER_BYTES_MAX {
        return Err(damaged("a header of more than 256 MiB"));
    }
    skip(reader, rest)?;
    Ok(rest + 16)
}

fn skip(reader: &mut impl BufRead, bytes: u64) -> Result<(), ArchiveError> {
    let skipped = io::copy(&mut reader.take(bytes), &mut io::sink())?;
    if skipped < bytes {
        return Err(damaged("it ends within its headers"));
    }
    Ok(())
}

fn damaged(detail: &str) -> ArchiveError {
    ArchiveError::Damaged {
        format: "RPM package",
        detail: detail.to_owned(),
    }
}
