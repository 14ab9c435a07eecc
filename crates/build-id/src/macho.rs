//! The UUID in the `LC_UUID` command of a Mach-O file, shared with its dSYM.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::hex;
use crate::identity::{IdKind, ParseIdentityError};

/// A Mach-O UUID, written as dwarfdump does: `8-4-4-4-12` upper-case hex digits; hyphens and case
/// do not matter when it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MachOUuid([u8; 16]);

impl MachOUuid {
    /// A UUID of the given bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its 16 bytes, as in the file.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for MachOUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02X}")?;
        }
        Ok(())
    }
}

impl FromStr for MachOUuid {
    type Err = ParseIdentityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bytes = hex::uuid_bytes(text).ok();
        bytes.map(Self).ok_or(ParseIdentityError::Malformed {
            kind: IdKind::MachO,
            expected: "32 hex digits, hyphens allowed",
        })
    }
}

impl TryFrom<String> for MachOUuid {
    type Error = ParseIdentityError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<MachOUuid> for String {
    fn from(id: MachOUuid) -> Self {
        id.to_string()
    }
}
