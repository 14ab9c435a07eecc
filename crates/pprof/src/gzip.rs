//! gzip, bounded: a few kilobytes may unpack to gigabytes.

use std::borrow::Cow;
use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use crate::error::DecodeError;
use crate::limits::{Limits, within};

/// What a gzip stream starts with, RFC 1952 §2.3.1.
const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The message in `bytes`, unpacked if they are gzip, which no protobuf of ours starts like.
///
/// # Errors
/// If the stream is damaged, or the message longer than the limit; no more than that is unpacked.
pub fn unpacked<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Cow<'a, [u8]>, DecodeError> {
    if !bytes.starts_with(&MAGIC) {
        limits.message(bytes.len())?;
        return Ok(Cow::Borrowed(bytes));
    }
    let max = limits.message_bytes;
    let mut unpacked = Vec::new();
    let take = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
    let read = MultiGzDecoder::new(bytes)
        .take(take)
        .read_to_end(&mut unpacked);
    within("bytes of a message, unpacked", unpacked.len(), max)?;
    read.map_err(|error| DecodeError::Gzip {
        detail: error.to_string(),
    })?;
    Ok(Cow::Owned(unpacked))
}

/// `bytes` as gzip, as pprof files are kept. The same bytes always give the same: there is no time in it.
pub fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // A Vec takes everything.
    let _infallible = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked() {
        let limits = Limits::default();
        assert_eq!(unpacked(&packed(b"abc"), &limits).unwrap(), &b"abc"[..]);
        assert_eq!(unpacked(b"abc", &limits).unwrap(), &b"abc"[..]);
        let two = [packed(b"ab"), packed(b"c")].concat();
        assert_eq!(unpacked(&two, &limits).unwrap(), &b"abc"[..]);
    }

    #[test]
    fn a_bomb_is_not_unpacked_beyond_the_limit() {
        let bomb = packed(&vec![0; 10 << 20]);
        assert!(bomb.len() < 20_000, "{}", bomb.len());
        let limits = Limits {
            message_bytes: 1 << 20,
            ..Limits::default()
        };
        let what = "bytes of a message, unpacked";
        assert_eq!(
            unpacked(&bomb, &limits),
            Err(DecodeError::TooLarge { what, max: 1 << 20 })
        );
    }

    #[test]
    fn a_stream_that_is_cut_anywhere_is_an_error() {
        let whole = packed(b"some text that is long enough to be a stream");
        for end in MAGIC.len()..whole.len() {
            let cut = unpacked(&whole[..end], &Limits::default());
            assert!(
                matches!(cut, Err(DecodeError::Gzip { .. })),
                "{end}: {cut:?}"
            );
        }
    }
}
