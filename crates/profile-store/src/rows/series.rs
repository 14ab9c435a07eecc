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

/// Labels that are no series.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SeriesError {
    /// A series has its labels in order of their names, each once.
    #[error("label {0:?} is not behind the one before it")]
    Order(Arc<str>),
    /// The number is that of other labels.
    #[error("labels of series {found} under the number {expected}")]
    OtherNumber {
        /// The number of the labels.
        found: SeriesId,
        /// The number that they stood under.
        expected: SeriesId,
    },
}

impl Series {
    /// The series of labels as they are stored.
    ///
    /// # Errors
    /// If they are not in bytewise order of their names, each name once.
    pub fn of_labels(labels: Vec<(Arc<str>, Arc<str>)>) -> Result<Self, SeriesError> {
        let mut pairs = labels.iter().zip(labels.iter().skip(1));
        if let Some((_, (name, _))) = pairs.find(|(before, behind)| before.0 >= behind.0) {
            return Err(SeriesError::Order(Arc::clone(name)));
        }
        Ok(Self::new(labels))
    }

    /// The series of labels as they are stored under a number.
    ///
    /// # Errors
    /// If they are not in order, or have another number: then they were damaged, or written by a version with another rule.
    pub fn stored(
        expected: SeriesId,
        labels: Vec<(Arc<str>, Arc<str>)>,
    ) -> Result<Self, SeriesError> {
        let series = Self::of_labels(labels)?;
        let found = series.id;
        if found != expected {
            return Err(SeriesError::OtherNumber { found, expected });
        }
        Ok(series)
    }

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

    #[test]
    fn stored_labels_are_believed_only_in_order_and_under_their_number() {
        let label = |name: &str, value: &str| (Arc::from(name), Arc::from(value));
        let labels = vec![label("a", "1"), label("b", "2")];
        let series = Series::of_labels(labels.clone()).unwrap();
        assert_eq!(
            Series::stored(series.id(), labels.clone()),
            Ok(series.clone())
        );
        let other = Series::stored(SeriesId(7), labels.clone());
        let (found, expected) = (series.id(), SeriesId(7));
        assert_eq!(other, Err(SeriesError::OtherNumber { found, expected }));
        for wrong in [[1, 0], [0, 0]] {
            let labels = wrong.map(|at: usize| labels[at].clone()).to_vec();
            assert!(matches!(
                Series::of_labels(labels),
                Err(SeriesError::Order(_))
            ));
        }
    }
}
