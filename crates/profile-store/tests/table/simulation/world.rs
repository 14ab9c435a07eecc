//! What all replicas share: the store, the time, chance, and what is true of the rows.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use unhex_profile_store::table::names::{FileKind, PublishId};
use unhex_profile_store::table::record::Deletion;

use super::Config;
use crate::objects::minute;
use crate::rule::state;
use crate::store::{Row, Store};

/// How wrong a clock may be.
const CLOCK_MILLIS: usize = 120_000;

/// A run of [xorshift64*](https://doi.org/10.1145/2845077): the same for a seed on every machine.
#[derive(Debug)]
pub(crate) struct Random(u64);

/// What was found of one or several runs.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Readings that came to an end.
    pub(crate) readings: usize,
    /// What was wrong with them.
    pub(crate) wrong: Vec<String>,
    /// What was there at rest and counts for nothing.
    pub(crate) left_over: Vec<String>,
    /// Records of compactions that were put.
    pub(crate) published: usize,
    /// Publishes that were too old.
    pub(crate) given_up: usize,
    /// Replicas that died between two writes.
    pub(crate) deaths: usize,
    /// Contents that were sent again.
    pub(crate) resent: usize,
    /// Rejected compactions that readings saw.
    pub(crate) rejected: usize,
    /// Objects that were swept.
    pub(crate) swept: usize,
    /// Tombstones that were put.
    pub(crate) deleted: usize,
}

/// What was sent and not answered.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    pub(crate) number: u32,
    pub(crate) rows: Vec<Row>,
    /// When it was sent for the first time.
    pub(crate) first: Timestamp,
}

/// The store and what is true of it.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) config: Config,
    pub(crate) store: Store,
    pub(crate) now: Timestamp,
    pub(crate) random: Random,
    /// Rows whose sender was answered.
    pub(crate) acknowledged: BTreeMap<u32, Row>,
    /// Contents whose senders did not hear an answer.
    pub(crate) unanswered: Vec<Content>,
    /// Contents that were made.
    pub(crate) contents: u32,
    /// What was deleted, in order of the PUTs.
    pub(crate) deletions: Vec<Deletion>,
    /// Whether nothing goes wrong any more.
    pub(crate) is_at_rest: bool,
    pub(crate) found: Found,
}

impl Random {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(high).unwrap() % bound
    }

    /// Whether something that happens in so many of a hundred cases happens.
    pub(crate) fn is_in(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

impl Found {
    pub(crate) fn add(&mut self, other: Self) {
        self.readings += other.readings;
        self.wrong.extend(other.wrong);
        self.left_over.extend(other.left_over);
        self.published += other.published;
        self.given_up += other.given_up;
        self.deaths += other.deaths;
        self.resent += other.resent;
        self.rejected += other.rejected;
        self.swept += other.swept;
        self.deleted += other.deleted;
    }
}

impl World {
    pub(crate) fn new(config: Config, seed: u64) -> Self {
        Self {
            config,
            store: Store::default(),
            // The hour is over, so that all can be compacted.
            now: minute(60),
            random: Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            acknowledged: BTreeMap::new(),
            unanswered: Vec::new(),
            contents: 0,
            deletions: Vec::new(),
            is_at_rest: false,
            found: Found::default(),
        }
    }

    /// Mostly seconds, sometimes minutes, seldom hours.
    pub(crate) fn pass_time(&mut self) {
        let seconds = match self.random.below(1_000) {
            0..880 => self.random.below(4),
            880..980 => self.random.below(100),
            980..997 => self.random.below(3_600),
            _ => self.random.below(self.config.stall_hours * 3_600),
        };
        let seconds = i64::try_from(seconds).unwrap();
        self.now += SignedDuration::from_millis(seconds * 1_000 + 1);
    }

    /// A publish that begins now, by a clock that is wrong by two minutes at most.
    pub(crate) fn publish(&mut self) -> PublishId {
        let wrong = i64::try_from(self.random.below(2 * CLOCK_MILLIS)).unwrap();
        let wrong = SignedDuration::from_millis(wrong - i64::try_from(CLOCK_MILLIS).unwrap());
        let random = std::array::from_fn(|_| u8::try_from(self.random.below(256)).unwrap());
        PublishId::new(self.now + wrong, random)
    }

    /// Whether a publish may go on; if not, that is counted.
    pub(crate) fn may_publish(&mut self, id: PublishId) -> bool {
        let may = !self.config.gives_up || id.check_publish(self.now).is_ok();
        self.found.given_up += usize::from(!may);
        may
    }

    /// Whether whoever is at work dies here.
    pub(crate) fn dies(&mut self) -> bool {
        let dies = !self.is_at_rest && self.random.is_in(2);
        self.found.deaths += usize::from(dies);
        dies
    }

    /// Finds what is left over when nobody is at work any more.
    pub(crate) fn check_rest(&mut self) {
        let Some(state) = state(&self.store.view(), self.now) else {
            return;
        };
        let [samples, totals] = FileKind::ALL.map(|kind| state.live(kind).len());
        let tombstones = state.tombstones().len();
        let expected = samples + totals + state.accepted().len() + tombstones;
        let has_expired = FileKind::ALL.into_iter().all(|kind| state.is_expired(kind));
        let is_clean = state.fresh().is_empty()
            && state.spare().is_empty()
            && state.rejected().is_empty()
            && state.accepted().len() <= 1
            && self.store.0.len() == expected
            && !has_expired;
        if !is_clean {
            let what = format!("{} objects at rest: {state:?}", self.store.0.len());
            self.found.left_over.push(what);
        }
    }
}
