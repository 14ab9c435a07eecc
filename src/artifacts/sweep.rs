//! Removing what nobody can need any more: blobs without a record, and what was deleted.
//!
//! Only what is older than a day goes, since a publish gives up after an hour: no record can come
//! that names a blob which was removed. Records go before their blobs, the tombstone last; a crash
//! in between leaves less to do for the next sweep.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use unhex_build_id::BuildId;

use super::Inner;
use super::layout::{self, RecordName};
use super::located::LocateError;
use super::store::{ListQuery, ObjectEntry, PAGE_ENTRIES_MAX, StoreError};

/// How long everything is left alone.
const SWEEP_AGE_MIN: Duration = Duration::from_hours(24);

/// What a sweep removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Blobs and records.
    pub objects: u64,
    /// Length of all of them.
    pub bytes: u64,
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
        }
    }

    pub(super) async fn sweep(&self) -> Result<Swept, LocateError> {
        let mut swept = Swept::default();
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
                        return Ok(swept);
                    }
                    // One build ID that cannot be read keeps no other from being swept.
                    if let Err(error) = self.sweep_one(&id, &mut swept).await {
                        tracing::warn!(build_id = %id, %error, "{id} is not swept: {error}");
                    }
                }
            }
        }
        Ok(swept)
    }

    async fn sweep_one(&self, id: &BuildId, swept: &mut Swept) -> Result<(), LocateError> {
        // The blobs are listed first: what is put in between is young.
        let folder = layout::folder(id);
        let blobs = self.store.list_all(format!("{folder}blob/")).await?;
        let records = self.store.list_all(layout::records(id)).await?;
        let state = self.catalog.state_now(id).await?;
        // What is unreadable here may name a blob.
        if !state.unreadable.is_empty() {
            return Ok(());
        }
        let now = self.clock.now();
        let named: BTreeSet<String> = state
            .names
            .iter()
            .filter(|name| !state.deleted.contains(name))
            .map(|name| format!("{folder}blob/{}.{}", name.sha256, name.upload))
            .collect();
        let is_old = |entry: &ObjectEntry| {
            now.duration_since(entry.modified)
                .is_ok_and(|age| age > SWEEP_AGE_MIN)
        };
        let prefix = layout::records(id);
        let records: BTreeMap<RecordName, &ObjectEntry> = records
            .iter()
            .filter(|entry| is_old(entry))
            .filter_map(|entry| {
                let name = entry.key.as_str().strip_prefix(&prefix)?;
                Some((name.parse().ok()?, entry))
            })
            .collect();
        for tombstone in &state.tombstones {
            let Some(entry) = records.get(&tombstone.name) else {
                continue;
            };
            for dead in tombstone
                .body
                .deleted
                .iter()
                .filter_map(|name| records.get(name))
            {
                self.remove(dead, swept).await?;
            }
            if tombstone.body.deleted.is_disjoint(&state.names) {
                self.remove(entry, swept).await?;
            }
        }
        for entry in blobs.iter().filter(|entry| is_old(entry)) {
            if !named.contains(entry.key.as_str()) {
                self.remove(entry, swept).await?;
            }
        }
        Ok(())
    }

    async fn remove(&self, entry: &ObjectEntry, swept: &mut Swept) -> Result<(), StoreError> {
        self.store.delete(entry.key.clone()).await?;
        swept.objects += 1;
        swept.bytes = swept.bytes.saturating_add(entry.size_bytes);
        Ok(())
    }
}
