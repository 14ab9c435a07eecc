//! Removing what nobody can need any more: blobs without a record, what was deleted, what is
//! superseded, copies beyond the first, and aliases of nothing.
//!
//! Only what is older than a day goes, since a publish gives up after an hour: no record can come
//! that names a blob which was removed. Records go before their blobs, the tombstone last; a crash
//! in between leaves less to do for the next sweep.
//!
//! A store may have millions of build IDs, and each server sweeps all of them. So it sweeps one of
//! 256 shards every few minutes, from a random one on; a shard costs its listing, a thousand objects
//! a page, and records are read only of build IDs whose names say that there may be something to do.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use unhex_build_id::{BuildId, IdKind};

use super::Inner;
use super::blobs::BlobRef;
use super::layout::{self, RecordKind, RecordName};
use super::located::LocateError;
use super::record::ArtifactRecord;
use super::state::{State, Stored};
use super::store::{ListQuery, ObjectEntry, PAGE_ENTRIES_MAX, StoreError};

/// How long everything is left alone.
const SWEEP_AGE_MIN: Duration = Duration::from_hours(24);

/// From one shard to the next, on average: all of them take a day.
const TURN: Duration = Duration::from_mins(5);

/// Shards after which what was begun and not finished is looked for: about an hour.
const TURNS_PER_TIDYING: u8 = 12;

/// Aliases of younger uploads are put again when they lack: twice what the sweeper leaves alone.
pub(super) const YOUNG: Duration = Duration::from_hours(48);

/// What a sweep removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Blobs, records and aliases.
    pub objects: u64,
    /// Length of all of them.
    pub bytes: u64,
}

/// The objects of one build ID.
#[derive(Debug, Default)]
struct Objects {
    blobs: Vec<ObjectEntry>,
    records: Vec<ObjectEntry>,
}

