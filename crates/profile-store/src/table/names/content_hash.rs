//! The hash in the name of a file, by which a resend of the same content is known.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

use super::hex::{self, Hex};

/// A SHA-256, written as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Hex(&self.0).fmt(f)
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
        let bytes = hex::parse(text);
        bytes
            .map(Self)
            .ok_or_else(|| ParseContentHashError(text.to_owned()))
    }
}
