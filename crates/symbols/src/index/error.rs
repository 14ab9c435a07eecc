//! What can be wrong with a symbol index, and where: section and offset, in words for a log line.

use super::layout::Section;

/// Why an index, or a part of it, cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The first eight bytes are not those of a symbol index.
    #[error("not a symbol index: it does not begin with the magic bytes")]
    NotAnIndex,
    /// Written in a format that this reader does not know.
    #[error("symbol index of format version {found}, this reader knows {known}")]
    UnknownVersion {
        /// Version in the file.
        found: u32,
        /// Version of this reader.
        known: u32,
    },
    /// The file ends before something that its header promises.
    #[error("symbol index of {length} bytes ends before byte {needed}, {what}")]
    Truncated {
        /// What should be there.
        what: &'static str,
        /// Bytes that are there.
        length: u64,
        /// Bytes that would be needed.
        needed: u64,
    },
    /// A section is not in the section table.
    #[error("section {section}: missing")]
    MissingSection {
        /// Which.
        section: Section,
    },
    /// Bytes that no writer makes.
    #[error("section {section}: offset {offset:#x}: {what}")]
    Damaged {
        /// Where.
        section: Section,
        /// Offset in the section.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// The bytes are not those that were written.
    #[error("section {section}: checksum {found:08x} instead of {expected:08x}")]
    Checksum {
        /// Which.
        section: Section,
        /// Checksum in the section table.
        expected: u32,
        /// Checksum of the bytes.
        found: u32,
    },
    /// An answer would be larger than any honest file makes it.
    #[error("more than {limit} {what} in one answer")]
    TooLarge {
        /// Of what there are too many.
        what: &'static str,
        /// How many are allowed.
        limit: usize,
    },
}

/// Why a model cannot be written as an index.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// A number in the model refers to something that is not there, or the order is wrong.
    #[error("model: {what} {index}: {fault}")]
    Model {
        /// Row, node or function.
        what: &'static str,
        /// Its number.
        index: usize,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// Beyond what the format can count.
    #[error("model: more than {limit} {what}")]
    TooLarge {
        /// Of what there are too many.
        what: &'static str,
        /// How many are allowed.
        limit: u64,
    },
    /// The output could not be written.
    #[error("symbol index could not be written")]
    Io(#[from] std::io::Error),
}
