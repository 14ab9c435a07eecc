//! Writing a protobuf message field by field; what has its default value is left out, as proto3 does.

use super::Tag;

/// A message that is being written.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

/// Bytes that a length takes which is filled in later: a varint may have more bytes than it needs.
const LATE_LENGTH_BYTES: usize = 5;

/// Where a length is to be filled in.
#[derive(Debug)]
#[must_use]
pub(crate) struct OpenLength(usize);

impl Writer {
    /// The message.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// What was written up to here.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing was written.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Starts anew, keeping the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// A number without its tag, as in packed fields.
    pub(crate) fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.bytes.push(value.to_le_bytes()[0]);
    }

    /// Eight bytes without a tag.
    pub(crate) fn raw_fixed64(&mut self, value: u64) {
        self.bytes.extend(value.to_le_bytes());
    }

    /// A tag alone.
    pub(crate) fn tag(&mut self, tag: Tag) {
        self.raw_varint(u64::from(tag.0));
    }

    /// A number, unless it is 0.
    pub(crate) fn varint(&mut self, tag: Tag, value: u64) {
        if value != 0 {
            self.tag(tag);
            self.raw_varint(value);
        }
    }

    /// A signed number, unless it is 0.
    pub(crate) fn signed(&mut self, tag: Tag, value: i64) {
        self.varint(tag, value.cast_unsigned());
    }

    /// Bytes, a string or a finished message, also when they are empty.
    pub(crate) fn bytes(&mut self, tag: Tag, value: &[u8]) {
        self.tag(tag);
        self.raw_varint(value.len() as u64);
        self.bytes.extend_from_slice(value);
    }

    /// A finished message, also when it is empty.
    pub(crate) fn message(&mut self, tag: Tag, message: &Self) {
        self.bytes(tag, &message.bytes);
    }

    /// Eight bytes, unless they are 0.
    pub(crate) fn fixed64(&mut self, tag: Tag, value: u64) {
        if value != 0 {
            self.tag(tag);
            self.raw_fixed64(value);
        }
    }

    /// Fields that were written elsewhere.
    pub(crate) fn append(&mut self, fields: &Self) {
        self.bytes.extend_from_slice(&fields.bytes);
    }

    /// Begins a field whose length is known later.
    pub(crate) fn open(&mut self, tag: Tag) -> OpenLength {
        self.tag(tag);
        let at = self.bytes.len();
        self.bytes.extend([0; LATE_LENGTH_BYTES]);
        OpenLength(at)
    }

    /// Ends it, and fills in the length.
    pub(crate) fn close(&mut self, OpenLength(at): OpenLength) {
        let end = at.saturating_add(LATE_LENGTH_BYTES);
        let mut length = self.bytes.len().saturating_sub(end);
        let places = self.bytes.get_mut(at..end).unwrap_or_default();
        let last = places.len().saturating_sub(1);
        for (place, byte) in places.iter_mut().enumerate() {
            let more = if place < last { 0x80 } else { 0 };
            *byte = length.to_le_bytes()[0] & 0x7f | more;
            length >>= 7;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Reader;

    #[test]
    fn what_is_written_is_read_back() {
        let mut writer = Writer::default();
        writer.signed(Tag::varint(1), -1);
        writer.varint(Tag::varint(2), 300);
        writer.varint(Tag::varint(3), 0);
        let open = writer.open(Tag::bytes(4));
        writer.raw_varint(u64::MAX);
        writer.close(open);
        let bytes = writer.into_bytes();
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.tag().unwrap(), Some(Tag::varint(1)));
        assert_eq!(reader.varint().unwrap(), u64::MAX);
        assert_eq!(reader.tag().unwrap(), Some(Tag::varint(2)));
        assert_eq!(reader.varint().unwrap(), 300);
        assert_eq!(reader.tag().unwrap(), Some(Tag::bytes(4)));
        let mut found = Vec::new();
        reader
            .packed_varints(|value| {
                found.push(value);
                Ok(())
            })
            .unwrap();
        assert_eq!(found, [u64::MAX]);
        assert_eq!(reader.tag().unwrap(), None);
    }
}
