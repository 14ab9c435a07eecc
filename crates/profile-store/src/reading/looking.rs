//! One look at the store: LISTs at once, then the records that they name, then the fold.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::FutureExt as _;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;

use super::{Place, ReadingError, Records};
use crate::clock::Clock;
use crate::objects::Objects;
use crate::table::fold::{FoldError, HourState, fold};
use crate::table::names::{Hour, Listing, RECORDS, SEGMENTS};

/// LISTs at once: two days of hours take a second over a bucket.
const LISTS_AT_ONCE: usize = 24;

/// Looks until records hold still: each is swept once, so that the second look mostly finds what replaced them.
const LOOKS_MAX: usize = 4;

/// What readings list: outputs live through records alone.
pub(crate) const READ: &[&str] = &[SEGMENTS, RECORDS];

/// What some hours have.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Their folds, of those hours that there is something of.
    pub(crate) states: BTreeMap<Hour, Result<HourState, FoldError>>,
    /// Keys in their folders that are not the table's.
    pub(crate) foreign: usize,
}

/// What the hours of some places have now, in some folders.
pub(crate) async fn look(
    objects: &Objects,
    records: &Records,
    clock: &Clock,
    places: &[Place],
    folders: &[&'static str],
) -> Result<Seen, ReadingError> {
    let mut looks = 0;
    loop {
        let listing = list(objects, clock, places, folders).await?;
        looks += 1;
        match records.read(objects, listing.records()).await? {
            Ok(read) => {
                return Ok(Seen {
                    states: fold(&listing, &read),
                    foreign: listing.foreign_count(),
                });
            }
            Err(gone) if looks >= LOOKS_MAX => return Err(ReadingError::RecordGone(gone)),
            Err(_) => {}
        }
    }
}

async fn list(
    objects: &Objects,
    clock: &Clock,
    places: &[Place],
    folders: &[&'static str],
) -> Result<Listing, ReadingError> {
    let lists = places
        .iter()
        .flat_map(|place| folders.iter().map(move |folder| (place, *folder)));
    let lists = lists.map(|(place, folder)| one(objects, clock, place, folder).boxed());
    let lists: Vec<_> = lists.collect();
    let mut lists = stream::iter(lists).buffer_unordered(LISTS_AT_ONCE);
    let mut listing = Listing::default();
    while let Some((prefix, began, keys)) = lists.try_next().await? {
        listing.add(&prefix, began, keys);
    }
    Ok(listing)
}

/// The prefix, when its LIST began, and what of it is wanted.
async fn one(
    objects: &Objects,
    clock: &Clock,
    place: &Place,
    folder: &'static str,
) -> Result<(String, Timestamp, Vec<(String, u64)>), ReadingError> {
    let prefix = format!("{folder}{}", place.prefix);
    let wanted: BTreeSet<String> = place.hours.iter().map(Hour::to_string).collect();
    let began = clock.now();
    let mut keys = Vec::new();
    let mut pages = objects.list(&prefix, None);
    while let Some(listed) = pages.try_next().await? {
        if is_of(&listed.key, folder, &wanted) {
            keys.push((listed.key, listed.bytes));
        }
    }
    drop(pages);
    Ok((prefix, began, keys))
}

/// Whether a key is of one of the hours: of a date that was listed whole, other hours are not wanted.
fn is_of(key: &str, folder: &str, hours: &BTreeSet<String>) -> bool {
    let hour = key
        .strip_prefix(folder)
        .and_then(|rest| rest.rsplit_once('/'));
    hour.is_some_and(|(hour, _)| hours.contains(hour))
}
