//! What one record says: an upload, an index, a failed conversion, a refusal or a deletion.
//!
//! Records are written once, as JSON, and read by every later version; docs/object-layout.md has an
//! example of each, which a test reads.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use unhex_build_id::{BuildId, Identity};
use unhex_symbols::elf::ElfSummary;
use unhex_symbols::quality::Quality;

use super::content_hash::ContentHash;
use super::layout::{RecordKind, RecordName, UploadId};
use super::located::{ArtifactKind, Origin};
use super::seal::{self, BrokenSealError};
use super::store::BlobForm;
use crate::conversion::IndexFailure;

/// The version of records that is written, and the newest that is read.
pub const RECORD_VERSION: u32 = 1;

/// The largest record that is written and read: that of a kernel module with thousands of sections has
/// 2 MB.
pub const RECORD_BYTES_MAX: u64 = 16 << 20;

/// One record as it lies in the store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`RECORD_VERSION`] of its writer; raised when older readers would misunderstand.
    pub version: u32,
    /// The build ID it speaks of, as in its key.
    pub build_id: BuildId,
    /// What makes its key unique, as in its key.
    pub upload: UploadId,
    /// What it says.
    #[serde(flatten)]
    pub body: RecordBody,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum RecordBody {
    /// A file was stored.
    Artifact(Box<ArtifactRecord>),
    /// A symbol index was made.
    Index(IndexRecord),
    /// A conversion failed, and why.
    Failure(FailureRecord),
    /// An upload was refused since it is other code.
    Refusal(RefusalRecord),
    /// Records were deleted.
    Tombstone(TombstoneRecord),
}

/// A file that was stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArtifactRecord {
    /// As what it was brought.
    pub kind: ArtifactKind,
    /// What it is good for: an unstripped program is both executable and debuginfo.
    pub kinds: BTreeSet<ArtifactKind>,
    /// Hash of its bytes.
    pub sha256: ContentHash,
    /// Its length.
    pub size_bytes: u64,
    /// In what form its blob lies in the store.
    pub blob: BlobForm,
    /// What its symbols are good for, by its sections; [`Quality::None`] for dwp and sources.
    pub quality: Quality,
    /// How it came.
    pub origin: Origin,
    /// Who brought it, when and from where.
    pub provenance: Provenance,
    /// Its other identities.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub identities: Vec<Identity>,
    /// What its headers say, which tells its code from other code; absent for sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elf: Option<ElfSummary>,
    /// Source files in it, when it is a bundle of sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_files: Option<u64>,
}

/// Who brought something, when and from where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// When, in seconds since 1970.
    pub at_unix_seconds: u64,
    /// The name of the token or user, when the request was authenticated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// The address of the client, or the URL of the upstream server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The `User-Agent` of the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
    /// The file name that the uploader gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_name: Option<String>,
}

/// A symbol index that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexRecord {
    /// The files that it was made from.
    pub sources: BTreeSet<ContentHash>,
    /// The version of the converter that made it.
    pub converter_version: u32,
    /// Hash of the index.
    pub sha256: ContentHash,
    /// Its length.
    pub size_bytes: u64,
    /// In what form its blob lies in the store.
    pub blob: BlobForm,
    /// What its symbols are good for.
    pub quality: Quality,
    /// Functions in it.
    pub functions: u64,
    /// Rows with a line in it.
    pub lines: u64,
    /// DWARF units that were skipped since they are damaged.
    pub units_failed: u32,
    /// The supplementary file that was at hand; it lies under a build ID of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supplement: Option<ContentHash>,
    /// The supplementary file that was not at hand, by its build ID in hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_supplement: Option<String>,
}

/// A conversion that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureRecord {
    /// The files that it was tried with.
    pub sources: BTreeSet<ContentHash>,
    /// The version of the converter that tried.
    pub converter_version: u32,
    /// The supplementary file that was at hand; it lies under a build ID of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supplement: Option<ContentHash>,
    /// Why it failed.
    pub failure: IndexFailure,
}

