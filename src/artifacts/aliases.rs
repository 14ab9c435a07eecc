//! The aliases by which other identities lead to build IDs: putting them, and removing dead ones.
//!
//! An upload puts its aliases before its record, and again behind it where one was there already: an
//! old alias of a deleted file may be swept in between. The sweeper looks again after it removed one,
//! and puts those that young records lack; so an alias is there once its record is, whoever is
//! killed at which instant, at the latest after the next sweep.

use std::time::Duration;

use unhex_build_id::{BuildId, Identity};

use super::located::LocateError;
use super::publish::PublishError;
use super::state::State;
use super::store::{GetLimit, ListQuery, ObjectEntry, ObjectKey, PAGE_ENTRIES_MAX, StoreError};
use super::sweep::Sweep;
use super::{ContentHash, Inner, layout};

/// Aliases of younger uploads are put again when they lack: twice what the sweeper leaves alone.
const YOUNG: Duration = Duration::from_hours(48);

/// An alias says what its key says.
const ALIAS_BYTES_MAX: u64 = 4 << 10;

/// Whether an alias was there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AliasPut {
    New,
    WasThere,
}

impl Inner {
    /// Puts the aliases of a file; those that are there already are right.
    pub(super) async fn put_aliases(
        &self,
        id: &BuildId,
        identities: &[Identity],
    ) -> Result<AliasPut, PublishError> {
        let mut put = AliasPut::New;
        for identity in identities {
            let key = layout::alias(identity, id).map_err(StoreError::from)?;
            let json = serde_json::to_vec(&Alias {
                identity,
                build_id: id,
            })?;
            match self.store.put(key, json.into()).await {
                Ok(()) => {}
                Err(StoreError::Exists { .. }) => put = AliasPut::WasThere,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(put)
    }

    /// Notes the aliases of the files of a build ID, and puts those that young files lack.
    pub(super) async fn look_after_aliases(
        &self,
        id: &BuildId,
        state: &State,
        sweep: &mut Sweep,
    ) -> Result<(), LocateError> {
        let now = self.clock.now();
        for artifact in state.stored_files() {
            let age = now.duration_since(artifact.name.upload.began());
            let is_young = age.is_ok_and(|age| age < YOUNG);
            for identity in &artifact.body.identities {
                let key = layout::alias(identity, id).map_err(StoreError::from)?;
                let is_new = sweep.living_aliases.insert(hash(&key));
                if is_new && is_young && !self.has_alias(key).await? {
                    self.put_aliases(id, std::slice::from_ref(identity)).await?;
                }
            }
        }
        Ok(())
    }

    async fn has_alias(&self, key: ObjectKey) -> Result<bool, StoreError> {
        let limit = GetLimit {
            bytes_max: ALIAS_BYTES_MAX,
        };
        Ok(self.store.get(key, limit).await?.is_some())
    }

    /// Removes old aliases that lead to no file.
    pub(super) async fn sweep_aliases(&self, sweep: &mut Sweep) -> Result<(), LocateError> {
        let mut after = None;
        loop {
            let query = ListQuery {
                prefix: layout::ALIASES.to_owned(),
                after: after.take(),
                entries_max: PAGE_ENTRIES_MAX,
            };
            let page = self.store.list(query).await?;
            after = page.last().map(|entry| entry.key.to_string());
            let is_last = page.len() < PAGE_ENTRIES_MAX;
            for entry in page.iter().filter(|entry| self.is_old(entry)) {
                if self.stopping.is_cancelled() {
                    return Ok(());
                }
                if sweep.living_aliases.contains(&hash(&entry.key)) {
                    continue;
                }
                if let Err(error) = self.sweep_alias(entry, sweep).await {
                    tracing::warn!(key = %entry.key, %error, "an alias is not swept: {error}");
                }
            }
            if is_last {
                return Ok(());
            }
        }
    }

    async fn sweep_alias(&self, entry: &ObjectEntry, sweep: &mut Sweep) -> Result<(), LocateError> {
        let Some(id) = layout::alias_target(&entry.key) else {
            return Ok(());
        };
        let state = self.catalog.state_now(&id).await?;
        if !state.unreadable.is_empty() || identity_of(&state, &id, &entry.key).is_some() {
            return Ok(());
        }
        self.remove(entry, &mut sweep.swept).await?;
        let state = self.catalog.state_now(&id).await?;
        if let Some(identity) = identity_of(&state, &id, &entry.key) {
            self.put_aliases(&id, std::slice::from_ref(identity))
                .await?;
        }
        Ok(())
    }
}

/// The identity of a file of `id` that has this alias.
fn identity_of<'a>(state: &'a State, id: &BuildId, key: &ObjectKey) -> Option<&'a Identity> {
    let mut identities = state
        .stored_files()
        .flat_map(|artifact| &artifact.body.identities);
    identities.find(|identity| layout::alias(identity, id).is_ok_and(|alias| alias == *key))
}

/// Keys are long, and there is one for each identity.
fn hash(key: &ObjectKey) -> ContentHash {
    ContentHash::of(key.as_str().as_bytes())
}

/// The content of an alias, for people: its key says the same, and only that is read.
#[derive(serde::Serialize)]
struct Alias<'a> {
    #[serde(flatten)]
    identity: &'a Identity,
    build_id: &'a BuildId,
}
