//! Where debug files live: records and their fold, the object store, locate and ingest.
//!
//! What is known of a build ID is a set of immutable records ([`record`]); its [`state`] is a pure
//! fold of the set (docs/object-layout.md). An upload goes through `receive` (decode, hash),
//! `inspect` (what is it), `ingest` (may it come in), `publish` (blob, then record) and `indexing`
//! (convert). A look-up goes through `catalog` (the state, at most seconds old) and `blobs` (open,
//! compare with the hash). Nothing here knows HTTP.

mod aliases;
mod blobs;
mod bundles;
mod catalog;
mod clock;
mod completion;
mod content_hash;
mod delete;
mod fingerprint;
mod homes;
mod identities;
mod in_place;
mod index_files;
mod index_standing;
mod indexing;
mod ingest;
mod ingested;
mod inspect;
mod layout;
mod listing;
mod locate;
mod located;
mod mapped;
mod offers;
mod publish;
mod receive;
pub mod record;
mod seal;
pub(crate) mod single_flight;
mod source_path;
mod sources;
pub mod state;
pub mod store;
mod superseded;
mod sweep;
mod upstream;

pub use crate::conversion::{IndexFailure, IndexFailureKind};
pub use clock::Clock;
pub use content_hash::{ContentHash, ParseContentHashError};
pub use delete::{DeleteError, Deletion};
pub use fingerprint::Fingerprint;
pub use in_place::InPlace;
pub use index_standing::{IndexStanding, Plan};
pub use ingested::{IndexProgress, IngestError, Ingested, Target, Upload};
pub use layout::{ParseRecordNameError, ParseUploadIdError, RecordKind, RecordName, UploadId};
pub use listing::Listed;
pub use located::{
    Artifact, ArtifactKind, IndexFile, IndexHome, IndexLookup, LocateError, Origin,
    ParseArtifactKindError, Section, Source,
};
pub use mapped::FileMap;
pub use offers::{Completer, Completion, DirectPut, Offer, Parcel};
pub use publish::PublishError;
pub use receive::{ContentEncoding, Received, Receiver, ZSTD_WINDOW_LOG_MAX};
pub use source_path::canonical_source_path;
pub use sources::{SourceLimits, SourcesError};
pub use sweep::Swept;
pub use upstream::{
    Asker, Fetching, SetupError, UpstreamAddresses, UpstreamLimits, UpstreamSettings, Upstreams,
};

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use unhex_build_id::{BuildId, Identity};

use self::blobs::Blobs;
use self::bundles::Bundles;
use self::catalog::{Catalog, CatalogMeters};
use self::indexing::Indexing;
use self::offers::Completions;
use self::record::Provenance;
use self::state::State;
use self::store::ObjectStore;
use crate::conversion::Convert;
use crate::limits::Limits;
use crate::metrics::{Cache, Metrics};

/// How long an offer is remembered: uploads that take longer are published all the same.
const OFFER_AGE_MAX: Duration = Duration::from_hours(1);

/// Offers that are remembered; each takes some 300 bytes.
const OFFERS_MAX: u64 = 100_000;

/// The debug files of one object store, seen through its caches. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Artifacts {
    inner: Arc<Inner>,
}

/// What an [`Artifacts`] is made of.
#[derive(Debug)]
pub struct ArtifactsParts {
    /// Where objects lie.
    pub store: Arc<dyn ObjectStore>,
    /// What makes symbol indexes.
    pub converter: Arc<dyn Convert>,
    /// What time it is.
    pub clock: Clock,
    /// Bounds on uploads.
    pub limits: ArtifactLimits,
    /// Files that are served from where they lie, beside the store.
    pub in_place: Option<Arc<dyn InPlace>>,
    /// Who is asked for what the store has not.
    pub upstreams: Upstreams,
    /// Where its caches are counted.
    pub metrics: Arc<Metrics>,
    /// Counts what goes on behind requests; a stop waits for it.
    pub tasks: TaskTracker,
    /// Cancelled at a stop.
    pub stopping: CancellationToken,
}

/// Bounds on uploads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArtifactLimits {
    /// Largest upload after decompression.
    pub upload_bytes_max: u64,
    /// Files that are kept under one build ID.
    pub per_build_id_max: usize,
    /// Bounds on bundles of sources.
    pub sources: SourceLimits,
}

