//! The aliases by which other identities lead to build IDs: putting them, and removing dead ones.
//!
//! An upload puts its aliases before its record, and again behind it where one was there already: an
//! old alias of a deleted file may be swept in between. The sweeper looks again after it removed one,
//! and puts those that young records lack; so an alias is there once its record is, whoever is
//! killed at which instant, at the latest after the next sweep.
//! What goes takes its aliases with it.

use std::time::Duration;

use unhex_build_id::{BuildId, Identity};

use super::layout::RecordName;
use super::located::LocateError;
use super::publish::PublishError;
use super::record::RecordBody;
use super::state::State;
use super::store::{GetLimit, ListQuery, ObjectEntry, ObjectKey, PAGE_ENTRIES_MAX, StoreError};
use super::sweep::{Swept, YOUNG};
use super::{Inner, layout};

/// Older aliases go with the record that they lead to, and are not looked at otherwise: a server that
/// died before it wrote that record has left its aliases in the days before.
const LOOKED_AT: Duration = Duration::from_hours(7 * 24);

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

    /// Puts the aliases that young files of a build ID lack.
    pub(super) async fn put_lacking_aliases(
        &self,
        id: &BuildId,
        state: &State,
    ) -> Result<(), LocateError> {
        let now = self.clock.now();
        let young = state.stored_files().filter(|artifact| {
            let age = now.duration_since(artifact.name.upload.began());
            age.is_ok_and(|age| age < YOUNG)
        });
        for identity in young.flat_map(|artifact| &artifact.body.identities) {
            let key = layout::alias(identity, id).map_err(StoreError::from)?;
            if !self.has_alias(key).await? {
                self.put_aliases(id, std::slice::from_ref(identity)).await?;
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

    /// Removes old aliases below a prefix that lead to no file.
    pub(super) async fn sweep_aliases(
        &self,
        prefix: &str,
        swept: &mut Swept,
    ) -> Result<(), LocateError> {
        let now = self.clock.now();
        let mut after = None;
        loop {
            let query = ListQuery {
                prefix: prefix.to_owned(),
                after: after.take(),
                entries_max: PAGE_ENTRIES_MAX,
            };
            let page = self.store.list(query).await?;
            after = page.last().map(|entry| entry.key.to_string());
            let is_last = page.len() < PAGE_ENTRIES_MAX;
            let is_looked_at = |entry: &&ObjectEntry| {
                let age = now.duration_since(entry.modified).unwrap_or_default();
                self.is_old(entry) && age < LOOKED_AT
            };
            for entry in page.iter().filter(is_looked_at) {
                if self.stopping.is_cancelled() {
                    return Ok(());
                }
                if let Err(error) = self.sweep_alias(entry, swept).await {
                    tracing::warn!(key = %entry.key, %error, "an alias is not swept: {error}");
                }
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Removes the aliases of a record that goes, before it goes: of those of an identity that no file
    /// has which stays.
    pub(super) async fn sweep_aliases_of(
        &self,
        (id, state): (&BuildId, &State),
        name: &RecordName,
        swept: &mut Swept,
    ) -> Result<(), LocateError> {
        let record = self.catalog.record(id, name).await?;
        let Some(RecordBody::Artifact(artifact)) = record.as_ref().map(|record| &record.body)
        else {
            return Ok(());
        };
        for identity in &artifact.identities {
            let key = layout::alias(identity, id).map_err(StoreError::from)?;
            if identity_of(state, id, &key).is_some() {
                continue;
            }
            let listed = self.store.list(ListQuery {
                prefix: key.to_string(),
                after: None,
                entries_max: 1,
            });
            let entry = listed.await?.into_iter().find(|entry| entry.key == key);
            if let Some(entry) = entry.filter(|entry| self.is_old(entry)) {
                self.sweep_alias(&entry, swept).await?;
            }
        }
        Ok(())
    }

    async fn sweep_alias(&self, entry: &ObjectEntry, swept: &mut Swept) -> Result<(), LocateError> {
        let Some(id) = layout::alias_target(&entry.key) else {
            return Ok(());
        };
        let state = self.catalog.state_now(&id).await?;
        if !state.unreadable.is_empty() || identity_of(&state, &id, &entry.key).is_some() {
            return Ok(());
        }
        self.remove(entry, swept).await?;
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

/// The content of an alias, for people: its key says the same, and only that is read.
#[derive(serde::Serialize)]
struct Alias<'a> {
    #[serde(flatten)]
    identity: &'a Identity,
    build_id: &'a BuildId,
}
