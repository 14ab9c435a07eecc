//! The state of a build ID: a pure fold of the set of its records, whatever their order.
//!
//! Two replicas that see the same records agree, so nothing is locked and nothing is compared and
//! swapped. Quality decides first, origin second; then the earlier, then the smaller name.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use unhex_symbols::elf;
use unhex_symbols::quality::Quality;

use super::content_hash::ContentHash;
use super::index_standing::IndexStanding;
use super::layout::{RecordKind, RecordName};
use super::located::{ArtifactKind, LocateError, Origin};
use super::record::{
    ArtifactRecord, FailureRecord, IndexRecord, Record, RecordBody, RefusalRecord, TombstoneRecord,
};

/// What is known of a build ID.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Changes exactly when the set of records does.
    pub generation: Generation,
    /// Every record, the deleted ones and tombstones too.
    pub names: BTreeSet<RecordName>,
    /// Names that tombstones name.
    pub deleted: BTreeSet<RecordName>,
    /// Files of one code, the best first.
    pub artifacts: Vec<Stored<ArtifactRecord>>,
    /// Files that are other code than those: two uploads raced.
    pub conflicts: Vec<Conflict>,
    /// Symbol indexes, in order of name.
    pub indexes: Vec<Stored<IndexRecord>>,
    /// Conversions that failed, in order of name.
    pub failures: Vec<Stored<FailureRecord>>,
    /// Deletions, in order of name.
    pub tombstones: Vec<Stored<TombstoneRecord>>,
    /// Uploads that were refused, in order of name.
    pub refusals: Vec<Stored<RefusalRecord>>,
    /// Records that cannot be read: what they would say is not known.
    pub unreadable: Vec<Unreadable>,
}

/// The hash of the names of all records of a build ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub ContentHash);

/// The body of a record and its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored<T> {
    /// The name of the record.
    pub name: RecordName,
    /// What it says.
    pub body: Arc<T>,
}

/// A file that is other code than the winner.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflict {
    /// The file that lost.
    pub artifact: Stored<ArtifactRecord>,
    /// The file that it differs from.
    pub winner: ContentHash,
    /// The difference, in words.
    pub difference: String,
}

/// A record that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unreadable {
    /// Its name.
    pub name: RecordName,
    /// Why.
    pub detail: String,
}

/// One element of the set that is folded.
#[derive(Clone, Debug, PartialEq)]
pub enum Known {
    /// A record.
    Record(Arc<Record>),
    /// One that cannot be read.
    Unreadable(Unreadable),
}

impl Default for Generation {
    fn default() -> Self {
        Self(ContentHash::of_texts::<&str>([]))
    }
}

impl Known {
    fn name(&self) -> RecordName {
        match self {
            Self::Record(record) => record.name(),
            Self::Unreadable(unreadable) => unreadable.name,
        }
    }
}

impl State {
    /// Folds a set of records, in any order, with or without repetitions.
    pub fn fold(known: impl IntoIterator<Item = Known>) -> Self {
        let set: BTreeMap<RecordName, Known> = known
            .into_iter()
            .map(|known| (known.name(), known))
            .collect();
        let mut state = Self {
            generation: Generation(ContentHash::of_texts(set.keys().map(ToString::to_string))),
            names: set.keys().copied().collect(),
            ..Self::default()
        };
        for known in set.values() {
            if let Known::Record(record) = known
                && let RecordBody::Tombstone(tombstone) = &record.body
            {
                state.deleted.extend(&tombstone.deleted);
            }
        }
        let mut artifacts = Vec::new();
        for (name, known) in set {
            if state.deleted.contains(&name) {
                continue;
            }
            let record = match known {
                Known::Record(record) => Arc::unwrap_or_clone(record),
                Known::Unreadable(unreadable) => {
                    state.unreadable.push(unreadable);
                    continue;
                }
            };
            match record.body {
                RecordBody::Artifact(body) => artifacts.push(stored(name, *body)),
                RecordBody::Index(body) => state.indexes.push(stored(name, body)),
                RecordBody::Failure(body) => state.failures.push(stored(name, body)),
                RecordBody::Refusal(body) => state.refusals.push(stored(name, body)),
                RecordBody::Tombstone(body) => state.tombstones.push(stored(name, body)),
            }
        }
        state.correct_qualities(&mut artifacts);
        state.admit(artifacts);
        state
    }

