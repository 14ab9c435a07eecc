//! What a file is kept under, and the name that it has on the disk.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

/// The SHA-256 of whatever names a file: no text from outside becomes a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileKey([u8; 32]);

impl FileKey {
    /// The key of what has this name.
    pub fn of(name: &[u8]) -> Self {
        Self(Sha256::digest(name).into())
    }
}

impl fmt::Display for FileKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        unhex_build_id::Hex(&self.0).fmt(f)
    }
}

/// The name of one file: its key, and a number that no other file of the folder has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileName {
    pub(super) key: FileKey,
    pub(super) number: u64,
}

/// A text that is no [`FileName`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ParseFileNameError;

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:016x}", self.key, self.number)
    }
}

impl FromStr for FileName {
    type Err = ParseFileNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (key, number) = text.split_once('.')?;
            let mut bytes = [0; 32];
            let digits = key.as_bytes().chunks(2);
            if key.len() != 64 || !key.is_ascii() {
                return None;
            }
            for (byte, digits) in bytes.iter_mut().zip(digits) {
                *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
            }
            let number = u64::from_str_radix(number, 16).ok()?;
            let name = Self {
                key: FileKey(bytes),
                number,
            };
            // One spelling: signs, capitals and missing zeros were written by nobody.
            (name.to_string() == text).then_some(name)
        };
        parse().ok_or(ParseFileNameError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_back_as_written_and_others_are_none() {
        let name = FileName {
            key: FileKey::of(b"../../etc/passwd"),
            number: 77,
        };
        assert_eq!(name.to_string().parse(), Ok(name));
        let hex = name.key.to_string();
        for text in [
            String::new(),
            hex.clone(),
            format!("{hex}.4d"),
            format!("{hex}.+00000000000004d"),
            format!("{}.000000000000004d", hex.to_uppercase()),
            format!("{name}.tmp"),
            "é".repeat(32) + ".0000000000000001",
        ] {
            assert!(text.parse::<FileName>().is_err(), "{text}");
        }
    }
}
