//! How much of everything one message may hold: what strangers send decides over no memory.
//!
//! Every element of a table costs at least two bytes of the message, and some cost much more memory than that, so
//! the tables have bounds of their own. With the bounds of [`Limits::default`] the worst message makes a
//! model of about 1 GiB; real ones take about twice their length.

use crate::error::DecodeError;

/// Bounds on one message. The figures in brackets are what large real profiles have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the message after decompression; what the OTLP specification recommends for requests.
    pub message_bytes: usize,
    /// Profiles in a message (one for each process of a host: thousands), 200 bytes of memory each.
    pub profiles: usize,
    /// Samples (a 256-core host in a minute: 300,000), 36 bytes of memory each.
    pub samples: usize,
    /// Frames of one stack (profilers stop at 128 to 2,048).
    pub stack_depth: usize,
    /// Frames of all distinct stacks (200,000 of 40), 4 bytes of memory each, and some 50 for who stores them.
    pub stack_frames: usize,
    /// Distinct stacks (200,000), 8 bytes of memory each.
    pub stacks: usize,
    /// Distinct locations (500,000), 100 bytes of memory each while they are read.
    pub locations: usize,
    /// Names of locations (700,000), 48 bytes of memory each while they are read.
    pub lines: usize,
    /// Functions (200,000), 64 bytes of memory each while they are read.
    pub functions: usize,
    /// Mappings (20,000), 150 bytes of memory each.
    pub mappings: usize,
    /// Strings (500,000), 24 bytes of memory each.
    pub strings: usize,
    /// Attributes (100,000), 24 bytes of memory each.
    pub attributes: usize,
    /// Links to spans (one for each sample at most), 24 bytes of memory each.
    pub links: usize,
    /// Bytes of all attribute values that are lists or maps, written as JSON: a list of references to one
    /// long string is short in the message and long as text.
    pub structured_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: MESSAGE_BYTES_MAX,
            profiles: PROFILES_MAX,
            samples: SAMPLES_MAX,
            stack_depth: STACK_DEPTH_MAX,
            stack_frames: STACK_FRAMES_MAX,
            stacks: STACKS_MAX,
            locations: LOCATIONS_MAX,
            lines: LINES_MAX,
            functions: FUNCTIONS_MAX,
            mappings: MAPPINGS_MAX,
            strings: STRINGS_MAX,
            attributes: ATTRIBUTES_MAX,
            links: LINKS_MAX,
            structured_bytes: STRUCTURED_BYTES_MAX,
        }
    }
}

/// Bytes of a message of profiles, unpacked: the request limit that the OTLP specification recommends.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Profiles in a message: hosts have some thousand processes, and each a few kinds of profile.
const PROFILES_MAX: usize = 1 << 16;
/// Samples in a message: a 256-core host makes 300,000 in a minute.
const SAMPLES_MAX: usize = 8 << 20;
/// Frames of a stack: profilers stop at 128 to 2,048.
const STACK_DEPTH_MAX: usize = 16_384;
/// Frames of all stacks of a message: 200,000 stacks of 40 are 8 million.
const STACK_FRAMES_MAX: usize = 8 << 20;
/// Stacks in a message: whole hosts have 200,000 different ones in a minute.
const STACKS_MAX: usize = 4 << 20;
/// Locations in a message: whole hosts have 500,000.
const LOCATIONS_MAX: usize = 2 << 20;
/// Names of locations in a message, inlined calls each: whole hosts have 700,000.
const LINES_MAX: usize = 8 << 20;
/// Functions in a message: a symbolized profile of a browser has 200,000.
const FUNCTIONS_MAX: usize = 2 << 20;
/// Mappings in a message: 5,000 processes with different libraries have 20,000.
const MAPPINGS_MAX: usize = 1 << 18;
/// Strings in a message: two for each function and a few for each attribute.
const STRINGS_MAX: usize = 4 << 20;
/// Attributes in a message, those of resources included: 100 for each of 5,000 processes, and the threads.
const ATTRIBUTES_MAX: usize = 1 << 20;
/// Links to spans in a message: each sample may have its own.
const LINKS_MAX: usize = 1 << 20;
/// Bytes of lists and maps in attributes, as JSON: real ones have a few hundred.
const STRUCTURED_BYTES_MAX: usize = 16 << 20;
/// The longest message that can be read whatever is asked for: places in pools of its elements have 32 bits.
const ADDRESSABLE_BYTES_MAX: usize = (1 << 32) - 2;
/// Lists and maps within each other in one attribute: configurations dumped into one have five.
pub(crate) const VALUE_DEPTH_MAX: usize = 16;

impl Limits {
    /// Refuses a message that is too long.
    pub(crate) fn message(&self, bytes: usize) -> Result<(), DecodeError> {
        let max = self.message_bytes.min(ADDRESSABLE_BYTES_MAX);
        within("bytes of a message", bytes, max)
    }
}

/// Refuses a count beyond its limit.
#[inline]
pub(crate) fn within(what: &'static str, count: usize, max: usize) -> Result<(), DecodeError> {
    if count > max {
        return Err(DecodeError::TooLarge { what, max });
    }
    Ok(())
}
