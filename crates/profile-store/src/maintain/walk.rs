//! One round through all hours that there are: what has expired, what is due, what may go.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use jiff::SignedDuration;
use tracing::{error, warn};

use super::counters::Found;
use super::failure::shown;
use super::{MaintainError, Maintenance};
use crate::reading::{Place, look};
use crate::table::dictionary::{DICTIONARIES, MERGE_FILES_MIN};
use crate::table::fold::HourState;
use crate::table::names::{Hour, OUTPUTS, RECORDS, SEGMENTS};

/// All folders, which the sweeper has to know.
const ALL: &[&str] = &[SEGMENTS, OUTPUTS, RECORDS];

/// Hours before this one that a short round looks at: what comes later than that waits for a round through all.
const RECENT_HOURS: i64 = 3;

/// What a round found and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Hours that there are.
    pub hours: usize,
    /// Of them compacted now.
    pub compacted: usize,
    /// Deletions that were said.
    pub expired: usize,
    /// Objects that were removed.
    pub swept: usize,
    /// Hours that were left as they are, for an error that is in the log.
    pub failed: usize,
}

/// A round as it goes on.
#[derive(Debug, Default)]
struct Tally {
    round: Round,
    found: Found,
    /// The outputs that count.
    outputs: HashSet<String>,
}

impl Maintenance {
    /// Compacts the hours that ended a moment ago, if they are due, and merges their dictionaries.
    pub async fn round_of_recent(&self) -> Round {
        let now = self.clock.now();
        let mut round = Round::default();
        for ago in 0..=RECENT_HOURS {
            if let Ok(hour) = Hour::of(now - SignedDuration::from_hours(ago)) {
                round.hours += 1;
                let compacted = self.compact(hour).await;
                let compacted = compacted.map(|compacted| usize::from(compacted.is_some()));
                round.compacted += self.told(&mut round.failed, compacted);
                let merged = self.merge(hour, MERGE_FILES_MIN).await;
                self.told(&mut round.failed, merged);
            }
        }
        round
    }

    /// Goes through all hours. A place that fails keeps no other from being looked at.
    ///
    /// # Errors
    /// If it is not known which dates there are.
    pub async fn round(&self) -> Result<Round, MaintainError> {
        let mut dates = BTreeSet::new();
        for folder in ALL.iter().chain([&DICTIONARIES]) {
            dates.extend(self.objects.folders(folder).await?);
        }
        let mut tally = Tally::default();
        for date in dates {
            let hours = (0..24).filter_map(|hour| format!("{date}/{hour:02}").parse().ok());
            for place in Place::all_of(&hours.collect(), self.clock.now()) {
                self.visit_place(&place, &mut tally).await;
            }
        }
        let Tally {
            round,
            mut found,
            outputs,
        } = tally;
        found.hours = round.hours as u64;
        self.known.keep(|key| outputs.contains(key));
        self.counters.found(found);
        Ok(round)
    }

    async fn visit_place(&self, place: &Place, tally: &mut Tally) {
        let places = std::slice::from_ref(place);
        let seen = match look(&self.objects, &self.records, &self.clock, places, ALL).await {
            Ok(seen) => seen,
            Err(error) => return self.told(&mut tally.round.failed, Err(error.into())),
        };
        tally.found.foreign += seen.foreign as u64;
        let nothing = place.hours.iter().map(|&hour| (hour, None));
        let mut known: BTreeMap<Hour, Option<HourState>> = nothing.collect();
        for (hour, state) in seen.states {
            tally.round.hours += 1;
            match state {
                Ok(state) => {
                    self.visit(&state, tally).await;
                    known.insert(hour, Some(state));
                }
                Err(source) => {
                    known.remove(&hour);
                    let error = MaintainError::Hour { hour, source };
                    self.told::<()>(&mut tally.round.failed, Err(error));
                }
            }
        }
        let swept = self.tidy_dictionaries(place, &known).await;
        tally.round.swept += self.told(&mut tally.round.failed, swept);
    }

    /// Does what is due of one hour.
    async fn visit(&self, state: &HourState, tally: &mut Tally) {
        let round = &mut tally.round;
        let expired = self.expire(state).await;
        round.expired += self.told(&mut round.failed, expired);
        let swept = self.sweep(state).await;
        round.swept += self.told(&mut round.failed, swept);
        if self.plan(state).is_some() {
            let compacted = self.compact(state.hour()).await;
            tally.found.waiting += u64::from(compacted.is_err());
            let compacted = compacted.map(|compacted| usize::from(compacted.is_some()));
            round.compacted += self.told(&mut round.failed, compacted);
        }
        let files = self.measure(state, &mut tally.found).await;
        tally.outputs.extend(self.told(&mut round.failed, files));
    }

    /// The result, or nothing and a word in the log.
    fn told<T: Default>(&self, failed: &mut usize, result: Result<T, MaintainError>) -> T {
        result.unwrap_or_else(|error| {
            *failed += 1;
            self.counters.failed(&error);
            let needs_somebody = matches!(
                error,
                MaintainError::SumsDiffer { .. } | MaintainError::Damaged { .. }
            );
            if needs_somebody {
                error!("maintenance: {}", shown(&error));
            } else {
                warn!("maintenance: {}", shown(&error));
            }
            T::default()
        })
    }
}
