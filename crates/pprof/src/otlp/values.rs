//! Attributes: keys and values, by number or spelled out, and lists and maps as text.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::fields;
use crate::error::DecodeError;
use crate::limits::{Limits, VALUE_DEPTH_MAX, within};
use crate::model::{Attribute, Profiles, StringId, Value};
use crate::wire::Reader;

/// Reads attributes into a model.
#[derive(Debug)]
pub(super) struct Values {
    pub(super) limits: Limits,
    /// How many strings are the dictionary's; those behind them are not to be referred to.
    pub(super) dictionary_strings: usize,
    /// Bytes of lists and maps that may still be written.
    structured_bytes_left: usize,
}

/// What a value is on the wire, borrowed.
enum Seen<'a> {
    Empty,
    Text(&'a str),
    TextIndex(u64),
    Bool(bool),
    Integer(i64),
    Double(f64),
    Array(Reader<'a>),
    Map(Reader<'a>),
    Bytes(&'a [u8]),
}

impl Values {
    pub(super) fn new(limits: &Limits, dictionary_strings: usize) -> Self {
        Self {
            limits: *limits,
            dictionary_strings,
            structured_bytes_left: limits.structured_bytes,
        }
    }

    /// A string of the dictionary.
    pub(super) fn string(&self, index: u64, place: &'static str) -> Result<StringId, DecodeError> {
        let length = self.dictionary_strings;
        let found = u32::try_from(index).ok();
        let found = found.filter(|&index| index == 0 || (index as usize) < length);
        let missing = DecodeError::OutOfRange {
            place,
            what: "string",
            index,
            length,
        };
        found.map(StringId).ok_or(missing)
    }

    /// Keeps a string that is spelled out.
    pub(super) fn text<'a>(
        &self,
        model: &mut Profiles<'a>,
        text: Cow<'a, str>,
    ) -> Result<StringId, DecodeError> {
        let id = model.push_text(text);
        within("strings", model.strings.len(), self.limits.strings)?;
        Ok(id)
    }

    /// An entry of the dictionary's attribute table.
    pub(super) fn key_value_and_unit<'a>(
        &mut self,
        model: &mut Profiles<'a>,
        mut reader: Reader<'a>,
    ) -> Result<Attribute, DecodeError> {
        use fields::key_value_and_unit as f;
        let mut found = Attribute {
            key: StringId::EMPTY,
            value: Value::Empty,
            unit: StringId::EMPTY,
        };
        while let Some(tag) = reader.tag()? {
            match tag {
                f::KEY => found.key = self.string(reader.varint()?, "attribute")?,
                f::VALUE => found.value = self.value(model, reader.message()?)?,
                f::UNIT => found.unit = self.string(reader.varint()?, "attribute")?,
                other => reader.skip(other)?,
            }
        }
        Ok(found)
    }

    /// An attribute of a resource or scope, whose key is spelled out or a number into the dictionary.
    pub(super) fn key_value<'a>(
        &mut self,
        model: &mut Profiles<'a>,
        mut reader: Reader<'a>,
    ) -> Result<Attribute, DecodeError> {
        use fields::key_value as f;
        let mut found = Attribute {
            key: StringId::EMPTY,
            value: Value::Empty,
            unit: StringId::EMPTY,
        };
        let mut key = "";
        while let Some(tag) = reader.tag()? {
            match tag {
                f::KEY => key = reader.string()?,
                f::KEY_INDEX => found.key = self.string(reader.varint()?, "attribute")?,
                f::VALUE => found.value = self.value(model, reader.message()?)?,
                other => reader.skip(other)?,
            }
        }
        if !key.is_empty() {
            found.key = self.text(model, key.into())?;
        }
        Ok(found)
    }

    fn value<'a>(
        &mut self,
        model: &mut Profiles<'a>,
        reader: Reader<'a>,
    ) -> Result<Value, DecodeError> {
        let seen = seen(reader)?;
        Ok(match seen {
            Seen::Empty => Value::Empty,
            Seen::Text(text) => Value::Text(self.text(model, text.into())?),
            Seen::TextIndex(index) => Value::Text(self.string(index, "attribute")?),
            Seen::Bool(is) => Value::Bool(is),
            Seen::Integer(number) => Value::Integer(number),
            Seen::Double(number) => Value::Double(number),
            Seen::Array(_) | Seen::Map(_) | Seen::Bytes(_) => {
                let mut json = String::new();
                self.write_json(model, &seen, (0, &mut json))?;
                self.structured_bytes_left = self.structured_bytes_left.saturating_sub(json.len());
                Value::Structured(self.text(model, json.into())?)
            }
        })
    }

    /// A value as JSON, as the OpenTelemetry specification has attributes that systems without lists and maps are to show.
    fn write_json(
        &self,
        model: &Profiles<'_>,
        seen: &Seen<'_>,
        (depth, out): (usize, &mut String),
    ) -> Result<(), DecodeError> {
        within("lists and maps within each other", depth, VALUE_DEPTH_MAX)?;
        match seen {
            Seen::Empty => out.push_str("null"),
            Seen::Text(text) => quote(text, out),
            Seen::TextIndex(index) => quote(model.text(self.string(*index, "attribute")?), out),
            Seen::Bool(is) => out.push_str(if *is { "true" } else { "false" }),
            Seen::Integer(number) => out.push_str(&number.to_string()),
            Seen::Double(number) if number.is_finite() => out.push_str(&number.to_string()),
            Seen::Double(number) => quote(&number.to_string(), out),
            Seen::Bytes(bytes) => quote(&STANDARD.encode(bytes), out),
            Seen::Array(reader) => {
                out.push('[');
                write_members(*reader, (depth, out), |member, into| {
                    self.write_json(model, &self::seen(member)?, into)
                })?;
                out.push(']');
            }
            Seen::Map(reader) => {
                out.push('{');
                write_members(*reader, (depth, out), |member, into| {
                    self.write_entry(model, member, into)
                })?;
                out.push('}');
            }
        }
        within(
            "bytes of attributes that are lists or maps",
            out.len(),
            self.structured_bytes_left,
        )
    }

    fn write_entry(
        &self,
        model: &Profiles<'_>,
        mut reader: Reader<'_>,
        (depth, out): (usize, &mut String),
    ) -> Result<(), DecodeError> {
        use fields::key_value as f;
        let (mut key, mut value) = ("", Seen::Empty);
        while let Some(tag) = reader.tag()? {
            match tag {
                f::KEY => key = reader.string()?,
                f::KEY_INDEX if key.is_empty() => {
                    key = model.text(self.string(reader.varint()?, "attribute")?);
                }
                f::VALUE => value = seen(reader.message()?)?,
                other => reader.skip(other)?,
            }
        }
        quote(key, out);
        out.push(':');
        self.write_json(model, &value, (depth, out))
    }
}

