//! From a question that the own store cannot answer to a file in it.
//!
//! A fetch is a task of its own that all who ask for the same file share and that goes on when they
//! leave. What arrives goes the way of an upload, with the upstream as its origin: its build ID is
//! compared, other code is refused, quality decides what is served. The own store is looked at
//! first, always; what no upstream has is remembered behind it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::time::Instant;
use unhex_build_id::{BuildId, Identity};

use super::super::index_standing::IndexStanding;
use super::super::ingested::{IngestError, Target, Upload};
use super::super::located::{Artifact, ArtifactKind, LocateError, Origin, Section, Source};
use super::super::receive::{ContentEncoding, Receiver};
use super::super::record::Provenance;
use super::super::single_flight::Landing;
use super::super::source_path::canonical_source_path;
use super::super::state::State;
use super::super::{Inner, homes, in_place, locate};
use super::asker::Asker;
use super::failure::Failure;
use super::offer::Delivery;
use super::race::{Question, Race};
use super::{FlightKey, Upstreams, Wanted};

/// What a fetch came to.
pub(super) type FetchResult = Result<Fetched, LocateError>;

/// What became of a file that was asked for.
#[derive(Clone, Debug)]
pub(super) enum Fetched {
    /// It is in the store now.
    Stored,
    /// A source file; those are not stored.
    Source(Bytes),
    /// No server has it, or none may be asked.
    Absent,
}

/// Files that symbols need are on their way, or none are; goes on when this is dropped.
#[derive(Clone)]
pub struct Fetching(Option<Landing<Result<(), LocateError>>>);

impl Future for Fetching {
    type Output = Result<(), LocateError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(landing) = &mut self.0 else {
            return Poll::Ready(Ok(()));
        };
        let landed = ready!(landing.poll_unpin(context));
        Poll::Ready(landed.unwrap_or_else(|| Err(cut_off())))
    }
}

impl std::fmt::Debug for Fetching {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fetching")
    }
}

impl Inner {
    /// As `locate`, and then from upstream.
    pub(in super::super) async fn locate_or_fetch(
        self: &Arc<Self>,
        (id, kind): (&BuildId, ArtifactKind),
        asker: &Asker,
    ) -> Result<Option<Artifact>, LocateError> {
        let (found, absent) = in_place::known(self.locate_here(id, kind).await)?;
        if found.is_some() {
            return Ok(found);
        }
        let Some(wanted) = Wanted::file(id, kind) else {
            return absent;
        };
        match self.fetch(wanted, asker).await? {
            Fetched::Stored => self.locate(id, kind).await,
            Fetched::Source(_) | Fetched::Absent => absent,
        }
    }

    /// As `section`, and then from files that are fetched whole: the bytes of a section alone could
    /// not be compared with anything.
    pub(in super::super) async fn section_or_fetch(
        self: &Arc<Self>,
        (id, name): (&BuildId, &str),
        asker: &Asker,
    ) -> Result<Option<Section>, LocateError> {
        let (mut found, absent) = in_place::known(self.section_here(id, name).await)?;
        for kind in [ArtifactKind::Debuginfo, ArtifactKind::Executable] {
            if found.is_some() {
                break;
            }
            let state = self.catalog.state(id).await?;
            if state.best(kind).is_none()
                && !self.is_in_place(id, kind)
                && self.locate_or_fetch((id, kind), asker).await?.is_some()
            {
                found = self.section(id, name).await?;
            }
        }
        found.map_or(absent, |found| Ok(Some(found)))
    }

    /// As `source`, and then from upstream.
    pub(in super::super) async fn source_or_fetch(
        self: &Arc<Self>,
        (id, path): (&BuildId, &str),
        asker: &Asker,
    ) -> Result<Option<Source>, LocateError> {
        if let Some(found) = self.source(id, path).await? {
            return Ok(Some(found));
        }
        // A folder is no file.
        let path = canonical_source_path(path).filter(|path| !path.ends_with('/'));
        let Some(path) = path else { return Ok(None) };
        let (found, absent) = in_place::known(self.source_in_place(id, &path).await)?;
        if found.is_some() {
            return Ok(found);
        }
        let Fetched::Source(bytes) = self.fetch(Wanted::source(id, &path), asker).await? else {
            return absent;
        };
        let state = self.catalog.state(id).await?;
        Ok(Some(Source {
            bytes,
            path,
            modified: locate::earliest_upload(&state),
        }))
    }

