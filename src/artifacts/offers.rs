//! Whether a file that somebody offers is there already, and offers that were accepted.
//!
//! Offers of files that come through this server live in memory: an uploader whose offer was
//! forgotten asks again. Those of files that go straight to the store lie there beside the file, so
//! that whichever server is told of its end knows what was agreed. Reading such a file back may take
//! longer than anybody waits, so it goes on when those who asked leave, and whoever asks again joins.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use serde::{Deserialize, Serialize};
use unhex_build_id::{BuildId, Identity};

use super::blobs::BlobRef;
use super::ingested::{IngestError, Ingested, Target, Upload};
use super::layout::{self, UploadId};
use super::located::{ArtifactKind, LocateError, Origin};
use super::receive::{ContentEncoding, Received, Receiver};
use super::record::Provenance;
use super::single_flight::SingleFlight;
use super::store::{DirectBody, DirectUploads, GetLimit, StoreError};
use super::{ContentHash, Inner, seal};
use crate::queue::Place;

/// How long a presigned URL is good: a slow line sends a few gigabytes in that time.
const URL_LIFETIME: Duration = Duration::from_hours(1);

/// What S3 takes in one PUT.
const DIRECT_BYTES_MAX: u64 = 5 << 30;

/// Longest agreement that is read.
const OFFER_LIMIT: GetLimit = GetLimit {
    bytes_max: 64 << 10,
};

/// A file that somebody could upload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Its build ID.
    pub build_id: BuildId,
    /// What it is to be stored as.
    pub kind: ArtifactKind,
    /// SHA-256 of its bytes.
    pub sha256: ContentHash,
}

/// What the offerer says beside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parcel {
    /// Its length.
    pub size_bytes: u64,
    /// Its name, without folders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_name: Option<String>,
}

/// Where a client puts a file itself.
#[derive(Clone, Debug)]
pub struct DirectPut {
    /// What names the upload when it is completed.
    pub upload_id: UploadId,
    /// Where to.
    pub url: String,
}

/// Who says that an upload is sent.
#[derive(Clone, Debug)]
pub struct Completer {
    /// Who that is.
    pub provenance: Provenance,
    /// Where its turn is waited for if the file has to be read back.
    pub place: Place,
}

/// The uploads that lie in the store and are taken in now.
pub(super) type Completions = SingleFlight<UploadId, Result<Completion, Arc<IngestError>>>;

/// What came of the end of an upload.
#[derive(Clone, Debug)]
pub enum Completion {
    /// Nobody knows such an upload, or not any more.
    Unknown,
    /// Its file is not there.
    NothingSent(Offer),
    /// It is stored.
    Done(Ingested),
}

/// The agreement as it lies in the store: docs/object-layout.md.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Agreement {
    version: u32,
    #[serde(flatten)]
    offer: Offer,
    #[serde(flatten)]
    parcel: Parcel,
}

