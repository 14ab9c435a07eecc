//! Which key holds what: docs/object-layout.md in code, and the only place that builds keys of artifacts.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use unhex_build_id::{BuildId, Identity};

use super::content_hash::{ContentHash, lower_hex};
use super::located::ArtifactKind;
use super::store::{ObjectKey, ParseObjectKeyError};

/// The folder of all build IDs.
pub(super) const BUILDS: &str = "builds/";

/// The folder of all aliases.
pub(super) const ALIASES: &str = "alias/";

/// The folder of files that clients put into the store themselves, until they are taken in.
pub(super) const UPLOADS: &str = "uploads/";

/// What makes the names of one upload, deletion or conversion unique: the time in milliseconds
/// (6 bytes) and 10 random bytes, written as 32 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct UploadId([u8; 16]);

/// A text that is no [`UploadId`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no upload ID of 32 lower-case hex digits")]
pub struct ParseUploadIdError(pub String);

impl UploadId {
    /// The ID of something that begins at `now`.
    pub fn new(now: SystemTime, random: [u8; 10]) -> Self {
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let millis = u64::try_from(since.as_millis())
            .unwrap_or(u64::MAX)
            .to_be_bytes();
        let mut bytes = [0; 16];
        for (to, from) in bytes
            .iter_mut()
            .zip(millis.into_iter().skip(2).chain(random))
        {
            *to = from;
        }
        Self(bytes)
    }

    /// When it began, in whole milliseconds.
    pub fn began(&self) -> SystemTime {
        let millis = self.0.iter().take(6);
        let millis = millis.fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
        UNIX_EPOCH + Duration::from_millis(millis)
    }
}

impl fmt::Display for UploadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        unhex_build_id::Hex(&self.0).fmt(f)
    }
}

impl fmt::Debug for UploadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for UploadId {
    type Err = ParseUploadIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        lower_hex(text)
            .map(Self)
            .ok_or_else(|| ParseUploadIdError(text.to_owned()))
    }
}

impl TryFrom<String> for UploadId {
    type Error = ParseUploadIdError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<UploadId> for String {
    fn from(id: UploadId) -> Self {
        id.to_string()
    }
}

/// What a record says; the first word of its name. Ordered as its words are, since the order of names
/// is part of what every version has to agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordKind {
    /// A file was stored.
    Artifact(ArtifactKind),
    /// A symbol index was made.
    Index,
    /// A conversion failed, and why.
    Failure,
    /// An upload was refused since it is other code.
    Refusal,
    /// Records were deleted.
    Tombstone,
    /// A kind of a newer version: it may say that there is a file, so nothing is absent beside it.
    Unknown(UnknownKind),
}

/// The word of a record kind that this version does not know: 1 to 24 of `a-z`, `0-9`, `-`, `_`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UnknownKind {
    bytes: [u8; UNKNOWN_KIND_BYTES_MAX],
    length: usize,
}

/// Longest word of a record kind: the longest of today has 10 letters.
const UNKNOWN_KIND_BYTES_MAX: usize = 24;

impl UnknownKind {
    /// The word, when a later version could have written it.
    fn new(word: &str) -> Option<Self> {
        let is_legal =
            |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_');
        if word.is_empty() || !word.bytes().all(is_legal) {
            return None;
        }
        let mut bytes = [0; UNKNOWN_KIND_BYTES_MAX];
        bytes
            .get_mut(..word.len())?
            .copy_from_slice(word.as_bytes());
        Some(Self {
            bytes,
            length: word.len(),
        })
    }

    fn as_str(&self) -> &str {
        let word = self.bytes.get(..self.length).unwrap_or_default();
        std::str::from_utf8(word).unwrap_or_default()
    }
}

impl RecordKind {
    const ALL: [Self; 8] = [
        Self::Artifact(ArtifactKind::Executable),
        Self::Artifact(ArtifactKind::Debuginfo),
        Self::Artifact(ArtifactKind::Dwp),
        Self::Artifact(ArtifactKind::Sources),
        Self::Index,
        Self::Failure,
        Self::Refusal,
        Self::Tombstone,
    ];

    /// The word in names.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Artifact(kind) => kind.as_str(),
            Self::Index => "index",
            Self::Failure => "failure",
            Self::Refusal => "refusal",
            Self::Tombstone => "tombstone",
            Self::Unknown(word) => word.as_str(),
        }
    }

    fn of_word(word: &str) -> Option<Self> {
        let known = Self::ALL.into_iter().find(|kind| kind.as_str() == word);
        known.or_else(|| UnknownKind::new(word).map(Self::Unknown))
    }
}