    /// Begins to fetch what the symbols of a build ID need and the store has not: a debug file and
    /// the executable, or the supplementary file that an index lacks.
    pub(in super::super) async fn begin_completion(
        self: &Arc<Self>,
        id: &BuildId,
    ) -> Result<Fetching, LocateError> {
        let is_here = self.is_in_place(id, ArtifactKind::Debuginfo);
        if self.upstreams.servers.is_empty() || is_here {
            return Ok(Fetching(None));
        }
        let missing = self.missing(id).await?;
        if missing.is_empty() {
            return Ok(Fetching(None));
        }
        let landing = self.upstreams.completions.join(id.clone(), || {
            let (inner, id) = (Arc::clone(self), id.clone());
            async move { inner.complete(&id, missing).await }
        });
        Ok(Fetching(Some(landing)))
    }

    /// Fetches what is missing, and has an index made of all of it: one of a part of the files may
    /// be there already, and would be taken for the best.
    async fn complete(
        self: &Arc<Self>,
        id: &BuildId,
        missing: Vec<Wanted>,
    ) -> Result<(), LocateError> {
        let fetched = self.fetch_all(missing).await;
        // Which supplementary file there should be, only the debug file says.
        let supplements = self.missing(id).await?;
        let of_supplements = match &fetched {
            Ok(()) => self.fetch_all(supplements).await,
            Err(_) => Ok(()),
        };
        let state = self.catalog.state(id).await?;
        if matches!(
            state.index(self.indexing.version()),
            IndexStanding::Wanted { .. }
        ) {
            // How that ends, the index says to whoever asks for it.
            drop(self.begin_conversion(id).await);
        }
        fetched.and(of_supplements)
    }

    /// What upstream servers may have of what the symbols of a build ID need.
    async fn missing(&self, id: &BuildId) -> Result<Vec<Wanted>, LocateError> {
        let state = self.catalog.state(id).await?;
        let wanted: Vec<Wanted> = if state.best(ArtifactKind::Debuginfo).is_none() {
            // The executable may have symbols itself, and has the program headers in any case.
            let kinds = [ArtifactKind::Debuginfo, ArtifactKind::Executable].into_iter();
            kinds
                .filter(|&kind| state.best(kind).is_none())
                .filter_map(|kind| Wanted::file(id, kind))
                .collect()
        } else {
            match self.lacking_supplement(&state).await? {
                Some(id) => Wanted::file(&id, ArtifactKind::Debuginfo)
                    .into_iter()
                    .collect(),
                None => Vec::new(),
            }
        };
        let upstreams = &self.upstreams;
        Ok(wanted
            .into_iter()
            .filter(|wanted| !homes::is_internal(&wanted.id))
            .filter(|wanted| !upstreams.absent.contains_key(wanted))
            .collect())
    }

    /// The supplementary file that the index of a build ID needs and the store has not.
    async fn lacking_supplement(&self, state: &State) -> Result<Option<BuildId>, LocateError> {
        let needed = match state.index(self.indexing.version()) {
            IndexStanding::Wanted { plan, .. } => plan.supplement().cloned(),
            IndexStanding::Ready(index) if index.body.supplement.is_none() => {
                let needed = index.body.needs_supplement.as_deref();
                needed.and_then(|id| id.parse().ok())
            }
            _ => None,
        };
        let Some(id) = needed else { return Ok(None) };
        let of_supplement = self.catalog.state(&id).await?;
        let is_there = of_supplement.best(ArtifactKind::Debuginfo).is_some();
        Ok(Some(id).filter(|_| !is_there))
    }

    /// Fetches several files at once; one that fails does not keep the others from coming.
    async fn fetch_all(self: &Arc<Self>, wanted: Vec<Wanted>) -> Result<(), LocateError> {
        let asker = Asker::this_server();
        let fetches = wanted.into_iter().map(|wanted| self.fetch(wanted, &asker));
        let fetched = futures_util::future::join_all(fetches).await;
        fetched.into_iter().try_for_each(|one| one.map(drop))
    }

    /// Fetches a file that the store has not, or joins the fetch that runs.
    async fn fetch(self: &Arc<Self>, wanted: Wanted, asker: &Asker) -> FetchResult {
        let upstreams = &self.upstreams;
        let nobody = upstreams.servers.is_empty() || homes::is_internal(&wanted.id);
        if nobody || asker.is_at_the_limit() {
            return Ok(Fetched::Absent);
        }
        if let Some(source) = upstreams.known_source(&wanted) {
            return Ok(Fetched::Source(source));
        }
        if upstreams.is_known_absent(&wanted) {
            return Ok(Fetched::Absent);
        }
        let key = FlightKey {
            hops: asker.hops(),
            wanted: wanted.clone(),
        };
        // Who waits for a fetch that runs takes no turn from those who need another one.
        if let Some(landing) = upstreams.flights.running(&key) {
            return landing.await.unwrap_or_else(|| Err(cut_off()));
        }
        let _turn = asker.turn().await?;
        let landing = upstreams.flights.join(key, || {
            let (inner, asker) = (Arc::clone(self), asker.clone());
            async move {
                tokio::select! {
                    fetched = inner.fetch_anew(wanted, asker) => fetched,
                    () = inner.stopping.cancelled() => Err(cut_off()),
                }
            }
        });
        landing.await.unwrap_or_else(|| Err(cut_off()))
    }

