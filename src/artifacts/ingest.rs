//! Taking in an upload: validate, compare with what is known, publish, convert.
//!
//! Better replaces worse and worse never better; other code under a known build ID is refused with
//! the difference in words. Nothing is known of a file before all of it is durable.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use unhex_build_id::{BuildId, FileHash, IdKind, Identity};

use super::aliases::AliasPut;
use super::blobs::BlobRef;
use super::index_standing::IndexStanding;
use super::ingested::{IndexProgress, IngestError, Ingested, Target, Upload};
use super::inspect::{Inspected, inspect};
use super::located::ArtifactKind;
use super::mapped::Mapped;
use super::publish::Publish;
use super::receive::Received;
use super::record::{ArtifactRecord, RecordBody, RefusalRecord};
use super::state::State;
use super::store::{BlobContent, BlobForm, NewBlob, StoreError};
use super::{ContentHash, Inner, homes};

/// How long an upload waits for its index before it answers that the conversion goes on.
const INDEX_WAIT: Duration = Duration::from_secs(20);

/// Refusals that are remembered of one build ID, so that a client that never learns fills no disk.
const REFUSALS_PER_ID_MAX: usize = 16;

/// An upload that was inspected and is on its way in.
struct Arrival {
    id: BuildId,
    received: Received,
    inspected: Inspected,
    upload: Upload,
}

impl Inner {
    /// Takes in a received upload, then waits a while for its index.
    pub(super) async fn ingest(
        self: &Arc<Self>,
        received: Received,
        upload: Upload,
    ) -> Result<Ingested, IngestError> {
        // Once the file is here, the client may leave: publishing goes on.
        let inner = Arc::clone(self);
        let store = self
            .tasks
            .spawn(async move { inner.take_in(received, upload).await });
        let mut ingested = store.await.unwrap_or(Err(IngestError::CutOff))?;
        // The file is durable, whatever is known of its index.
        if let Err(error) = self.wait_for_index(&mut ingested).await {
            tracing::warn!(build_id = %ingested.build_id, %error, "an upload does not know its index");
            ingested.add_detail("it is stored; how far its symbol index is, is not known now");
        }
        Ok(ingested)
    }

    /// Validates, compares and publishes.
    pub(super) async fn take_in(
        self: &Arc<Self>,
        received: Received,
        mut upload: Upload,
    ) -> Result<Ingested, IngestError> {
        upload.provenance.at_unix_seconds = self.clock.unix_seconds();
        let (path, target) = (received.staged.path().to_owned(), upload.target.clone());
        let limits = self.limits.sources;
        let inspected = tokio::task::spawn_blocking(move || {
            let file = Mapped::open(&path)
                .map_err(|error| StoreError::from_io("reading", &"an upload", error))?;
            let inspected = inspect(&file, &target, &limits)?;
            Ok::<_, IngestError>((inspected, FileHash::of(file.bytes())))
        });
        let (inspected, hash) = inspected.await.unwrap_or(Err(IngestError::CutOff))?;
        let id = self.destination(&upload.target, &inspected, &hash).await?;
        self.admit(Arrival {
            id,
            received,
            inspected,
            upload,
        })
        .await
    }

    /// The build ID under which a file is stored: its own, which has to be the one of the path.
    async fn destination(
        &self,
        target: &Target,
        inspected: &Inspected,
        hash: &FileHash,
    ) -> Result<BuildId, IngestError> {
        let no_id = || IngestError::Refused {
            detail: "it has no build ID; link with -Wl,--build-id".to_owned(),
        };
        let Target::Named { identity, kind } = target else {
            return inspected.own_id.clone().ok_or_else(no_id);
        };
        let other = |found: Option<String>| IngestError::OtherIdentity {
            kind: identity.kind(),
            found: found.unwrap_or_else(|| "none".to_owned()),
            expected: identity.to_string(),
        };
        let own = inspected.own_id.as_ref();
        let says_nothing = matches!(kind, ArtifactKind::Dwp | ArtifactKind::Sources);
        match (identity, own) {
            (Identity::Gnu(id), None) if says_nothing => Ok(id.clone()),
            (Identity::Gnu(id), Some(own)) if own == id => Ok(id.clone()),
            (Identity::Gnu(_), own) => {
                let gnu = own.filter(|own| !homes::is_internal(own));
                Err(other(gnu.map(ToString::to_string)))
            }
            (identity, Some(own)) if inspected.identities.contains(identity) => Ok(own.clone()),
            // Otherwise the path's identity has to lead to where the file says it belongs.
            (identity, own) => {
                let known = self.resolve(identity).await?;
                let known = known.ok_or_else(|| match own {
                    Some(_) => other(Some(found_identity(identity.kind(), inspected, hash))),
                    None => IngestError::UnknownIdentity {
                        kind: identity.kind(),
                        identity: identity.to_string(),
                    },
                })?;
                match own {
                    Some(own) if *own != known => Err(other(Some(found_identity(
                        identity.kind(),
                        inspected,
                        hash,
                    )))),
                    _ => Ok(known),
                }
            }
        }
    }

