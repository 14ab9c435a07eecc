//! The symbol table that Fedora and its kin pack into stripped programs: `.gnu_debugdata`, an ELF
//! file compressed by xz, with the functions that `.dynsym` lacks.

use liblzma::stream::{Action, Status, Stream};

use super::ConvertLimits;
use crate::elf::ElfFile;

/// Bytes of the unpacked file: that of Fedora's Chromium has some 30 MB.
const UNPACKED_BYTES_MAX: u64 = 1 << 30;

/// Memory of the decoder: xz at its best needs 65 MB.
const DECODER_BYTES_MAX: u64 = 128 << 20;

/// Bytes that are made room for at once.
const STEP_BYTES: usize = 1 << 20;

/// The ELF file within a file; `None` when there is none, or it is damaged or too large: the rest
/// of the file stays as good as it is.
pub(super) fn unpack(file: &ElfFile<'_>, limits: &ConvertLimits<'_>) -> Option<Vec<u8>> {
    let mut packed = file.bytes_of(file.section(".gnu_debugdata")?);
    let max = UNPACKED_BYTES_MAX.min(limits.section_bytes_max);
    let mut decoder = Stream::new_stream_decoder(DECODER_BYTES_MAX, 0).ok()?;
    let mut out = Vec::new();
    loop {
        let before = (decoder.total_in(), decoder.total_out());
        out.try_reserve(STEP_BYTES).ok()?;
        let status = decoder.process_vec(packed, &mut out, Action::Run).ok()?;
        let (read, written) = (
            decoder.total_in() - before.0,
            decoder.total_out() - before.1,
        );
        packed = packed.get(usize::try_from(read).ok()?..)?;
        if decoder.total_out() > max {
            return None;
        }
        if status == Status::StreamEnd {
            return Some(out);
        }
        if read == 0 && written == 0 {
            return None;
        }
    }
}