/// An upload that was refused since it is other code; its bytes were not kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusalRecord {
    /// As what it was brought.
    pub kind: ArtifactKind,
    /// Hash of its bytes.
    pub sha256: ContentHash,
    /// Its length.
    pub size_bytes: u64,
    /// The file that was there already.
    pub known_sha256: ContentHash,
    /// The difference, in words.
    pub difference: String,
    /// Who brought it, when and from where.
    pub provenance: Provenance,
}

/// A deletion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TombstoneRecord {
    /// The records that are deleted, each by its name; what its writer did not see stays.
    pub deleted: BTreeSet<RecordName>,
    /// Who deleted them, when and from where.
    pub provenance: Provenance,
}

/// Why the bytes under a record's key are no record that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadRecordError {
    /// Damaged.
    #[error("no record in JSON: {0}")]
    NotJson(String),
    /// Written by a newer version of this program.
    #[error("a record of version {0}; this program reads up to version {RECORD_VERSION}")]
    TooNew(u32),
    /// Changed since it was written.
    #[error(transparent)]
    Changed(#[from] BrokenSealError),
    /// Damaged, or moved.
    #[error("the record says {field} {found:?}, its key {expected:?}")]
    OtherKey {
        /// Which field of the key.
        field: &'static str,
        /// What the record says.
        found: String,
        /// What the key says.
        expected: String,
    },
}

impl Record {
    /// A record of this program's version.
    pub fn new(build_id: BuildId, upload: UploadId, body: RecordBody) -> Self {
        Self {
            version: RECORD_VERSION,
            build_id,
            upload,
            body,
        }
    }

    /// Its name below its build ID.
    pub fn name(&self) -> RecordName {
        let (kind, sha256) = match &self.body {
            RecordBody::Artifact(artifact) => {
                (RecordKind::Artifact(artifact.kind), artifact.sha256)
            }
            RecordBody::Index(index) => (RecordKind::Index, index.sha256),
            RecordBody::Failure(failure) => {
                let sources = failure.sources.iter().map(ToString::to_string);
                (RecordKind::Failure, ContentHash::of_texts(sources))
            }
            RecordBody::Refusal(refusal) => (RecordKind::Refusal, refusal.sha256),
            RecordBody::Tombstone(tombstone) => {
                let deleted = tombstone.deleted.iter().map(ToString::to_string);
                (RecordKind::Tombstone, ContentHash::of_texts(deleted))
            }
        };
        RecordName {
            kind,
            sha256,
            upload: self.upload,
        }
    }

