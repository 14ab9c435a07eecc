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
use super::layout::RecordName;
use super::located::{Artifact, IndexLookup, LocateError};
use super::publish::{Publish, PublishError};
use super::record::{FailureRecord, IndexRecord, RecordBody};
use super::single_flight::{Landing, SingleFlight};
use super::state::{State, Stored};
use super::store::{BlobContent, NewBlob, StagedFile};
use super::{ContentHash, Inner};
use crate::conversion::{ConversionSource, ConversionSources, Convert, Converted};

/// After a converter could not be run, it is not tried again for the same build ID so long.
const CONVERTER_REST: Duration = Duration::from_secs(5);

/// An index that cannot be read is made anew once in this time for a build ID.
const REMADE_AGE_MAX: Duration = Duration::from_hours(1);

/// Conversions in one flight: sources may arrive and files may fail while one runs.
const ROUNDS_MAX: usize = 8;

/// The conversions of a store.
#[derive(Debug)]
pub(super) struct Indexing {
    converter: Arc<dyn Convert>,
    flights: SingleFlight<BuildId, Result<(), LocateError>>,
    resting: moka::sync::Cache<BuildId, LocateError>,
    /// Indexes that were deleted since they could not be read, the last one of each build ID.
    pub(super) forgotten: moka::sync::Cache<BuildId, RecordName>,
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
            forgotten: moka::sync::Cache::builder()
                .time_to_live(REMADE_AGE_MAX)
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
            IndexStanding::Ready(index) => {
                let Some(file) = self.index_file_or_forget(id, (&state, &index)).await? else {
                    drop(self.begin_conversion(id));
                    return Ok(IndexLookup::Converting);
                };
                self.complete_behind(id, (&state, &index)).await;
                Ok(IndexLookup::Ready(file))
            }
            IndexStanding::Wanted { meanwhile, .. } => {
                let rest = self.indexing.resting.get(id);
                if rest.is_none() {
                    drop(self.begin_conversion(id));
                }
                let meanwhile = match &meanwhile {
                    Some(index) => self.index_file_or_forget(id, (&state, index)).await?,
                    None => None,
                };
                match (meanwhile, rest) {
                    (Some(file), _) => Ok(IndexLookup::Ready(file)),
                    (None, Some(error)) => Err(error),
                    (None, None) => Ok(IndexLookup::Converting),
                }
            }
        }
    }

    /// Begins to complete an index, if that is possible; it serves meanwhile, whatever is known.
    async fn complete_behind(
        self: &Arc<Self>,
        id: &BuildId,
        (state, index): (&State, &Stored<IndexRecord>),
    ) {
        match self.can_be_completed(state, index).await {
            Ok(Some(_plan)) => drop(self.begin_conversion(id)),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(build_id = %id, %error, "not known now whether an index can be completed");
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
            self.convert(id, (&state, &plan)).await?;
        }
        Ok(())
    }

    async fn convert(
        &self,
        id: &BuildId,
        (state, plan): (&State, &Plan),
    ) -> Result<(), LocateError> {
        let tried = state.supplements_tried(plan, self.indexing.version());
        // They are open until the conversion has ended, so that they stay at their paths.
        let debuginfo = self.source_file(id, plan.debuginfo.as_ref()).await?;
        let executable = self.source_file(id, plan.executable.as_ref()).await?;
        let supplement = self.supplement(plan, &tried).await?;
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
        let supplement = supplement.map(|file| ContentHash(file.tag));
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
        let blob = NewBlob {
            staged,
            sha256: record.sha256,
            content: BlobContent::SymbolIndex,
        };
        record.blob = publish.blob(blob).await?;
        publish.record(RecordBody::Index(record)).await
    }
}

fn conversion_source(file: &Artifact) -> ConversionSource {
    ConversionSource {
        path: file.path.clone(),
        sha256: file.tag,
    }
}

impl From<PublishError> for LocateError {
    fn from(error: PublishError) -> Self {
        Self::Store {
            detail: error.to_string(),
        }
    }
}
