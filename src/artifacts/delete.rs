//! Deleting what is known of a build ID: one record that names the records that it found.
//!
//! What is uploaded meanwhile or later is not named and stays. The sweeper removes what was deleted.

use unhex_build_id::BuildId;

use super::Inner;
use super::located::LocateError;
use super::publish::{Publish, PublishError};
use super::record::{Provenance, RecordBody, TombstoneRecord};

/// Why nothing was deleted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeleteError {
    /// It is not known now what there is.
    #[error(transparent)]
    Locate(#[from] LocateError),
    /// The deletion could not be recorded.
    #[error(transparent)]
    Publish(#[from] PublishError),
}

/// What a deletion found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// It was there and is deleted.
    Deleted,
    /// There was nothing.
    NothingThere,
}

impl Inner {
    pub(super) async fn delete(
        &self,
        id: &BuildId,
        mut provenance: Provenance,
    ) -> Result<Deletion, DeleteError> {
        let state = self.catalog.state_now(id).await?;
        let deleted = state.living();
        if deleted.is_empty() {
            return Ok(Deletion::NothingThere);
        }
        provenance.at_unix_seconds = self.clock.unix_seconds();
        let body = RecordBody::Tombstone(TombstoneRecord {
            deleted,
            provenance,
        });
        Publish::begin(self, id).record(body).await?;
        tracing::info!(build_id = %id, "deleted all that was known of {id}");
        Ok(Deletion::Deleted)
    }
}
