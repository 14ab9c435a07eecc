//! Removing what nobody can need any more: blobs without a record, what was deleted, what is
//! superseded, copies beyond the first, and aliases of nothing.
//!
//! Only what is older than a day goes, since a publish gives up after an hour: no record can come
//! that names a blob which was removed. Records go before their blobs, the tombstone last; a crash
//! in between leaves less to do for the next sweep.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use unhex_build_id::BuildId;

use super::layout::{self, RecordName};
use super::located::LocateError;
use super::record::ArtifactRecord;
use super::state::{State, Stored};
use super::store::{ListQuery, ObjectEntry, PAGE_ENTRIES_MAX, StoreError};
use super::{ContentHash, Inner};

/// How long everything is left alone.
const SWEEP_AGE_MIN: Duration = Duration::from_hours(24);

/// What a sweep removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Blobs, records and aliases.
    pub objects: u64,
    /// Length of all of them.
    pub bytes: u64,
}

/// A sweep that is under way.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    pub(super) swept: Swept,
    /// The hashes of the keys of aliases that lead to a file.
    pub(super) living_aliases: HashSet<ContentHash>,
}

impl Inner {
    pub(super) async fn sweep_hourly(self: Arc<Self>) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_hours(1)) => {}
                () = self.stopping.cancelled() => return,
            }
            match self.sweep().await {
                Ok(swept) => tracing::info!(?swept, "swept the store"),
                Err(error) => tracing::warn!(%error, "sweeping the store failed: {error}"),
            }
            match self.abort_unfinished().await {
                Ok(0) => {}
                Ok(aborted) => tracing::info!(aborted, "aborted unfinished puts of dead servers"),
                Err(error) => tracing::warn!(%error, "unfinished puts stay: {error}"),
            }
        }
    }

    /// Gives up what servers that died were putting.
    async fn abort_unfinished(&self) -> Result<u64, StoreError> {
        let before = self.clock.now().checked_sub(SWEEP_AGE_MIN);
        let before = before.unwrap_or(SystemTime::UNIX_EPOCH);
        self.store.abort_unfinished(before).await
    }

    pub(super) async fn sweep(&self) -> Result<Swept, LocateError> {
        let mut sweep = Sweep::default();
        for shard in self.shards(None).await? {
            let mut after = None;
            loop {
                let query = ListQuery {
                    prefix: shard.clone(),
                    after: after.take(),
                    entries_max: PAGE_ENTRIES_MAX,
                };
                let names = self.store.list_folders(query).await?;
                let Some(last) = names.last() else {
                    break;
                };
                after = Some(format!("{shard}{last}/"));
                for id in names.iter().filter_map(|name| name.parse::<BuildId>().ok()) {
                    if self.stopping.is_cancelled() {
                        return Ok(sweep.swept);
                    }
                    // One build ID that cannot be read keeps no other from being swept.
                    if let Err(error) = self.sweep_one(&id, &mut sweep).await {
                        tracing::warn!(build_id = %id, %error, "{id} is not swept: {error}");
                    }
                }
            }
        }
        self.sweep_aliases(&mut sweep).await?;
        self.sweep_uploads(&mut sweep.swept).await?;
        Ok(sweep.swept)
    }

    async fn sweep_one(&self, id: &BuildId, sweep: &mut Sweep) -> Result<(), LocateError> {
        // The blobs are listed first: what is put in between is young.
        let folder = layout::folder(id);
        let blobs = self.store.list_all(format!("{folder}blob/")).await?;
        let records = self.store.list_all(layout::records(id)).await?;
        if blobs.is_empty() && records.is_empty() {
            return Ok(self.remove_empty_folders(id).await?);
        }
        let state = self.catalog.state_now(id).await?;
        // What is unreadable here may name a blob.
        if !state.unreadable.is_empty() {
            return Ok(());
        }
        self.look_after_aliases(id, &state, sweep).await?;
        let prefix = layout::records(id);
        let records: BTreeMap<RecordName, &ObjectEntry> = records
            .iter()
            .filter(|entry| self.is_old(entry))
            .filter_map(|entry| {
                let name = entry.key.as_str().strip_prefix(&prefix)?;
                Some((name.parse().ok()?, entry))
            })
            .collect();
        let mut gone = state.superseded(self.indexing.version());
        gone.extend(self.spare_copies(id, &state, &records).await);
        gone.retain(|name| records.contains_key(name));
        for entry in gone.iter().filter_map(|name| records.get(name)) {
            self.remove(entry, &mut sweep.swept).await?;
        }
        self.sweep_deleted(&state, &records, &mut sweep.swept)
            .await?;
        let living = state.names.difference(&state.deleted);
        let named: BTreeSet<String> = living
            .filter(|name| !gone.contains(name))
            .map(|name| format!("{folder}blob/{}.{}", name.sha256, name.upload))
            .collect();
        for entry in blobs.iter().filter(|entry| self.is_old(entry)) {
            if !named.contains(entry.key.as_str()) {
                self.remove(entry, &mut sweep.swept).await?;
            }
        }
        Ok(())
    }

    /// Removes old records that a tombstone names, then the tombstone.
    async fn sweep_deleted(
        &self,
        state: &State,
        records: &BTreeMap<RecordName, &ObjectEntry>,
        swept: &mut Swept,
    ) -> Result<(), StoreError> {
        for tombstone in &state.tombstones {
            let Some(entry) = records.get(&tombstone.name) else {
                continue;
            };
            let deleted = tombstone.body.deleted.iter();
            for dead in deleted.filter_map(|name| records.get(name)) {
                self.remove(dead, swept).await?;
            }
            if tombstone.body.deleted.is_disjoint(&state.names) {
                self.remove(entry, swept).await?;
            }
        }
        Ok(())
    }

    /// Copies of a file, from uploads that raced, that stand behind one that is whole. Those before
    /// it stay: whoever finds another one whole must not remove this one.
    async fn spare_copies(
        &self,
        id: &BuildId,
        state: &State,
        records: &BTreeMap<RecordName, &ObjectEntry>,
    ) -> BTreeSet<RecordName> {
        let mut of_file: BTreeMap<_, Vec<&Stored<ArtifactRecord>>> = BTreeMap::new();
        for artifact in state.stored_files() {
            let body = &artifact.body;
            let copies = of_file.entry((body.sha256, &body.kinds)).or_default();
            copies.push(artifact);
        }
        let mut spare = BTreeSet::new();
        for copies in of_file.into_values() {
            let is_old = |copy: &&Stored<ArtifactRecord>| records.contains_key(&copy.name);
            if !copies.iter().skip(1).any(is_old) {
                continue;
            }
            let mut copies = copies.into_iter();
            for copy in copies.by_ref() {
                if self.open_artifact(id, copy).await.is_ok() {
                    break;
                }
            }
            spare.extend(copies.filter(is_old).map(|copy| copy.name));
        }
        spare
    }

    /// Files that clients put and never completed, and agreements that nobody asks for any more.
    async fn sweep_uploads(&self, swept: &mut Swept) -> Result<(), StoreError> {
        let uploads = self.store.list_all(layout::UPLOADS.to_owned()).await?;
        for entry in uploads.iter().filter(|entry| self.is_old(entry)) {
            self.remove(entry, swept).await?;
        }
        Ok(())
    }

    /// A crash may leave the folders of a build ID of which everything was removed; removing any key
    /// below them removes those that are empty.
    async fn remove_empty_folders(&self, id: &BuildId) -> Result<(), StoreError> {
        for folder in ["rec", "blob"] {
            let key = format!("{}{folder}/none", layout::folder(id)).parse()?;
            self.store.delete(key).await?;
        }
        Ok(())
    }

    pub(super) fn is_old(&self, entry: &ObjectEntry) -> bool {
        let age = self.clock.now().duration_since(entry.modified);
        age.is_ok_and(|age| age > SWEEP_AGE_MIN)
    }

    pub(super) async fn remove(
        &self,
        entry: &ObjectEntry,
        swept: &mut Swept,
    ) -> Result<(), StoreError> {
        self.store.delete(entry.key.clone()).await?;
        swept.objects += 1;
        swept.bytes = swept.bytes.saturating_add(entry.size_bytes);
        Ok(())
    }
}
