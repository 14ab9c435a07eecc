//! What the environment of a process says of its service: two variables of OpenTelemetry's specification, and those that are allowed.
//!
//! `/proc/PID/environ` is the environment at exec, and may hold secrets: nothing else of it is kept, not even in memory longer than
//! it takes to look for these.

use std::str;

/// The name of the service; it wins over the same in the attributes.
const SERVICE_NAME_VARIABLE: &str = "OTEL_SERVICE_NAME";
/// Attributes as `key=value,key=value`, percent-encoded.
const ATTRIBUTES_VARIABLE: &str = "OTEL_RESOURCE_ATTRIBUTES";

/// What was found in an environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// `OTEL_SERVICE_NAME`, if it is not empty.
    pub service_name: Option<String>,
    /// `OTEL_RESOURCE_ATTRIBUTES`, and allowed variables under the attributes that they were given.
    pub attributes: Vec<(String, String)>,
}

/// Why `OTEL_RESOURCE_ATTRIBUTES` says nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseResourceAttributesError {
    /// A pair that is none.
    #[error("{pair:?} is no key=value")]
    NoPair {
        /// The pair.
        pair: String,
    },
    /// A `%` that is no percent-encoding, or one of something that is no UTF-8.
    #[error("{value:?} is not percent-encoded UTF-8")]
    Encoding {
        /// The value.
        value: String,
    },
}

impl Environment {
    /// What `block`, variables that end with a zero byte each, says. `allowed` are further variables and the attribute that each
    /// becomes.
    pub fn of(block: &[u8], allowed: &[(String, String)]) -> Self {
        let mut found = Self::default();
        let mut declared = Vec::new();
        let variables = block.split(|byte| *byte == 0);
        for variable in variables.filter_map(|text| str::from_utf8(text).ok()) {
            let Some((name, value)) = variable.split_once('=') else {
                continue;
            };
            match name {
                SERVICE_NAME_VARIABLE if !value.trim().is_empty() => {
                    found.service_name = Some(value.trim().to_owned());
                }
                // A value with an error in it is dropped as a whole, as the specification demands.
                ATTRIBUTES_VARIABLE => declared = resource_attributes(value).unwrap_or_default(),
                _ => {
                    let attribute = allowed.iter().find(|(allowed, _)| allowed == name);
                    found
                        .attributes
                        .extend(attribute.map(|(_, key)| (key.clone(), value.to_owned())));
                }
            }
        }
        declared.append(&mut found.attributes);
        found.attributes = declared;
        found
    }
}

/// The attributes of `OTEL_RESOURCE_ATTRIBUTES`, in their order; of several with one key the last remains.
///
/// # Errors
/// If any pair is damaged: then the whole is to be dropped (OpenTelemetry, Resource SDK, "Specifying resource information via an
/// environment variable").
pub fn resource_attributes(
    text: &str,
) -> Result<Vec<(String, String)>, ParseResourceAttributesError> {
    let mut found: Vec<(String, String)> = Vec::new();
    for pair in text
        .split(',')
        .map(str::trim)
        .filter(|pair| !pair.is_empty())
    {
        let (key, value) = pair
            .split_once('=')
            .map(|(key, value)| (key.trim(), value.trim()))
            .filter(|(key, _)| !key.is_empty())
            .ok_or_else(|| ParseResourceAttributesError::NoPair {
                pair: pair.to_owned(),
            })?;
        let (key, value) = (decoded(key)?, decoded(value)?);
        found.retain(|(other, _)| *other != key);
        found.push((key, value));
    }
    Ok(found)
}

fn decoded(text: &str) -> Result<String, ParseResourceAttributesError> {
    let wrong = || ParseResourceAttributesError::Encoding {
        value: text.to_owned(),
    };
    let mut bytes = text.bytes();
    let mut found = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            found.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let (high, low) = (digit().ok_or_else(wrong)?, digit().ok_or_else(wrong)?);
        found.push(u8::try_from(high * 16 + low).map_err(|_beyond| wrong())?);
    }
    String::from_utf8(found).map_err(|_not_text| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        resource_attributes(text).unwrap()
    }

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[test]
    fn pairs_are_decoded_and_the_last_of_a_key_remains() {
        let text = " service.version = 1%2C2 ,a=b=c,,service.version=2%20%C3%BC,";
        let expected = [pair("a", "b=c"), pair("service.version", "2 ü")];
        assert_eq!(pairs(text), expected);
        assert_eq!(pairs(""), []);
    }

    #[test]
    fn one_damaged_pair_drops_the_whole() {
        for text in ["a=b,c", "=b", "a=%", "a=%4", "a=%zz", "a=%ff", "a=b,c=%+1"] {
            assert!(resource_attributes(text).is_err(), "{text}");
        }
        let block = b"OTEL_RESOURCE_ATTRIBUTES=service.name=x,c\0OTEL_SERVICE_NAME=s\0";
        let found = Environment::of(block, &[]);
        assert_eq!(found.attributes, []);
        assert_eq!(found.service_name.as_deref(), Some("s"));
    }

    #[test]
    fn only_declared_and_allowed_variables_are_kept() {
        let block = b"SECRET=1\0TEAM=search\0OTEL_SERVICE_NAME= \0OTEL_RESOURCE_ATTRIBUTES=a=1\0\xff=\xff\0X";
        let allowed = [pair("TEAM", "team")];
        let found = Environment::of(block, &allowed);
        assert_eq!(found.service_name, None);
        assert_eq!(found.attributes, [pair("a", "1"), pair("team", "search")]);
    }

    proptest! {
        #[test]
        fn whatever_is_encoded_is_decoded(all in proptest::collection::btree_map("[a-z.]{1,8}", ".{0,8}", 0..5)) {
            let encode = |text: &str| -> String {
                text.bytes().fold(String::new(), |text, byte| format!("{text}%{byte:02x}"))
            };
            let text: Vec<_> = all.iter().map(|(key, value)| format!("{key}={}", encode(value))).collect();
            let expected: Vec<_> = all.into_iter().collect();
            prop_assert_eq!(pairs(&text.join(",")), expected);
        }

        #[test]
        fn any_bytes_are_an_environment(block: Vec<u8>) {
            let _any = Environment::of(&block, &[]);
        }
    }
}
