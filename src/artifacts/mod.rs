//! Where debug files live: records and their fold, the object store, locate and ingest.
//!
//! What is known of a build ID is a set of immutable records; its state is a pure fold of the set
//! (docs/object-layout.md). Nothing here knows HTTP.

mod located;

pub use located::{
    Artifact, ArtifactKind, IndexFailure, IndexFailureKind, IndexFile, IndexLookup, LocateError,
    Origin, Section, Source,
};

use unhex_build_id::BuildId;

/// The debug files of one object store, seen through its caches.
#[derive(Debug)]
pub struct Artifacts {}

impl Artifacts {
    /// The complete, verified file of a kind, or `None` when the store definitely has none.
    ///
    /// # Errors
    /// If the answer is not known now: that is never the same as "does not exist".
    #[expect(
        clippy::unused_async,
        reason = "the seam is settled before its store is there"
    )]
    pub async fn locate(
        &self,
        _id: &BuildId,
        _kind: ArtifactKind,
    ) -> Result<Option<Artifact>, LocateError> {
        Ok(None)
    }

    /// The raw bytes of an ELF section: from the debuginfo first, else from the executable;
    /// NOBITS and empty sections count as absent there.
    ///
    /// # Errors
    /// If the answer is not known now.
    #[expect(
        clippy::unused_async,
        reason = "the seam is settled before its store is there"
    )]
    pub async fn section(
        &self,
        _id: &BuildId,
        _name: &str,
    ) -> Result<Option<Section>, LocateError> {
        Ok(None)
    }

    /// A source file that was uploaded for this build ID; `path` is decoded and starts with `/`.
    /// Both sides are canonicalised (RFC 3986 §5.2.4, then `//` to `/`) and compared exactly.
    ///
    /// # Errors
    /// If the answer is not known now.
    #[expect(
        clippy::unused_async,
        reason = "the seam is settled before its store is there"
    )]
    pub async fn source(&self, _id: &BuildId, _path: &str) -> Result<Option<Source>, LocateError> {
        Ok(None)
    }

    /// The symbol index of a build ID. Starts a conversion when the index is missing or was made
    /// by an older converter, and answers [`IndexLookup::Converting`] at once while it runs.
    ///
    /// # Errors
    /// If the answer is not known now.
    #[expect(
        clippy::unused_async,
        reason = "the seam is settled before its store is there"
    )]
    pub async fn index(&self, _id: &BuildId) -> Result<IndexLookup, LocateError> {
        Ok(IndexLookup::Unknown)
    }
}
