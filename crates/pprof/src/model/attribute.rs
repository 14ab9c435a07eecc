//! What profilers say about resources, profiles, mappings, frames and samples, as keys and values.

use super::StringId;

/// A key, a value, and the unit of a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attribute {
    /// The key, as in `thread.name`; resolved, if it came as a number into the string table (`key_strindex`).
    pub key: StringId,
    /// The value.
    pub value: Value,
    /// The unit of a number, mostly empty.
    pub unit: StringId,
}

/// A value of an attribute.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Value {
    /// No value.
    #[default]
    Empty,
    /// A text; resolved, if it came as a number into the string table (`string_value_strindex`).
    Text(StringId),
    /// True or false.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Double(f64),
    /// A list, a map or bytes (base64), as JSON text.
    Structured(StringId),
}

/// The span of a trace in which a sample was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Link {
    /// The trace.
    pub trace_id: [u8; 16],
    /// The span.
    pub span_id: [u8; 8],
}
