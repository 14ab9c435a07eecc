//! What a profile counts, and in which unit, as the column `type` of the table has it.

use std::fmt;
use std::sync::Arc;

use crate::rows::CPU;

/// `cpu`, or `name:unit` as in `alloc_space:bytes`; docs/profile-table.md has the rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProfileType {
    text: Arc<str>,
}

impl ProfileType {
    /// A type as the table writes it; everything else is a type that no row has.
    pub fn of(text: impl Into<Arc<str>>) -> Self {
        Self { text: text.into() }
    }

    /// CPU time.
    pub fn cpu() -> Self {
        Self::of(CPU)
    }

    /// Whether it is CPU time, in nanoseconds.
    pub fn is_cpu(&self) -> bool {
        &*self.text == CPU
    }

    /// As the table writes it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What is counted, as `alloc_space`.
    pub fn name(&self) -> &str {
        self.text
            .split_once(':')
            .map_or(&self.text, |(name, _)| name)
    }

    /// The unit, as `bytes`; empty if the profiler said none.
    pub fn unit(&self) -> &str {
        if self.is_cpu() {
            return "nanoseconds";
        }
        self.text.split_once(':').map_or("", |(_, unit)| unit)
    }
}

impl fmt::Display for ProfileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_has_a_name_and_a_unit() {
        let words = |text: &str| {
            let of = ProfileType::of(text);
            (of.name().to_owned(), of.unit().to_owned())
        };
        assert_eq!(words("cpu"), ("cpu".to_owned(), "nanoseconds".to_owned()));
        assert_eq!(
            words("alloc_space:bytes"),
            ("alloc_space".to_owned(), "bytes".to_owned())
        );
        assert_eq!(words("odd:"), ("odd".to_owned(), String::new()));
    }
}
