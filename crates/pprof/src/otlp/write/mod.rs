//! The model to an OTLP message: the same model always gives the same bytes.
//!
//! Numbers are given in the order of first use, and what no sample uses is left out; entry 0 of each table is its zero value,
//! as the format demands. Neighbours of one resource become one `ResourceProfiles`. Keys and texts of attributes are spelled
//! out, since some receivers do not follow numbers into the string table. A profile of several value types becomes one for
//! each, as OTLP knows only one. What the format has no place for is left out (comments, patterns of frames, folded locations),
//! lists and maps are written as the JSON text that they were read as, and addresses as they came.

mod encoder;
mod tables;

use encoder::Encoder;

use crate::model::Profiles;

/// All profiles of a model as an `ExportProfilesServiceRequest`. Not packed.
///
/// The identity of a binary and the language of a frame become attributes (`process.executable.build_id.gnu`,
/// `profile.frame.type`), unless the lists of the two say so themselves.
///
/// ```
/// use unhex_pprof::{Builder, Limits, Profile, otlp};
///
/// # fn main() -> Result<(), unhex_pprof::DecodeError> {
/// let mut builder = Builder::default();
/// builder.profile(Profile { period: 7, ..Profile::default() });
/// let message = otlp::encode(&builder.finish());
/// let again = otlp::decode(&message, &Limits::default())?;
/// assert_eq!(again.profiles.profiles()[0].period, 7);
/// # Ok(())
/// # }
/// ```
pub fn encode(model: &Profiles<'_>) -> Vec<u8> {
    let mut encoder = Encoder::new(model);
    encoder.resources();
    encoder.finish()
}