    /// The JSON that is stored.
    ///
    /// # Errors
    /// Never for records that this program makes; the encoder's signature has an error.
    pub fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut json = seal::seal(serde_json::to_vec(self)?);
        json.push(b'\n');
        Ok(json)
    }

    /// The record in `json`, which has to be the one that its key names.
    ///
    /// # Errors
    /// If it is damaged, too new, or another record.
    pub fn read(json: &[u8], id: &BuildId, name: &RecordName) -> Result<Self, ReadRecordError> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let not_json = |error: serde_json::Error| ReadRecordError::NotJson(error.to_string());
        let Version { version } = serde_json::from_slice(json).map_err(not_json)?;
        if version > RECORD_VERSION {
            return Err(ReadRecordError::TooNew(version));
        }
        seal::check(json)?;
        let record: Self = serde_json::from_slice(json).map_err(not_json)?;
        let other = |field, found: String, expected: String| {
            Err(ReadRecordError::OtherKey {
                field,
                found,
                expected,
            })
        };
        if record.build_id != *id {
            return other("build ID", record.build_id.to_string(), id.to_string());
        }
        if record.name() != *name {
            return other("name", record.name().to_string(), name.to_string());
        }
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys and the JSON of the examples in the document.
    fn examples() -> Vec<(&'static str, &'static str)> {
        let document = include_str!("../../docs/object-layout.md");
        // Behind it are the objects of another room, which has a test of its own.
        let (document, _) = document.split_once("## The ledger").unwrap();
        let examples = document
            .split("```json\n")
            .zip(document.split("```json\n").skip(1));
        examples
            .map(|(before, after)| {
                let key = before.trim_end().rsplit('`').nth(1).unwrap();
                (key, after.split_once("```").unwrap().0)
            })
            // What was agreed with a client that puts a file itself is no record.
            .filter(|(key, _)| key.starts_with("builds/"))
            .collect()
    }

    #[test]
    fn the_examples_of_the_document_are_read_and_written_back() {
        let mut kinds = BTreeSet::new();
        for (key, json) in examples() {
            let parts: Vec<&str> = key.split('/').collect();
            let ["builds", shard, id, "rec", name] = parts[..] else {
                panic!("no key of a record: {key}");
            };
            assert!(id.starts_with(shard));
            let (id, name): (BuildId, RecordName) = (id.parse().unwrap(), name.parse().unwrap());
            let record = Record::read(json.as_bytes(), &id, &name)
                .unwrap_or_else(|error| panic!("{key}: {error}"));
            let again = Record::read(&record.to_json().unwrap(), &id, &name).unwrap();
            assert_eq!(again, record);
            let mut written: serde_json::Value =
                serde_json::from_slice(&record.to_json().unwrap()).unwrap();
            let checksum = written.as_object_mut().unwrap().remove("checksum");
            assert!(checksum.is_some(), "{key}");
            let example: serde_json::Value = serde_json::from_str(json).unwrap();
            assert_eq!(written, example, "{key}");
            kinds.insert(name.kind.as_str().to_owned());
        }
        let expected = [
            "executable",
            "failure",
            "index",
            "refusal",
            "sources",
            "tombstone",
        ];
        assert_eq!(kinds.into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_record_that_was_changed_and_is_still_json_is_not_taken() {
        for (key, json) in examples() {
            let name: RecordName = key.rsplit('/').next().unwrap().parse().unwrap();
            let id: BuildId = "9a0f00000000000000000000000000000000beef".parse().unwrap();
            let record = Record::read(json.as_bytes(), &id, &name).unwrap();
            let written = String::from_utf8(record.to_json().unwrap()).unwrap();
            let digits = written.match_indices(|c: char| c.is_ascii_digit());
            // Behind the version: a newer one is told before.
            for (place, digit) in digits.skip(1) {
                let other = if digit == "7" { "8" } else { "7" };
                let mut changed = written.clone();
                changed.replace_range(place..=place, other);
                let read = Record::read(changed.as_bytes(), &id, &name);
                assert!(read.is_err(), "{key}: {place}");
            }
        }
    }

    #[test]
    fn a_record_that_was_moved_torn_or_written_by_a_newer_program_is_not_taken() {
        let (key, json) = examples()[0];
        let name: RecordName = key.rsplit('/').next().unwrap().parse().unwrap();
        let id: BuildId = "9a0f00000000000000000000000000000000beef".parse().unwrap();
        let other: BuildId = "9a0f".parse().unwrap();
        let read = |json: &str, id| Record::read(json.as_bytes(), id, &name);
        assert!(matches!(
            read(json, &other),
            Err(ReadRecordError::OtherKey { .. })
        ));
        assert!(matches!(
            read(json.get(..90).unwrap(), &id),
            Err(ReadRecordError::NotJson(_))
        ));
        let newer = json.replace("\"version\": 1", "\"version\": 2");
        assert!(matches!(read(&newer, &id), Err(ReadRecordError::TooNew(2))));
        let more = json.replace("\"version\": 1", "\"version\": 1, \"later\": true");
        assert!(
            read(&more, &id).is_ok(),
            "a field of a later version is ignored"
        );
    }
}