impl Inner {
    /// Sweeps shard after shard until the stop.
    pub(super) async fn sweep_by_and_by(self: Arc<Self>) {
        let mut shard: u8 = rand::random();
        loop {
            // At random, so that servers which started together do not ask together.
            let pause = TURN.mul_f64(0.5 + rand::random::<f64>());
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.stopping.cancelled() => return,
            }
            match self.sweep_shard(shard).await {
                Ok(swept) if swept == Swept::default() => {}
                Ok(swept) => tracing::info!(?swept, "swept a part of the store"),
                Err(error) => tracing::warn!(%error, "sweeping the store failed: {error}"),
            }
            shard = shard.wrapping_add(1);
            if shard.is_multiple_of(TURNS_PER_TIDYING) {
                self.tidy_up().await;
            }
        }
    }

    /// Gives up what was begun and not finished.
    async fn tidy_up(&self) {
        match self.abort_unfinished().await {
            Ok(0) => {}
            Ok(aborted) => tracing::info!(aborted, "aborted unfinished puts of dead servers"),
            Err(error) => tracing::warn!(%error, "unfinished puts stay: {error}"),
        }
        let mut swept = Swept::default();
        if let Err(error) = self.sweep_uploads(&mut swept).await {
            tracing::warn!(%error, "uploads that nobody completed stay: {error}");
        }
    }

    async fn sweep_shard(&self, shard: u8) -> Result<Swept, LocateError> {
        let mut swept = Swept::default();
        let digits = format!("{shard:02x}");
        self.sweep_builds(&layout::shard(&digits), &mut swept)
            .await?;
        for kind in IdKind::ALL {
            let prefix = format!("{}{kind}/{digits}", layout::ALIASES);
            self.sweep_aliases(&prefix, &mut swept).await?;
        }
        Ok(swept)
    }

    /// Gives up what servers that died were putting.
    async fn abort_unfinished(&self) -> Result<u64, StoreError> {
        let before = self.clock.now().checked_sub(SWEEP_AGE_MIN);
        let before = before.unwrap_or(SystemTime::UNIX_EPOCH);
        self.store.abort_unfinished(before).await
    }

    /// Sweeps all of the store at once.
    pub(super) async fn sweep(&self) -> Result<Swept, LocateError> {
        let mut swept = Swept::default();
        for shard in self.shards(None).await? {
            self.sweep_builds(&shard, &mut swept).await?;
        }
        self.sweep_aliases(layout::ALIASES, &mut swept).await?;
        self.sweep_uploads(&mut swept).await?;
        Ok(swept)
    }

    /// Sweeps the build IDs of a shard, whose folder this is.
    async fn sweep_builds(&self, shard: &str, swept: &mut Swept) -> Result<(), LocateError> {
        let mut seen = HashSet::new();
        let mut current: Option<(BuildId, Objects)> = None;
        let mut after = None;
        loop {
            let query = ListQuery {
                prefix: shard.to_owned(),
                after: after.take(),
                entries_max: PAGE_ENTRIES_MAX,
            };
            let page = self.store.list(query).await?;
            after = page.last().map(|entry| entry.key.to_string());
            let is_last = page.len() < PAGE_ENTRIES_MAX;
            for entry in page {
                let Some((id, place)) = within(shard, &entry) else {
                    continue;
                };
                if current.as_ref().is_none_or(|(before, _)| *before != id) {
                    self.sweep_one(current.take(), swept).await;
                    seen.insert(id.clone());
                }
                let (_, objects) = current.get_or_insert_with(|| (id, Objects::default()));
                match place {
                    Place::Blob => objects.blobs.push(entry),
                    Place::Record => objects.records.push(entry),
                }
            }
            if self.stopping.is_cancelled() {
                return Ok(());
            }
            if is_last {
                break;
            }
        }
        self.sweep_one(current.take(), swept).await;
        self.remove_empty_folders(shard, &seen).await
    }

    /// One build ID that cannot be read keeps no other from being swept.
    async fn sweep_one(&self, found: Option<(BuildId, Objects)>, swept: &mut Swept) {
        let Some((id, objects)) = found else {
            return;
        };
        if self.stopping.is_cancelled() || self.is_settled(&id, &objects) {
            return;
        }
        if let Err(error) = self.sweep_objects(&id, &objects, swept).await {
            tracing::warn!(build_id = %id, %error, "{id} is not swept: {error}");
        }
    }

    /// Whether the names of a build ID's objects say that there is nothing to do: no deletion, no two
    /// records of which one may be superseded or spare, no old blob that none names, and nothing
    /// so young that an alias of it may lack.
    fn is_settled(&self, id: &BuildId, objects: &Objects) -> bool {
        let now = self.clock.now();
        let prefix = layout::records(id);
        let (mut files, mut derived) = (BTreeSet::new(), 0);
        let mut named = BTreeSet::new();
        for entry in &objects.records {
            let name = entry.key.as_str().strip_prefix(&prefix);
            let Some(Ok(name)) = name.map(RecordName::from_str) else {
                return false;
            };
            let age = now.duration_since(name.upload.began());
            let is_young = age.map_or(true, |age| age < YOUNG);
            let is_copy = match name.kind {
                RecordKind::Artifact(_) => !files.insert(name.sha256),
                RecordKind::Index | RecordKind::Failure => {
                    derived += 1;
                    false
                }
                RecordKind::Refusal | RecordKind::Tombstone | RecordKind::Unknown(_) => true,
            };
            if is_young || is_copy {
                return false;
            }
            named.insert(blob_key(id, &name));
        }
        let is_named = |entry: &ObjectEntry| named.contains(entry.key.as_str());
        derived <= usize::from(!files.is_empty())
            && objects
                .blobs
                .iter()
                .all(|entry| is_named(entry) || !self.is_old(entry))
    }

    async fn sweep_objects(
        &self,
        id: &BuildId,
        objects: &Objects,
        swept: &mut Swept,
    ) -> Result<(), LocateError> {
        let state = self.catalog.state_now(id).await?;
        // What is unreadable here may name a blob.
        if !state.unreadable.is_empty() {
            return Ok(());
        }
        self.put_lacking_aliases(id, &state).await?;
        let prefix = layout::records(id);
        let records: BTreeMap<RecordName, &ObjectEntry> = objects
            .records
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
            self.remove(entry, swept).await?;
        }
        self.sweep_deleted((id, &state), &records, swept).await?;
        let living = state.names.difference(&state.deleted);
        let named: BTreeSet<String> = living
            .filter(|name| !gone.contains(name))
            .map(|name| blob_key(id, name))
            .collect();
        for entry in objects.blobs.iter().filter(|entry| self.is_old(entry)) {
            if !named.contains(entry.key.as_str()) {
                self.remove(entry, swept).await?;
            }
        }
        Ok(())
    }

    /// Removes old records that a tombstone names, each behind its aliases, then the tombstone.
    async fn sweep_deleted(
        &self,
        (id, state): (&BuildId, &State),
        records: &BTreeMap<RecordName, &ObjectEntry>,
        swept: &mut Swept,
    ) -> Result<(), LocateError> {
        for tombstone in &state.tombstones {
            let Some(entry) = records.get(&tombstone.name) else {
                continue;
            };
            for name in &tombstone.body.deleted {
                if let Some(dead) = records.get(name) {
                    self.sweep_aliases_of((id, state), name, swept).await?;
                    self.remove(dead, swept).await?;
                }
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
                if matches!(self.blobs.is_whole(&BlobRef::of(id, copy)).await, Ok(true)) {
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
    /// below them removes those that are empty. `seen` are those that have something.
    async fn remove_empty_folders(
        &self,
        shard: &str,
        seen: &HashSet<BuildId>,
    ) -> Result<(), LocateError> {
        let mut after = None;
        loop {
            let query = ListQuery {
                prefix: shard.to_owned(),
                after: after.take(),
                entries_max: PAGE_ENTRIES_MAX,
            };
            let names = self.store.list_folders(query).await?;
            let Some(last) = names.last() else {
                return Ok(());
            };
            after = Some(format!("{shard}{last}/"));
            let ids = names.iter().filter_map(|name| name.parse::<BuildId>().ok());
            for id in ids.filter(|id| !seen.contains(id)) {
                for folder in ["rec", "blob"] {
                    let key = format!("{}{folder}/none", layout::folder(&id));
                    let key = key.parse().map_err(StoreError::from)?;
                    self.store.delete(key).await?;
                }
            }
        }
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

/// What an object is to its build ID.
enum Place {
    Blob,
    Record,
}

/// Whose object that is, and what; `None` of what no version has put.
fn within(shard: &str, entry: &ObjectEntry) -> Option<(BuildId, Place)> {
    let rest = entry.key.as_str().strip_prefix(shard)?;
    let (id, rest) = rest.split_once('/')?;
    let place = match rest.split_once('/')?.0 {
        "blob" => Place::Blob,
        "rec" => Place::Record,
        _ => return None,
    };
    Some((id.parse().ok()?, place))
}

/// The key of the blob that a record names.
fn blob_key(id: &BuildId, name: &RecordName) -> String {
    format!("{}blob/{}.{}", layout::folder(id), name.sha256, name.upload)
}
