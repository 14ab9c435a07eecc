//! Whose profile it was: service, version and deployment, as safe as a label has to be.
//!
//! The values come from strangers and end up in metrics, alerts and chat messages: they are bounded
//! in length, and characters that could break a line or hide text are gone.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unhex_api::symbolize::Labels;

/// What a label reads that nobody gave.
const UNLABELLED: &str = "unlabelled";

/// What the label set reads that counts for all those beyond the cap.
const OTHER: &str = "_other";

/// The longest value: the longest Kubernetes names have 63 characters, and 253 with all their dots.
const VALUE_BYTES_MAX: usize = 128;

/// The service, version and deployment of a profile. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LabelSet {
    /// The service, such as `checkout`.
    pub service: Arc<str>,
    /// Its version, such as `2.4`.
    pub version: Arc<str>,
    /// Where it runs, such as `prod`.
    pub deployment: Arc<str>,
}

impl LabelSet {
    /// The labels of a request, cleaned; what is missing reads `unlabelled`.
    pub fn new(labels: &Labels) -> Self {
        Self {
            service: value(labels.service.as_deref()),
            version: value(labels.version.as_deref()),
            deployment: value(labels.deployment.as_deref()),
        }
    }

    /// The set that counts for all those beyond the cap.
    pub fn other() -> Self {
        let other: Arc<str> = OTHER.into();
        Self {
            service: Arc::clone(&other),
            version: Arc::clone(&other),
            deployment: other,
        }
    }

    /// Whether it reads like the set that counts for those beyond the cap.
    pub fn is_other(&self) -> bool {
        *self.service == *OTHER && *self.version == *OTHER && *self.deployment == *OTHER
    }

    /// The values in the order of the metrics' labels.
    pub fn values(&self) -> [&str; 3] {
        [&self.service, &self.version, &self.deployment]
    }
}

impl fmt::Display for LabelSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [service, version, deployment] = self.values();
        write!(f, "{service} {version} ({deployment})")
    }
}

fn value(given: Option<&str>) -> Arc<str> {
    let text = given.map(|given| cleaned(given, VALUE_BYTES_MAX));
    match text.as_deref() {
        None | Some("") => UNLABELLED.into(),
        Some(text) => text.into(),
    }
}

/// A text of strangers without control characters and marks of direction, at most so long.
pub(super) fn cleaned(text: &str, bytes_max: usize) -> String {
    let mut kept = String::new();
    for c in text.trim().chars().filter(|c| !is_unseen(*c)) {
        if kept.len().saturating_add(c.len_utf8()) > bytes_max {
            break;
        }
        kept.push(c);
    }
    kept.truncate(kept.trim_end().len());
    kept
}

/// Control characters, line separators, and what turns text around or has no width.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(service: Option<&str>) -> LabelSet {
        LabelSet::new(&Labels {
            service: service.map(str::to_owned),
            ..Labels::default()
        })
    }

    #[test]
    fn what_is_missing_or_empty_reads_unlabelled() {
        for given in [None, Some(""), Some(" \n\t"), Some("\u{0}")] {
            assert_eq!(labels(given).values(), [UNLABELLED; 3], "{given:?}");
        }
    }

    #[test]
    fn values_are_bounded_and_cannot_break_a_line() {
        assert_eq!(&*labels(Some(" a\nb\u{202e}c\u{7f} ")).service, "abc");
        let long = "ü".repeat(1_000);
        assert_eq!(labels(Some(&long)).service.len(), VALUE_BYTES_MAX);
    }
}
