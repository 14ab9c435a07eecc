//! The OpenTelemetry file hash (`htlhash`: head, tail, length), for binaries without a build ID.
//!
//! It is the first 16 bytes of the SHA-256 of the first 4096 bytes, the last 4096 bytes, and the
//! length as a big-endian 64-bit number. Of a short file, head and tail overlap.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::hex;
use crate::identity::{IdKind, ParseIdentityError};

/// Length of the head and of the tail that are hashed.
pub const FILE_HASH_PART_BYTES: usize = 4096;

/// An OpenTelemetry `htlhash`, written as 32 lower-case hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FileHash([u8; 16]);

/// What of a file goes into its [`FileHash`], for callers that do not hold the whole file.
#[derive(Clone, Copy, Debug)]
pub struct FileParts<'data> {
    /// The first [`FILE_HASH_PART_BYTES`], or the whole of a shorter file.
    pub head: &'data [u8],
    /// The last [`FILE_HASH_PART_BYTES`], or the whole of a shorter file.
    pub tail: &'data [u8],
    /// Length of the file.
    pub length_bytes: u64,
}

impl FileHash {
    /// The hash of a whole file.
    pub fn of(file: &[u8]) -> Self {
        let head = file.get(..FILE_HASH_PART_BYTES).unwrap_or(file);
        let tail_at = file.len().saturating_sub(FILE_HASH_PART_BYTES);
        Self::of_parts(FileParts {
            head,
            tail: file.get(tail_at..).unwrap_or(file),
            length_bytes: file.len().try_into().unwrap_or(u64::MAX),
        })
    }

    /// The hash of a file of which only the parts are at hand.
    pub fn of_parts(parts: FileParts<'_>) -> Self {
        let mut hash = Sha256::new();
        hash.update(parts.head);
        hash.update(parts.tail);
        hash.update(parts.length_bytes.to_be_bytes());
        let digest = hash.finalize();
        Self(std::array::from_fn(|at| {
            digest.get(at).copied().unwrap_or(0)
        }))
    }

    /// A hash that was computed elsewhere.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its 16 bytes.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for FileHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::Hex(&self.0).fmt(f)
    }
}

impl FromStr for FileHash {
    type Err = ParseIdentityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bytes = hex::bytes(text).ok().and_then(|b| b.try_into().ok());
        bytes.map(Self).ok_or(ParseIdentityError::Malformed {
            kind: IdKind::FileHash,
            expected: "32 hex digits",
        })
    }
}

impl TryFrom<String> for FileHash {
    type Error = ParseIdentityError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<FileHash> for String {
    fn from(id: FileHash) -> Self {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_what_sha256_says_of_head_tail_and_length() {
        let file: Vec<u8> = (0..=250).cycle().take(10_000).collect();
        let mut hash = Sha256::new();
        hash.update(&file[..4096]);
        hash.update(&file[10_000 - 4096..]);
        hash.update(10_000_u64.to_be_bytes());
        assert_eq!(FileHash::of(&file).as_bytes()[..], hash.finalize()[..16]);
    }

    #[test]
    fn head_and_tail_of_a_short_file_are_the_whole_file() {
        // printf 'abcabc\0\0\0\0\0\0\0\003' | sha256sum | head -c 32
        assert_eq!(
            FileHash::of(b"abc").to_string(),
            "a7e79e8a85da69bad5c3fea209342ac9"
        );
    }
}
