//! GUID and age: what leads from a Windows binary to its PDB.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::hex;
use crate::identity::{IdKind, ParseIdentityError};

/// GUID and age of a PDB, written as symbol servers do: 32 upper-case hex digits of the GUID, then
/// the age in hex without leading zeros. Hyphens and case do not matter when it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PdbId {
    /// The GUID in the order of its digits, which is not the order of bytes in the file.
    pub guid: [u8; 16],
    /// How often the PDB was written since it was made.
    pub age: u32,
}

impl fmt::Display for PdbId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.guid
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02X}"))?;
        write!(f, "{:X}", self.age)
    }
}

impl FromStr for PdbId {
    type Err = ParseIdentityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits: String = text.chars().filter(|&c| c != '-').collect();
        let parts = digits.split_at_checked(32).and_then(|(guid, age)| {
            let plain = !age.starts_with('+');
            let age = u32::from_str_radix(age, 16).ok().filter(|_| plain)?;
            Some(Self {
                guid: hex::uuid_bytes(guid).ok()?,
                age,
            })
        });
        parts.ok_or(ParseIdentityError::Malformed {
            kind: IdKind::Pdb,
            expected: "32 hex digits of the GUID, then 1 to 8 of the age",
        })
    }
}

impl TryFrom<String> for PdbId {
    type Error = ParseIdentityError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<PdbId> for String {
    fn from(id: PdbId) -> Self {
        id.to_string()
    }
}
