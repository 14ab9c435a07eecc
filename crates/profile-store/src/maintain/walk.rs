//! One round through all hours that there are: what has expired, what is due, what may go.

use std::collections::{BTreeSet, HashSet};

use jiff::SignedDuration;
use tracing::{error, warn};

use super::counters::Found;
use super::failure::shown;
use super::{MaintainError, Maintenance};
use crate::reading::{Place, look};
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

impl Maintenance {
    /// Compacts the hours that ended a moment ago, if they are due.
    pub async fn round_of_recent(&self) -> Round {
        let now = self.clock.now();
        let mut round = Round::default();
        for ago in 0..=RECENT_HOURS {
            if let Ok(hour) = Hour::of(now - SignedDuration::from_hours(ago)) {
                round.hours += 1;
                let compacted = self.compact(hour).await;
                let compacted = compacted.map(|compacted| usize::from(compacted.is_some()));
                round.compacted += self.told(&mut round.failed, compacted);
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
        for folder in ALL {
            dates.extend(self.objects.folders(folder).await?);
        }
        let mut round = Round::default();
        let mut found = Found::default();
        let mut seen_files = HashSet::new();
        for date in dates {
            let hours = (0..24).filter_map(|hour| format!("{date}/{hour:02}").parse().ok());
            for place in Place::all_of(&hours.collect(), self.clock.now()) {
                match look(&self.objects, &self.records, &self.clock, &[place], ALL).await {
                    Err(error) => {
                        self.told::<()>(&mut round.failed, Err(error.into()));
                    }
                    Ok(seen) => {
                        for (hour, state) in seen.states {
                            round.hours += 1;
                            match state {
                                Ok(state) => {
                                    let files = self.visit(&state, &mut round, &mut found).await;
                                    seen_files.extend(files);
                                }
                                Err(source) => {
                                    let error = MaintainError::Hour { hour, source };
                                    self.told::<()>(&mut round.failed, Err(error));
                                }
                            }
                        }
                        found.foreign += seen.foreign as u64;
                    }
                }
            }
        }
        found.hours = round.hours as u64;
        self.known.keep(|key| seen_files.contains(key));
        self.counters.found(found);
        Ok(round)
    }

    /// Does what is due of one hour. The outputs that it has.
    async fn visit(&self, state: &HourState, round: &mut Round, found: &mut Found) -> Vec<String> {
        let expired = self.expire(state).await;
        round.expired += self.told(&mut round.failed, expired);
        let swept = self.sweep(state).await;
        round.swept += self.told(&mut round.failed, swept);
        if self.plan(state).is_some() {
            let compacted = self.compact(state.hour()).await;
            found.waiting += u64::from(compacted.is_err());
            let compacted = compacted.map(|compacted| usize::from(compacted.is_some()));
            round.compacted += self.told(&mut round.failed, compacted);
        }
        let files = self.measure(state, found).await;
        self.told(&mut round.failed, files)
    }

    /// The result, or nothing and a word in the log.
    fn told<T: Default>(&self, failed: &mut usize, result: Result<T, MaintainError>) -> T {
        result.unwrap_or_else(|error| {
            *failed += 1;
            self.counters.failed(&error);
            if matches!(error, MaintainError::SumsDiffer { .. }) {
                error!("maintenance: {}", shown(&error));
            } else {
                warn!("maintenance: {}", shown(&error));
            }
            T::default()
        })
    }
}