impl From<&Limits> for ArtifactLimits {
    fn from(limits: &Limits) -> Self {
        Self {
            upload_bytes_max: limits.upload_bytes_max,
            per_build_id_max: limits.artifacts_per_build_id_max,
            sources: SourceLimits {
                files_max: limits.sources_files_max.try_into().unwrap_or(u64::MAX),
                file_bytes_max: limits.sources_file_bytes_max,
                bytes_max: limits.sources_bytes_max,
            },
        }
    }
}

#[derive(Debug)]
struct Inner {
    store: Arc<dyn ObjectStore>,
    clock: Clock,
    limits: ArtifactLimits,
    catalog: Catalog,
    blobs: Blobs,
    bundles: Bundles,
    offers: moka::sync::Cache<UploadId, Offer>,
    completions: Completions,
    indexing: Indexing,
    in_place: Option<Arc<dyn InPlace>>,
    upstreams: Upstreams,
    tasks: TaskTracker,
    stopping: CancellationToken,
}

impl Artifacts {
    /// The debug files in a store. Must be called within a tokio runtime.
    pub fn new(parts: ArtifactsParts) -> Self {
        let ArtifactsParts {
            store,
            converter,
            clock,
            limits,
            in_place,
            upstreams,
            metrics,
            tasks,
            stopping,
        } = parts;
        Self {
            inner: Arc::new(Inner {
                catalog: Catalog::new(
                    Arc::clone(&store),
                    tasks.clone(),
                    CatalogMeters {
                        states: metrics.cache(Cache::States),
                        absent: metrics.cache(Cache::Absent),
                    },
                ),
                blobs: Blobs::new(Arc::clone(&store), tasks.clone()),
                bundles: Bundles::new(metrics.cache(Cache::SourceBundles)),
                offers: moka::sync::Cache::builder()
                    .time_to_live(OFFER_AGE_MAX)
                    .max_capacity(OFFERS_MAX)
                    .build(),
                completions: Completions::new(tasks.clone()),
                indexing: Indexing::new(converter, tasks.clone()),
                in_place,
                upstreams,
                store,
                clock,
                limits,
                tasks,
                stopping,
            }),
        }
    }

    /// The complete, verified file of a kind, or `None` when the store definitely has none.
    ///
    /// # Errors
    /// If the answer is not known now: that is never the same as "does not exist".
    pub async fn locate(
        &self,
        id: &BuildId,
        kind: ArtifactKind,
    ) -> Result<Option<Artifact>, LocateError> {
        self.inner.locate(id, kind).await
    }

    /// The raw bytes of an ELF section: from the debuginfo first, else from the executable;
    /// NOBITS and empty sections count as absent there.
    ///
    /// # Errors
    /// If the answer is not known now.
    pub async fn section(&self, id: &BuildId, name: &str) -> Result<Option<Section>, LocateError> {
        self.inner.section(id, name).await
    }

    /// A source file that was uploaded for this build ID; `path` is decoded and starts with `/`.
    /// Both sides are canonicalised (RFC 3986 §5.2.4, then `//` to `/`) and compared exactly.
    ///
    /// # Errors
    /// If the answer is not known now.
    pub async fn source(&self, id: &BuildId, path: &str) -> Result<Option<Source>, LocateError> {
        self.inner.source(id, path).await
    }

    /// The symbol index of a build ID. Starts a conversion when the index is missing or was made
    /// by an older converter, and answers [`IndexLookup::Converting`] at once while it runs; an
    /// index of fewer files by the same converter serves meanwhile.
    ///
    /// # Errors
    /// If the answer is not known now.
    pub async fn index(&self, id: &BuildId) -> Result<IndexLookup, LocateError> {
        self.inner.index_here(id).await
    }

    /// Everything that the store knows of a build ID; empty when that is nothing.
    ///
    /// # Errors
    /// If it cannot be read now.
    pub async fn state(&self, id: &BuildId) -> Result<Arc<State>, LocateError> {
        self.inner.catalog.state(id).await
    }

