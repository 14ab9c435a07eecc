//! The bytes behind gzip, xz, zstd or bzip2, told by the first bytes; anything else is taken as it is.

use std::io::{self, BufRead, Read};

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};

use super::ArchiveError;

/// `.xz`, or the older `.lzma` or bzip2 in old packages, or gzip, zstd or none.
///
/// # Errors
/// If the decoder cannot be set up.
pub(super) fn decode<'a>(
    mut reader: impl BufRead + 'a,
    xz_memory_bytes_max: u64,
) -> Result<Box<dyn Read + 'a>, ArchiveError> {
    let head = reader.fill_buf()?;
    Ok(match head {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(reader)),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            let stream = Stream::new_stream_decoder(xz_memory_bytes_max, CONCATENATED);
            Box::new(XzDecoder::new_stream(
                reader,
                stream.map_err(io::Error::from)?,
            ))
        }
        [0x5d, 0, 0, ..] => {
            let stream = Stream::new_lzma_decoder(xz_memory_bytes_max);
            Box::new(XzDecoder::new_stream(
                reader,
                stream.map_err(io::Error::from)?,
            ))
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(zstd::Decoder::with_buffer(reader)?),
        [b'B', b'Z', b'h', ..] => Box::new(MultiBzDecoder::new(reader)),
        _ => Box::new(reader),
    })
}

/// Whether a file starts like one that [`decode`] decompresses.
pub(super) fn is_compressed(head: &[u8]) -> bool {
    let magics: [&[u8]; 4] = [b"\x1f\x8b", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"BZh"];
    magics.iter().any(|magic| head.starts_with(magic))
}
