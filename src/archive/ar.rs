//! The outer container of a `.deb`: `ar` with 60-byte headers, see deb(5).

use std::io::{self, BufRead, Read as _};

use super::{ArchiveError, error_at_end};

const HEADER_BYTES: usize = 60;

/// Members before the data in a package; deb(5) has two.
const MEMBERS_MAX: usize = 16;

/// The member `data.tar*`, still compressed.
///
/// # Errors
/// If there is none, or the container is damaged.
pub(super) fn data_member<R: BufRead>(mut reader: R) -> Result<io::Take<R>, ArchiveError> {
    let mut magic = [0; 8];
    reader
        .read_exact(&mut magic)
        .map_err(|error| error_at_end(error, damaged("it ends within its mark")))?;
    if &magic != b"!<arch>\n" {
        return Err(damaged("it does not start with \"!<arch>\""));
    }
    for _ in 0..MEMBERS_MAX {
        let mut header = [0; HEADER_BYTES];
        reader
            .read_exact(&mut header)
            .map_err(|error| error_at_end(error, damaged("there is no data.tar in it")))?;
        let member = Header::parse(&header)?;
        if member.name.starts_with("data.tar") {
            return Ok(reader.take(member.size_bytes));
        }
        let padded = member.size_bytes.saturating_add(member.size_bytes % 2);
        let skipped = io::copy(&mut (&mut reader).take(padded), &mut io::sink())?;
        if skipped < member.size_bytes {
            return Err(damaged("it ends within a member"));
        }
    }
    Err(damaged("there is no data.tar among its first members"))
}

struct Header {
    name: String,
    size_bytes: u64,
}

impl Header {
    fn parse(bytes: &[u8; HEADER_BYTES]) -> Result<Self, ArchiveError> {
        let field = |range: std::ops::Range<usize>| {
            let bytes = bytes.get(range).unwrap_or_default();
            String::from_utf8_lossy(bytes).trim_end().to_owned()
        };
        if bytes.get(58..60) != Some(b"`\n") {
            return Err(damaged("a member header without its end mark"));
        }
        let size = field(48..58);
        Ok(Self {
            name: field(0..16).trim_end_matches('/').to_owned(),
            size_bytes: size
                .parse()
                .map_err(|_not_a_number| damaged(&format!("the member size {size:?}")))?,
        })
    }
}

fn damaged(detail: &str) -> ArchiveError {
    ArchiveError::Damaged {
        format: "Debian package",
        detail: detail.to_owned(),
    }
}
