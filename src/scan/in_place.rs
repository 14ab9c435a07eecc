//! The scanned files as artifacts asks for them.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use unhex_build_id::BuildId;
use unhex_symbols::quality::Quality;

use super::Scan;
use crate::artifacts::{
    Artifact, ArtifactKind, InPlace, IndexFile, IndexLookup, LocateError, Section, Source,
};

impl InPlace for Scan {
    fn promise(&self, id: &BuildId, kind: ArtifactKind) -> Option<Quality> {
        self.inner.catalogue.promise(id, kind)
    }

    fn quality(&self, id: &BuildId) -> Result<Option<Quality>, LocateError> {
        self.inner.quality(id)
    }

    fn locate<'a>(
        &'a self,
        id: &'a BuildId,
        kind: ArtifactKind,
    ) -> BoxFuture<'a, Result<Option<Artifact>, LocateError>> {
        self.inner.locate(id, kind).boxed()
    }

    fn section<'a>(
        &'a self,
        id: &'a BuildId,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Section>, LocateError>> {
        self.inner.section(id, name).boxed()
    }

    fn source<'a>(
        &'a self,
        id: &'a BuildId,
        path: &'a str,
    ) -> BoxFuture<'a, Result<Option<Source>, LocateError>> {
        self.inner.source(id, path).boxed()
    }

    fn index<'a>(&'a self, id: &'a BuildId) -> BoxFuture<'a, Result<IndexLookup, LocateError>> {
        self.inner.index(id).boxed()
    }

    fn forget_index(&self, index: &IndexFile) -> bool {
        self.inner.indexes.forget(&index.sha256)
    }
}
