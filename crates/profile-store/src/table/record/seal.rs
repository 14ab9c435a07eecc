//! A checksum at the end of a JSON object, so that an object that was changed and is still valid
//! JSON is not believed.
//!
//! The last member of the object is `checksum`: the SHA-256 of the object without that member, byte
//! by byte as it was written.

use crate::table::names::ContentHash;

/// What stands between the rest of the object and the hash.
const BEFORE: &[u8] = br#","checksum":""#;
/// What stands behind the hash.
const BEHIND: &[u8] = b"\"}\n";
/// Hex digits of a SHA-256.
const HASH_DIGITS: usize = 64;

/// An object that is not what was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BrokenSealError {
    /// It was cut off, or never was one.
    #[error("no checksum at its end")]
    Missing,
    /// It was changed.
    #[error("its checksum is {found}, that of what it says is {expected}")]
    Other {
        /// What the object says.
        found: String,
        /// What it should say.
        expected: ContentHash,
    },
}

/// A JSON object that has members, with its checksum and a newline.
pub(in crate::table) fn seal(mut json: Vec<u8>) -> Vec<u8> {
    let hash = ContentHash::of(&json).to_string();
    json.pop();
    json.extend([BEFORE, hash.as_bytes(), BEHIND].concat());
    json
}

/// The object without its checksum, which is compared.
///
/// # Errors
/// If it has none, or another.
pub(in crate::table) fn open(json: &[u8]) -> Result<Vec<u8>, BrokenSealError> {
    let (rest, found) = split(json).ok_or(BrokenSealError::Missing)?;
    let object = [rest, b"}"].concat();
    let expected = ContentHash::of(&object);
    if expected.to_string().as_bytes() == found {
        return Ok(object);
    }
    let found = String::from_utf8_lossy(found).into_owned();
    Err(BrokenSealError::Other { found, expected })
}

/// What stands before the checksum, and the checksum.
fn split(json: &[u8]) -> Option<(&[u8], &[u8])> {
    let json = json.strip_suffix(BEHIND)?;
    let (rest, hash) = json.split_at_checked(json.len().checked_sub(HASH_DIGITS)?)?;
    Some((rest.strip_suffix(BEFORE)?, hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_that_was_changed_anywhere_or_cut_is_told() {
        let plain = br#"{"a":1,"b":"two"}"#.to_vec();
        assert_eq!(open(&plain), Err(BrokenSealError::Missing));
        let sealed = seal(plain.clone());
        assert_eq!(open(&sealed), Ok(plain));
        let value: serde_json::Value = serde_json::from_slice(&sealed).unwrap();
        assert_eq!(value["b"], "two");
        for place in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[place] ^= 1;
            assert!(open(&changed).is_err(), "{place}");
            assert!(open(&sealed[..place]).is_err(), "{place}");
        }
    }
}