    async fn admit(self: &Arc<Self>, arrival: Arrival) -> Result<Ingested, IngestError> {
        let state = self.catalog.state_now(&arrival.id).await?;
        let record = arrival.record();
        let sha256 = record.sha256;
        if let Some((known_sha256, difference)) = state.difference(&record) {
            self.remember_refusal(&state, &arrival, known_sha256, &difference)
                .await;
            let build_id = arrival.id;
            return Err(IngestError::OtherCode {
                build_id,
                known_sha256,
                difference,
            });
        }
        let publish_anew = !self.is_stored_whole(&arrival.id, &state, &record).await;
        if publish_anew {
            let stored = state.artifacts.len() + state.conflicts.len();
            if stored >= self.limits.per_build_id_max {
                let detail = format!("{stored} files lie under {} already, the limit", arrival.id);
                return Err(IngestError::LimitExceeded(detail));
            }
        }
        let Arrival {
            id,
            received,
            inspected,
            upload,
        } = arrival;
        let publish = Publish::begin(self, &id);
        publish.check(&RecordBody::Artifact(Box::new(record.clone())))?;
        if publish_anew {
            let blob = NewBlob {
                staged: received.staged,
                sha256,
                content: BlobContent::Artifact,
            };
            let blob = publish.blob(blob).await?;
            let aliases = self.put_aliases(&id, &inspected.identities).await?;
            publish
                .record(RecordBody::Artifact(Box::new(ArtifactRecord {
                    blob,
                    ..record.clone()
                })))
                .await?;
            if aliases == AliasPut::WasThere {
                self.put_aliases(&id, &inspected.identities).await?;
            }
            tracing::info!(build_id = %id, %sha256, size_bytes = record.size_bytes, "stored a file of {id}");
        } else {
            self.put_aliases(&id, &inspected.identities).await?;
        }
        let known = self.catalog.state_now(&id).await;
        // The file is durable by now: what the state says of it may come later.
        let is_known = known.is_ok();
        let after = known.unwrap_or_else(|_error| Arc::clone(&state));
        let (before, after) = (&*state, &*after);
        let mut ingested = self.outcome(&id, &record, Change { before, after });
        if !is_known {
            ingested.changed = publish_anew && before.would_lead(&record);
            ingested.add_detail("it is stored; how it ranks is not known now");
        }
        if let Some(wanted) = upload.target.kind()
            && !record.kinds.contains(&wanted)
        {
            let (wanted, kind) = (wanted.as_str(), record.kind.as_str());
            ingested.add_detail(&format!("it is no {wanted}; it is stored as {kind}"));
        }
        Ok(ingested)
    }

    /// Whether the store has the same bytes, undamaged, for the same use. Somebody who uploads them
    /// again may be mending it: that a copy lies on the disk of this server says nothing.
    async fn is_stored_whole(&self, id: &BuildId, state: &State, record: &ArtifactRecord) -> bool {
        let same = state
            .copies(record.sha256)
            .filter(|copy| copy.body.kinds == record.kinds);
        for copy in same {
            let whole = self.blobs.is_whole(&BlobRef::of(id, copy)).await;
            if matches!(whole, Ok(true)) {
                return true;
            }
        }
        false
    }

    async fn remember_refusal(
        &self,
        state: &State,
        arrival: &Arrival,
        known_sha256: ContentHash,
        difference: &str,
    ) {
        let sha256 = arrival.received.sha256;
        let known = state
            .refusals
            .iter()
            .any(|refusal| refusal.body.sha256 == sha256);
        if known || state.refusals.len() >= REFUSALS_PER_ID_MAX {
            return;
        }
        let body = RecordBody::Refusal(RefusalRecord {
            kind: arrival.inspected.kind(arrival.upload.target.kind()),
            sha256,
            size_bytes: arrival.received.size_bytes,
            known_sha256,
            difference: difference.to_owned(),
            provenance: arrival.upload.provenance.clone(),
        });
        // The client is told in any case.
        if let Err(error) = Publish::begin(self, &arrival.id).record(body).await {
            tracing::warn!(%error, "a refusal was not recorded");
        }
    }

