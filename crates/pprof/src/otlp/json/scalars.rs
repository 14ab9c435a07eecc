//! Texts, numbers and bytes in their JSON forms.

use std::fmt;

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::de::{Error, Visitor};

use crate::wire::{Tag, Writer};

/// A text, written where it belongs.
pub(super) struct Text<'w> {
    pub(super) tag: Tag,
    pub(super) out: &'w mut Writer,
}

impl Visitor<'_> for Text<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.out.bytes(self.tag, text.as_bytes());
        Ok(())
    }
}

/// A whole number of 64 bits, as a number or a text; negative ones as protobuf writes them.
pub(super) struct Number;

impl Visitor<'_> for Number {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number, or one in a string")
    }

    fn visit_u64<E>(self, number: u64) -> Result<u64, E> {
        Ok(number)
    }

    fn visit_i64<E>(self, number: i64) -> Result<u64, E> {
        Ok(number.cast_unsigned())
    }

    /// `1e7` and `5.0` are whole numbers, too: protobuf's JSON mapping has it so.
    fn visit_f64<E: Error>(self, number: f64) -> Result<u64, E> {
        whole(number)
            .ok_or_else(|| E::custom(format_args!("{number} is no whole number of 64 bits")))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
        let positive = text.parse::<u64>().ok();
        let found = positive.or_else(|| text.parse::<i64>().ok().map(i64::cast_unsigned));
        let found = found.or_else(|| text.parse().ok().and_then(whole));
        found.ok_or_else(|| E::custom(format_args!("{text:?} is no whole number of 64 bits")))
    }
}

/// The 64 bits of a float that is a whole number. Beyond 2^53 a float has none exactly, so that writers who care use digits.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is whole, and within the bounds"
)]
fn whole(number: f64) -> Option<u64> {
    const BOUND: f64 = 18_446_744_073_709_551_616.0;
    if number.fract() != 0.0 {
        return None;
    }
    if (0.0..BOUND).contains(&number) {
        return Some(number as u64);
    }
    let is_negative = (-BOUND / 2.0..0.0).contains(&number);
    is_negative.then(|| (number as i64).cast_unsigned())
}

/// A number with a fraction, or one of the texts for those that JSON has no number for.
pub(super) struct Double;

impl Visitor<'_> for Double {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, \"NaN\", \"Infinity\" or \"-Infinity\"")
    }

    fn visit_f64<E>(self, number: f64) -> Result<f64, E> {
        Ok(number)
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "JSON has one kind of number, and this field's is a double"
    )]
    fn visit_u64<E>(self, number: u64) -> Result<f64, E> {
        Ok(number as f64)
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "JSON has one kind of number, and this field's is a double"
    )]
    fn visit_i64<E>(self, number: i64) -> Result<f64, E> {
        Ok(number as f64)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<f64, E> {
        text.parse()
            .ok()
            .ok_or_else(|| E::custom(format_args!("{text:?} is no number")))
    }
}

/// Bytes in base64, or an ID in hex.
pub(super) struct Bytes {
    /// How many bytes an ID has that is written in hex.
    pub(super) hex_bytes: Option<usize>,
}

/// Padded or not, as protobuf's JSON mapping wants it read.
const PADDED_OR_NOT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);

impl Visitor<'_> for Bytes {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.hex_bytes {
            Some(bytes) => write!(f, "{bytes} bytes in hex"),
            None => f.write_str("bytes in base64"),
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<u8>, E> {
        if let Some(bytes) = self.hex_bytes
            && (text.is_empty() || text.len() == 2 * bytes)
        {
            return hex(text).ok_or_else(|| E::custom(format_args!("{text:?} is no hex")));
        }
        let is_url_safe = text.contains(['-', '_']);
        let alphabet = if is_url_safe { URL_SAFE } else { STANDARD };
        let decoded = GeneralPurpose::new(&alphabet, PADDED_OR_NOT).decode(text);
        decoded.map_err(|error| E::custom(format_args!("no base64: {error}")))
    }
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
    };
    let pairs = text.as_bytes().chunks_exact(2);
    pairs
        .map(|pair| {
            pair.iter()
                .try_fold(0, |value, &byte| Some(value << 4 | digit(byte)?))
        })
        .collect()
}
