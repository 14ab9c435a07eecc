//! The dictionaries of hours: many small files as few, and what nobody needs removed.
//!
//! While rows come an hour's files are merged whenever there are some new ones; once it is compacted, all are one of each table. A merge is
//! published like a compaction: an ID, a look, outputs, then the record.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use jiff::{SignedDuration, Timestamp};
use tracing::{info, warn};

use super::{MaintainError, Maintenance};
use crate::files::{DictionaryPart, merge_dictionary};
use crate::reading::Place;
use crate::table::dictionary::{
    DICTIONARIES, DictionaryFile, DictionaryListing, DictionaryName, DictionaryObject,
    DictionaryState, MERGE_FILES_MIN, Merge, MergeName, MergePlan,
};
use crate::table::fold::HourState;
use crate::table::names::{ContentHash, FileKind, Hour, PublishId};

/// Merge records that are read at once.
const FETCHES_AT_ONCE: usize = 16;

/// Objects that are removed at once.
const REMOVALS_AT_ONCE: usize = 32;

/// Minutes from the end of an hour to when its files are merged into one of each table: what comes later waits until there is more of it.
const WHOLE_MINUTES: i64 = 60;

/// What some hours have, and since when that is known.
#[derive(Debug)]
pub(super) struct Dictionaries {
    pub(super) hours: BTreeMap<Hour, DictionaryState>,
    pub(super) listed_since: Timestamp,
}

impl Maintenance {
    /// The dictionaries of the hours of a place.
    pub(super) async fn dictionaries(&self, place: &Place) -> Result<Dictionaries, MaintainError> {
        let listed_since = self.clock.now();
        let mut listings: BTreeMap<Hour, DictionaryListing> = BTreeMap::new();
        let prefix = format!("{DICTIONARIES}{}", place.prefix);
        let mut pages = self.objects.list(&prefix, None);
        while let Some(listed) = pages.try_next().await? {
            let hour = match listed.key.parse() {
                Ok(DictionaryObject::File(name)) => name.hour,
                Ok(DictionaryObject::Merge(name)) => name.hour,
                Err(_) => continue,
            };
            if place.hours.contains(&hour) {
                let of_hour = listings.entry(hour).or_default();
                of_hour.add(&listed.key, listed.bytes);
            }
        }
        drop(pages);
        let mut hours = BTreeMap::new();
        for (hour, listing) in listings {
            let merges = listing
                .merges
                .iter()
                .map(|name| self.merge_record(*name).boxed());
            let merges: Vec<_> = merges.collect();
            let merges = stream::iter(merges).buffer_unordered(FETCHES_AT_ONCE);
            let merges: Vec<Option<Arc<Merge>>> = merges.try_collect().await?;
            let state = DictionaryState::of(hour, &listing, merges.into_iter().flatten());
            hours.insert(hour, state);
        }
        Ok(Dictionaries {
            hours,
            listed_since,
        })
    }

    /// What a record says; none if it is gone or cannot be read, and then the hour is left as it is.
    async fn merge_record(&self, name: MergeName) -> Result<Option<Arc<Merge>>, MaintainError> {
        let key = name.to_string();
        let Some(json) = self.objects.get(&key).await? else {
            return Ok(None);
        };
        match Merge::read(&json, name) {
            Ok(merge) => Ok(Some(Arc::new(merge))),
            Err(error) => {
                warn!(key, "a dictionary is left as it is: {error}");
                Ok(None)
            }
        }
    }

    /// Merges the files of an hour's dictionary, if a table has at least so many. Whether it did.
    pub(super) async fn merge(&self, hour: Hour, files_min: usize) -> Result<bool, MaintainError> {
        let id = self.clock.publish_id();
        let mut seen = self.dictionaries(&Place::of_hour(hour)).await?;
        let plan = seen.hours.remove(&hour);
        let Some(plan) = plan.and_then(|state| state.plan(files_min)) else {
            return Ok(false);
        };
        let parts = match merge_dictionary(&self.objects, &plan.files).await {
            Ok(parts) => parts,
            // Somebody else merged them, and a day has passed.
            Err(error) if error.is_absence() => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let files = plan.files.len();
        self.publish(plan, id, parts).await?;
        info!(%hour, %id, files, "merged {files} files of the dictionary of {hour}");
        Ok(true)
    }

    async fn publish(
        &self,
        plan: MergePlan,
        id: PublishId,
        parts: Vec<DictionaryPart>,
    ) -> Result<(), MaintainError> {
        let hour = plan.hour;
        let mut outputs = Vec::new();
        for part in parts {
            let name = DictionaryName {
                hour,
                id,
                table: part.table,
                sha256: ContentHash::of(&part.written.bytes),
                rows: part.written.rows,
            };
            let bytes = part.written.bytes.len() as u64;
            id.check_publish(self.clock.now())?;
            self.objects
                .put(&name.to_string(), part.written.bytes)
                .await?;
            outputs.push(DictionaryFile { name, bytes });
        }
        let merge = Merge {
            id,
            hour,
            outputs,
            replaces: plan.files.iter().map(|file| file.name).collect(),
        };
        let (key, json) = (merge.name().to_string(), merge.to_json()?);
        id.check_publish(self.clock.now())?;
        self.objects.put(&key, json.into()).await?;
        self.counters.merged();
        Ok(())
    }

    /// Does what is due of the dictionaries of a place, of whose hours `states` is known. How many objects it removed.
    pub(super) async fn tidy_dictionaries(
        &self,
        place: &Place,
        states: &BTreeMap<Hour, Option<HourState>>,
    ) -> Result<usize, MaintainError> {
        let seen = self.dictionaries(place).await?;
        let mut swept = 0;
        for (hour, dictionary) in &seen.hours {
            // Of an hour that is not known nothing is done.
            let Some(state) = states.get(hour) else {
                continue;
            };
            let names = match state {
                Some(state) if !is_over(state) => dictionary.sweepable(seen.listed_since),
                _ => dictionary.abandoned(seen.listed_since),
            };
            swept += names.len();
            self.remove_dictionary(&names).await?;
            let ended = hour.since_end(self.clock.now());
            let is_whole = ended >= SignedDuration::from_mins(WHOLE_MINUTES)
                && state.as_ref().is_some_and(|state| state.fresh().is_empty());
            let files_min = if is_whole { 2 } else { MERGE_FILES_MIN };
            if dictionary.plan(files_min).is_some() {
                self.merge(*hour, files_min).await?;
            }
        }
        Ok(swept)
    }

    /// Records first, as the fold has them.
    async fn remove_dictionary(&self, names: &[DictionaryObject]) -> Result<(), MaintainError> {
        let is_record = |name: &DictionaryObject| matches!(name, DictionaryObject::Merge(_));
        for names in names.chunk_by(|a, b| is_record(a) == is_record(b)) {
            let removals = names
                .iter()
                .map(|name| self.remove(name.to_string()).boxed());
            let removals: Vec<_> = removals.collect();
            let removals = stream::iter(removals).buffer_unordered(REMOVALS_AT_ONCE);
            removals.try_collect::<()>().await?;
        }
        Ok(())
    }
}

/// Whether nothing refers to the dictionary any more, nor will.
fn is_over(state: &HourState) -> bool {
    let is_expired = FileKind::ALL.into_iter().all(|kind| state.is_expired(kind));
    is_expired
        && state.accepted().is_empty()
        && state.rejected().is_empty()
        && state.fresh().is_empty()
        && state.spare().is_empty()
}
