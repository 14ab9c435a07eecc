//! One condition on one label.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;

use regex::{Regex, RegexBuilder};

use super::text::{is_identifier, quoted};
use super::{PATTERN_COMPILED_BYTES_MAX, PATTERN_DEPTH_MAX};

/// A condition on the value of a label; a label that is not there has the value `""`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Matcher {
    name: Box<str>,
    operation: Operation,
}

/// What the value has to be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// `=`
    Equal(Box<str>),
    /// `!=`
    NotEqual(Box<str>),
    /// `=~`
    Matching(Pattern),
    /// `!~`
    NotMatching(Pattern),
}

/// A regular expression for whole values. Two are equal when their texts are.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: Box<str>,
    compiled: Regex,
    /// The values that match, if the pattern is a list of them.
    plain: Option<Vec<String>>,
}

impl Matcher {
    /// A condition on the label of this name.
    pub fn new(name: &str, operation: Operation) -> Self {
        let name = name.into();
        Self { name, operation }
    }

    /// The label.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The condition.
    pub fn operation(&self) -> &Operation {
        &self.operation
    }

    /// Whether this value satisfies it.
    pub fn matches(&self, value: &str) -> bool {
        match &self.operation {
            Operation::Equal(wanted) => **wanted == *value,
            Operation::NotEqual(unwanted) => **unwanted != *value,
            Operation::Matching(pattern) => pattern.matches(value),
            Operation::NotMatching(pattern) => !pattern.matches(value),
        }
    }

    /// The values that satisfy it, if they are few and known.
    pub(super) fn plain_values(&self) -> Option<BTreeSet<&str>> {
        match &self.operation {
            Operation::Equal(value) => Some(BTreeSet::from([&**value])),
            Operation::Matching(pattern) => pattern.plain_values(),
            Operation::NotEqual(_) | Operation::NotMatching(_) => None,
        }
    }
}

impl Pattern {
    /// A pattern that has to match from the first to the last character; a dot matches a line break, too.
    ///
    /// # Errors
    /// What is wrong with it, in the words of the regex library; or that it would be too large or too deep.
    pub fn new(text: &str) -> Result<Self, String> {
        // Alone first: `a)|(b` would close the group that anchors it.
        compile(text).map_err(|error| in_words(&error))?;
        let compiled = compile(&format!("^(?:{text})$")).map_err(|error| in_words(&error))?;
        Ok(Self {
            text: text.into(),
            compiled,
            plain: alternatives(text),
        })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    fn matches(&self, value: &str) -> bool {
        self.compiled.is_match(value)
    }

    fn plain_values(&self) -> Option<BTreeSet<&str>> {
        let plain = self.plain.as_ref()?.iter();
        Some(plain.map(String::as_str).collect())
    }
}

/// The texts of a pattern that is nothing but texts with `|` between them, as `2\.3|2\.4`.
fn alternatives(pattern: &str) -> Option<Vec<String>> {
    let mut all = vec![String::new()];
    let mut characters = pattern.chars();
    while let Some(c) = characters.next() {
        let literal = match c {
            '|' => {
                all.push(String::new());
                continue;
            }
            // `\<` and `\>` are ends of words.
            '\\' => characters
                .next()
                .filter(|c| c.is_ascii_punctuation() && !matches!(c, '<' | '>'))?,
            '.' | '+' | '*' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '^' | '$' => return None,
            c => c,
        };
        all.last_mut()?.push(literal);
    }
    Some(all)
}

fn compile(text: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(text)
        .dot_matches_new_line(true)
        .size_limit(PATTERN_COMPILED_BYTES_MAX)
        .dfa_size_limit(PATTERN_COMPILED_BYTES_MAX)
        .nest_limit(PATTERN_DEPTH_MAX)
        .build()
}

/// The last line of the library's message says what is wrong; those before it draw the pattern.
fn in_words(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default().trim();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl PartialOrd for Pattern {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Pattern {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if is_identifier(&self.name) {
            f.write_str(&self.name)?;
        } else {
            quoted(&self.name, f)?;
        }
        let (sign, value) = match &self.operation {
            Operation::Equal(value) => ("=", &**value),
            Operation::NotEqual(value) => ("!=", &**value),
            Operation::Matching(pattern) => ("=~", pattern.as_str()),
            Operation::NotMatching(pattern) => ("!~", pattern.as_str()),
        };
        f.write_str(sign)?;
        quoted(value, f)
    }
}
