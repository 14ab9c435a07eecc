//! `opentelemetry.proto.processcontext.v1development.ProcessContext` (OTEP 4719): what an SDK says of its process, as texts.

use super::fields;
use super::values::Values;
use crate::error::DecodeError;
use crate::limits::{Limits, within};
use crate::model::{Profiles, Value};
use crate::wire::Reader;

/// The attributes of the resource, then the others, in the order of the message. Numbers and booleans become texts, lists and maps JSON;
/// what is empty is left out.
///
/// # Errors
/// If the message is none, or a limit is exceeded.
pub fn process_context(
    message: &[u8],
    limits: &Limits,
) -> Result<Vec<(String, String)>, DecodeError> {
    use fields::process_context as f;
    limits.message(message.len())?;
    let mut model = Profiles::default();
    // String 0 is empty, which is all that numbers can refer to here.
    model.push_text("".into());
    let mut texts = Texts {
        model,
        values: Values::new(limits, 1),
        found: Vec::new(),
    };
    let mut others = Vec::new();
    let mut reader = Reader::new(message);
    while let Some(tag) = reader.tag()? {
        match tag {
            f::RESOURCE => {
                let mut resource = reader.message()?;
                while let Some(tag) = resource.tag()? {
                    match tag {
                        fields::resource::ATTRIBUTE => texts.attribute(resource.message()?)?,
                        other => resource.skip(other)?,
                    }
                }
            }
            f::ATTRIBUTE => others.push(reader.message()?),
            other => reader.skip(other)?,
        }
    }
    for other in others {
        texts.attribute(other)?;
    }
    Ok(texts.found)
}

struct Texts<'a> {
    model: Profiles<'a>,
    values: Values,
    found: Vec<(String, String)>,
}

impl<'a> Texts<'a> {
    fn attribute(&mut self, reader: Reader<'a>) -> Result<(), DecodeError> {
        let attribute = self.values.key_value(&mut self.model, reader)?;
        let value = match attribute.value {
            Value::Empty => return Ok(()),
            Value::Text(id) | Value::Structured(id) => self.model.text(id).to_owned(),
            Value::Bool(is) => is.to_string(),
            Value::Integer(number) => number.to_string(),
            Value::Double(number) => number.to_string(),
        };
        let key = self.model.text(attribute.key).to_owned();
        self.found.push((key, value));
        within(
            "attributes",
            self.found.len(),
            self.values.limits.attributes,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Writer;

    fn key_value(key: &str, write: impl FnOnce(&mut Writer)) -> Writer {
        let mut value = Writer::default();
        write(&mut value);
        let mut pair = Writer::default();
        pair.bytes(fields::key_value::KEY, key.as_bytes());
        pair.message(fields::key_value::VALUE, &value);
        pair
    }

    fn message() -> Vec<u8> {
        use fields::any_value as v;
        let mut resource = Writer::default();
        let service = key_value("service.name", |value| value.bytes(v::STRING, b"shop"));
        let number = key_value("n", |value| value.varint(v::INT, 7));
        let empty = key_value("empty", |_| {});
        for pair in [service, number, empty] {
            resource.message(fields::resource::ATTRIBUTE, &pair);
        }
        let other = key_value("threads", |value| value.varint(v::BOOL, 1));
        let mut message = Writer::default();
        message.message(fields::process_context::ATTRIBUTE, &other);
        message.message(fields::process_context::RESOURCE, &resource);
        message.into_bytes()
    }

    #[test]
    fn the_resource_comes_first_and_everything_is_text() {
        let found = process_context(&message(), &Limits::default()).unwrap();
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let expected = [
            pair("service.name", "shop"),
            pair("n", "7"),
            pair("threads", "true"),
        ];
        assert_eq!(found, expected);
        assert_eq!(process_context(&[], &Limits::default()), Ok(Vec::new()));
    }

    #[test]
    fn a_message_that_is_cut_is_an_error_or_shorter() {
        let whole = message();
        for end in 0..whole.len() {
            let cut = process_context(&whole[..end], &Limits::default());
            assert!(cut.is_err() || cut.unwrap().len() < 3, "{end}");
        }
    }
}
