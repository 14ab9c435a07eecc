//! JSON strings and numbers, appended to a buffer.
//!
//! An answer of a million addresses is mostly names and paths, which need no escape: they are
//! copied run by run, with no value tree in between.

use std::io::Write as _;

/// Appends `text` as a JSON string (RFC 8259 §7).
pub(super) fn put_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| needs_escape(*byte)) {
        let (plain, escaped) = rest.split_at(at);
        out.extend_from_slice(plain);
        let Some((byte, after)) = escaped.split_first() else {
            break;
        };
        put_escape(out, *byte);
        rest = after;
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// Appends a number.
pub(super) fn put_number(out: &mut Vec<u8>, number: u64) {
    let mut digits = [0_u8; 20];
    let mut start = digits.len();
    let mut rest = number;
    for (at, digit) in digits.iter_mut().enumerate().rev() {
        // A remainder of 10 always fits.
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or_default();
        start = at;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(start..).unwrap_or_default());
}

fn needs_escape(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

fn put_escape(out: &mut Vec<u8>, byte: u8) {
    match byte {
        b'"' => out.extend_from_slice(b"\\\""),
        b'\\' => out.extend_from_slice(b"\\\\"),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        // Writing to a vector cannot fail.
        control => write!(out, "\\u{control:04x}").unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_string_is_read_back_by_a_json_parser(text in any::<String>()) {
            let mut out = Vec::new();
            put_string(&mut out, &text);
            prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }

        #[test]
        fn every_number_is_read_back_by_a_json_parser(number in any::<u64>()) {
            let mut out = Vec::new();
            put_number(&mut out, number);
            prop_assert_eq!(serde_json::from_slice::<u64>(&out).unwrap(), number);
        }
    }

    #[test]
    fn zero_and_the_largest_number_are_written_whole() {
        let mut out = Vec::new();
        put_number(&mut out, 0);
        out.push(b' ');
        put_number(&mut out, u64::MAX);
        assert_eq!(out, b"0 18446744073709551615");
    }

    #[test]
    fn control_characters_quotes_and_backslashes_are_escaped() {
        let mut out = Vec::new();
        put_string(&mut out, "a\"b\\c\n\u{1}é");
        assert_eq!(String::from_utf8(out).unwrap(), r#""a\"b\\c\n\u0001é""#);
    }
}
