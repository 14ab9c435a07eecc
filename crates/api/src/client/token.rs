//! The bearer token of a client: a secret that never shows in a log.

use std::fmt;

use reqwest::header::HeaderValue;

/// A bearer token, ready to be sent.
#[derive(Clone)]
pub struct Token(HeaderValue);

/// A text that can be no bearer token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// Nothing there.
    #[error("the token is empty")]
    Empty,
    /// HTTP headers cannot carry it.
    #[error("the token has characters other than visible ASCII")]
    NotAscii,
}

impl Token {
    /// A token from an option or the contents of a file; white space around it is dropped.
    ///
    /// # Errors
    /// If nothing is left, or a header cannot carry it.
    pub fn new(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(TokenError::Empty);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::NotAscii);
        }
        let mut value = HeaderValue::from_str(&format!("Bearer {text}"))
            .map_err(|_invalid| TokenError::NotAscii)?;
        value.set_sensitive(true);
        Ok(Self(value))
    }

    /// The value of the `Authorization` header.
    pub fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_trimmed_and_never_printed() {
        let token = Token::new(" s3cret\n").unwrap();
        assert_eq!(token.header().as_bytes(), b"Bearer s3cret");
        assert_eq!(
            format!("{token:?} {:?}", token.header()),
            "Token(hidden) Sensitive"
        );
    }

    #[test]
    fn an_empty_token_and_one_with_spaces_are_refused() {
        assert_eq!(Token::new(" \n").unwrap_err(), TokenError::Empty);
        assert_eq!(Token::new("two words").unwrap_err(), TokenError::NotAscii);
        assert_eq!(Token::new("schlüssel").unwrap_err(), TokenError::NotAscii);
    }
}