    /// A file that promised DWARF by its sections and whose index has none does not stand before one
    /// that may keep the promise. Only an index whose one debug file it is tells that.
    fn correct_qualities(&self, artifacts: &mut [Stored<ArtifactRecord>]) {
        let debug_files: BTreeSet<ContentHash> = artifacts
            .iter()
            .filter(|artifact| artifact.body.kinds.contains(&ArtifactKind::Debuginfo))
            .map(|artifact| artifact.body.sha256)
            .collect();
        let mut found: BTreeMap<ContentHash, Quality> = BTreeMap::new();
        for index in &self.indexes {
            let mut converted = index.body.sources.intersection(&debug_files);
            if let (Some(&file), None) = (converted.next(), converted.next()) {
                let best = found.entry(file).or_default();
                *best = index.body.quality.max(*best);
            }
        }
        for artifact in artifacts {
            let found = found.get(&artifact.body.sha256).copied();
            if let Some(found) = found.filter(|&found| found < Quality::DwarfLines)
                && artifact.body.quality >= Quality::DwarfLines
            {
                Arc::make_mut(&mut artifact.body).quality = found;
            }
        }
    }

    /// Takes the artifacts in order of rank; one that is other code than a better one conflicts.
    fn admit(&mut self, mut artifacts: Vec<Stored<ArtifactRecord>>) {
        artifacts.sort_by_key(Stored::rank);
        for artifact in artifacts {
            let conflict = self.difference(&artifact.body);
            match conflict {
                Some((winner, difference)) => {
                    self.conflicts.push(Conflict {
                        artifact,
                        winner,
                        difference,
                    });
                }
                None => self.artifacts.push(artifact),
            }
        }
    }

    /// How `artifact` is other code than the files that are there, and than which of them.
    pub fn difference(&self, artifact: &ArtifactRecord) -> Option<(ContentHash, String)> {
        self.artifacts.iter().find_map(|known| {
            let difference = difference(&known.body, artifact)?;
            Some((known.body.sha256, difference))
        })
    }

    /// Whether there is no file: nothing was uploaded, or all of it was deleted.
    pub fn is_empty(&self) -> bool {
        self.artifacts.is_empty() && self.conflicts.is_empty()
    }

    /// Whether all records of files could be read; only then is absence definite.
    ///
    /// # Errors
    /// If one could not.
    pub fn check_readable(&self) -> Result<(), LocateError> {
        let is_file = |lost: &&Unreadable| {
            matches!(
                lost.name.kind,
                RecordKind::Artifact(_) | RecordKind::Unknown(_)
            )
        };
        match self.unreadable.iter().find(is_file) {
            None => Ok(()),
            Some(lost) => Err(LocateError::Damaged {
                key: lost.name.to_string(),
                detail: lost.detail.clone(),
            }),
        }
    }

    /// The names of all records that a deletion has to name.
    pub fn living(&self) -> BTreeSet<RecordName> {
        let living = self.names.difference(&self.deleted).copied();
        living
            .filter(|name| name.kind != RecordKind::Tombstone)
            .collect()
    }

    /// The files of a kind, the best first.
    pub fn of_kind(&self, kind: ArtifactKind) -> impl Iterator<Item = &Stored<ArtifactRecord>> {
        self.artifacts
            .iter()
            .filter(move |artifact| artifact.body.kinds.contains(&kind))
    }

