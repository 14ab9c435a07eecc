//! The Go build ID: four base64 hashes joined by slashes, which Go's linker writes into a note.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::identity::{IdKind, ParseIdentityError};

/// The longest Go build ID that is accepted: Go's own have 83 bytes.
pub const GO_BUILD_ID_BYTES_MAX: usize = 256;

/// A Go build ID: 1 to 256 visible ASCII characters, case matters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GoBuildId(Box<str>);

impl GoBuildId {
    /// The text, as in the note.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for GoBuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for GoBuildId {
    type Err = ParseIdentityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fits = (1..=GO_BUILD_ID_BYTES_MAX).contains(&text.len());
        if fits && text.bytes().all(|b| b.is_ascii_graphic()) {
            Ok(Self(text.into()))
        } else {
            Err(ParseIdentityError::Malformed {
                kind: IdKind::Go,
                expected: "1 to 256 visible ASCII characters",
            })
        }
    }
}

impl TryFrom<String> for GoBuildId {
    type Error = ParseIdentityError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<GoBuildId> for String {
    fn from(id: GoBuildId) -> Self {
        id.0.into()
    }
}