impl Ord for RecordKind {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl PartialOrd for RecordKind {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The name of a record below its build ID: `<kind>.<sha256>.<upload>.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RecordName {
    /// What the record says.
    pub kind: RecordKind,
    /// The hash of the file, or of what the record speaks of.
    pub sha256: ContentHash,
    /// What makes it unique.
    pub upload: UploadId,
}

/// A text that is no [`RecordName`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no record name <kind>.<sha256>.<upload>.json")]
pub struct ParseRecordNameError(pub String);

impl fmt::Display for RecordName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{}.{}.json",
            self.kind.as_str(),
            self.sha256,
            self.upload
        )
    }
}

impl FromStr for RecordName {
    type Err = ParseRecordNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let mut parts = text.strip_suffix(".json")?.splitn(3, '.');
            let kind = RecordKind::of_word(parts.next()?)?;
            let sha256 = parts.next()?.parse().ok()?;
            let upload = parts.next()?.parse().ok()?;
            Some(Self {
                kind,
                sha256,
                upload,
            })
        };
        parse().ok_or_else(|| ParseRecordNameError(text.to_owned()))
    }
}

impl TryFrom<String> for RecordName {
    type Error = ParseRecordNameError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<RecordName> for String {
    fn from(name: RecordName) -> Self {
        name.to_string()
    }
}

/// `builds/<first 2>/<id>/`, the folder of one build ID.
pub(super) fn folder(id: &BuildId) -> String {
    let id = id.to_string();
    format!("{}{id}/", shard(&id))
}

/// `builds/<first 2>/`, the folder that has the folder of a build ID given in hex.
pub(super) fn shard(id: &str) -> String {
    let first: String = id.chars().take(2).collect();
    format!("{BUILDS}{first}/")
}

/// The folder of the records of one build ID.
pub(super) fn records(id: &BuildId) -> String {
    format!("{}rec/", folder(id))
}

/// The key of a record.
pub(super) fn record(id: &BuildId, name: &RecordName) -> Result<ObjectKey, ParseObjectKeyError> {
    format!("{}{name}", records(id)).parse()
}

/// The key of the blob of an upload.
pub(super) fn blob(
    id: &BuildId,
    sha256: ContentHash,
    upload: UploadId,
) -> Result<ObjectKey, ParseObjectKeyError> {
    format!("{}blob/{sha256}.{upload}", folder(id)).parse()
}

/// The folder of the build IDs that an identity leads to.
pub(super) fn aliases(identity: &Identity) -> String {
    let hash = ContentHash::of(identity.to_string().as_bytes());
    format!("{ALIASES}{}/{hash}/", identity.kind())
}

/// The key of the alias record by which an identity leads to a build ID.
pub(super) fn alias(identity: &Identity, id: &BuildId) -> Result<ObjectKey, ParseObjectKeyError> {
    format!("{}{id}", aliases(identity)).parse()
}

/// The key of what was agreed with a client that puts a file into the store itself.
pub(super) fn upload_offer(upload: UploadId) -> Result<ObjectKey, ParseObjectKeyError> {
    format!("{UPLOADS}{upload}/offer.json").parse()
}

/// The key under which that client puts the file.
pub(super) fn upload_body(upload: UploadId) -> Result<ObjectKey, ParseObjectKeyError> {
    format!("{UPLOADS}{upload}/body").parse()
}

/// The build ID that an alias leads to; `None` of a key that is none.
pub(super) fn alias_target(key: &ObjectKey) -> Option<BuildId> {
    let (_, id) = key.as_str().rsplit_once('/')?;
    id.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_as_written() {
        let newer = UnknownKind::new("minidump").map(RecordKind::Unknown);
        for kind in RecordKind::ALL.into_iter().chain(newer) {
            let name = RecordName {
                kind,
                sha256: ContentHash::of(b"x"),
                upload: UploadId::new(UNIX_EPOCH + Duration::from_millis(5), [7; 10]),
            };
            assert_eq!(name.to_string().parse(), Ok(name));
            assert_eq!(name.upload.began(), UNIX_EPOCH + Duration::from_millis(5));
        }
        assert!("index.json".parse::<RecordName>().is_err());
        assert!("index.00.00.json".parse::<RecordName>().is_err());
        for word in ["", "Upper", "dotted.word", "longer-than-any-word-of-a-kind"] {
            assert_eq!(UnknownKind::new(word), None, "{word}");
        }
    }

    #[test]
    fn names_are_ordered_as_their_texts() {
        let named = |kind, byte: u8| RecordName {
            kind,
            sha256: ContentHash([byte; 32]),
            upload: UploadId::new(UNIX_EPOCH, [byte; 10]),
        };
        let mut names: Vec<RecordName> = RecordKind::ALL
            .into_iter()
            .flat_map(|kind| [named(kind, 9), named(kind, 0xa0), named(kind, 0)])
            .collect();
        names.sort();
        let mut texts: Vec<String> = names.iter().map(ToString::to_string).collect();
        let sorted = texts.clone();
        texts.sort();
        assert_eq!(sorted, texts);
    }

    #[test]
    fn keys_of_the_longest_build_id_are_allowed() {
        let id = BuildId::from_bytes(&[0xab; 64]).unwrap();
        let hash = ContentHash::of(b"x");
        let upload = UploadId::new(UNIX_EPOCH, [0; 10]);
        let key = blob(&id, hash, upload).unwrap();
        assert!(key.as_str().starts_with("builds/ab/abab"), "{key}");
        let name = RecordName {
            kind: RecordKind::Tombstone,
            sha256: hash,
            upload,
        };
        assert!(record(&id, &name).is_ok());
    }
}
