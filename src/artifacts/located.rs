//! What a look-up in the store answers: files that are complete on this disk, and reasons.

use std::fs::File;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use unhex_symbols::quality::Quality;
use unhex_symbols::segments::LoadSegments;

use super::fingerprint::Fingerprint;
use super::layout::RecordName;
use super::store::{Lease, StoreError};
use crate::conversion::IndexFailure;

/// What a file is to its build ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactKind {
    /// The program or library that runs.
    Executable,
    /// DWARF or a symbol table, perhaps without code.
    Debuginfo,
    /// The packed split DWARF of a program (`.dwp`).
    Dwp,
    /// A zip of source files, keys are absolute paths without the leading `/`.
    Sources,
}

impl ArtifactKind {
    /// The word in paths and records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Executable => "executable",
            Self::Debuginfo => "debuginfo",
            Self::Dwp => "dwp",
            Self::Sources => "sources",
        }
    }
}

/// A word that is no [`ArtifactKind`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no kind of artifact: executable, debuginfo, dwp or sources")]
pub struct ParseArtifactKindError(pub String);

impl FromStr for ArtifactKind {
    type Err = ParseArtifactKindError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        [Self::Executable, Self::Debuginfo, Self::Dwp, Self::Sources]
            .into_iter()
            .find(|kind| kind.as_str() == word)
            .ok_or_else(|| ParseArtifactKindError(word.to_owned()))
    }
}

/// How a file came here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Somebody uploaded it.
    Upload,
    /// It was fetched from an upstream debuginfod server.
    Upstream,
    /// It lies in a folder that is scanned, or in an archive there, and is served from there.
    Scanned,
}

/// A file that lies complete and verified on this disk.
#[derive(Debug)]
pub struct Artifact {
    /// Opened for reading at offset 0; stays readable when the blob is removed meanwhile.
    pub file: File,
    /// Its path, for children that map it. The file stays there as long as `lease` is kept.
    pub path: PathBuf,
    /// Keeps the file at its path.
    pub lease: Lease,
    /// Its length.
    pub size_bytes: u64,
    /// Another one for other bytes: their SHA-256, or of a file in place that of its path, length
    /// and times.
    pub tag: [u8; 32],
    /// When it was uploaded, in whole seconds; of a file in place when it was changed last.
    pub modified: SystemTime,
    /// The file name that the uploader gave; of a file in place its path, in an archive that of the
    /// member.
    pub file_name: Option<String>,
    /// The path of the archive in place that has it.
    pub archive: Option<String>,
    /// What tells that others have changed the file while it was being read; nobody changes files
    /// of the store.
    pub unchanged: Option<Fingerprint>,
    /// How it came here.
    pub origin: Origin,
}

/// The raw bytes of one ELF section: a range of a file.
#[derive(Debug)]
pub struct Section {
    /// The file that has it.
    pub artifact: Artifact,
    /// Where it starts in that file.
    pub offset_bytes: u64,
    /// Its length, at least 1.
    pub size_bytes: u64,
}

/// One uploaded source file, whole.
#[derive(Debug)]
pub struct Source {
    /// Its bytes, decompressed.
    pub bytes: bytes::Bytes,
    /// The canonical path, with the leading `/`.
    pub path: String,
    /// When the first file of its build ID was uploaded, in whole seconds: a source is older than
    /// what was built from it.
    pub modified: SystemTime,
}

/// What the store can say of the symbol index of a build ID.
#[derive(Clone, Debug)]
pub enum IndexLookup {
    /// There it is.
    Ready(IndexFile),
    /// A conversion runs; ask again.
    Converting,
    /// The debug file is there but cannot be converted, and why.
    Failed(IndexFailure),
    /// Nothing is known of this build ID, definitely.
    Unknown,
}

/// A symbol index that lies on this disk, as long as its record says and not read yet: whoever opens
/// it verifies it, and reports damage to [`Artifacts::forget_index`](super::Artifacts::forget_index).
#[derive(Clone, Debug)]
pub struct IndexFile {
    /// Where it is at home.
    pub home: IndexHome,
    /// Its path, to be mapped. The file stays there as long as `lease` is kept.
    pub path: PathBuf,
    /// Keeps the file at its path.
    pub lease: Lease,
    /// Its length.
    pub size_bytes: u64,
    /// Another one for other bytes, the key of the cache of open indexes: their SHA-256, or of files in
    /// place that of what it was made from.
    pub sha256: [u8; 32],
    /// SHA-256 of the files that it was made from, which it has to name.
    pub sources: Vec<[u8; 32]>,
    /// What its symbols are good for.
    pub quality: Quality,
    /// How the best of its sources came here.
    pub origin: Origin,
    /// Program headers of the executable, if one is known, whoever uploaded it and when.
    pub segments: Option<Arc<LoadSegments>>,
}

/// What an index belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexHome {
    /// The record of this name, in the store.
    Record(RecordName),
    /// Files in place.
    InPlace,
}

/// Why it is not known now whether something exists. Never remembered.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocateError {
    /// The object store cannot be read.
    #[error("the object store cannot be read: {detail}")]
    Store {
        /// What failed, with the key.
        detail: String,
    },
    /// This server's disk has no room for what was to be fetched.
    #[error("the disk of this server is full: {detail}")]
    NoRoom {
        /// What failed, with the key.
        detail: String,
    },
    /// A stored object is not what its record says.
    #[error("the stored object {key} is damaged: {detail}")]
    Damaged {
        /// The key of the object.
        key: String,
        /// What was found.
        detail: String,
    },
    /// The store has nothing, and upstream servers did not say whether they have.
    #[error("upstream servers cannot say: {detail}")]
    Upstream {
        /// What failed, by server.
        detail: String,
    },
    /// The same, of servers that have been failing for longer than anybody waits.
    #[error("upstream servers have been failing for long: {detail}")]
    UpstreamDown {
        /// What failed, by server.
        detail: String,
    },
    /// Files in place cannot be read, or have not all been looked at.
    #[error("files in place cannot be read: {detail}")]
    InPlace {
        /// What failed.
        detail: String,
    },
    /// The converter cannot be run; this says nothing about the files.
    #[error("no symbol index can be made now: {detail}")]
    Converter {
        /// What failed.
        detail: String,
    },
}

impl From<StoreError> for LocateError {
    fn from(error: StoreError) -> Self {
        if error.is_full() {
            let detail = error.to_string();
            return Self::NoRoom { detail };
        }
        match error {
            StoreError::Damaged { key, detail } => Self::Damaged { key, detail },
            StoreError::Shared(shared) => match &*shared {
                StoreError::Damaged { key, detail } => Self::Damaged {
                    key: key.clone(),
                    detail: detail.clone(),
                },
                error => Self::Store {
                    detail: error.to_string(),
                },
            },
            error => Self::Store {
                detail: error.to_string(),
            },
        }
    }
}
