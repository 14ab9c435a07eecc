//! Which symbols answered: a name for everything that the frames of a binary's addresses depend on.
//!
//! Whoever remembers names by it sees a better debug file, a newer converter, or the executable that places addresses
//! at the next look, and nothing else changes it: it is made of contents, so that all replicas say the same.

use sha2::{Digest as _, Sha256};
use unhex_build_id::Hex;
use unhex_symbols::segments::LoadSegment;

use super::binaries::OpenBinary;

/// 64 bits are enough, since only those of one binary are compared.
const GENERATION_BYTES: usize = 8;

impl OpenBinary {
    /// The generation, in hex.
    pub(super) fn generation(&self) -> String {
        let facts = &self.open.facts;
        let mut hash = Sha256::new();
        hash.update(self.key);
        hash.update(facts.converter_version.to_le_bytes());
        let segments = self.segments.as_deref().or(facts.segments.as_ref());
        for segment in segments.map_or(&[][..], |segments| &segments.0) {
            let LoadSegment {
                address,
                file_offset,
                file_size_bytes,
                memory_size_bytes,
                align,
                executable,
            } = *segment;
            for number in [
                address,
                file_offset,
                file_size_bytes,
                memory_size_bytes,
                align,
            ] {
                hash.update(number.to_le_bytes());
            }
            hash.update([u8::from(executable)]);
        }
        let digest = hash.finalize();
        Hex(digest.get(..GENERATION_BYTES).unwrap_or_default()).to_string()
    }
}
