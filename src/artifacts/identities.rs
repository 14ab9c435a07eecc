//! Which build ID another identity leads to, by the aliases that uploads left.
//!
//! An alias may be older than a deletion, or than a crash before its record: only a file that is
//! there counts. Of several build IDs the one that had the identity first counts, so that no later
//! upload takes it over.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use unhex_build_id::{BuildId, Identity};

use super::located::LocateError;
use super::record::ArtifactRecord;
use super::state::State;
use super::store::ListQuery;
use super::{Inner, layout};

/// Aliases of one identity that are looked at, each by the records of a build ID: dead ones are swept
/// after a day, and no honest identity has more than a few.
const ALIASES_MAX: usize = 1_024;

/// Aliases in one page of a listing.
const PAGE_ALIASES: usize = 64;

/// Build IDs whose records are read at once.
const READS_AT_ONCE: usize = 16;

/// What the aliases that were looked at led to.
#[derive(Default)]
struct Resolved {
    /// The build ID that had the identity first, and since when.
    first: Option<(u64, BuildId)>,
    /// Why absence is uncertain.
    uncertain: Option<LocateError>,
}

impl Inner {
    pub(super) async fn resolve(
        &self,
        identity: &Identity,
    ) -> Result<Option<BuildId>, LocateError> {
        if let Identity::Gnu(id) = identity {
            return Ok(Some(id.clone()));
        }
        let mut resolved = Resolved::default();
        let (mut after, mut looked_at) = (None, 0_usize);
        loop {
            let query = ListQuery {
                prefix: layout::aliases(identity),
                after: after.take(),
                entries_max: PAGE_ALIASES,
            };
            let page = self.store.list(query).await?;
            let ids: Vec<BuildId> = page
                .iter()
                .filter_map(|entry| layout::alias_target(&entry.key))
                .collect();
            self.look_at(identity, ids, &mut resolved).await?;
            looked_at = looked_at.saturating_add(page.len());
            after = page.last().map(|entry| entry.key.to_string());
            if page.len() < PAGE_ALIASES {
                break;
            }
            if looked_at >= ALIASES_MAX {
                // Whoever has it first may be behind them.
                resolved.uncertain = Some(LocateError::Store {
                    detail: format!("{looked_at} build IDs or more have been of {identity}"),
                });
                break;
            }
        }
        match (resolved.first, resolved.uncertain) {
            (Some((_, id)), _) => Ok(Some(id)),
            (None, Some(error)) => Err(error),
            (None, None) => Ok(None),
        }
    }

    async fn look_at(
        &self,
        identity: &Identity,
        ids: Vec<BuildId>,
        resolved: &mut Resolved,
    ) -> Result<(), LocateError> {
        let states = ids
            .into_iter()
            .map(async |id| self.catalog.state(&id).await.map(|state| (id, state)));
        let mut states = stream::iter(states).buffered(READS_AT_ONCE);
        while let Some((id, state)) = states.try_next().await? {
            if let Err(error) = state.check_readable() {
                resolved.uncertain.get_or_insert(error);
            }
            let since = bearers(&state, identity)
                .map(|artifact| artifact.provenance.at_unix_seconds)
                .min();
            if let Some(since) = since {
                let found = (since, id);
                let first = resolved.first.take();
                resolved.first = Some(first.map_or(found.clone(), |first| first.min(found)));
            }
        }
        Ok(())
    }
}

/// The files of the winning code that have an identity.
fn bearers<'a>(
    state: &'a State,
    identity: &'a Identity,
) -> impl Iterator<Item = &'a ArtifactRecord> {
    let artifacts = state.artifacts.iter().map(|artifact| &*artifact.body);
    artifacts.filter(|artifact| artifact.identities.contains(identity))
}
