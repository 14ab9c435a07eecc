//! Stored symbol indexes as files, and getting rid of those that cannot be read.
//!
//! An index is derived: one that is damaged is deleted and made anew. That is done once an hour for a
//! build ID, since an index that is made anew and cannot be read either will not become better.

use std::sync::Arc;

use unhex_build_id::BuildId;

use super::Inner;
use super::blobs::BlobRef;
use super::layout::RecordName;
use super::located::{ArtifactKind, IndexFile, IndexHome, LocateError, Origin};
use super::publish::Publish;
use super::record::{ArtifactRecord, IndexRecord, Provenance, RecordBody, TombstoneRecord};
use super::state::{State, Stored};

impl Inner {
    /// The file of an index, or `None` when it is missing or cut and has been deleted for that.
    pub(super) async fn index_file_or_forget(
        &self,
        id: &BuildId,
        (state, index): (&State, &Stored<IndexRecord>),
    ) -> Result<Option<IndexFile>, LocateError> {
        match self.index_file(id, state, index).await {
            Ok(file) => Ok(Some(file)),
            Err(damaged @ LocateError::Damaged { .. }) => {
                if self.forget_index(id, index.name).await? {
                    return Ok(None);
                }
                Err(damaged)
            }
            Err(error) => Err(error),
        }
    }

    /// Deletes an index that cannot be read, unless another one was deleted within the last hour.
    pub(super) async fn forget_index(
        &self,
        id: &BuildId,
        name: RecordName,
    ) -> Result<bool, LocateError> {
        let state = self.catalog.state_now(id).await?;
        if !state.indexes.iter().any(|index| index.name == name) {
            return Ok(true);
        }
        let earlier = self.indexing.forgotten.get(id);
        if earlier.is_some_and(|earlier| earlier != name) {
            return Ok(false);
        }
        tracing::error!(build_id = %id, index = %name, "making a damaged symbol index of {id} anew");
        self.indexing.forgotten.insert(id.clone(), name);
        let body = RecordBody::Tombstone(TombstoneRecord {
            deleted: [name].into(),
            provenance: Provenance {
                at_unix_seconds: self.clock.unix_seconds(),
                who: Some("the server: the index is damaged".to_owned()),
                ..Provenance::default()
            },
        });
        Publish::begin(self, id).record(body).await?;
        Ok(true)
    }

    async fn index_file(
        &self,
        id: &BuildId,
        state: &State,
        index: &Stored<IndexRecord>,
    ) -> Result<IndexFile, LocateError> {
        let body = &index.body;
        let blob = BlobRef {
            id,
            sha256: body.sha256,
            upload: index.name.upload,
            form: &body.blob,
            size_bytes: body.size_bytes,
        };
        let file = self.blobs.open_unread(&blob).await?;
        let is_source =
            |artifact: &&Stored<ArtifactRecord>| body.sources.contains(&artifact.body.sha256);
        let best = state.artifacts.iter().find(is_source);
        let executable = state.best(ArtifactKind::Executable);
        Ok(IndexFile {
            home: IndexHome::Record(index.name),
            path: file.path,
            lease: file.lease,
            size_bytes: file.size_bytes,
            sha256: body.sha256.0,
            sources: body.sources.iter().map(|source| source.0).collect(),
            quality: body.quality,
            origin: best.map_or(Origin::Upload, |artifact| artifact.body.origin),
            segments: executable
                .and_then(|artifact| artifact.body.elf.as_ref())
                .map(|elf| Arc::new(elf.segments.clone())),
        })
    }
}
