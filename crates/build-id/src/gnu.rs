//! The GNU build ID: the hash that a linker writes into a note, and the key of everything here.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::hex::{self, HexError};

/// The longest GNU build ID that is accepted, in bytes.
pub const BUILD_ID_BYTES_MAX: usize = 64;

/// A GNU build ID, 1 to 64 bytes; other identities have types of their own.
///
/// Written as lower-case hex; any case is read.
///
/// ```
/// use unhex_build_id::BuildId;
/// let id: BuildId = "9A0F".parse()?;
/// assert_eq!(id.to_string(), "9a0f");
/// # Ok::<(), unhex_build_id::ParseBuildIdError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
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
        hex::Hex(&self.0).fmt(f)
    }
}

impl FromStr for BuildId {
    type Err = ParseBuildIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bytes = hex::bytes(text).map_err(|error| match error {
            HexError::OddLength(n) => ParseBuildIdError::OddLength(n),
            HexError::NotHex(c) => ParseBuildIdError::NotHex(c),
        })?;
        Self::from_bytes(&bytes)
    }
}

impl TryFrom<String> for BuildId {
    type Error = ParseBuildIdError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<BuildId> for String {
    fn from(id: BuildId) -> Self {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_back_in_any_case(
            bytes in prop::collection::vec(any::<u8>(), 1..=BUILD_ID_BYTES_MAX),
        ) {
            let id = BuildId::from_bytes(&bytes).unwrap();
            let text = id.to_string();
            prop_assert_eq!(text.clone(), text.to_lowercase());
            prop_assert_eq!(text.parse::<BuildId>().unwrap(), id.clone());
            prop_assert_eq!(text.to_uppercase().parse::<BuildId>().unwrap(), id);
        }

        #[test]
        fn any_text_is_a_build_id_or_an_error(text in ".*") {
            if let Ok(id) = text.parse::<BuildId>() {
                prop_assert_eq!(id.to_string(), text.to_lowercase());
            }
        }
    }

    #[test]
    fn texts_that_are_no_build_id_say_why() {
        let parse = |text: &str| text.parse::<BuildId>().unwrap_err();
        assert_eq!(parse(""), ParseBuildIdError::Empty);
        assert_eq!(parse("abc"), ParseBuildIdError::OddLength(3));
        assert_eq!(parse("ag"), ParseBuildIdError::NotHex('g'));
        assert_eq!(parse("a/"), ParseBuildIdError::NotHex('/'));
        assert_eq!(parse(&"ab".repeat(65)), ParseBuildIdError::TooLong(65));
    }
}
