//! The secret that guards every write.

use std::fmt;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::ConfigError;

/// The secret that guards every write. It is never shown; only its hash is kept.
#[derive(Clone)]
pub struct WriteToken([u8; 32]);

impl WriteToken {
    /// The token that `secret` is.
    ///
    /// # Errors
    /// If it is empty, or has characters that a header cannot carry.
    pub fn new(secret: &str) -> Result<Self, ConfigError> {
        match secret.trim() {
            "" => Err(ConfigError::EmptyToken),
            secret
                if !secret
                    .bytes()
                    .all(|byte| byte == b' ' || byte.is_ascii_graphic()) =>
            {
                Err(ConfigError::TokenNotVisible)
            }
            secret => Ok(Self(Sha256::digest(secret).into())),
        }
    }

    /// Whether `offered` is the token, in a time that says nothing about it.
    pub fn matches(&self, offered: &[u8]) -> bool {
        let offered: [u8; 32] = Sha256::digest(offered).into();
        self.0.ct_eq(&offered).into()
    }
}

impl fmt::Debug for WriteToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WriteToken(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_matched_whole_and_never_shown() {
        let token = WriteToken::new(" s3cret\n").unwrap();
        assert!(token.matches(b"s3cret"));
        assert!(!token.matches(b"s3cre") && !token.matches(b"") && !token.matches(b"s3cret "));
        assert!(!format!("{token:?}").contains("s3"));
        assert!(matches!(
            WriteToken::new(" \n"),
            Err(ConfigError::EmptyToken)
        ));
    }

    #[test]
    fn a_token_that_no_header_can_carry_is_refused() {
        for secret in ["schlüssel", "a\u{7f}b", "a\nb"] {
            let refused = WriteToken::new(secret);
            assert!(matches!(refused, Err(ConfigError::TokenNotVisible)));
        }
        assert!(WriteToken::new("two words").is_ok());
    }
}
