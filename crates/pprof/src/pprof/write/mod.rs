//! The model to pprof bytes: the same model always gives the same bytes.
//!
//! Numbers are given in the order of first use, and what no sample uses is left out. Addresses and mappings are written as they
//! came, since every reader of pprof normalizes for itself. What pprof has no place for is left out: timestamps (a
//! sample's observations are added up), links, and attributes of all but samples.

mod encoder;

use encoder::Encoder;

use crate::error::EncodeError;
use crate::model::{FrameId, Profile, Profiles};

/// A name for a frame: one call of its chain of inlined calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamedLine<'n> {
    /// The function's name for people.
    pub name: &'n str,
    /// Its name for linkers.
    pub system_name: &'n str,
    /// The source file.
    pub file_name: &'n str,
    /// The line, 0 if unknown.
    pub line: i64,
    /// The column, 0 if unknown.
    pub column: i64,
    /// The line on which the function starts, 0 if unknown.
    pub start_line: i64,
}

/// Who has names for frames: pushes those of one, innermost first. Where nothing is pushed the profiler's own stay.
pub type NameFrame<'n, 'f> = dyn FnMut(FrameId, &mut Vec<NamedLine<'n>>) + 'f;

/// One profile of a model as pprof, with the names that it came with. Not packed, see [`crate::packed`].
///
/// # Errors
/// If the observations of a sample add up to more than 64 bits.
pub fn encode(model: &Profiles<'_>, profile: &Profile) -> Result<Vec<u8>, EncodeError> {
    encode_named(model, profile, &mut |_, _| {})
}

/// One profile of a model as pprof, with names for its frames; each frame is asked for once.
///
/// A mapping is said to have functions when all of its frames that are written do, so that `pprof` goes on to
/// symbolize where some are missing.
///
/// # Errors
/// If the observations of a sample add up to more than 64 bits.
pub fn encode_named<'n>(
    model: &'n Profiles<'_>,
    profile: &Profile,
    name: &mut NameFrame<'n, '_>,
) -> Result<Vec<u8>, EncodeError> {
    let mut encoder = Encoder::new(model);
    encoder.value_types(profile);
    for sample in model.samples(profile) {
        encoder.sample(profile, &sample)?;
    }
    encoder.locations(name);
    encoder.mappings();
    encoder.functions();
    encoder.header(profile);
    Ok(encoder.finish())
}
