//! Whether a file that somebody offers is there already, and offers that were accepted.
//!
//! Offers live in memory: an uploader whose offer was forgotten asks again.

use std::sync::Arc;

use unhex_build_id::BuildId;

use super::blobs::BlobRef;
use super::ingested::{IngestError, Ingested};
use super::located::ArtifactKind;
use super::{ContentHash, Inner};

/// A file that somebody could upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Its build ID.
    pub build_id: BuildId,
    /// What it is to be stored as.
    pub kind: ArtifactKind,
    /// SHA-256 of its bytes.
    pub sha256: ContentHash,
}

impl Inner {
    /// What an offered file came to, if it is there already. Its record has its hash and length; the
    /// bytes are compared behind the answer, and one that was found damaged is wanted again.
    pub(super) async fn known(
        self: &Arc<Self>,
        offer: &Offer,
    ) -> Result<Option<Ingested>, IngestError> {
        let state = self.catalog.state_now(&offer.build_id).await?;
        let copies = state.artifacts.iter().filter(|artifact| {
            artifact.body.sha256 == offer.sha256 && artifact.body.kinds.contains(&offer.kind)
        });
        for copy in copies {
            if self
                .blobs
                .is_there(&BlobRef::of(&offer.build_id, copy))
                .await?
            {
                let mut ingested = self.unchanged(&offer.build_id, &copy.body, &state);
                self.look_at_index(&mut ingested).await?;
                return Ok(Some(ingested));
            }
        }
        Ok(None)
    }
}