/// Writes the members of a list or a map, with commas.
fn write_members<'a>(
    mut reader: Reader<'a>,
    (depth, out): (usize, &mut String),
    mut write: impl FnMut(Reader<'a>, (usize, &mut String)) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    let mut is_first = true;
    while let Some(tag) = reader.tag()? {
        if tag != fields::list::VALUE {
            reader.skip(tag)?;
            continue;
        }
        if !std::mem::take(&mut is_first) {
            out.push(',');
        }
        write(reader.message()?, (depth + 1, out))?;
    }
    Ok(())
}

fn quote(text: &str, out: &mut String) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

fn seen(mut reader: Reader<'_>) -> Result<Seen<'_>, DecodeError> {
    use fields::any_value as f;
    let mut found = Seen::Empty;
    while let Some(tag) = reader.tag()? {
        found = match tag {
            f::STRING => Seen::Text(reader.string()?),
            f::BOOL => Seen::Bool(reader.varint()? != 0),
            f::INT => Seen::Integer(reader.varint()?.cast_signed()),
            f::DOUBLE => Seen::Double(f64::from_bits(reader.fixed64()?)),
            f::ARRAY => Seen::Array(reader.message()?),
            f::MAP => Seen::Map(reader.message()?),
            f::BYTES => Seen::Bytes(reader.bytes()?),
            f::STRING_INDEX => Seen::TextIndex(reader.varint()?),
            other => {
                reader.skip(other)?;
                found
            }
        };
    }
    Ok(found)
}
