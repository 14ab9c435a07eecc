//! `ExportProfilesServiceResponse`: what a receiver says of a request that it did not take whole.

use super::fields;
use crate::error::DecodeError;
use crate::wire::Reader;

/// What was not taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartialSuccess {
    /// How many profiles.
    pub rejected_profiles: u64,
    /// Why, in words; with no rejected profile a warning.
    pub error_message: String,
}

/// What an answer says of profiles that were not taken; none if all were.
///
/// # Errors
/// If the answer is no message.
pub fn partial_success(answer: &[u8]) -> Result<Option<PartialSuccess>, DecodeError> {
    use fields::partial_success as f;
    let mut found = PartialSuccess::default();
    let mut answer = Reader::new(answer);
    while let Some(tag) = answer.tag()? {
        if tag != fields::export_response::PARTIAL_SUCCESS {
            answer.skip(tag)?;
            continue;
        }
        let mut partial = answer.message()?;
        while let Some(tag) = partial.tag()? {
            match tag {
                f::REJECTED => found.rejected_profiles = partial.varint()?,
                f::MESSAGE => partial.string()?.clone_into(&mut found.error_message),
                other => partial.skip(other)?,
            }
        }
    }
    Ok((found != PartialSuccess::default()).then_some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_answer_is_a_whole_success() {
        assert_eq!(partial_success(b""), Ok(None));
        // partial_success {}
        assert_eq!(partial_success(b"\x0a\x00"), Ok(None));
    }

    #[test]
    fn what_was_not_taken_is_read_with_its_words() {
        let found = partial_success(b"\x0a\x07\x08\x02\x12\x03why").unwrap();
        let expected = PartialSuccess {
            rejected_profiles: 2,
            error_message: "why".to_owned(),
        };
        assert_eq!(found, Some(expected));
        assert!(partial_success(b"\x0a\x07\x08").is_err());
        assert!(partial_success(b"<html>").is_err());
    }
}
