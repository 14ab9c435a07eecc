//! Look-ups of files, sections and sources, from the folded state.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use unhex_build_id::BuildId;
use unhex_symbols::elf;

use super::Inner;
use super::blobs::BlobRef;
use super::located::{Artifact, ArtifactKind, LocateError, Section, Source};
use super::mapped::Mapped;
use super::record::ArtifactRecord;
use super::source_path::canonical_source_path;
use super::sources::Bundle;
use super::state::{State, Stored};
use super::store::StoreError;

impl Inner {
    pub(super) async fn locate(
        &self,
        id: &BuildId,
        kind: ArtifactKind,
    ) -> Result<Option<Artifact>, LocateError> {
        let state = self.catalog.state(id).await?;
        let Some(best) = state.best(kind) else {
            return state.check_readable().map(|()| None);
        };
        self.open_any_copy(id, &state, best).await.map(Some)
    }

    /// The verified file of a record, or of another one of the same bytes: each upload is a copy of
    /// its own, and one of them may be damaged.
    pub(super) async fn open_any_copy(
        &self,
        id: &BuildId,
        state: &State,
        artifact: &Stored<ArtifactRecord>,
    ) -> Result<Artifact, LocateError> {
        let failure = match self.open_artifact(id, artifact).await {
            Ok(artifact) => return Ok(artifact),
            Err(error) => error,
        };
        let others = state.copies(artifact.body.sha256);
        for copy in others.filter(|copy| copy.name != artifact.name) {
            if let Ok(artifact) = self.open_artifact(id, copy).await {
                return Ok(artifact);
            }
        }
        Err(failure)
    }

    /// The verified file of a record.
    pub(super) async fn open_artifact(
        &self,
        id: &BuildId,
        artifact: &Stored<ArtifactRecord>,
    ) -> Result<Artifact, LocateError> {
        let body = &artifact.body;
        let opened = self.blobs.open(&BlobRef::of(id, artifact)).await?;
        Ok(Artifact {
            file: opened.file,
            path: opened.path,
            lease: opened.lease,
            size_bytes: opened.size_bytes,
            tag: body.sha256.0,
            modified: UNIX_EPOCH + Duration::from_secs(body.provenance.at_unix_seconds),
            file_name: body.provenance.file_name.clone(),
            archive: None,
            unchanged: None,
            origin: body.origin,
        })
    }

    pub(super) async fn section(
        &self,
        id: &BuildId,
        name: &str,
    ) -> Result<Option<Section>, LocateError> {
        let mut looked_at = None;
        for kind in [ArtifactKind::Debuginfo, ArtifactKind::Executable] {
            let Some(artifact) = self.locate(id, kind).await? else {
                continue;
            };
            if looked_at.replace(artifact.tag) == Some(artifact.tag) {
                continue;
            }
            let (path, name) = (artifact.path.clone(), name.to_owned());
            let found = tokio::task::spawn_blocking(move || section_range(&path, &name));
            let found = found
                .await
                .unwrap_or_else(|error| Err(std::io::Error::other(error)));
            let range = found
                .map_err(|error| StoreError::from_io("reading", &artifact.path.display(), error))?;
            if let Some(range) = range {
                return Ok(Some(Section {
                    artifact,
                    offset_bytes: range.start,
                    size_bytes: range.end.saturating_sub(range.start),
                }));
            }
        }
        Ok(None)
    }

    pub(super) async fn source(
        &self,
        id: &BuildId,
        path: &str,
    ) -> Result<Option<Source>, LocateError> {
        let Some(path) = canonical_source_path(path) else {
            return Ok(None);
        };
        let state = self.catalog.state(id).await?;
        // A damaged bundle does not hide the others; only absence is uncertain then.
        let (mut answered, mut failures) = (BTreeSet::new(), Vec::new());
        for bundle in state.of_kind(ArtifactKind::Sources) {
            let sha256 = bundle.body.sha256;
            // Of several copies of one bundle a sound one is enough.
            if answered.contains(&sha256) {
                continue;
            }
            match self.read_source(id, bundle, &path).await {
                Ok(Some(bytes)) => {
                    return Ok(Some(Source {
                        bytes,
                        path,
                        modified: earliest_upload(&state),
                    }));
                }
                Ok(None) => {
                    answered.insert(sha256);
                }
                Err(error) => failures.push((sha256, error)),
            }
        }
        failures.retain(|(sha256, _)| !answered.contains(sha256));
        if let Some((_, error)) = failures.into_iter().next() {
            return Err(error);
        }
        state.check_readable().map(|()| None)
    }

    async fn read_source(
        &self,
        id: &BuildId,
        bundle: &Stored<ArtifactRecord>,
        path: &str,
    ) -> Result<Option<bytes::Bytes>, LocateError> {
        let opened = self.bundle(id, bundle).await?;
        let (limits, wanted) = (self.limits.sources, path.to_owned());
        let read = tokio::task::spawn_blocking(move || opened.read(&wanted, &limits));
        let read = read.await.map_err(|error| cut_off(&error))?;
        read.map_err(|error| damaged(bundle, &error))
    }

    async fn bundle(
        &self,
        id: &BuildId,
        bundle: &Stored<ArtifactRecord>,
    ) -> Result<Bundle, LocateError> {
        let file = self.open_artifact(id, bundle).await?.file;
        let sha256 = bundle.body.sha256;
        if let Some(opened) = self.bundles.find(&sha256) {
            return Ok(opened);
        }
        let opened = tokio::task::spawn_blocking(move || Bundle::open(file));
        let opened = opened.await.map_err(|error| cut_off(&error))?;
        let opened = opened.map_err(|error| damaged(bundle, &error))?;
        self.bundles.keep(sha256, opened.clone());
        Ok(opened)
    }
}

fn section_range(
    path: &std::path::Path,
    name: &str,
) -> std::io::Result<Option<std::ops::Range<u64>>> {
    let file = Mapped::open(path)?;
    // A file that was taken in can be parsed; if not, it has no such section.
    Ok(elf::section_range(file.bytes(), name).ok().flatten())
}

/// When the first file of a build ID was uploaded: its sources count as modified then, since they are
/// older than what was built from them, and gdb warns of a source that is newer.
pub(super) fn earliest_upload(state: &State) -> SystemTime {
    let uploads = state.artifacts.iter();
    let seconds = uploads.map(|artifact| artifact.body.provenance.at_unix_seconds);
    UNIX_EPOCH + Duration::from_secs(seconds.min().unwrap_or_default())
}

fn cut_off(error: &dyn std::fmt::Display) -> LocateError {
    LocateError::Store {
        detail: format!("reading was cut off: {error}"),
    }
}

fn damaged(artifact: &Stored<ArtifactRecord>, error: &dyn std::fmt::Display) -> LocateError {
    LocateError::Damaged {
        key: artifact.name.to_string(),
        detail: error.to_string(),
    }
}
