//! Build IDs and the other identities that lead to the same binary.

use std::fmt;
use std::str::FromStr;

/// The longest GNU build ID that is accepted, in bytes.
pub const BUILD_ID_BYTES_MAX: usize = 64;

/// A GNU build ID, 1 to 64 bytes; other identities have types of their own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BuildId(Box<[u8]>);

/// Why a text or bytes are no build ID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseBuildIdError {
    /// Nothing there.
    #[error("a build ID has at least 2 hex digits, this one is empty")]
    Empty,
    /// A digit is missing.
    #[error("a build ID has an even number of hex digits, this one has {0}")]
    OddLength(usize),
    /// Something else than a hex digit.
    #[error("a build ID has only hex digits, this one has {0:?}")]
    NotHex(char),
    /// Longer than any linker makes them.
    #[error("a build ID has at most {max} bytes, this one has {0}", max = BUILD_ID_BYTES_MAX)]
    TooLong(usize),
}

impl BuildId {
    /// A build ID of the given bytes.
    ///
    /// # Errors
    /// If there are none, or more than [`BUILD_ID_BYTES_MAX`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ParseBuildIdError> {
        match bytes.len() {
            0 => Err(ParseBuildIdError::Empty),
            n if n > BUILD_ID_BYTES_MAX => Err(ParseBuildIdError::TooLong(n)),
            _ => Ok(Self(bytes.into())),
        }
    }

    /// The bytes, as in the note.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for BuildId {
    type Err = ParseBuildIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(c) = text.chars().find(|c| !c.is_ascii_hexdigit()) {
            return Err(ParseBuildIdError::NotHex(c));
        }
        if text.len() % 2 == 1 {
            return Err(ParseBuildIdError::OddLength(text.len()));
        }
        let digits: Vec<u8> = text
            .chars()
            .filter_map(|c| c.to_digit(16))
            .filter_map(|d| u8::try_from(d).ok())
            .collect();
        let bytes: Vec<u8> = digits
            .chunks_exact(2)
            .map(|p| p.iter().fold(0, |n, d| n << 4 | d))
            .collect();
        Self::from_bytes(&bytes)
    }
}
