//! Symbol indexes of scanned files: made by the converter when they are asked for, kept in a folder
//! that is bounded.
//!
//! An index is named after what it was made from, so that it is never that of a file that changed.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio_util::task::TaskTracker;
use unhex_build_id::BuildId;
use unhex_symbols::index::SymbolIndex;
use unhex_symbols::quality::Quality;

use super::Inner;
use super::entry::Found;
use super::folder::{Folder, Kept, Key, Place};
use super::open::blocking;
use crate::artifacts::single_flight::{Landing, SingleFlight};
use crate::artifacts::{
    Artifact, ArtifactKind, Fingerprint, IndexFailure, IndexFile, IndexHome, IndexLookup,
    LocateError, Origin,
};
use crate::conversion::{ConversionSource, ConversionSources, Convert};

/// What is remembered of indexes, each some 200 bytes.
const REMEMBERED_MAX: u64 = 100_000;
/// How long it is remembered that files cannot be converted: they may be changed in time, and a
/// converter that dies of something else gets another chance.
const FAILURE_AGE_MAX: Duration = Duration::from_hours(1);
/// After a converter could not be run, it is not tried again for the same files so long.
const REST: Duration = Duration::from_secs(5);

/// The indexes.
#[derive(Debug)]
pub(super) struct Indexes {
    pub(super) folder: Folder,
    converter: Arc<dyn Convert>,
    flights: SingleFlight<Key, Result<(), LocateError>>,
    qualities: moka::sync::Cache<Key, Quality>,
    failures: moka::sync::Cache<Key, IndexFailure>,
    resting: moka::sync::Cache<Key, LocateError>,
    /// Those that were damaged, each made anew once an hour.
    forgotten: moka::sync::Cache<Key, ()>,
}

/// What an index is made from.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    debuginfo: Option<Found>,
    executable: Option<Found>,
    supplement: Option<Found>,
    pub(super) key: Key,
}

impl Indexes {
    pub(super) fn open(
        place: Place<'_>,
        converter: Arc<dyn Convert>,
        tasks: TaskTracker,
    ) -> io::Result<Self> {
        let remembered = || moka::sync::Cache::builder().max_capacity(REMEMBERED_MAX);
        Ok(Self {
            folder: Folder::open(place)?,
            converter,
            flights: SingleFlight::new(tasks),
            qualities: moka::sync::Cache::new(REMEMBERED_MAX),
            failures: remembered().time_to_live(FAILURE_AGE_MAX).build(),
            resting: moka::sync::Cache::builder()
                .max_capacity(REMEMBERED_MAX)
                .time_to_live(REST)
                .build(),
            forgotten: moka::sync::Cache::builder()
                .max_capacity(REMEMBERED_MAX)
                .time_to_live(FAILURE_AGE_MAX)
                .build(),
        })
    }

    /// Whether one that is damaged may be made anew.
    pub(super) fn forget(&self, key: &Key) -> bool {
        if self.forgotten.contains_key(key) {
            return false;
        }
        self.forgotten.insert(*key, ());
        self.qualities.invalidate(key);
        self.folder.remove(key);
        true
    }
}

impl Inner {
    /// What the index of a build ID is made from, by what is known; `None` when nothing is.
    pub(super) fn plan(&self, id: &BuildId) -> Option<Plan> {
        let best = |id: &BuildId, kind| self.catalogue.of_kind(id, kind).into_iter().next();
        let debuginfo = best(id, ArtifactKind::Debuginfo);
        let executable = best(id, ArtifactKind::Executable);
        let first = debuginfo.as_ref().or(executable.as_ref())?;
        let supplement = first
            .traits()
            .and_then(|traits| traits.supplement.as_ref())
            .and_then(|id| best(id, ArtifactKind::Debuginfo));
        // A program that was not stripped is one file.
        let is_one = debuginfo.as_ref().map(Found::tag) == executable.as_ref().map(Found::tag);
        let executable = executable.filter(|_| !is_one);
        let mut hash = Sha256::new();
        hash.update(self.indexes.converter.version().to_le_bytes());
        for found in [&debuginfo, &executable, &supplement] {
            hash.update(found.as_ref().map_or([0; 32], Found::tag));
        }
        Some(Plan {
            debuginfo,
            executable,
            supplement,
            key: hash.finalize().into(),
        })
    }

    /// What the symbols are good for, as far as that is known.
    pub(super) fn quality(&self, id: &BuildId) -> Result<Option<Quality>, LocateError> {
        let sight = self.sight();
        let Some(plan) = self.plan(id) else {
            return sight.check().map(|()| None);
        };
        if self.indexes.failures.contains_key(&plan.key) {
            return Ok(Some(Quality::None));
        }
        if let Some(quality) = self.indexes.qualities.get(&plan.key) {
            return Ok(Some(quality));
        }
        let found = [&plan.debuginfo, &plan.executable].into_iter().flatten();
        let promises = found.filter_map(|found| Some(found.traits()?.quality));
        Ok(promises.max())
    }

    /// The index of a build ID; begins a conversion when there is none.
    pub(super) async fn index(self: &Arc<Self>, id: &BuildId) -> Result<IndexLookup, LocateError> {
        let sight = self.sight();
        let Some(plan) = self.plan(id) else {
            let absent = self.absent::<()>(&sight).await;
            return absent.map(|_none| IndexLookup::Unknown);
        };
        if let Some(failure) = self.indexes.failures.get(&plan.key) {
            return Ok(IndexLookup::Failed(failure));
        }
        if let Some(file) = self.index_file(&plan).await? {
            return Ok(IndexLookup::Ready(file));
        }
        if let Some(error) = self.indexes.resting.get(&plan.key) {
            return Err(error);
        }
        drop(self.begin_conversion(&plan));
        Ok(IndexLookup::Converting)
    }

