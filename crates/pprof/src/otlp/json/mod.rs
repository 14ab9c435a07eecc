//! OTLP in JSON to the same message as protobuf bytes, which are then read like any other.
//!
//! So every rule is written once, and what is slow here hurts nobody: profiles come as protobuf from all who send many. It follows the
//! OTLP specification, "JSON Protobuf Encoding", and protobuf's JSON mapping: names in lowerCamelCase or as in the `.proto` files,
//! 64-bit numbers as text or as numbers, trace, span and profile IDs in hex, other bytes in base64, `null` for
//! "not there", unknown names left out. The types of `opentelemetry-proto` cannot be used: their serde takes 64-bit numbers
//! only as numbers, demands names that JSON leaves out at their default, has the IDs of links as lists of numbers, and does
//! not know `stringValueStrindex`.

mod scalars;
mod schema;

use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use scalars::{Bytes, Double, Number, Text};
use schema::{Field, Kind, Message};

use crate::error::DecodeError;
use crate::limits::Limits;
use crate::wire::Writer;

/// The message as protobuf, for [`super::decode`].
///
/// # Errors
/// If it is no JSON, or not that of profiles; the error has line and column.
pub fn json_to_protobuf(json: &[u8], limits: &Limits) -> Result<Vec<u8>, DecodeError> {
    limits.message(json.len())?;
    let mut out = Writer::default();
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let object = Object {
        message: &schema::REQUEST,
        out: &mut out,
    };
    let read = object
        .deserialize(&mut deserializer)
        .and_then(|()| deserializer.end());
    read.map_err(|error| DecodeError::Json {
        detail: error.to_string(),
    })?;
    Ok(out.into_bytes())
}

/// A JSON object as the fields of a message.
struct Object<'w> {
    message: &'static Message,
    out: &'w mut Writer,
}

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object, a {}", self.message.name)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(field) = map.next_key_seed(Name(self.message))? {
            match field {
                Some(field) => map.next_value_seed(Optional {
                    field,
                    out: &mut *self.out,
                })?,
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// The name of a field, if there is one.
struct Name(&'static Message);

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Option<&'static Field>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Name {
    type Value = Option<&'static Field>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the name of a field of {}", self.0.name)
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.fields.iter().find(|field| field.is_named(name)))
    }
}

/// A field's value or values, or `null`.
struct Optional<'w> {
    field: &'static Field,
    out: &'w mut Writer,
}

impl<'de> DeserializeSeed<'de> for Optional<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for Optional<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.field.expected())
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.field.is_repeated {
            return deserializer.deserialize_seq(self);
        }
        One {
            field: self.field,
            out: self.out,
        }
        .deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        while elements
            .next_element_seed(One {
                field: self.field,
                out: &mut *self.out,
            })?
            .is_some()
        {}
        Ok(())
    }
}

/// One value. Those that are their type's default are written, too: one of a choice says by being there which it is.
struct One<'w> {
    field: &'static Field,
    out: &'w mut Writer,
}

impl<'de> DeserializeSeed<'de> for One<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let Self {
            field: Field { tag, kind, .. },
            out,
        } = self;
        match kind {
            Kind::Message(message) => {
                let open = out.open(*tag);
                Object {
                    message,
                    out: &mut *out,
                }
                .deserialize(deserializer)?;
                out.close(open);
            }
            Kind::Text => deserializer.deserialize_str(Text { tag: *tag, out })?,
            Kind::Varint => {
                let number = deserializer.deserialize_any(Number)?;
                out.tag(*tag);
                out.raw_varint(number);
            }
            Kind::Bool => {
                let is = <bool as serde::Deserialize>::deserialize(deserializer)?;
                out.tag(*tag);
                out.raw_varint(u64::from(is));
            }
            Kind::Fixed64 => {
                let number = deserializer.deserialize_any(Number)?;
                out.tag(*tag);
                out.raw_fixed64(number);
            }
            Kind::Double => {
                let number = deserializer.deserialize_any(Double)?;
                out.tag(*tag);
                out.raw_fixed64(number.to_bits());
            }
            Kind::Hex(bytes) => {
                let id = deserializer.deserialize_str(Bytes {
                    hex_bytes: Some(*bytes),
                })?;
                out.bytes(*tag, &id);
            }
            Kind::Bytes => {
                let bytes = deserializer.deserialize_str(Bytes { hex_bytes: None })?;
                out.bytes(*tag, &bytes);
            }
        }
        // Lengths that are filled in later have 32 bits.
        if u32::try_from(out.len()).is_err() {
            return Err(D::Error::custom("more than 4 GiB"));
        }
        Ok(())
    }
}
