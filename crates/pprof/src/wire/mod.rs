//! The protobuf wire format: a bounded reader that borrows, and a writer; protobuf encoding, "Message Structure".
//!
//! Written here and not derived, because ingest lives on it: no allocation for a sample, strings that are
//! slices of the input, and errors that say at which byte.

mod reader;
mod writer;

pub(crate) use reader::Reader;
pub(crate) use writer::Writer;

/// A field number and how its value is written, as it stands before the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(pub(crate) u32);

impl Tag {
    /// A number written as a varint.
    pub(crate) const fn varint(number: u32) -> Self {
        Self(number << 3)
    }

    /// Eight bytes.
    pub(crate) const fn fixed64(number: u32) -> Self {
        Self(number << 3 | 1)
    }

    /// A length and as many bytes: a message, a string, bytes, or packed numbers.
    pub(crate) const fn bytes(number: u32) -> Self {
        Self(number << 3 | 2)
    }
}