const AGREEMENT_VERSION: u32 = 1;

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

    /// Where a client may put an offered file itself; `None` when it has to bring it here.
    pub(super) async fn direct_put(
        &self,
        offer: &Offer,
        parcel: &Parcel,
    ) -> Result<Option<DirectPut>, StoreError> {
        let direct = self.store.direct_uploads();
        let Some(direct) = direct.filter(|_| parcel.size_bytes <= DIRECT_BYTES_MAX) else {
            return Ok(None);
        };
        let upload_id = self.clock.upload_id();
        let body = layout::upload_body(upload_id)?;
        let url = match direct.presign_put(body, URL_LIFETIME).await {
            Ok(url) => url,
            Err(error) => {
                tracing::warn!(%error, "uploads go through this server: {error}");
                return Ok(None);
            }
        };
        let key = layout::upload_offer(upload_id)?;
        let agreement = Agreement {
            version: AGREEMENT_VERSION,
            offer: offer.clone(),
            parcel: parcel.clone(),
        };
        let json = serde_json::to_vec(&agreement)
            .map_err(|error| StoreError::from_io("writing", &key, error.into()))?;
        self.store.put(key, seal::seal(json).into()).await?;
        Ok(Some(DirectPut { upload_id, url }))
    }

    /// Takes in what was sent for an upload. Asking again is harmless.
    pub(super) async fn complete_upload(
        self: &Arc<Self>,
        upload_id: UploadId,
        completer: Completer,
    ) -> Result<Completion, IngestError> {
        if let Some(offer) = self.offers.get(&upload_id) {
            let known = self.known(&offer).await?;
            return Ok(known.map_or(Completion::NothingSent(offer), Completion::Done));
        }
        if self.store.direct_uploads().is_none() {
            return Ok(Completion::Unknown);
        }
        let landing = self.completions.join(upload_id, || {
            let inner = Arc::clone(self);
            async move {
                let completed = inner.complete_direct(upload_id, completer).await;
                completed.map_err(Arc::new)
            }
        });
        let landed = landing.await.ok_or(IngestError::CutOff)?;
        landed.map_err(IngestError::Shared)
    }

    /// Reads back and takes in a file that a client put into the store.
    async fn complete_direct(
        self: &Arc<Self>,
        upload_id: UploadId,
        completer: Completer,
    ) -> Result<Completion, IngestError> {
        let Some(direct) = self.store.direct_uploads() else {
            return Ok(Completion::Unknown);
        };
        let Some(agreement) = self.agreement(upload_id).await? else {
            return Ok(Completion::Unknown);
        };
        if let Some(known) = self.known(&agreement.offer).await? {
            self.clear_away(upload_id).await;
            return Ok(Completion::Done(known));
        }
        let turn = completer.place.turn().await.map_err(IngestError::NoTurn)?;
        let Some(received) = self.read_back(direct, upload_id, &agreement).await? else {
            return Ok(Completion::NothingSent(agreement.offer));
        };
        let upload = Upload {
            target: Target::Named {
                identity: Identity::Gnu(agreement.offer.build_id),
                kind: agreement.offer.kind,
            },
            origin: Origin::Upload,
            provenance: Provenance {
                file_name: agreement.parcel.file_name,
                ..completer.provenance
            },
        };
        let ingested = self.ingest(received.in_turn(turn), upload).await?;
        self.clear_away(upload_id).await;
        Ok(Completion::Done(ingested))
    }

    async fn agreement(&self, upload_id: UploadId) -> Result<Option<Agreement>, IngestError> {
        let key = layout::upload_offer(upload_id).map_err(StoreError::from);
        let key = key.map_err(LocateError::from)?;
        let json = self.store.get(key.clone(), OFFER_LIMIT).await;
        let Some(json) = json.map_err(LocateError::from)? else {
            return Ok(None);
        };
        let damaged = |detail: String| LocateError::Damaged {
            key: key.to_string(),
            detail,
        };
        seal::check(&json).map_err(|error| damaged(error.to_string()))?;
        let agreement: Agreement =
            serde_json::from_slice(&json).map_err(|error| damaged(error.to_string()))?;
        if agreement.version > AGREEMENT_VERSION {
            return Err(damaged("a newer version wrote it".to_owned()).into());
        }
        Ok(Some(agreement))
    }

    /// The file that a client put, decoded, and compared with what was agreed.
    async fn read_back(
        &self,
        direct: &dyn DirectUploads,
        upload_id: UploadId,
        agreement: &Agreement,
    ) -> Result<Option<Received>, IngestError> {
        let key = layout::upload_body(upload_id).map_err(StoreError::from);
        let key = key.map_err(LocateError::from)?;
        let bytes_max = self.limits.upload_bytes_max;
        let body = direct.take_back(key, bytes_max).await;
        let Some(body) = body.map_err(LocateError::from)? else {
            return Ok(None);
        };
        if body.size_bytes > bytes_max {
            return Err(IngestError::TooLarge { bytes_max });
        }
        let received = self.decode(body).await?;
        let (found, wanted) = (received.sha256, agreement.offer.sha256);
        if found != wanted {
            let (size, agreed) = (received.size_bytes, agreement.parcel.size_bytes);
            let detail = format!(
                "what was sent has the SHA-256 {found} and {size} bytes, what was offered \
                 {wanted} and {agreed}; ask POST /uploads and send it again"
            );
            return Err(IngestError::Refused { detail });
        }
        Ok(Some(received))
    }

    async fn decode(&self, body: DirectBody) -> Result<Received, IngestError> {
        let encoding = body.encoding.as_deref().unwrap_or_default().trim();
        let encoding = match encoding.to_ascii_lowercase().as_str() {
            "" | "identity" => ContentEncoding::Identity,
            "gzip" | "x-gzip" => ContentEncoding::Gzip,
            "zstd" => ContentEncoding::Zstd,
            other => {
                let detail = format!("{other:?} is neither gzip nor zstd");
                return Err(IngestError::Encoding { detail });
            }
        };
        let store = Arc::clone(&self.store);
        let mut receiver = Receiver::new(store, encoding, self.limits.upload_bytes_max);
        let mut pieces = body.pieces;
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|error| match error {
                // Nothing of ours: the client did it.
                StoreError::Damaged { detail, .. } => IngestError::Refused {
                    detail: format!("{detail}; complete it again"),
                },
                error => LocateError::from(error).into(),
            });
            receiver.write(piece?).await?;
        }
        receiver.finish().await
    }

    /// Removes what a client put, once it is stored. The agreement stays for a day, so that whoever
    /// missed the answer can ask again.
    async fn clear_away(&self, upload_id: UploadId) {
        let removed = async {
            let key = layout::upload_body(upload_id)?;
            self.store.delete(key).await
        };
        if let Err(error) = removed.await {
            tracing::warn!(%upload_id, %error, "an upload is left to the sweeper: {error}");
        }
    }
}
