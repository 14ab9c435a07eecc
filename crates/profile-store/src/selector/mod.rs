//! Which series are meant: matchers of `PromQL`, `{service="checkout",version=~"2.*"}`.
//!
//! As in Prometheus: a pattern matches the whole value, a dot in it also a line break, and a label that a series lacks is `""`. Names that are no
//! identifiers of that language are quoted: `{"k8s.pod.name"="x"}`. `{}` means everything.

mod error;
mod matcher;
mod parse;
mod text;

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

pub use error::SelectorError;
pub use matcher::{Matcher, Operation, Pattern};

/// Bytes of a selector: one with 32 matchers of the longest names and values has 6,000.
pub const SELECTOR_BYTES_MAX: usize = 8_192;
/// Matchers of a selector: a series has at most 42 labels, and people name a few.
pub const MATCHERS_MAX: usize = 32;
/// Bytes of a compiled pattern; a list of 200 host names has 100,000.
pub const PATTERN_COMPILED_BYTES_MAX: usize = 1 << 20;
/// Groups within each other in a pattern; those that people write have 3.
pub const PATTERN_DEPTH_MAX: u32 = 32;

/// Matchers that a series has to satisfy, all of them. `Display` gives the canonical form: in order of the names, each matcher once.
///
/// ```
/// use unhex_profile_store::selector::Selector;
///
/// # fn main() -> Result<(), unhex_profile_store::selector::SelectorError> {
/// let selector: Selector = r#"{ version=~"2.*", service='checkout', }"#.parse()?;
/// assert_eq!(selector.to_string(), r#"{service="checkout",version=~"2.*"}"#);
/// let labels = |name: &str| match name { "service" => "checkout", "version" => "2.4", _ => "" };
/// assert!(selector.matches(labels));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    matchers: Vec<Matcher>,
}

impl Selector {
    /// Everything that satisfies all of these.
    pub fn new(matchers: impl IntoIterator<Item = Matcher>) -> Self {
        let mut matchers: Vec<Matcher> = matchers.into_iter().collect();
        matchers.sort();
        matchers.dedup();
        Self { matchers }
    }

    /// The matchers, in canonical order.
    pub fn matchers(&self) -> &[Matcher] {
        &self.matchers
    }

    /// Whether a series with these labels is meant. What the function says of a label that the series lacks is `""`.
    pub fn matches<'l>(&self, label: impl Fn(&str) -> &'l str) -> bool {
        let mut matchers = self.matchers.iter();
        matchers.all(|matcher| matcher.matches(label(matcher.name())))
    }

    /// Whether a series may be meant of which this label alone is known.
    pub fn may_match(&self, name: &str, value: &str) -> bool {
        let mut of_name = self.of(name);
        of_name.all(|matcher| matcher.matches(value))
    }

    /// The values that the label must have one of; `None` if it may have others. So a reader can leave out files and row groups.
    ///
    /// Known of `=`, and of `=~` with texts alone, as in `checkout|payment` or `2\.3|2\.4`.
    pub fn values_of(&self, name: &str) -> Option<BTreeSet<&str>> {
        let mut known: Option<BTreeSet<&str>> = None;
        for values in self.of(name).filter_map(Matcher::plain_values) {
            known = Some(match known {
                Some(known) => known.intersection(&values).copied().collect(),
                None => values,
            });
        }
        known.map(|mut known| {
            known.retain(|value| self.may_match(name, value));
            known
        })
    }

    /// Those matchers of these labels that [`Self::values_of`] does not say all of.
    #[must_use]
    pub fn beyond_values(&self, names: &[&str]) -> Self {
        let is_open = |name: &str| names.contains(&name) && self.values_of(name).is_none();
        let matchers = self.matchers.iter();
        Self::new(matchers.filter(|matcher| is_open(matcher.name())).cloned())
    }

    /// Whether these labels decide alone.
    pub fn is_about(&self, names: &[&str]) -> bool {
        let mut matchers = self.matchers.iter();
        matchers.all(|matcher| names.contains(&matcher.name()))
    }

    fn of(&self, name: &str) -> impl Iterator<Item = &Matcher> {
        let matchers = self.matchers.iter();
        matchers.filter(move |matcher| matcher.name() == name)
    }
}

impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        parse::selector(text).map(Self::new)
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (place, matcher) in self.matchers.iter().enumerate() {
            if place > 0 {
                f.write_str(",")?;
            }
            matcher.fmt(f)?;
        }
        f.write_str("}")
    }
}

#[cfg(test)]
mod tests;
