//! The symbol table that Fedora and its kin pack into stripped programs: `.gnu_debugdata`, an ELF
//! file compressed by xz, with the functions that `.dynsym` lacks.

use liblzma::stream::{Action, Status, Stream};

use super::{ConvertError, ConvertLimits};
use crate::elf::ElfFile;

/// Bytes of the unpacked file: that of Fedora's Chromium has some 30 MB.
const UNPACKED_BYTES_MAX: u64 = 1 << 30;

/// Memory of the decoder: xz at its best needs 65 MB.
const DECODER_BYTES_MAX: u64 = 128 << 20;

/// Bytes that are made room for at once.
const STEP_BYTES: usize = 1 << 20;

/// The ELF file within a file; `None` when there is none, or it is damaged or too large: the rest
/// of the file stays as good as it is.
///
/// # Errors
/// If memory is refused: with more of it, the same file would give more functions.
pub(super) fn unpack(
    file: &ElfFile<'_>,
    limits: &ConvertLimits<'_>,
) -> Result<Option<Vec<u8>>, ConvertError> {
    let Some(section) = file.section(".gnu_debugdata") else {
        return Ok(None);
    };
    let max = UNPACKED_BYTES_MAX.min(limits.section_bytes_max);
    match decode(file.bytes_of(section), max) {
        Ok(unpacked) => Ok(Some(unpacked)),
        Err(Unusable::Damaged) => Ok(None),
        Err(Unusable::OutOfMemory(bytes)) => Err(ConvertError::OutOfMemory {
            what: "section .gnu_debugdata".to_owned(),
            bytes: bytes as u64,
        }),
    }
}

/// Why nothing was unpacked.
enum Unusable {
    /// It is damaged or too large.
    Damaged,
    /// So many bytes were refused.
    OutOfMemory(usize),
}

impl From<liblzma::stream::Error> for Unusable {
    fn from(error: liblzma::stream::Error) -> Self {
        match error {
            liblzma::stream::Error::Mem => Self::OutOfMemory(STEP_BYTES),
            _ => Self::Damaged,
        }
    }
}

fn decode(mut packed: &[u8], max: u64) -> Result<Vec<u8>, Unusable> {
    let mut decoder = Stream::new_stream_decoder(DECODER_BYTES_MAX, 0)?;
    let mut out = Vec::new();
    loop {
        let before = (decoder.total_in(), decoder.total_out());
        if out.try_reserve(STEP_BYTES).is_err() {
            return Err(Unusable::OutOfMemory(out.len().saturating_add(STEP_BYTES)));
        }
        let status = decoder.process_vec(packed, &mut out, Action::Run)?;
        let (read, written) = (
            decoder.total_in() - before.0,
            decoder.total_out() - before.1,
        );
        let rest = usize::try_from(read)
            .ok()
            .and_then(|read| packed.get(read..));
        packed = rest.ok_or(Unusable::Damaged)?;
        if decoder.total_out() > max {
            return Err(Unusable::Damaged);
        }
        if status == Status::StreamEnd {
            return Ok(out);
        }
        if read == 0 && written == 0 {
            return Err(Unusable::Damaged);
        }
    }
}
