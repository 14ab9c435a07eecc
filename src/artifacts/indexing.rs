//! Symbol indexes of what is stored: which is there, which has to be made, and making it.
//!
//! An index or a failure is kept for its set of source files and its converter's version; so a
//! better file or a newer converter leads to a new conversion by itself. That the converter could
//! not be run says nothing about the files and is not kept in the store.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempPath;
use tokio_util::task::TaskTracker;
use unhex_build_id::BuildId;

use super::index_standing::{IndexStanding, Plan};
use super::located::{Artifact, ArtifactKind, IndexFile, IndexLookup, LocateError, Origin};
use super::publish::{Publish, PublishError};
use super::record::{
    ArtifactRecord, FailureRecord, IndexRecord, Provenance, RecordBody, TombstoneRecord,
};
use super::single_flight::{Landing, SingleFlight};
use super::state::{State, Stored};
use super::store::{BlobContent, StagedFile};
use super::{ContentHash, Inner};
use crate::conversion::{ConversionSource, ConversionSources, Convert, Converted};

/// After a converter could not be run, it is not tried again for the same build ID so long.
const CONVERTER_REST: Duration = Duration::from_secs(5);

/// Conversions in one flight: sources may arrive and files may fail while one runs.
const ROUNDS_MAX: usize = 8;

/// The conversions of a store.
#[derive(Debug)]
pub(super) struct Indexing {
    converter: Arc<dyn Convert>,
    flights: SingleFlight<BuildId, Result<(), LocateError>>,
    resting: moka::sync::Cache<BuildId, LocateError>,
}

impl Indexing {
    pub(super) fn new(converter: Arc<dyn Convert>, tasks: TaskTracker) -> Self {
        Self {
            converter,
            flights: SingleFlight::new(tasks),
            resting: moka::sync::Cache::builder()
                .time_to_live(CONVERTER_REST)
                .max_capacity(10_000)
                .build(),
        }
    }

    /// The version of the converter.
    pub(super) fn version(&self) -> u32 {
        self.converter.version()
    }
}

impl Inner {
    /// What is known of the index; starts a conversion when it is missing or old.
    pub(super) async fn index(self: &Arc<Self>, id: &BuildId) -> Result<IndexLookup, LocateError> {
        let state = self.catalog.state(id).await?;
        match state.index(self.indexing.version()) {
            IndexStanding::NoSources => {
                state.check_readable()?;
                Ok(IndexLookup::Unknown)
            }
            IndexStanding::Failed(failure) => Ok(IndexLookup::Failed(failure)),
            IndexStanding::Ready(index) => match self.index_file(id, &state, &index).await {
                Err(LocateError::Damaged { key, detail }) => {
                    tracing::error!(%key, %detail, "making a damaged symbol index of {id} anew");
                    self.forget_index(id, &index).await?;
                    drop(self.begin_conversion(id));
                    Ok(IndexLookup::Converting)
                }
                opened => {
                    if self.can_be_completed(&state, &index).await?.is_some() {
                        drop(self.begin_conversion(id));
                    }
                    opened.map(IndexLookup::Ready)
                }
            },
            IndexStanding::Wanted { meanwhile, .. } => {
                let rest = self.indexing.resting.get(id);
                if rest.is_none() {
                    drop(self.begin_conversion(id));
                }
                match (meanwhile, rest) {
                    (Some(index), _) => self
                        .index_file(id, &state, &index)
                        .await
                        .map(IndexLookup::Ready),
                    (None, Some(error)) => Err(error),
                    (None, None) => Ok(IndexLookup::Converting),
                }
            }
        }
    }

    /// Joins or begins the conversion of a build ID. It goes on when nobody waits.
    pub(super) fn begin_conversion(
        self: &Arc<Self>,
        id: &BuildId,
    ) -> Landing<Result<(), LocateError>> {
        self.indexing.flights.join(id.clone(), || {
            let (inner, id) = (Arc::clone(self), id.clone());
            async move {
                let converted = inner.convert_rounds(&id).await;
                if let Err(error) = &converted {
                    tracing::warn!(build_id = %id, %error, "no symbol index of {id}: {error}");
                    inner.indexing.resting.insert(id, error.clone());
                }
                converted
            }
        })
    }

    async fn convert_rounds(&self, id: &BuildId) -> Result<(), LocateError> {
        for _ in 0..ROUNDS_MAX {
            let state = self.catalog.state_now(id).await?;
            let plan = match state.index(self.indexing.version()) {
                IndexStanding::Wanted { plan, .. } => *plan,
                IndexStanding::Ready(index) => match self.can_be_completed(&state, &index).await? {
                    Some(plan) => plan,
                    None => return Ok(()),
                },
                _ => return Ok(()),
            };
            self.convert(id, &plan).await?;
        }
        Ok(())
    }

    /// How to make an index anew that lacks a supplementary file which has come since.
    async fn can_be_completed(
        &self,
        state: &State,
        index: &Stored<IndexRecord>,
    ) -> Result<Option<Plan>, LocateError> {
        let body = &index.body;
        let tried = state.failures.iter().any(|failure| {
            failure.body.supplement.is_some()
                && failure.body.converter_version == body.converter_version
                && failure.body.sources == body.sources
        });
        if body.needs_supplement.is_none() || body.supplement.is_some() || tried {
            return Ok(None);
        }
        let Some(plan) = state.plan_of(body) else {
            return Ok(None);
        };
        let has_come = self.supplement(&plan).await?.is_some();
        Ok(has_come.then_some(plan))
    }

    /// The supplementary file of a plan, if it asks for one that is there.
    async fn supplement(&self, plan: &Plan) -> Result<Option<Artifact>, LocateError> {
        let Some(id) = plan.supplement() else {
            return Ok(None);
        };
        let state = self.catalog.state(id).await?;
        self.source_file(id, state.best(ArtifactKind::Debuginfo))
            .await
    }

