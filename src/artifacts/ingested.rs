//! What is said of an upload: by the uploader, and back.

use std::collections::BTreeSet;
use std::sync::Arc;

use unhex_build_id::{BuildId, IdKind, Identity};
use unhex_symbols::quality::Quality;

use super::content_hash::ContentHash;
use super::located::{ArtifactKind, LocateError, Origin};
use super::publish::PublishError;
use super::record::Provenance;
use super::store::StoreError;
use crate::queue::QueueError;

/// What the uploader says of a file.
#[derive(Clone, Debug)]
pub enum Target {
    /// Which file it is.
    Named {
        /// An identity that the file has to have.
        identity: Identity,
        /// What it is to be stored as.
        kind: ArtifactKind,
    },
    /// Nothing: identity and kind are read from the file.
    FromFile,
}

/// An upload and who brings it.
#[derive(Clone, Debug)]
pub struct Upload {
    /// What the uploader says of the file.
    pub target: Target,
    /// How it came.
    pub origin: Origin,
    /// Who brings it, from where, and under which name; the time is filled in here.
    pub provenance: Provenance,
}

/// What became of an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ingested {
    /// Where it is stored.
    pub build_id: BuildId,
    /// What it is good for.
    pub kinds: BTreeSet<ArtifactKind>,
    /// What the symbols of the build ID are good for at present.
    pub quality: Quality,
    /// Whether it is now the best of one of its kinds.
    pub changed: bool,
    /// How far the symbol index is.
    pub index: IndexProgress,
    /// Functions in the index; 0 until it is ready.
    pub functions: u64,
    /// Rows with a line in the index; 0 until it is ready.
    pub lines: u64,
    /// What to know about it, in words.
    pub detail: String,
}

/// How far the symbol index of an upload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexProgress {
    /// It can be looked up in.
    Ready,
    /// The conversion goes on, or is tried again later.
    Converting,
    /// The files cannot be converted.
    Failed,
    /// There is nothing to convert: only sources, for instance.
    NoSources,
}

/// Why an upload was not taken in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IngestError {
    /// Larger than is accepted, once decoded.
    #[error("the upload has more than {bytes_max} bytes, which is the limit")]
    TooLarge {
        /// The limit.
        bytes_max: u64,
    },
    /// Another limit.
    #[error("{0}")]
    LimitExceeded(String),
    /// The body is not in the encoding that its header names, or is cut short.
    #[error("the body is not in its Content-Encoding: {detail}")]
    Encoding {
        /// What the decoder says.
        detail: String,
    },
    /// A file that is of no use, and what it is.
    #[error("the file is refused: {detail}")]
    Refused {
        /// What was found.
        detail: String,
    },
    /// A file of another build ID.
    #[error("the file has the {kind} ID {found}, the path names {expected}")]
    OtherIdentity {
        /// The kind of identity.
        kind: IdKind,
        /// What the file has; `none` when it has none.
        found: String,
        /// What the path names.
        expected: String,
    },
    /// An identity that leads nowhere yet.
    #[error("nothing is stored of the {kind} ID {identity}; upload its executable first")]
    UnknownIdentity {
        /// The kind of identity.
        kind: IdKind,
        /// The identity.
        identity: String,
    },
    /// Other code under a known build ID.
    #[error("other code is stored under the build ID {build_id} already: {difference}")]
    OtherCode {
        /// The build ID.
        build_id: BuildId,
        /// The file that is there.
        known_sha256: ContentHash,
        /// How they differ.
        difference: String,
    },
    /// The state of the build ID is not known now.
    #[error(transparent)]
    Locate(#[from] LocateError),
    /// The store failed.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// As many uploads as may are under way.
    #[error("no turn among the uploads")]
    NoTurn(#[source] QueueError),
    /// What all who waited for one upload are told.
    #[error(transparent)]
    Shared(Arc<IngestError>),
    /// The work was cut off: the server stops, or has a fault.
    #[error("the work on the upload was cut off")]
    CutOff,
}

impl From<StoreError> for IngestError {
    fn from(error: StoreError) -> Self {
        Self::Publish(error.into())
    }
}

impl Target {
    /// The kind that the uploader names.
    pub(super) fn kind(&self) -> Option<ArtifactKind> {
        match self {
            Self::Named { kind, .. } => Some(*kind),
            Self::FromFile => None,
        }
    }
}

impl Ingested {
    pub(super) fn add_detail(&mut self, words: &str) {
        if !self.detail.is_empty() {
            self.detail.push_str("; ");
        }
        self.detail.push_str(words);
    }
}
