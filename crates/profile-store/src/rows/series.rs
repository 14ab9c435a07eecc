//! A series: one label set, and the number by which rows name it.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

/// The number of a label set: the same wherever, whenever and in whichever order its labels were seen.
///
/// The first 8 bytes, as a little-endian integer, of the SHA-256 of the byte 1 (the version of this rule) and, for each label in
/// bytewise order of the names, the name and the value, each after its length in bytes as 8 bytes, little-endian.
///
/// 64 bits, since table formats know no wider integers: among a million series the chance of two with one number is 3 in 10^8. Rows have service,
/// version and deployment beside it, so that no total depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeriesId(pub i64);

impl fmt::Display for SeriesId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A label set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    id: SeriesId,
    service: Arc<str>,
    version: Arc<str>,
    deployment: Arc<str>,
    labels: Vec<(Arc<str>, Arc<str>)>,
}

impl Series {
    /// The series of labels that are in order of their names, each name once.
    pub(super) fn new(labels: Vec<(Arc<str>, Arc<str>)>) -> Self {
        let mut hash = Sha256::new();
        hash.update([1]);
        for text in labels.iter().flat_map(|(name, value)| [name, value]) {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        }
        let digest: [u8; 32] = hash.finalize().into();
        let mut id = [0; 8];
        id.copy_from_slice(digest.split_at(8).0);
        let value = |name: &str| {
            let found = labels.iter().find(|(of, _)| **of == *name);
            found.map_or_else(|| "".into(), |(_, value)| Arc::clone(value))
        };
        Self {
            id: SeriesId(i64::from_le_bytes(id)),
            service: value("service"),
            version: value("version"),
            deployment: value("deployment"),
            labels,
        }
    }

    /// Its number.
    pub fn id(&self) -> SeriesId {
        self.id
    }

    /// The service; `unlabelled` if nobody said.
    pub fn service(&self) -> &str {
        &self.service
    }

    /// The version of the service; `unlabelled` if nobody said.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Where the service runs; `unlabelled` if nobody said.
    pub fn deployment(&self) -> &str {
        &self.deployment
    }

    /// All labels, those three among them, in bytewise order of their names.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let labels = self.labels.iter();
        labels.map(|(name, value)| (&**name, &**value))
    }

    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels()
            .find(|(of, _)| *of == name)
            .map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_series_is_what_the_documentation_says() {
        let labels = [
            ("deployment", "prod"),
            ("service", "checkout"),
            ("version", "2.4"),
        ];
        let labels = labels.map(|(name, value)| (name.into(), value.into()));
        // Computed by another program, from the documentation.
        let id = Series::new(labels.to_vec()).id();
        assert_eq!(id, SeriesId(4_049_093_579_995_433_277));
    }
}
