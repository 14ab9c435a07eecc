//! Hex digits to bytes and back, for every identity and hash that is written in hex.

use std::fmt;

/// Writes bytes as hex digits, two a byte, lower case.
///
/// ```
/// assert_eq!(unhex_build_id::Hex(&[0x0f, 0xa0]).to_string(), "0fa0");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hex<'a>(pub &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Why a text is no hex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HexError {
    /// A digit is missing.
    OddLength(usize),
    /// Something else than a hex digit.
    NotHex(char),
}

/// The bytes of an even number of hex digits, any case.
pub(crate) fn bytes(text: &str) -> Result<Vec<u8>, HexError> {
    if let Some(c) = text.chars().find(|c| !c.is_ascii_hexdigit()) {
        return Err(HexError::NotHex(c));
    }
    if !text.len().is_multiple_of(2) {
        return Err(HexError::OddLength(text.len()));
    }
    let digit = |c: u8| match c {
        b'0'..=b'9' => c - b'0',
        b'a'..=b'f' => c - b'a' + 10,
        _ => c.to_ascii_lowercase().wrapping_sub(b'a').wrapping_add(10),
    };
    let pairs = text.as_bytes().chunks_exact(2);
    Ok(pairs
        .map(|pair| pair.iter().fold(0, |byte, &c| byte << 4 | digit(c)))
        .collect())
}

/// 16 bytes of 32 hex digits, hyphens ignored.
pub(crate) fn uuid_bytes(text: &str) -> Result<[u8; 16], HexError> {
    let digits: String = text.chars().filter(|&c| c != '-').collect();
    let found = bytes(&digits)?;
    found
        .try_into()
        .map_err(|found: Vec<u8>| HexError::OddLength(2 * found.len()))
}