    async fn fetch_anew(self: &Arc<Self>, wanted: Wanted, asker: Asker) -> FetchResult {
        let upstreams = &self.upstreams;
        let limits = &upstreams.limits;
        let Ok(_permit) = upstreams.fetches.try_acquire() else {
            let fetches_max = limits.fetches_max;
            let detail = format!("{fetches_max} files are being fetched already, the limit");
            return Err(LocateError::Upstream { detail });
        };
        let bytes_max = match wanted.kind() {
            Some(_) => limits.file_bytes_max,
            None => limits.source_bytes_max,
        };
        let on_behalf_of_a_client = asker.forwarded_for().is_some();
        let question = Question {
            wanted: wanted.clone(),
            asker,
            deadline: Instant::now() + limits.total,
            bytes_max,
        };
        let store = Arc::clone(&self.store);
        let open =
            move |encoding: ContentEncoding| Receiver::new(Arc::clone(&store), encoding, bytes_max);
        let mut race = Race::start(&upstreams.servers, question, &open);
        while let Some((number, delivery)) = race.next().await {
            let (url, received) = (delivery.url.clone(), delivery.received.size_bytes);
            match self.take_delivery(&wanted, delivery).await {
                Ok(fetched) => {
                    // A batch begins the conversion itself, once it has all files.
                    if on_behalf_of_a_client && matches!(fetched, Fetched::Stored) {
                        drop(self.begin_conversion(&wanted.id));
                    }
                    tracing::info!(%url, size_bytes = received, "fetched {wanted} from {url}");
                    race.accept(number);
                    return Ok(fetched);
                }
                Err(failure) => race.refuse(number, failure),
            }
        }
        match race.verdict() {
            Ok(()) => {
                upstreams.note_absent(wanted);
                Ok(Fetched::Absent)
            }
            Err(undecided) => Err(undecided.into()),
        }
    }

    /// Takes in what a server has delivered, if it is what was asked for.
    async fn take_delivery(
        self: &Arc<Self>,
        wanted: &Wanted,
        delivery: Delivery,
    ) -> Result<Fetched, Failure> {
        let Some(kind) = wanted.kind() else {
            let source = delivery.received.into_bytes().await;
            let source = source.map_err(|error| Failure::NotStored(Box::new(error)))?;
            let sources = &self.upstreams.sources;
            sources.insert(wanted.clone(), source.clone());
            return Ok(Fetched::Source(source));
        };
        let upload = Upload {
            target: Target::Named {
                identity: Identity::Gnu(wanted.id.clone()),
                kind,
            },
            origin: Origin::Upstream,
            provenance: Provenance {
                from: Some(delivery.url),
                file_name: delivery.file_name,
                ..Provenance::default()
            },
        };
        let taken = Box::pin(self.take_in(delivery.received, upload)).await;
        let ingested = taken.map_err(not_taken)?;
        if ingested.kinds.contains(&kind) {
            Ok(Fetched::Stored)
        } else {
            let detail = format!("the file that it sends is no {}", kind.as_str());
            Err(Failure::Lie(detail))
        }
    }
}

impl Upstreams {
    fn known_source(&self, wanted: &Wanted) -> Option<Bytes> {
        if wanted.kind().is_some() {
            return None;
        }
        let known = self.sources.get(wanted);
        if known.is_some() {
            self.sources_meter.hit();
        } else {
            self.sources_meter.miss();
            let (entries, size_bytes) = (self.sources.entry_count(), self.sources.weighted_size());
            self.sources_meter.holds(entries, size_bytes);
        }
        known
    }

    fn is_known_absent(&self, wanted: &Wanted) -> bool {
        if self.absent.contains_key(wanted) {
            self.absent_meter.hit();
            return true;
        }
        self.absent_meter.miss();
        self.absent_meter.holds(self.absent.entry_count(), 0);
        false
    }

    fn note_absent(&self, wanted: Wanted) {
        tracing::debug!("no upstream server has the {wanted}");
        self.absent.insert(wanted, ());
    }
}

/// Whether the file or the server's disk is to blame.
fn not_taken(error: IngestError) -> Failure {
    match error {
        IngestError::Refused { .. }
        | IngestError::OtherIdentity { .. }
        | IngestError::OtherCode { .. } => Failure::Lie(error.to_string()),
        error => Failure::NotStored(Box::new(error)),
    }
}

fn cut_off() -> LocateError {
    LocateError::Upstream {
        detail: "the fetch was cut off".to_owned(),
    }
}