    /// The build ID that an identity leads to, internal ones too, or `None` when there is none.
    /// A GNU build ID leads to itself, whether something is stored of it or not.
    ///
    /// # Errors
    /// If the answer is not known now.
    pub async fn resolve(&self, identity: &Identity) -> Result<Option<BuildId>, LocateError> {
        self.inner.resolve(identity).await
    }

    /// Build IDs of which something is stored, behind `after` in order of their hex digits. Fewer
    /// than `limit` mean that there are no more. One that cannot be read now is in the list with the
    /// reason: something may be stored of it.
    ///
    /// # Errors
    /// If the store cannot be listed now.
    pub async fn list(
        &self,
        after: Option<&BuildId>,
        limit: usize,
    ) -> Result<Vec<Listed>, LocateError> {
        self.inner.list(after, limit).await
    }

    /// Deletes all that is known of a build ID; what is uploaded meanwhile or later stays. Answers
    /// whether there was anything.
    ///
    /// # Errors
    /// If the store cannot be read or written now.
    pub async fn delete(
        &self,
        id: &BuildId,
        provenance: Provenance,
    ) -> Result<Deletion, DeleteError> {
        self.inner.delete(id, provenance).await
    }

    /// Whether the store can be read now.
    ///
    /// # Errors
    /// If it cannot, and why.
    pub async fn check_store(&self) -> Result<(), LocateError> {
        Ok(self.inner.store.check().await?)
    }

    /// Where files lie on their way into the store: what can be written there can be stored.
    pub fn staging_folder(&self) -> &Path {
        self.inner.store.staging().folder()
    }

    /// Begins to receive an upload.
    pub fn receive(&self, encoding: ContentEncoding) -> Receiver {
        let bytes_max = self.inner.limits.upload_bytes_max;
        Receiver::new(Arc::clone(&self.inner.store), encoding, bytes_max)
    }

    /// Takes in an upload that was received: validates, compares, publishes, and waits at most
    /// 20 s for the index. Goes on until it is durable when the caller leaves.
    ///
    /// # Errors
    /// If it was not taken in, and why.
    pub async fn ingest(
        &self,
        received: Received,
        upload: Upload,
    ) -> Result<Ingested, IngestError> {
        self.inner.ingest(received, upload).await
    }

    /// What an offered file came to, if it is stored already.
    ///
    /// # Errors
    /// If the answer is not known now.
    pub async fn known(&self, offer: &Offer) -> Result<Option<Ingested>, IngestError> {
        self.inner.known(offer).await
    }

    /// Remembers an offer for an hour, under an ID.
    pub fn remember_offer(&self, offer: Offer) -> UploadId {
        let upload_id = self.inner.clock.upload_id();
        self.inner.offers.insert(upload_id, offer);
        upload_id
    }

    /// Where a client may put an offered file itself, into the store and past this server; `None`
    /// when it has to bring it here.
    ///
    /// # Errors
    /// If the store cannot be written now.
    pub async fn direct_put(
        &self,
        offer: &Offer,
        parcel: &Parcel,
    ) -> Result<Option<DirectPut>, LocateError> {
        Ok(self.inner.direct_put(offer, parcel).await?)
    }

    /// What an upload came to whose file was sent. One that lies in the store is read back when it is
    /// the completer's turn, compared with what was offered and taken in. That is done once for all
    /// who ask meanwhile and goes on when they leave; asking again is harmless.
    ///
    /// # Errors
    /// If it is not what was offered or is not taken in, and why; if that is not known now.
    pub async fn complete(
        &self,
        upload_id: UploadId,
        completer: Completer,
    ) -> Result<Completion, IngestError> {
        self.inner.complete_upload(upload_id, completer).await
    }

    /// The version of the converter that indexes are made by.
    pub fn converter_version(&self) -> u32 {
        self.inner.indexing.version()
    }

    /// Removes blobs that no record names and records that were deleted, both older than a day.
    ///
    /// # Errors
    /// If the store cannot be listed or written now; what was removed until then stays removed.
    pub async fn sweep(&self) -> Result<Swept, LocateError> {
        self.inner.sweep().await
    }

    /// Sweeps a part of the store every few minutes until the stop, and all of it in a day.
    pub fn sweep_by_and_by(&self) {
        let inner = Arc::clone(&self.inner);
        self.inner
            .tasks
            .spawn(async move { inner.sweep_by_and_by().await });
    }
}
