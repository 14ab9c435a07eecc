//! The grammar: `{` matchers with commas between them and maybe one behind `}`.

use std::iter::Peekable;
use std::str::Chars;

use super::error::SelectorError;
use super::matcher::{Matcher, Operation, Pattern};
use super::text::{begins_identifier, continues_identifier, string};
use super::{MATCHERS_MAX, SELECTOR_BYTES_MAX};

/// Characters with their places.
#[derive(Debug)]
pub(super) struct Characters<'t> {
    rest: Peekable<Chars<'t>>,
    read: usize,
}

impl Characters<'_> {
    /// The place of the next one; the first is 1.
    pub(super) fn place(&self) -> usize {
        self.read.saturating_add(1)
    }

    pub(super) fn next(&mut self) -> Option<char> {
        let c = self.rest.next()?;
        self.read = self.read.saturating_add(1);
        Some(c)
    }

    fn next_if(&mut self, is_wanted: impl Fn(char) -> bool) -> Option<char> {
        let c = *self.rest.peek()?;
        if is_wanted(c) { self.next() } else { None }
    }

    fn skip_space(&mut self) {
        while self
            .next_if(|c| matches!(c, ' ' | '\t' | '\n' | '\r'))
            .is_some()
        {}
    }

    /// The next character is none that may be here.
    fn unexpected(&mut self, expected: &'static str) -> SelectorError {
        let Some(found) = self.rest.peek() else {
            return self.unexpected_end(expected);
        };
        SelectorError::Unexpected {
            found: shown(*found),
            place: self.place(),
            expected,
        }
    }

    pub(super) fn unexpected_end(&self, expected: &'static str) -> SelectorError {
        SelectorError::Unexpected {
            place: self.place(),
            expected,
            found: "the end".to_owned(),
        }
    }
}

fn shown(c: char) -> String {
    if c.is_control() {
        format!("`{}`", c.escape_default())
    } else {
        format!("`{c}`")
    }
}

/// The matchers of a selector, in the order of the text.
pub(super) fn selector(text: &str) -> Result<Vec<Matcher>, SelectorError> {
    if text.len() > SELECTOR_BYTES_MAX {
        return Err(SelectorError::TooLong {
            bytes: text.len(),
            max: SELECTOR_BYTES_MAX,
        });
    }
    let mut from = Characters {
        rest: text.chars().peekable(),
        read: 0,
    };
    from.skip_space();
    if from.next_if(|c| c == '{').is_none() {
        return Err(from.unexpected("`{`, as in {service=\"checkout\"}"));
    }
    let matchers = matchers(&mut from)?;
    from.skip_space();
    match from.rest.peek() {
        None => Ok(matchers),
        Some(_) => Err(from.unexpected("the end behind `}`")),
    }
}

fn matchers(from: &mut Characters<'_>) -> Result<Vec<Matcher>, SelectorError> {
    let mut all = Vec::new();
    loop {
        from.skip_space();
        if from.next_if(|c| c == '}').is_some() {
            return Ok(all);
        }
        if all.len() >= MATCHERS_MAX {
            return Err(SelectorError::TooManyMatchers { max: MATCHERS_MAX });
        }
        all.push(matcher(from)?);
        from.skip_space();
        if from.next_if(|c| c == ',').is_some() {
            continue;
        }
        if from.next_if(|c| c == '}').is_some() {
            return Ok(all);
        }
        return Err(from.unexpected("`,` or `}`"));
    }
}

fn matcher(from: &mut Characters<'_>) -> Result<Matcher, SelectorError> {
    let name = name(from)?;
    from.skip_space();
    let is_negated = from.next_if(|c| c == '!').is_some();
    let is_equal = from.next_if(|c| c == '=').is_some();
    let is_pattern = is_equal != is_negated && from.next_if(|c| c == '~').is_some();
    if !(is_equal || is_negated && is_pattern) {
        return Err(from.unexpected("`=`, `!=`, `=~` or `!~`"));
    }
    from.skip_space();
    let place = from.place();
    let Some(quote) = from.next_if(is_quote) else {
        return Err(from.unexpected("the value, in quotes"));
    };
    let value = string(from, quote)?;
    let pattern = |value: String| {
        Pattern::new(&value).map_err(|detail| SelectorError::Pattern {
            place,
            pattern: value,
            detail,
        })
    };
    let operation = match (is_pattern, is_negated) {
        (false, false) => Operation::Equal(value.into()),
        (false, true) => Operation::NotEqual(value.into()),
        (true, false) => Operation::Matching(pattern(value)?),
        (true, true) => Operation::NotMatching(pattern(value)?),
    };
    Ok(Matcher::new(&name, operation))
}

fn name(from: &mut Characters<'_>) -> Result<String, SelectorError> {
    let place = from.place();
    if let Some(quote) = from.next_if(is_quote) {
        let name = string(from, quote)?;
        if name.is_empty() {
            return Err(SelectorError::Unexpected {
                place,
                expected: "the name of a label",
                found: "an empty one".to_owned(),
            });
        }
        return Ok(name);
    }
    let mut name = String::new();
    name.extend(from.next_if(begins_identifier));
    if name.is_empty() {
        return Err(from.unexpected("the name of a label, in quotes if it has a dot"));
    }
    while let Some(c) = from.next_if(continues_identifier) {
        name.push(c);
    }
    Ok(name)
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\'' | '`')
}
