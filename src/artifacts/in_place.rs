//! Debug files that lie elsewhere on this machine and are served from there: the seam to whoever
//! knows them, and where they stand beside the store.
//!
//! Quality decides; of equal ones an upload comes first, then a file in place, then one from
//! upstream. They are never taken into the store, so that nothing of them is left when they go.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use unhex_build_id::BuildId;
use unhex_symbols::quality::Quality;

use super::located::{
    Artifact, ArtifactKind, IndexFile, IndexHome, IndexLookup, LocateError, Origin, Section, Source,
};
use super::record::ArtifactRecord;
use super::state::{State, Stored};
use super::{Artifacts, Inner};

/// Whoever knows files that are served from where they lie.
///
/// Everything here may change at any time, so that each answer is about what is there now.
pub trait InPlace: fmt::Debug + Send + Sync + 'static {
    /// What the best file of a kind promises by its headers; `None` when none is known.
    fn promise(&self, id: &BuildId, kind: ArtifactKind) -> Option<Quality>;

    /// What the symbols of a build ID are good for, as far as that is known without converting
    /// them; `None` when there are none.
    ///
    /// # Errors
    /// If not all files are known yet.
    fn quality(&self, id: &BuildId) -> Result<Option<Quality>, LocateError>;

    /// The best file of a kind that still is what it was when it was found.
    fn locate<'a>(
        &'a self,
        id: &'a BuildId,
        kind: ArtifactKind,
    ) -> BoxFuture<'a, Result<Option<Artifact>, LocateError>>;

    /// The raw bytes of a section: of the debuginfo, else of the executable.
    fn section<'a>(
        &'a self,
        id: &'a BuildId,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Section>, LocateError>>;

    /// A source file that the binary of this build ID names; `path` is canonical.
    fn source<'a>(
        &'a self,
        id: &'a BuildId,
        path: &'a str,
    ) -> BoxFuture<'a, Result<Option<Source>, LocateError>>;

    /// The symbol index; begins a conversion when there is none.
    fn index<'a>(&'a self, id: &'a BuildId) -> BoxFuture<'a, Result<IndexLookup, LocateError>>;

    /// Removes an index that cannot be read. Answers whether another one may be made.
    fn forget_index(&self, index: &IndexFile) -> bool;
}

/// What was found here, and the answer if nobody else has it either.
type Known<T> = (Option<T>, Result<Option<T>, LocateError>);

/// What was found here, and the answer if nobody else has it either: others may have what is not
/// known here.
///
/// # Errors
/// If it is not known for another reason than files in place.
pub(super) fn known<T>(here: Result<Option<T>, LocateError>) -> Result<Known<T>, LocateError> {
    match here {
        Err(error @ LocateError::InPlace { .. }) => Ok((None, Err(error))),
        here => Ok((here?, Ok(None))),
    }
}

/// Whether a file in place is served rather than the store's.
fn stands_before(promise: Quality, stored: Option<&Stored<ArtifactRecord>>) -> bool {
    stored.is_none_or(|stored| {
        let (quality, origin) = (stored.body.quality, stored.body.origin);
        promise > quality || (promise == quality && origin == Origin::Upstream)
    })
}

impl Artifacts {
    /// Deletes an index that cannot be read, so that the next look-up makes it anew. Answers `false`,
    /// and leaves it, when one of this build ID was made anew within the last hour: that does not
    /// help then.
    ///
    /// # Errors
    /// If the store cannot be read or written now.
    pub async fn forget_index(&self, id: &BuildId, index: &IndexFile) -> Result<bool, LocateError> {
        match (&index.home, &self.inner.in_place) {
            (IndexHome::Record(name), _) => self.inner.forget_index(id, *name).await,
            (IndexHome::InPlace, Some(in_place)) => Ok(in_place.forget_index(index)),
            (IndexHome::InPlace, None) => Ok(true),
        }
    }

    /// What the symbols of files in place are good for, as far as that is known without converting
    /// them; `None` when there are no such files.
    ///
    /// # Errors
    /// If not all of them are known yet.
    pub fn quality_in_place(&self, id: &BuildId) -> Result<Option<Quality>, LocateError> {
        let in_place = self.inner.in_place.as_ref();
        in_place.map_or(Ok(None), |in_place| in_place.quality(id))
    }
}

