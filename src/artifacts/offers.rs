//! Whether a file that somebody offers is there already, and offers that were accepted.
//!
//! Offers live in memory: an uploader whose offer was forgotten asks again.

use std::sync::Arc;

use unhex_build_id::BuildId;

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
    /// What an offered file came to, if it is there already, undamaged as far as is known.
    pub(super) async fn known(
        self: &Arc<Self>,
        offer: &Offer,
    ) -> Result<Option<Ingested>, IngestError> {
        let state = self.catalog.state_now(&offer.build_id).await?;
        let mut copies = state.artifacts.iter().filter(|artifact| {
            artifact.body.sha256 == offer.sha256 && artifact.body.kinds.contains(&offer.kind)
        });
        let Some(copy) = copies.next() else {
            return Ok(None);
        };
        let opened = self.open_any_copy(&offer.build_id, &state, copy).await;
        if opened.is_err() {
            return Ok(None);
        }
        let mut ingested = self.unchanged(&offer.build_id, &copy.body, &state);
        self.look_at_index(&mut ingested).await?;
        Ok(Some(ingested))
    }
}
