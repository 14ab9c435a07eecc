//! OTLP profiles, `opentelemetry.proto.profiles.v1development`: protobuf bytes to the model and back, and JSON to such bytes.
//!
//! The reader is written here, on the wire format, and not derived from the `.proto` files: ingest has to read millions of
//! samples a second on a core, and a tree of a dozen allocations a sample, which is what derived code makes, costs more than everything
//! that is done with it. The derived types of `opentelemetry-proto` are the oracle in the tests.

mod dictionary;
mod fields;
mod json;
mod meaning;
mod partial_success;
mod process_context;
mod request;
mod values;
mod write;

pub use json::json_to_protobuf;
pub use partial_success::{PartialSuccess, partial_success};
pub use process_context::process_context;
pub use write::encode;

use crate::error::DecodeError;
use crate::limits::Limits;
use crate::model::Profiles;
use crate::wire::Reader;

/// What a message held, and what of it could not be read.
#[derive(Clone, Debug, Default)]
pub struct Decoded<'a> {
    /// The profiles that are good.
    pub profiles: Profiles<'a>,
    /// The others; a request answers them as its `partial_success`.
    pub rejected: Vec<Rejected>,
}

/// A profile that was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Its place among all profiles of the message, from 0.
    pub index: usize,
    /// Why.
    pub error: DecodeError,
}

/// The profiles of an `ExportProfilesServiceRequest`, or of a `ProfilesData`, which has the same fields. It is
/// unpacked already: [`crate::unpacked`] does that.
///
/// A profile that refers to nothing is rejected alone.
///
/// # Errors
/// If the message is none, its dictionary refers to what is not in it, or a limit is exceeded.
pub fn decode<'a>(message: &'a [u8], limits: &Limits) -> Result<Decoded<'a>, DecodeError> {
    limits.message(message.len())?;
    let mut tables = dictionary::Tables::default();
    let mut reader = Reader::new(message);
    // The dictionary comes last on the wire, and everything refers to it.
    while let Some(tag) = reader.tag()? {
        match tag {
            fields::request::DICTIONARY => tables.take(reader.message()?, limits)?,
            other => reader.skip(other)?,
        }
    }
    let mut request = request::Request::new(tables.resolve(limits)?);
    let mut reader = Reader::new(message);
    while let Some(tag) = reader.tag()? {
        match tag {
            fields::request::RESOURCE_PROFILES => request.resource_profiles(reader.message()?)?,
            other => reader.skip(other)?,
        }
    }
    Ok(request.finish())
}