impl Inner {
    /// The files in place, if one of this kind is to be served rather than the store's.
    pub(super) async fn in_place_first(
        &self,
        id: &BuildId,
        kind: ArtifactKind,
    ) -> Result<Option<&Arc<dyn InPlace>>, LocateError> {
        let Some(in_place) = &self.in_place else {
            return Ok(None);
        };
        let Some(promise) = in_place.promise(id, kind) else {
            return Ok(None);
        };
        let state = self.catalog.state(id).await?;
        Ok(Some(in_place).filter(|_| stands_before(promise, state.best(kind))))
    }

    /// Whether a file of that kind lies in place.
    pub(super) fn is_in_place(&self, id: &BuildId, kind: ArtifactKind) -> bool {
        let in_place = self.in_place.as_ref();
        in_place.is_some_and(|in_place| in_place.promise(id, kind).is_some())
    }

    /// The file of a kind, of the store or in place.
    pub(super) async fn locate_here(
        &self,
        id: &BuildId,
        kind: ArtifactKind,
    ) -> Result<Option<Artifact>, LocateError> {
        let first = self.in_place_first(id, kind).await?;
        let (found, absent) = match first {
            Some(in_place) => known(in_place.locate(id, kind).await)?,
            None => (None, Ok(None)),
        };
        if found.is_some() {
            return Ok(found);
        }
        let found = self.locate(id, kind).await?;
        match &self.in_place {
            _ if found.is_some() => Ok(found),
            Some(in_place) if first.is_none() => in_place.locate(id, kind).await,
            _ => absent,
        }
    }

    /// The bytes of a section, of the store or in place.
    pub(super) async fn section_here(
        &self,
        id: &BuildId,
        name: &str,
    ) -> Result<Option<Section>, LocateError> {
        let first = self.in_place_first(id, ArtifactKind::Debuginfo).await?;
        let (found, absent) = match first {
            Some(in_place) => known(in_place.section(id, name).await)?,
            None => (None, Ok(None)),
        };
        if found.is_some() {
            return Ok(found);
        }
        let found = self.section(id, name).await?;
        match &self.in_place {
            _ if found.is_some() => Ok(found),
            Some(in_place) if first.is_none() => in_place.section(id, name).await,
            _ => absent,
        }
    }

    /// A source file in place.
    pub(super) async fn source_in_place(
        &self,
        id: &BuildId,
        path: &str,
    ) -> Result<Option<Source>, LocateError> {
        match &self.in_place {
            Some(in_place) => in_place.source(id, path).await,
            None => Ok(None),
        }
    }

    /// The index, of the store or of files in place.
    pub(super) async fn index_here(
        self: &Arc<Self>,
        id: &BuildId,
    ) -> Result<IndexLookup, LocateError> {
        let Some(in_place) = &self.in_place else {
            return self.index(id).await;
        };
        let state = self.catalog.state(id).await?;
        if !self.is_better_in_place(in_place, id, &state) {
            return self.index(id).await;
        }
        let here = match in_place.index(id).await {
            Err(error @ LocateError::InPlace { .. }) if !state.is_empty() => {
                return match self.index(id).await? {
                    IndexLookup::Unknown => Err(error),
                    stored => Ok(stored),
                };
            }
            here => here?,
        };
        match here {
            IndexLookup::Ready(mut index) => {
                let executable = state.best(ArtifactKind::Executable);
                let elf = executable.and_then(|stored| stored.body.elf.as_ref());
                index.segments = index
                    .segments
                    .or_else(|| elf.map(|elf| Arc::new(elf.segments.clone())));
                Ok(IndexLookup::Ready(index))
            }
            IndexLookup::Converting if state.is_empty() => Ok(IndexLookup::Converting),
            other => match self.index(id).await? {
                IndexLookup::Unknown => Ok(other),
                stored => Ok(stored),
            },
        }
    }

    fn is_better_in_place(&self, in_place: &Arc<dyn InPlace>, id: &BuildId, state: &State) -> bool {
        let quality = match in_place.quality(id) {
            Ok(Some(quality)) => quality,
            Ok(None) => return false,
            // The store's are as good as any then.
            Err(_not_known) => return state.is_empty(),
        };
        let stored = state.quality(self.indexing.version());
        let uploaded = state.artifacts.iter();
        let is_uploaded = uploaded
            .map(|artifact| artifact.body.origin)
            .any(|origin| origin == Origin::Upload);
        state.is_empty() || quality > stored || (quality == stored && !is_uploaded)
    }
}
