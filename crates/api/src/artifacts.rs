//! What uploads say and are answered, and what is known of one build ID.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::quality::{Origin, Quality};

/// What a file is to its build ID.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
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
    /// The word in paths and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Executable => "executable",
            Self::Debuginfo => "debuginfo",
            Self::Dwp => "dwp",
            Self::Sources => "sources",
        }
    }
}

/// How far the symbol index of a build ID is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum IndexState {
    /// Addresses can be looked up.
    Ready,
    /// The server is at it: ask again.
    Converting,
    /// It cannot be made; `detail` says why.
    Failed,
}

/// `POST /uploads`: is this file needed, and where to?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UploadQuestion {
    /// The GNU build ID, in hex.
    pub build_id: String,
    /// What the file is.
    pub kind: ArtifactKind,
    /// SHA-256 of the whole file, before any `Content-Encoding`, in hex.
    pub sha256: String,
    /// Its length, before any `Content-Encoding`.
    pub size_bytes: u64,
    /// Its name without folders, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_name: Option<String>,
    /// Whether it may go straight to the object store, by a presigned URL.
    #[serde(default = "is_welcome", skip_serializing_if = "is_so")]
    pub direct: bool,
}

fn is_welcome() -> bool {
    true
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "what serde calls it with"
)]
fn is_so(direct: &bool) -> bool {
    *direct
}

/// The answer to an [`UploadQuestion`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum UploadPlan {
    /// The store has this file, or one that is as good.
    NotNeeded {
        /// Why, in words.
        detail: String,
        /// What is known of the build ID.
        state: UploadAnswer,
    },
    /// Send it.
    Needed {
        /// Names this upload in `POST /uploads/{upload_id}/complete`.
        upload_id: String,
        /// Where to PUT the bytes: a path of this server, or a presigned URL, to which the token must
        /// not be sent. Either may have a `Content-Encoding` of `gzip` or `zstd`; a presigned URL
        /// needs a `Content-Length`.
        url: String,
        /// Whether the upload has to be completed by `POST /uploads/{upload_id}/complete` after
        /// the PUT. If not, the PUT itself is answered by an [`UploadAnswer`].
        complete: bool,
    },
}

/// What an upload came to, once it is durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UploadAnswer {
    /// The GNU build ID, in hex.
    pub build_id: String,
    /// What the file is good for: an unstripped program is both executable and debuginfo.
    pub kinds: Vec<ArtifactKind>,
    /// What the symbols of this build ID are good for at present.
    pub quality: Quality,
    /// Whether the store has more than before.
    pub changed: bool,
    /// How far the symbol index is; absent when there is nothing to convert.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<IndexState>,
    /// Functions in the index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub functions: Option<u64>,
    /// Rows with a line in the index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<u64>,
    /// What else there is to say: why the index failed, or why nothing changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// `GET /build-ids/{id}`: the folded state of one build ID, and why it is not better.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BuildIdState {
    /// The GNU build ID, in hex.
    pub build_id: String,
    /// Changes exactly when something is learnt of the build ID.
    pub generation: String,
    /// What its symbols are good for.
    pub quality: Quality,
    /// How far the symbol index is; absent when there is nothing to convert.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<IndexState>,
    /// Functions in the index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub functions: Option<u64>,
    /// Rows with a line in the index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<u64>,
    /// Why it is not better, and what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The build ID of the supplementary (dwz) file that is not in the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_supplement: Option<String>,
    /// The files, the best first.
    pub artifacts: Vec<StoredArtifact>,
    /// Files that are other code under this build ID, and how they differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<StoredConflict>,
    /// Uploads that were refused, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<String>,
}

/// A file in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoredArtifact {
    /// What it is good for.
    pub kinds: Vec<ArtifactKind>,
    /// SHA-256 of its bytes, in hex.
    pub sha256: String,
    /// Its length.
    pub size_bytes: u64,
    /// What its symbols are good for, by its sections.
    pub quality: Quality,
    /// How it came into the store.
    pub origin: Origin,
    /// When, as RFC 3339.
    pub uploaded_at: String,
    /// Who brought it, when the request was authenticated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// The address of the client, or the URL of the upstream server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The file name that the uploader gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_name: Option<String>,
}

/// A file that is other code than the best one under its build ID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoredConflict {
    /// The file.
    pub artifact: StoredArtifact,
    /// How it differs from the best one.
    pub difference: String,
}

/// `GET /build-ids`: one page of what is stored, in order of build ID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BuildIdList {
    /// The page.
    pub build_ids: Vec<BuildIdEntry>,
    /// What to ask for next as `after`; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// One build ID in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BuildIdEntry {
    /// The GNU build ID, in hex.
    pub build_id: String,
    /// The kinds of files that there are.
    pub kinds: Vec<ArtifactKind>,
    /// What its symbols are good for.
    pub quality: Quality,
    /// How far the symbol index is; absent when there is nothing to convert.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<IndexState>,
    /// Whether files of other code lie under it too.
    pub conflict: bool,
    /// Why the rest is not all that is stored, in words; absent when it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}