    /// Joins or begins the conversion of what was planned. It goes on when nobody waits.
    pub(super) fn begin_conversion(
        self: &Arc<Self>,
        plan: &Plan,
    ) -> Landing<Result<(), LocateError>> {
        self.indexes.flights.join(plan.key, || {
            let (inner, plan) = (Arc::clone(self), plan.clone());
            async move {
                let converted = inner.convert(&plan).await;
                if let Err(error) = &converted {
                    tracing::warn!(%error, "no symbol index of a scanned file: {error}");
                    inner.indexes.resting.insert(plan.key, error.clone());
                }
                converted
            }
        })
    }

    async fn index_file(self: &Arc<Self>, plan: &Plan) -> Result<Option<IndexFile>, LocateError> {
        let (inner, key) = (Arc::clone(self), plan.key);
        let known = blocking(move || inner.indexes.known(&key)).await?;
        Ok(known.map(|(quality, size_bytes, kept)| IndexFile {
            home: IndexHome::InPlace,
            path: kept.path,
            lease: kept.lease,
            size_bytes,
            sha256: plan.key,
            sources: plan.tags(),
            quality,
            origin: Origin::Scanned,
            segments: None,
        }))
    }

    async fn convert(self: &Arc<Self>, plan: &Plan) -> Result<(), LocateError> {
        let debuginfo = self.source_file(plan.debuginfo.as_ref()).await?;
        let executable = self.source_file(plan.executable.as_ref()).await?;
        let supplement = self.source_file(plan.supplement.as_ref()).await?;
        // They are open until the conversion has ended.
        let files = [&debuginfo, &executable, &supplement];
        let sources = ConversionSources {
            debuginfo: debuginfo.as_ref().map(conversion_source),
            executable: executable.as_ref().map(conversion_source),
            supplement: supplement.as_ref().map(conversion_source),
            dwp: None,
        };
        let unavailable = |detail: String| LocateError::Converter { detail };
        let output = self.indexes.folder.incoming_path(&plan.key);
        let converted = self.indexes.converter.convert(&sources, &output).await;
        let converted = converted.map_err(|error| unavailable(error.detail))?;
        let is_unchanged = |file: &&Artifact| {
            let now = file
                .unchanged
                .map(|before| (before, Fingerprint::of(&file.file)));
            now.is_none_or(|(before, now)| now.is_ok_and(|now| now == before))
        };
        if !files.into_iter().flatten().all(|file| is_unchanged(&file)) {
            let _absent_is_fine = std::fs::remove_file(&output);
            return Err(unavailable("its file was changed meanwhile".to_owned()));
        }
        let (inner, key) = (Arc::clone(self), plan.key);
        match converted {
            Ok(_) => {
                let first = plan.debuginfo.as_ref().or(plan.executable.as_ref());
                let ending = first.and_then(|found| self.ending(found));
                blocking(move || {
                    let incoming = Folder::incoming_at(output)?;
                    inner.indexes.folder.keep(&key, incoming)?;
                    let known = inner.indexes.known(&key)?;
                    Ok(known.is_some())
                })
                .await?;
                let names = self.names_of(plan.key).await?;
                self.meter.found_sources(ending.as_deref(), names);
                Ok(())
            }
            Err(failure) => {
                tracing::info!(detail = %failure.detail, "a scanned file cannot be converted");
                self.indexes.failures.insert(key, failure);
                Ok(())
            }
        }
    }

    /// The file of a plan, open and verified.
    async fn source_file(
        self: &Arc<Self>,
        found: Option<&Found>,
    ) -> Result<Option<Artifact>, LocateError> {
        let Some(found) = found else {
            return Ok(None);
        };
        match self.open(found.clone()).await? {
            Some(artifact) => Ok(Some(artifact)),
            None => Err(LocateError::InPlace {
                detail: format!("{} has changed", found.file.path.display()),
            }),
        }
    }

    /// The ending of the archive that has it, for metrics.
    fn ending(&self, found: &Found) -> Option<String> {
        found.is_member().then_some(())?;
        let ending = super::pass::ending_of(&found.file.path, &self.looking);
        ending.map(str::to_owned)
    }
}

impl Indexes {
    /// What an index that is there is good for, its length, and the file.
    fn known(&self, key: &Key) -> io::Result<Option<(Quality, u64, Kept)>> {
        let Some((mut file, kept)) = self.folder.find(key)? else {
            return Ok(None);
        };
        let size_bytes = file.metadata()?.len();
        if let Some(quality) = self.qualities.get(key) {
            return Ok(Some((quality, size_bytes, kept)));
        }
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut file, &mut bytes)?;
        let facts = SymbolIndex::parse(bytes).and_then(|index| {
            index.verify()?;
            index.facts()
        });
        match facts {
            Ok(facts) => {
                self.qualities.insert(*key, facts.quality);
                Ok(Some((facts.quality, size_bytes, kept)))
            }
            Err(error) => {
                tracing::warn!(%error, "a symbol index of a scanned file is damaged: {error}");
                self.folder.remove(key);
                Ok(None)
            }
        }
    }
}

impl Plan {
    /// What tells the files that the index names.
    fn tags(&self) -> Vec<[u8; 32]> {
        let found = [&self.debuginfo, &self.executable, &self.supplement];
        found.into_iter().flatten().map(Found::tag).collect()
    }
}

/// The index names a file by its tag: hashing the bytes would cost more than converting them.
fn conversion_source(file: &Artifact) -> ConversionSource {
    ConversionSource {
        path: file.path.clone(),
        sha256: file.tag,
    }
}
