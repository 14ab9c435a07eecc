//! Numbers to 2^64-1 in JSON: hex strings, since JavaScript loses integers above 2^53, or integers.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::schema::{OneOfBuilder, Schema, SchemaType, Type};
use utoipa::openapi::{ObjectBuilder, RefOr};
use utoipa::{PartialSchema, ToSchema};

/// One address of a batch. What is no address stands for itself alone: its answer is the reason
/// `invalid_address`, and the others of the batch are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A number to 2^64-1.
    Known(u64),
    /// Something else: a negative or too large number, a string without hex digits, `null`.
    Invalid,
}

/// A number to 2^64-1 that has to be one, such as the start of a mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Unsigned64(pub u64);

impl Address {
    /// The number, if it is one.
    pub fn known(self) -> Option<u64> {
        match self {
            Self::Known(address) => Some(address),
            Self::Invalid => None,
        }
    }
}

impl From<u64> for Address {
    fn from(address: u64) -> Self {
        Self::Known(address)
    }
}

impl From<u64> for Unsigned64 {
    fn from(number: u64) -> Self {
        Self(number)
    }
}

/// The number that 1 to 16 hex digits write, after `0x` or `0X` or without.
fn parse_hex(text: &str) -> Option<u64> {
    let digits = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))
        .unwrap_or(text)
        .as_bytes();
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, byte| {
        let digit = char::from(*byte).to_digit(16)?;
        (number >> 60 == 0).then(|| number << 4 | u64::from(digit))
    })
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AddressVisitor;

        impl Visitor<'_> for AddressVisitor {
            type Value = Address;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an address: a hex string or an integer up to 2^64-1")
            }

            fn visit_u64<E>(self, number: u64) -> Result<Address, E> {
                Ok(Address::Known(number))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Address, E> {
                Ok(u64::try_from(number).map_or(Address::Invalid, Address::Known))
            }

            fn visit_f64<E>(self, _: f64) -> Result<Address, E> {
                Ok(Address::Invalid)
            }

            fn visit_str<E>(self, text: &str) -> Result<Address, E> {
                Ok(parse_hex(text).map_or(Address::Invalid, Address::Known))
            }

            fn visit_unit<E>(self) -> Result<Address, E> {
                Ok(Address::Invalid)
            }
        }

        deserializer.deserialize_any(AddressVisitor)
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Known(address) => Unsigned64(*address).serialize(serializer),
            Self::Invalid => serializer.serialize_unit(),
        }
    }
}

impl<'de> Deserialize<'de> for Unsigned64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Unsigned64Visitor;

        impl Visitor<'_> for Unsigned64Visitor {
            type Value = Unsigned64;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a hex string or an integer up to 2^64-1")
            }

            fn visit_u64<E>(self, number: u64) -> Result<Unsigned64, E> {
                Ok(Unsigned64(number))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Unsigned64, E> {
                u64::try_from(number)
                    .map(Unsigned64)
                    .map_err(|_negative| E::invalid_value(Unexpected::Signed(number), &self))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Unsigned64, E> {
                parse_hex(text)
                    .map(Unsigned64)
                    .ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_any(Unsigned64Visitor)
    }
}

impl Serialize for Unsigned64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:#x}", self.0))
    }
}

/// The schema of both types: a hex string or an integer.
fn hex_or_integer() -> RefOr<Schema> {
    let hex = ObjectBuilder::new()
        .schema_type(SchemaType::new(Type::String))
        .pattern(Some("^(0[xX])?[0-9a-fA-F]{1,16}$"));
    let integer = ObjectBuilder::new()
        .schema_type(SchemaType::new(Type::Integer))
        .minimum(Some(0_u64));
    RefOr::T(Schema::OneOf(
        OneOfBuilder::new().item(hex).item(integer).build(),
    ))
}

impl PartialSchema for Address {
    fn schema() -> RefOr<Schema> {
        hex_or_integer()
    }
}

impl ToSchema for Address {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Address")
    }
}

impl PartialSchema for Unsigned64 {
    fn schema() -> RefOr<Schema> {
        hex_or_integer()
    }
}

impl ToSchema for Unsigned64 {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Unsigned64")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_strings_and_integers_name_the_same_address() {
        let text = r#"["0x1139", "1139", "0XFFFFFFFFFFFFFFFF", 4409, 18446744073709551615]"#;
        let addresses: Vec<Address> = serde_json::from_str(text).unwrap();
        assert_eq!(
            addresses,
            [0x1139, 0x1139, u64::MAX, 4409, u64::MAX].map(Address::Known)
        );
    }

    #[test]
    fn what_is_no_address_is_invalid_and_fails_nothing_else() {
        let text = r#"["", "0x", "0xg", "0x1ffffffffffffffff", -1, 1.5, null, 18446744073709551616, "é", 1]"#;
        let addresses: Vec<Address> = serde_json::from_str(text).unwrap();
        assert_eq!(addresses[..9], [Address::Invalid; 9]);
        assert_eq!(addresses[9], Address::Known(1));
    }

    #[test]
    fn addresses_are_written_as_hex_strings() {
        let text = serde_json::to_string(&[Address::Known(0x1139), Address::Invalid]).unwrap();
        assert_eq!(text, r#"["0x1139",null]"#);
    }

    #[test]
    fn a_number_that_must_be_one_names_what_it_found() {
        let error = serde_json::from_str::<Unsigned64>(r#""0xzz""#).unwrap_err();
        assert!(error.to_string().contains("0xzz"), "{error}");
    }
}