    /// All files, those that lost a race too, the best first.
    pub fn stored_files(&self) -> impl Iterator<Item = &Stored<ArtifactRecord>> {
        let lost = self.conflicts.iter().map(|conflict| &conflict.artifact);
        self.artifacts.iter().chain(lost)
    }

    /// The best file of a kind.
    pub fn best(&self, kind: ArtifactKind) -> Option<&Stored<ArtifactRecord>> {
        self.of_kind(kind).next()
    }

    /// Whether a file that is not there yet would be the best of one of its kinds.
    pub(super) fn would_lead(&self, artifact: &ArtifactRecord) -> bool {
        let mut kinds = artifact.kinds.iter();
        kinds.any(|&kind| {
            let best = self.best(kind);
            best.is_none_or(|best| merit(artifact) < merit(&best.body))
        })
    }

    /// The kinds that there is a file of.
    pub fn kinds(&self) -> BTreeSet<ArtifactKind> {
        self.artifacts
            .iter()
            .flat_map(|artifact| artifact.body.kinds.iter().copied())
            .collect()
    }

    /// The uploads of one file, wherever it ranks: copies of the same bytes.
    pub fn copies(&self, sha256: ContentHash) -> impl Iterator<Item = &Stored<ArtifactRecord>> {
        self.stored_files()
            .filter(move |artifact| artifact.body.sha256 == sha256)
    }

    /// What the symbols are good for: as the index says, else as the sections of the files promise.
    pub fn quality(&self, converter_version: u32) -> Quality {
        match self.index(converter_version) {
            IndexStanding::Ready(index) => index.body.quality,
            // The files promised what cannot be read.
            IndexStanding::Failed(_) => Quality::None,
            _ => self
                .artifacts
                .iter()
                .map(|artifact| artifact.body.quality)
                .max()
                .unwrap_or_default(),
        }
    }
}

impl Stored<ArtifactRecord> {
    /// Smaller is better: quality first, origin second, then completeness, age and name.
    fn rank(&self) -> impl Ord + use<> {
        let age = self.body.provenance.at_unix_seconds;
        let name = (self.name.sha256, self.name.upload);
        (merit(&self.body), age, name)
    }

    /// Why this file is not used although it is there, given the one that is used instead.
    pub fn why_not(&self, best: &Self) -> String {
        let (own, other) = (&self.body, &best.body);
        if own.sha256 == other.sha256 {
            "the same bytes were uploaded before".to_owned()
        } else if own.quality != other.quality {
            let (own, other) = (own.quality.as_str(), other.quality.as_str());
            format!("its quality {own} is below {other}")
        } else if own.origin != other.origin {
            "an upload stands before a file from upstream".to_owned()
        } else if own.kinds.len() != other.kinds.len() {
            "the other file is both executable and debuginfo".to_owned()
        } else if own.source_files != other.source_files {
            "it has fewer source files".to_owned()
        } else {
            "it is as good as the one that was there before".to_owned()
        }
    }
}

/// What decides before age does; smaller is better.
fn merit(artifact: &ArtifactRecord) -> impl Ord + use<> {
    (
        Reverse(artifact.quality),
        artifact.origin == Origin::Upstream,
        Reverse(artifact.kinds.len()),
        Reverse(artifact.source_files),
    )
}

/// How two files are other code. Split DWARF has no code to compare.
fn difference(known: &ArtifactRecord, other: &ArtifactRecord) -> Option<String> {
    let is_code = |artifact: &ArtifactRecord| !artifact.kinds.contains(&ArtifactKind::Dwp);
    let comparable = is_code(known) && is_code(other);
    let (known, other) = (known.elf.as_ref()?, other.elf.as_ref()?);
    let difference = comparable
        .then(|| elf::difference(known, other))
        .flatten()?;
    Some(difference.to_string())
}

fn stored<T>(name: RecordName, body: T) -> Stored<T> {
    Stored {
        name,
        body: Arc::new(body),
    }
}

#[cfg(test)]
mod tests;
