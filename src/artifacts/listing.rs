//! Which build IDs there are, in order, page by page.

use std::sync::Arc;

use unhex_build_id::BuildId;

use super::located::LocateError;
use super::state::State;
use super::store::{ListQuery, StoreError};
use super::{Inner, layout};

/// One build ID in a list.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The build ID.
    pub id: BuildId,
    /// What is known of it, or why that is not known now: it keeps no other from being listed.
    pub state: Result<Arc<State>, LocateError>,
}

impl Inner {
    pub(super) async fn list(
        &self,
        after: Option<&BuildId>,
        limit: usize,
    ) -> Result<Vec<Listed>, LocateError> {
        let after = after.map(ToString::to_string);
        let mut found = Vec::new();
        for shard in self.shards(after.as_deref()).await? {
            let mut behind = after.as_ref().map(|id| format!("{shard}{id}/"));
            while found.len() < limit {
                let query = ListQuery {
                    prefix: shard.clone(),
                    after: behind.take(),
                    entries_max: limit.saturating_sub(found.len()),
                };
                let names = self.store.list_folders(query).await?;
                let Some(last) = names.last() else {
                    break;
                };
                behind = Some(format!("{shard}{last}/"));
                let ids = names.iter().filter_map(|name| name.parse::<BuildId>().ok());
                for id in ids {
                    let state = self.catalog.state(&id).await;
                    // What cannot be read may be a file.
                    let may_exist = state.as_ref().map_or(true, |state| {
                        !state.is_empty() || state.check_readable().is_err()
                    });
                    if may_exist {
                        found.push(Listed { id, state });
                    }
                }
            }
        }
        Ok(found)
    }

    /// The folders `builds/<first 2>/` that can have build IDs behind `after`.
    pub(super) async fn shards(&self, after: Option<&str>) -> Result<Vec<String>, StoreError> {
        let first = after.map(layout::shard).unwrap_or_default();
        let query = ListQuery {
            prefix: layout::BUILDS.to_owned(),
            after: None,
            // Two hex digits have 256 values.
            entries_max: 256,
        };
        let names = self.store.list_folders(query).await?;
        let shards = names
            .into_iter()
            .map(|name| format!("{}{name}/", layout::BUILDS));
        Ok(shards.filter(|shard| *shard >= first).collect())
    }
}
