//! Strings and names of `PromQL`, written and read: the escapes are those of Go.

use std::fmt::{self, Write as _};

use super::error::SelectorError;
use super::parse::Characters;

/// Whether a name needs no quotes.
pub(super) fn is_identifier(name: &str) -> bool {
    let mut characters = name.chars();
    characters.next().is_some_and(begins_identifier) && characters.all(continues_identifier)
}

pub(super) fn begins_identifier(c: char) -> bool {
    c == '_' || c.is_ascii_alphabetic()
}

pub(super) fn continues_identifier(c: char) -> bool {
    begins_identifier(c) || c.is_ascii_digit()
}

/// In double quotes, with the escapes that it needs.
pub(super) fn quoted(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            // Control characters have at most four digits.
            c if c.is_control() => write!(f, "\\u{:04x}", u32::from(c))?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

/// The string behind the quote that was just read, up to the same quote.
pub(super) fn string(from: &mut Characters<'_>, quote: char) -> Result<String, SelectorError> {
    let began = from.place();
    let mut bytes = Vec::new();
    loop {
        let place = from.place();
        match from.next() {
            Some(c) if c == quote => break,
            Some('\\') if quote != '`' => escape(from, quote, place, &mut bytes)?,
            Some('\n') if quote != '`' => {
                return Err(SelectorError::Escape {
                    place,
                    detail: "a line break in a string is written \\n",
                });
            }
            Some(c) => push(c, &mut bytes),
            None => return Err(from.unexpected_end("the quote that ends the string")),
        }
    }
    String::from_utf8(bytes).map_err(|_not_utf8| SelectorError::Escape {
        place: began,
        detail: "the bytes of the string's escapes are no UTF-8",
    })
}

fn push(c: char, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

fn escape(
    from: &mut Characters<'_>,
    quote: char,
    place: usize,
    bytes: &mut Vec<u8>,
) -> Result<(), SelectorError> {
    let wrong = |detail| SelectorError::Escape { place, detail };
    let Some(c) = from.next() else {
        return Err(from.unexpected_end("the character of an escape"));
    };
    let byte = match c {
        'a' => 0x07,
        'b' => 0x08,
        'f' => 0x0c,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 0x0b,
        '\\' => b'\\',
        c if c == quote => {
            push(c, bytes);
            return Ok(());
        }
        'x' => {
            let value = digits(from, 2, 16).ok_or(wrong("\\x takes two hex digits"))?;
            u8::try_from(value).map_err(|_cannot_be| wrong("\\x takes two hex digits"))?
        }
        '0'..='7' => {
            let first = c.to_digit(8).unwrap_or_default();
            let rest = digits(from, 2, 8).ok_or(wrong("\\ takes three octal digits"))?;
            let value = first * 64 + rest;
            u8::try_from(value).map_err(|_too_large| wrong("an octal escape is at most \\377"))?
        }
        'u' | 'U' => {
            let count = if c == 'u' { 4 } else { 8 };
            let value = digits(from, count, 16)
                .ok_or(wrong("\\u takes four hex digits, \\U takes eight"))?;
            let c = char::from_u32(value).ok_or(wrong("the escape is no Unicode character"))?;
            push(c, bytes);
            return Ok(());
        }
        _ => return Err(wrong("there is no such escape; \\ itself is written \\\\")),
    };
    bytes.push(byte);
    Ok(())
}

fn digits(from: &mut Characters<'_>, count: u32, radix: u32) -> Option<u32> {
    let mut value: u32 = 0;
    for _ in 0..count {
        let digit = from.next()?.to_digit(radix)?;
        value = value.checked_mul(radix)?.checked_add(digit)?;
    }
    Some(value)
}
