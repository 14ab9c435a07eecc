//! Which files the dictionaries of hours have, kept for some seconds.

use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use moka::sync::Cache;

use crate::files::FileError;
use crate::objects::Objects;
use crate::table::dictionary::{
    DICTIONARIES, DictionaryListing, DictionaryState, Merge, MergeName,
};
use crate::table::names::Hour;

/// How long a listing is kept: somebody who looks at a profile asks several questions, and what is not in it is listed again.
const LISTING_KEPT: Duration = Duration::from_secs(5);
/// Hours of which the listing is kept: the longest window has fewer.
const LISTINGS_MAX: u64 = 8_192;
/// Records of merges that are kept, of which an hour has one or two.
const MERGES_MAX: u64 = 16_384;

/// The dictionaries of hours.
#[derive(Debug)]
pub(super) struct Hours {
    objects: Objects,
    states: Cache<Hour, Arc<DictionaryState>>,
    merges: Cache<MergeName, Arc<Merge>>,
}

impl Hours {
    pub(super) fn new(objects: Objects) -> Self {
        let states = Cache::builder().max_capacity(LISTINGS_MAX);
        Self {
            objects,
            states: states.time_to_live(LISTING_KEPT).build(),
            merges: Cache::new(MERGES_MAX),
        }
    }

    pub(super) fn objects(&self) -> &Objects {
        &self.objects
    }

    /// What an hour has, as of some seconds ago.
    pub(super) async fn of(&self, hour: Hour) -> Result<Arc<DictionaryState>, FileError> {
        if let Some(state) = self.states.get(&hour) {
            return Ok(state);
        }
        let prefix = format!("{DICTIONARIES}{hour}/");
        let mut listing = DictionaryListing::default();
        let mut listed = self.objects.list(&prefix, None);
        while let Some(object) = listed.try_next().await? {
            listing.add(&object.key, object.bytes);
        }
        let mut merges = Vec::new();
        for name in &listing.merges {
            merges.extend(self.merge(*name).await?);
        }
        let state = Arc::new(DictionaryState::of(hour, &listing, merges));
        self.states.insert(hour, Arc::clone(&state));
        Ok(state)
    }

    /// Looks at the store again when it is asked next.
    pub(super) fn forget(&self, hour: Hour) {
        self.states.invalidate(&hour);
    }

    /// Looks at the store again for every hour.
    pub(super) fn forget_all(&self) {
        self.states.invalidate_all();
    }

    /// The record of a merge; without it more files are read than have to be, and nothing is missing.
    async fn merge(&self, name: MergeName) -> Result<Option<Arc<Merge>>, FileError> {
        if let Some(merge) = self.merges.get(&name) {
            return Ok(Some(merge));
        }
        let Some(json) = self.objects.get(&name.to_string()).await? else {
            return Ok(None);
        };
        match Merge::read(&json, name) {
            Ok(merge) => {
                let merge = Arc::new(merge);
                self.merges.insert(name, Arc::clone(&merge));
                Ok(Some(merge))
            }
            Err(error) => {
                tracing::warn!(key = %name, error = &error as &dyn std::error::Error, "a record of a merge cannot be read");
                Ok(None)
            }
        }
    }
}
