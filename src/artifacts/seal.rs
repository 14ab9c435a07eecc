//! A checksum at the end of a JSON object, so that an object that was changed and is still valid
//! JSON is not believed.
//!
//! The last member of the object is `checksum`: the SHA-256 of the object without that member, byte
//! by byte as it was written. Objects of earlier versions have none and are taken as they are.

use super::content_hash::ContentHash;

/// What stands between the rest of the object and the hash.
const BEFORE: &[u8] = br#","checksum":""#;
/// What stands behind the hash.
const BEHIND: &[u8] = br#""}"#;
/// Hex digits of a SHA-256.
const HASH_DIGITS: usize = 64;

/// An object that is not what was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its checksum is {found}, that of what it says is {expected}")]
pub struct BrokenSealError {
    /// What the object says.
    pub found: String,
    /// What it should say.
    pub expected: ContentHash,
}

/// The object with its checksum. Anything but an object with a member stays as it is.
pub(super) fn seal(mut json: Vec<u8>) -> Vec<u8> {
    let hash = ContentHash::of(&json).to_string();
    if json.len() > b"{}".len() && json.pop_if(|last| *last == b'}').is_some() {
        json.extend([BEFORE, hash.as_bytes(), BEHIND].concat());
    }
    json
}

/// Compares an object with its checksum, if it has one.
///
/// # Errors
/// If it has one that is not that of the rest.
pub(super) fn check(json: &[u8]) -> Result<(), BrokenSealError> {
    let json = json.trim_ascii_end();
    let Some((rest, found)) = split(json) else {
        return Ok(());
    };
    let expected = ContentHash::of(&[rest, b"}"].concat());
    if expected.to_string().as_bytes() == found {
        return Ok(());
    }
    let found = String::from_utf8_lossy(found).into_owned();
    Err(BrokenSealError { found, expected })
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
    fn an_object_that_was_changed_anywhere_is_told_and_one_without_checksum_is_taken() {
        let plain = br#"{"a":1,"b":"two"}"#.to_vec();
        assert_eq!(check(&plain), Ok(()));
        let sealed = seal(plain.clone());
        assert_eq!(check(&sealed), Ok(()));
        let value: serde_json::Value = serde_json::from_slice(&sealed).unwrap();
        assert_eq!(value["b"], "two");
        for place in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[place] ^= 1;
            let is_told = check(&changed).is_err();
            // Where the member's own syntax is hit, the object is no JSON, or the rest is whole.
            let within = plain.len() - 1..plain.len() - 1 + BEFORE.len();
            let is_syntax = within.contains(&place) || place >= sealed.len() - BEHIND.len();
            assert!(is_told || is_syntax, "{place}");
        }
    }

    #[test]
    fn what_is_no_object_with_members_stays_as_it_is() {
        for json in ["{}", "[1]", "7", ""] {
            assert_eq!(seal(json.as_bytes().to_vec()), json.as_bytes());
        }
    }
}
