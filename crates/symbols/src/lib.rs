//! Debug file bytes in, a *symbol index* out, frames from the index: no I/O, no async, no clock.
//!
//! A debug file is converted once ([`model`] is what was found), written as a compact index, and
//! looked up from there; a look-up never touches DWARF again.

pub mod address;
pub mod convert;
pub mod demangle;
mod dwarf;
pub mod elf;
pub mod index;
pub mod model;
pub mod quality;
pub mod segments;

/// The version of the converter: raised whenever it makes another index of the same files, so that
/// indexes by older versions are made anew.
pub const CONVERTER_VERSION: u32 = 3;
