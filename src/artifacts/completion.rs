//! Supplementary (dwz) files of indexes, and indexes that can be completed by one that came later.
//!
//! A supplementary file lies under a build ID of its own, and several may be uploaded of one build
//! ID: each is tried once with a set of files, so that a damaged one hides no sound one.

use std::collections::BTreeSet;

use unhex_build_id::BuildId;

use super::index_standing::Plan;
use super::located::{Artifact, ArtifactKind, LocateError};
use super::record::IndexRecord;
use super::state::{State, Stored};
use super::{ContentHash, Inner};

/// Supplementary files of one build ID that are tried, the best first: each costs a conversion.
const SUPPLEMENTS_MAX: usize = 4;

impl Inner {
    /// How to make an index anew that lacks a supplementary file which has come since.
    pub(super) async fn can_be_completed(
        &self,
        state: &State,
        index: &Stored<IndexRecord>,
    ) -> Result<Option<Plan>, LocateError> {
        if !index.body.is_incomplete() {
            return Ok(None);
        }
        let Some(plan) = state.plan_of(&index.body) else {
            return Ok(None);
        };
        let tried = state.supplements_tried(&plan, index.body.converter_version);
        let has_come = self.supplement(&plan, &tried).await?.is_some();
        Ok(has_come.then_some(plan))
    }

    /// The best sound supplementary file of a plan, if it asks for one, that was not tried yet.
    pub(super) async fn supplement(
        &self,
        plan: &Plan,
        tried: &BTreeSet<ContentHash>,
    ) -> Result<Option<Artifact>, LocateError> {
        let Some(id) = plan.supplement() else {
            return Ok(None);
        };
        let state = self.catalog.state(id).await?;
        let mut seen = BTreeSet::new();
        let candidates = state
            .of_kind(ArtifactKind::Debuginfo)
            .filter(|file| seen.insert(file.body.sha256))
            .take(SUPPLEMENTS_MAX)
            .filter(|file| !tried.contains(&file.body.sha256));
        for file in candidates {
            match self.open_any_copy(id, &state, file).await {
                Ok(opened) => return Ok(Some(opened)),
                Err(error @ LocateError::Damaged { .. }) => {
                    tracing::warn!(build_id = %id, %error, "a supplementary file is passed over");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The file of a plan, verified.
    pub(super) async fn source_file(
        &self,
        id: &BuildId,
        artifact: Option<&Stored<super::record::ArtifactRecord>>,
    ) -> Result<Option<Artifact>, LocateError> {
        let Some(artifact) = artifact else {
            return Ok(None);
        };
        let state = self.catalog.state(id).await?;
        self.open_any_copy(id, &state, artifact).await.map(Some)
    }
}

impl IndexRecord {
    /// Whether another supplementary file could make it better.
    pub(super) fn is_incomplete(&self) -> bool {
        self.needs_supplement.is_some() || (self.supplement.is_some() && self.units_failed > 0)
    }
}

impl State {
    /// The supplementary files with which this version of the converter has tried a plan.
    pub(super) fn supplements_tried(
        &self,
        plan: &Plan,
        converter_version: u32,
    ) -> BTreeSet<ContentHash> {
        let sources = plan.sources();
        let indexes = self.indexes.iter().map(|index| {
            let body = &index.body;
            (body.converter_version, &body.sources, body.supplement)
        });
        let failures = self.failures.iter().map(|failure| {
            let body = &failure.body;
            (body.converter_version, &body.sources, body.supplement)
        });
        indexes
            .chain(failures)
            .filter(|(version, of, _)| *version == converter_version && **of == sources)
            .filter_map(|(_, _, supplement)| supplement)
            .collect()
    }
}
