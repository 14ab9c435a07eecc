//! What the ledger knows of one build ID without symbols, and how two such notes become one.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::signal::labels::LabelSet;
use crate::signal::lately::{Lately, Sent};
use crate::signal::observation::Missing;

/// Label sets that one build ID is shown with: libraries of a distribution are in every service, and
/// when hundreds of them are alerted on, one more says nothing new.
const SEEN_BY_MAX: usize = 256;

/// Label sets that the build IDs of a ledger have on average, at most: libraries have many, programs
/// have one.
const SEEN_BY_MEAN_MAX: usize = 4;

/// A label set that was not seen for so long before the build ID was seen last gives way first.
const UNSEEN_MILLIS_MAX: u64 = 24 * 3_600_000;

/// A build ID without symbols. Times are in milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The file name that came with it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// Why it has no symbols, as it was when a profile came last.
    pub missing: Missing,
    /// When the first profile came.
    pub first_seen: u64,
    /// When the last one came.
    pub last_seen: u64,
    /// Profiles that came.
    pub profiles: u64,
    /// Addresses in them.
    pub addresses: u64,
    /// How often those were seen.
    pub weight: u64,
    /// Whose profiles they were.
    pub seen_by: Vec<SeenBy>,
}

/// What one label set sent of a build ID.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeenBy {
    /// Service, version and deployment.
    pub labels: LabelSet,
    /// When the first profile came.
    pub first_seen: u64,
    /// When the last one came.
    pub last_seen: u64,
    /// Profiles that came.
    pub profiles: u64,
    /// Addresses in them.
    pub addresses: u64,
    /// How often those were seen.
    pub weight: u64,
    /// The same, lately.
    pub lately: Lately,
}

/// Label sets in a ledger of so many build IDs, over all of them.
pub(super) fn rows_max(entries_max: usize) -> usize {
    entries_max
        .saturating_mul(SEEN_BY_MEAN_MAX)
        .max(SEEN_BY_MAX)
}

/// What a module of a profile says of its build ID.
#[derive(Clone, Debug)]
pub(in crate::signal) struct Sighting<'a> {
    pub(in crate::signal) labels: &'a LabelSet,
    pub(in crate::signal) name: Option<&'a str>,
    pub(in crate::signal) missing: Missing,
    pub(in crate::signal) sent: Sent,
    /// 1, or 0 for another part of a profile that counted already.
    pub(in crate::signal) profiles: u64,
    pub(in crate::signal) at: u64,
}

impl Entry {
    pub(in crate::signal) fn new(sighting: &Sighting<'_>) -> Self {
        Self {
            name: None,
            missing: sighting.missing,
            first_seen: sighting.at,
            last_seen: sighting.at,
            profiles: 0,
            addresses: 0,
            weight: 0,
            seen_by: Vec::new(),
        }
    }

    /// Takes a sighting in.
    pub(in crate::signal) fn see(&mut self, sighting: &Sighting<'_>) {
        if let Some(name) = sighting.name
            && self.name.as_deref() != Some(name)
        {
            self.name = Some(name.into());
        }
        self.missing = sighting.missing;
        self.last_seen = self.last_seen.max(sighting.at);
        self.profiles = self.profiles.saturating_add(sighting.profiles);
        self.addresses = self.addresses.saturating_add(sighting.sent.addresses);
        self.weight = self.weight.saturating_add(sighting.sent.weight);
        let known = self
            .seen_by
            .iter_mut()
            .find(|by| by.labels == *sighting.labels);
        if let Some(known) = known {
            known.see(sighting);
            return;
        }
        let mut by = SeenBy::new(sighting);
        by.see(sighting);
        self.seen_by.push(by);
        self.keep_bounded();
    }

    /// Takes in what another replica noted of the same build ID.
    pub(in crate::signal) fn merge(&mut self, other: &Self) {
        let is_later = |one: &Self, two: &Self| {
            let rank = |entry: &Self| (entry.last_seen, entry.missing, entry.name.clone());
            rank(one) > rank(two)
        };
        if is_later(other, self) {
            self.missing = other.missing;
            self.name = other.name.clone().or_else(|| self.name.take());
        } else if self.name.is_none() {
            self.name.clone_from(&other.name);
        }
        self.first_seen = self.first_seen.min(other.first_seen);
        self.last_seen = self.last_seen.max(other.last_seen);
        self.profiles = self.profiles.saturating_add(other.profiles);
        self.addresses = self.addresses.saturating_add(other.addresses);
        self.weight = self.weight.saturating_add(other.weight);
        for by in &other.seen_by {
            match self.seen_by.iter_mut().find(|own| own.labels == by.labels) {
                Some(own) => own.merge(by),
                None => self.seen_by.push(by.clone()),
            }
        }
    }

    /// Lets go of the label sets beyond the bound: those that were not seen for a day, then the newest.
    /// Were it those that were not seen for the longest time, services that come in turns would push
    /// each other out, and their alerts would come and go.
    pub(in crate::signal) fn keep_bounded(&mut self) {
        if self.seen_by.len() > SEEN_BY_MAX {
            let last_seen = self.last_seen;
            self.seen_by.sort_by_cached_key(|by| {
                let is_unseen = last_seen.saturating_sub(by.last_seen) > UNSEEN_MILLIS_MAX;
                (is_unseen, by.first_seen, by.labels.clone())
            });
            self.seen_by.truncate(SEEN_BY_MAX);
        }
    }

    /// Makes all times no later than `latest`: who wrote the entry down then has seen nothing later,
    /// whatever its clock said.
    pub(in crate::signal) fn keep_before(&mut self, latest: u64) {
        self.first_seen = self.first_seen.min(latest);
        self.last_seen = self.last_seen.min(latest);
        for by in &mut self.seen_by {
            by.first_seen = by.first_seen.min(latest);
            by.last_seen = by.last_seen.min(latest);
            by.lately = by.lately.no_later_than(latest);
        }
    }
}

impl SeenBy {
    fn new(sighting: &Sighting<'_>) -> Self {
        Self {
            labels: sighting.labels.clone(),
            first_seen: sighting.at,
            last_seen: sighting.at,
            profiles: 0,
            addresses: 0,
            weight: 0,
            lately: Lately::default(),
        }
    }

    fn see(&mut self, sighting: &Sighting<'_>) {
        self.last_seen = self.last_seen.max(sighting.at);
        self.profiles = self.profiles.saturating_add(sighting.profiles);
        self.addresses = self.addresses.saturating_add(sighting.sent.addresses);
        self.weight = self.weight.saturating_add(sighting.sent.weight);
        self.lately.add(sighting.sent, sighting.at);
    }

    fn merge(&mut self, other: &Self) {
        self.first_seen = self.first_seen.min(other.first_seen);
        self.last_seen = self.last_seen.max(other.last_seen);
        self.profiles = self.profiles.saturating_add(other.profiles);
        self.addresses = self.addresses.saturating_add(other.addresses);
        self.weight = self.weight.saturating_add(other.weight);
        self.lately = self.lately.merged(other.lately);
    }
}
