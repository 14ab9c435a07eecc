//! Why bytes are no profile, and what whoever sent them can do about it.

/// Why a message, or one profile in it, was not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes are no protobuf.
    #[error(
        "byte {offset}: {what}; this is no protobuf message, or it was cut or damaged on the way"
    )]
    Malformed {
        /// Where, from the start of the unpacked message.
        offset: usize,
        /// What is wrong there.
        what: &'static str,
    },
    /// More of something than is read.
    #[error("more than {max} {what}: send less at a time")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        max: usize,
    },
    /// An index or ID that leads nowhere.
    #[error("a {place} refers to {what} {index}, which is not in the message ({length} are)")]
    OutOfRange {
        /// What refers.
        place: &'static str,
        /// What it refers to.
        what: &'static str,
        /// By which number; negative ones appear as very large.
        index: u64,
        /// How many there are.
        length: usize,
    },
    /// Two entries of one table have one ID.
    #[error("two {what}s have the ID {id}")]
    DuplicateId {
        /// What has the ID.
        what: &'static str,
        /// The ID.
        id: u64,
    },
    /// pprof counts from 1.
    #[error("a {what} has the ID 0; IDs start at 1")]
    IdZero {
        /// What has the ID.
        what: &'static str,
    },
    /// A sample that does not fit the types of its profile.
    #[error("a sample has {found} values, {expected} are due: {rule}")]
    ValueCount {
        /// How many it has.
        found: usize,
        /// How many it should have.
        expected: usize,
        /// The rule that says so.
        rule: &'static str,
    },
    /// A text that is none.
    #[error("byte {offset}: a string is not UTF-8")]
    NotUtf8 {
        /// Where the string starts.
        offset: usize,
    },
    /// Index 0 means "none" in every table, so that string 0 must be empty.
    #[error("string 0 of the string table is not empty, as both formats demand")]
    FirstString,
    /// Samples refer to stacks, and there is no table of them.
    #[error(
        "the dictionary has no stack table: the sender speaks OTLP profiles from before opentelemetry-proto 1.8, update it"
    )]
    NoStackTable,
    /// What claimed to be gzip is none.
    #[error("the gzip stream is damaged: {detail}")]
    Gzip {
        /// The decoder's words.
        detail: String,
    },
    /// The text is no JSON form of OTLP profiles.
    #[error("no OTLP profiles in JSON: {detail}")]
    Json {
        /// The parser's words, with line and column.
        detail: String,
    },
}

impl DecodeError {
    /// Whether it concerns one profile alone, so that the others of the message are good.
    pub(crate) fn is_of_one_profile(&self) -> bool {
        matches!(self, Self::OutOfRange { .. } | Self::ValueCount { .. })
    }
}

/// Why a profile cannot be written as pprof.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// pprof has 64-bit values.
    #[error("the values of one sample add up to {total}, beyond the 64 bits of pprof")]
    TotalTooLarge {
        /// The sum.
        total: i128,
    },
}
