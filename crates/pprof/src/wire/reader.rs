//! Reading a protobuf message field by field, never beyond its end.

use std::ops::ControlFlow;

use super::Tag;
use crate::error::DecodeError;

/// A message, and how far it is read. Copies read on their own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    /// The input from its start to the end of this message, so that places are places in the input.
    data: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    /// Reads `data` as a message.
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self { data, position: 0 }
    }

    /// The bytes that are left.
    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.data.get(self.position..).unwrap_or_default()
    }

    /// The next field's tag, none at the end of the message.
    #[inline]
    pub(crate) fn tag(&mut self) -> Result<Option<Tag>, DecodeError> {
        if self.position >= self.data.len() {
            return Ok(None);
        }
        let at = self.position;
        let tag = self.varint()?;
        match u32::try_from(tag) {
            Ok(tag) if tag >> 3 != 0 => Ok(Some(Tag(tag))),
            _ => Err(malformed(at, "a field number out of range")),
        }
    }

    /// A number. Up to three bytes, which nearly all have, cost no loop.
    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64, DecodeError> {
        let (value, length) = match *self.rest() {
            [a, ..] if a < 0x80 => (u64::from(a), 1),
            [a, b, ..] if b < 0x80 => (u64::from(a & 0x7f) | u64::from(b) << 7, 2),
            [a, b, c, ..] if c < 0x80 => (
                u64::from(a & 0x7f) | u64::from(b & 0x7f) << 7 | u64::from(c) << 14,
                3,
            ),
            _ => return self.long_varint(),
        };
        self.position += length;
        Ok(value)
    }

    #[cold]
    fn long_varint(&mut self) -> Result<u64, DecodeError> {
        let bytes = self.data.get(self.position..).unwrap_or_default();
        let step = bytes
            .iter()
            .take(10)
            .try_fold((0_u64, 0_u32), |(value, shift), &byte| {
                let value = value | u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
                if byte < 0x80 {
                    // The tenth byte has one bit left.
                    let fits = shift < 63 || byte <= 1;
                    return ControlFlow::Break(fits.then_some((value, shift / 7 + 1)));
                }
                ControlFlow::Continue((value, shift + 7))
            });
        match step {
            ControlFlow::Break(Some((value, length))) => {
                self.position += length as usize;
                Ok(value)
            }
            ControlFlow::Continue(_) if bytes.len() < 10 => {
                Err(malformed(self.position, "the message ends inside a number"))
            }
            _ => Err(malformed(self.position, "a number has more than 64 bits")),
        }
    }

    /// Eight bytes, little-endian.
    #[inline]
    pub(crate) fn fixed64(&mut self) -> Result<u64, DecodeError> {
        let bytes = self.data.get(self.position..).and_then(<[u8]>::first_chunk);
        let bytes: &[u8; 8] = bytes.ok_or(malformed(
            self.position,
            "the message ends inside 8 fixed bytes",
        ))?;
        self.position += 8;
        Ok(u64::from_le_bytes(*bytes))
    }

    /// A message inside this one.
    #[inline]
    pub(crate) fn message(&mut self) -> Result<Self, DecodeError> {
        let at = self.position;
        let length = self.varint()?;
        let start = self.position;
        let end = usize::try_from(length)
            .ok()
            .and_then(|length| start.checked_add(length));
        let data = end.and_then(|end| self.data.get(..end));
        let data = data.ok_or(malformed(
            at,
            "a length that leads beyond the end of the message",
        ))?;
        self.position = data.len();
        Ok(Self {
            data,
            position: start,
        })
    }

    /// Bytes.
    #[inline]
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        Ok(self.message()?.rest())
    }

    /// A string, which the format says is UTF-8.
    #[inline]
    pub(crate) fn string(&mut self) -> Result<&'a str, DecodeError> {
        let inner = self.message()?;
        let text = std::str::from_utf8(inner.rest());
        text.ok().ok_or(DecodeError::NotUtf8 {
            offset: inner.position,
        })
    }

    /// Each of packed numbers.
    #[inline]
    pub(crate) fn packed_varints(
        &mut self,
        mut each: impl FnMut(u64) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        let mut inner = self.message()?;
        while inner.position < inner.data.len() {
            each(inner.varint()?)?;
        }
        Ok(())
    }

    /// Packed numbers of eight bytes.
    #[inline]
    pub(crate) fn packed_fixed64(&mut self) -> Result<impl Iterator<Item = u64>, DecodeError> {
        let inner = self.message()?;
        let (chunks, rest) = inner.rest().as_chunks::<8>();
        if !rest.is_empty() {
            return Err(malformed(
                inner.position,
                "packed 8-byte numbers of another length",
            ));
        }
        Ok(chunks.iter().map(|bytes| u64::from_le_bytes(*bytes)))
    }

    /// Leaves out the value of a field that nobody here asks for.
    #[cold]
    pub(crate) fn skip(&mut self, tag: Tag) -> Result<(), DecodeError> {
        match tag.0 & 7 {
            0 => self.varint().map(drop),
            1 => self.fixed64().map(drop),
            2 => self.message().map(drop),
            5 => {
                let end = self.position.saturating_add(4);
                if end > self.data.len() {
                    return Err(malformed(
                        self.position,
                        "the message ends inside 4 fixed bytes",
                    ));
                }
                self.position = end;
                Ok(())
            }
            // Groups (3, 4) have been gone since 2008, and neither format ever had one.
            _ => Err(malformed(self.position, "a field of an unknown wire type")),
        }
    }
}

fn malformed(offset: usize, what: &'static str) -> DecodeError {
    DecodeError::Malformed { offset, what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_length_are_read() {
        for (bytes, value) in [
            (&[0x00][..], 0),
            (&[0x7f], 127),
            (&[0x80, 0x01], 128),
            (&[0x80, 0x80, 0x00], 0),
            (
                &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
                u64::MAX,
            ),
        ] {
            let mut reader = Reader::new(bytes);
            assert_eq!(reader.varint(), Ok(value), "{bytes:x?}");
            assert!(reader.rest().is_empty());
        }
    }

    #[test]
    fn numbers_that_are_cut_or_too_long_say_where() {
        let cut = Reader::new(&[0x80]).varint();
        assert_eq!(cut, Err(malformed(0, "the message ends inside a number")));
        let long = Reader::new(&[0xff; 11]).varint();
        assert_eq!(long, Err(malformed(0, "a number has more than 64 bits")));
        let wide = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert!(Reader::new(&wide).varint().is_err());
    }

    #[test]
    fn lengths_beyond_the_end_are_errors() {
        for bytes in [
            &[5, 1, 2][..],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        ] {
            assert!(Reader::new(bytes).bytes().is_err(), "{bytes:x?}");
        }
    }

    #[test]
    fn field_zero_and_groups_are_errors() {
        assert!(Reader::new(&[0x00]).tag().is_err());
        let mut reader = Reader::new(&[0x0b]);
        let tag = reader.tag().unwrap().unwrap();
        assert!(reader.skip(tag).is_err());
    }
}