    async fn convert(&self, id: &BuildId, plan: &Plan) -> Result<(), LocateError> {
        // They are open until the conversion has ended, so that they stay at their paths.
        let debuginfo = self.source_file(id, plan.debuginfo.as_ref()).await?;
        let executable = self.source_file(id, plan.executable.as_ref()).await?;
        let supplement = self.supplement(plan).await?;
        let dwp = self.source_file(id, plan.dwp.as_ref()).await?;
        let sources = ConversionSources {
            debuginfo: debuginfo.as_ref().map(conversion_source),
            executable: executable.as_ref().map(conversion_source),
            supplement: supplement.as_ref().map(conversion_source),
            dwp: dwp.as_ref().map(conversion_source),
        };
        let name = format!("{}.index", self.clock.upload_id());
        let output = self.store.staging().folder().join(name);
        let converted = self.indexing.converter.convert(&sources, &output).await;
        let supplement = supplement.map(|file| ContentHash(file.sha256));
        let result = converted.map_err(|error| LocateError::Converter {
            detail: error.detail,
        })?;
        let version = self.indexing.version();
        match result {
            Ok(converted) => {
                let (index, staged) = self.stage_index(plan, converted, output).await?;
                let index = IndexRecord { supplement, ..index };
                self.publish_index(id, (index, staged)).await
            }
            Err(failure) => {
                tracing::info!(build_id = %id, detail = %failure.detail, "{id} cannot be converted");
                let body = RecordBody::Failure(FailureRecord {
                    sources: plan.sources(),
                    converter_version: version,
                    supplement,
                    failure,
                });
                Publish::begin(self, id).record(body).await
            }
        }
        .map_err(LocateError::from)
    }

    async fn source_file(
        &self,
        id: &BuildId,
        artifact: Option<&Stored<ArtifactRecord>>,
    ) -> Result<Option<Artifact>, LocateError> {
        let Some(artifact) = artifact else {
            return Ok(None);
        };
        let state = self.catalog.state(id).await?;
        self.open_any_copy(id, &state, artifact).await.map(Some)
    }

    /// Hashes what the converter wrote.
    async fn stage_index(
        &self,
        plan: &Plan,
        converted: Converted,
        output: PathBuf,
    ) -> Result<(IndexRecord, StagedFile), LocateError> {
        let sources = plan.sources();
        let version = self.indexing.version();
        let hashed = tokio::task::spawn_blocking(move || {
            let path = TempPath::try_from_path(output)?;
            let sha256 = ContentHash::of_reader(File::open(&path)?)?;
            let file = File::open(&path)?;
            Ok::<_, std::io::Error>((sha256, StagedFile::from_parts(file, path)))
        });
        let failed = |detail: String| LocateError::Converter { detail };
        let (sha256, staged) = hashed
            .await
            .map_err(|error| failed(error.to_string()))?
            .map_err(|error| failed(format!("its output cannot be read: {error}")))?;
        let record = IndexRecord {
            sources,
            converter_version: version,
            sha256,
            size_bytes: converted.size_bytes,
            blob: super::store::BlobForm::default(),
            quality: converted.quality,
            functions: converted.functions,
            lines: converted.lines,
            units_failed: converted.units_failed,
            supplement: None,
            needs_supplement: converted.needs_supplement,
        };
        Ok((record, staged))
    }

    async fn publish_index(
        &self,
        id: &BuildId,
        (mut record, staged): (IndexRecord, StagedFile),
    ) -> Result<(), PublishError> {
        let publish = Publish::begin(self, id);
        record.blob = publish
            .blob(record.sha256, (staged, BlobContent::SymbolIndex))
            .await?;
        publish.record(RecordBody::Index(record)).await
    }

    /// Deletes the record of a damaged index: it is derived, and can be made again.
    async fn forget_index(
        &self,
        id: &BuildId,
        index: &Stored<IndexRecord>,
    ) -> Result<(), LocateError> {
        let body = RecordBody::Tombstone(TombstoneRecord {
            deleted: [index.name].into(),
            provenance: Provenance {
                at_unix_seconds: self.clock.unix_seconds(),
                who: Some("the server: the index is damaged".to_owned()),
                ..Provenance::default()
            },
        });
        Ok(Publish::begin(self, id).record(body).await?)
    }

    async fn index_file(
        &self,
        id: &BuildId,
        state: &State,
        index: &Stored<IndexRecord>,
    ) -> Result<IndexFile, LocateError> {
        let body = &index.body;
        let file = self
            .blobs
            .open(super::blobs::BlobRef {
                id,
                sha256: body.sha256,
                upload: index.name.upload,
                form: &body.blob,
                size_bytes: body.size_bytes,
            })
            .await?;
        let is_source =
            |artifact: &&Stored<ArtifactRecord>| body.sources.contains(&artifact.body.sha256);
        let best = state.artifacts.iter().find(is_source);
        let executable = state.best(ArtifactKind::Executable);
        Ok(IndexFile {
            path: file.path,
            lease: file.lease,
            size_bytes: file.size_bytes,
            sha256: body.sha256.0,
            quality: body.quality,
            origin: best.map_or(Origin::Upload, |artifact| artifact.body.origin),
            segments: executable
                .and_then(|artifact| artifact.body.elf.as_ref())
                .map(|elf| Arc::new(elf.segments.clone())),
        })
    }
}

fn conversion_source(file: &Artifact) -> ConversionSource {
    ConversionSource {
        path: file.path.clone(),
        sha256: file.sha256,
    }
}

impl From<PublishError> for LocateError {
    fn from(error: PublishError) -> Self {
        Self::Store {
            detail: error.to_string(),
        }
    }
}
