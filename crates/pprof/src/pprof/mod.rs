//! pprof, the format of google/pprof's `profile.proto`: read by tables first and samples then, written in one order.

mod fields;
mod read;
mod tables;
mod write;

pub use read::decode;
pub use write::{NameFrame, NamedLine, encode, encode_named};
