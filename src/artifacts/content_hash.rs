//! The SHA-256 of a file's bytes, and the hash of a set of names.

use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Bytes that are read at once for hashing.
const CHUNK_BYTES: usize = 256 << 10;

/// A SHA-256, written as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ContentHash(pub [u8; 32]);

/// A text that is no [`ContentHash`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no SHA-256 in 64 lower-case hex digits")]
pub struct ParseContentHashError(pub String);

impl ContentHash {
    /// The hash of bytes in memory.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The hash of all that a reader has, in constant memory.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of_reader(mut reader: impl Read) -> io::Result<Self> {
        let mut hash = Sha256::new();
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            match reader.read(&mut chunk)? {
                0 => return Ok(Self(hash.finalize().into())),
                read => hash.update(chunk.get(..read).unwrap_or_default()),
            }
        }
    }

    /// The hash of a sequence of texts; each is told apart from its neighbours.
    pub fn of_texts<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Self {
        let mut hash = Sha256::new();
        for text in texts {
            hash.update(text.as_ref().as_bytes());
            hash.update(b"\n");
        }
        Self(hash.finalize().into())
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        unhex_build_id::Hex(&self.0).fmt(f)
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ContentHash {
    type Err = ParseContentHashError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        lower_hex(text)
            .map(Self)
            .ok_or_else(|| ParseContentHashError(text.to_owned()))
    }
}

impl TryFrom<String> for ContentHash {
    type Error = ParseContentHashError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ContentHash> for String {
    fn from(hash: ContentHash) -> Self {
        hash.to_string()
    }
}

/// The `N` bytes that exactly `2 * N` lower-case hex digits stand for.
pub(super) fn lower_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |b: u8| match b {
        b'0'..=b'9' => Some(b - b'0'),
        b'a'..=b'f' => Some(b - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}