    fn outcome(&self, id: &BuildId, record: &ArtifactRecord, change: Change<'_>) -> Ingested {
        let Change { before, after } = change;
        let hash_of_best = |state: &State, kind| state.best(kind).map(|best| best.body.sha256);
        let changed = record.kinds.iter().any(|&kind| {
            hash_of_best(after, kind) == Some(record.sha256)
                && hash_of_best(before, kind) != Some(record.sha256)
        });
        Ingested {
            build_id: id.clone(),
            kinds: record.kinds.clone(),
            quality: after.quality(self.indexing.version()),
            changed,
            index: IndexProgress::Converting,
            functions: 0,
            lines: 0,
            detail: detail(record, after),
        }
    }

    /// What is said of a file that is there already.
    pub(super) fn unchanged(
        &self,
        id: &BuildId,
        record: &ArtifactRecord,
        state: &State,
    ) -> Ingested {
        self.outcome(
            id,
            record,
            Change {
                before: state,
                after: state,
            },
        )
    }

    /// Waits until the index of the best files is there, it failed, or [`INDEX_WAIT`] has passed.
    async fn wait_for_index(self: &Arc<Self>, ingested: &mut Ingested) -> Result<(), IngestError> {
        let deadline = Instant::now() + INDEX_WAIT;
        while self.look_at_index(ingested).await? == IndexProgress::Converting {
            let landing = self.begin_conversion(&ingested.build_id);
            match timeout_at(deadline, landing).await {
                Ok(Some(Ok(()))) if Instant::now() < deadline => {}
                // The log has the reason; a later look at the index tries again.
                Ok(Some(Err(_error))) => {
                    ingested.add_detail("no symbol index can be made now");
                    break;
                }
                _ => break,
            }
        }
        Ok(())
    }

    /// Fills in how far the index is.
    pub(super) async fn look_at_index(
        &self,
        ingested: &mut Ingested,
    ) -> Result<IndexProgress, IngestError> {
        let state = self.catalog.state(&ingested.build_id).await?;
        let version = self.indexing.version();
        ingested.quality = state.quality(version);
        ingested.index = match state.index(version) {
            IndexStanding::NoSources => IndexProgress::NoSources,
            IndexStanding::Wanted { .. } => IndexProgress::Converting,
            IndexStanding::Failed(failure) => {
                ingested.add_detail(&failure.detail);
                IndexProgress::Failed
            }
            IndexStanding::Ready(index) => {
                ingested.functions = index.body.functions;
                ingested.lines = index.body.lines;
                IndexProgress::Ready
            }
        };
        Ok(ingested.index)
    }
}

/// The states around an upload.
#[derive(Clone, Copy)]
struct Change<'a> {
    before: &'a State,
    after: &'a State,
}

impl Arrival {
    fn record(&self) -> ArtifactRecord {
        ArtifactRecord {
            kind: self.inspected.kind(self.upload.target.kind()),
            kinds: self.inspected.kinds.clone(),
            sha256: self.received.sha256,
            size_bytes: self.received.size_bytes,
            blob: BlobForm::default(),
            quality: self.inspected.quality,
            origin: self.upload.origin,
            provenance: self.upload.provenance.clone(),
            identities: self.inspected.identities.clone(),
            elf: self.inspected.elf.clone(),
            source_files: self.inspected.source_files,
        }
    }
}

/// What the file has in place of the identity that was expected.
fn found_identity(kind: IdKind, inspected: &Inspected, hash: &FileHash) -> String {
    let of_kind = inspected
        .identities
        .iter()
        .find(|identity| identity.kind() == kind);
    match (of_kind, kind) {
        (Some(identity), _) => identity.to_string(),
        (None, IdKind::FileHash) => hash.to_string(),
        (None, _) => "none".to_owned(),
    }
}

fn detail(record: &ArtifactRecord, after: &State) -> String {
    let mut parts = Vec::new();
    let conflict = after
        .conflicts
        .iter()
        .find(|lost| lost.artifact.body.sha256 == record.sha256);
    if let Some(conflict) = conflict {
        let difference = &conflict.difference;
        parts.push(format!(
            "it is kept, but other code won a race: {difference}"
        ));
    }
    for &kind in &record.kinds {
        let own = after
            .of_kind(kind)
            .find(|own| own.body.sha256 == record.sha256);
        if let (Some(best), Some(own)) = (after.best(kind), own)
            && best.body.sha256 != own.body.sha256
        {
            let (kind, why) = (kind.as_str(), own.why_not(best));
            parts.push(format!("kept as an alternative {kind}: {why}"));
        }
    }
    parts.join("; ")
}
