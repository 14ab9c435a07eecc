//! Keys of objects: relative paths that mean the same in a folder and in a bucket.
//!
//! A key that could leave its store, or that a file system would fold into another, cannot be made.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The longest key; S3 allows 1,024 bytes.
const KEY_BYTES_MAX: usize = 512;

/// A key: parts of lower-case letters, digits, `-`, `_` and `.`, joined by `/`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey(Box<str>);

/// A text that is no [`ObjectKey`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no object key: parts of a-z, 0-9, '-', '_' and '.', none beginning with '.'")]
pub struct ParseObjectKeyError(pub String);

impl ObjectKey {
    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path of this key below a folder.
    pub fn path_below(&self, root: &Path) -> PathBuf {
        root.join(&*self.0)
    }
}

impl FromStr for ObjectKey {
    type Err = ParseObjectKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let allowed = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.');
        let sound = text.len() <= KEY_BYTES_MAX
            && text.split('/').all(|part| {
                !part.is_empty() && !part.starts_with('.') && part.bytes().all(allowed)
            });
        if sound {
            Ok(Self(text.into()))
        } else {
            Err(ParseObjectKeyError(text.to_owned()))
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_cannot_leave_its_store() {
        for text in [
            "", "/a", "a//b", "../a", "a/../b", "a/.", "a/", "a\0b", "A", "a b",
        ] {
            assert!(text.parse::<ObjectKey>().is_err(), "{text:?}");
        }
        assert!("builds/ab/abcd/rec/x.y.json".parse::<ObjectKey>().is_ok());
    }
}
