//! The signal: which profiles arrived whose build IDs have no symbols, so that somebody is told.
//!
//! A profile goes through [`Signal::observe`]: its label set is counted (`label_table`), and each of
//! its build IDs without symbols is noted in the [`ledger`]. The ledger is durable and shared: every
//! replica writes what it saw and reads what the others did (`objects`, `upkeep`), and what it lists
//! is compared with the store (`checked`), so that an upload anywhere empties it. What is missing at a moment is
//! a pure [`view`] of all that; the gauge that the alert watches and the list that people read both
//! come from there.

mod checked;
mod counting;
mod ignored;
mod label_table;
mod labels;
mod lately;
pub mod ledger;
mod objects;
mod observation;
mod recency;
mod recent_profiles;
mod standing;
mod steady;
mod totals;
mod upkeep;
mod view;

use std::sync::Arc;

use parking_lot::Mutex;
use unhex_build_id::Identity;

pub use ignored::IgnoreRecord;
pub use labels::LabelSet;
pub use lately::{Lately, Sent};
pub use objects::LedgerError;
pub use observation::{Missing, Observation, ObservedModule};
pub use standing::module_status;
pub use view::{IgnoredBecause, MissingBuildId, Standing};

use self::checked::Checks;
use self::counting::State;
use self::ignored::Ignored;
use self::label_table::LabelTable;
use self::ledger::{Folded, OwnLedger};
use self::objects::{NewDecision, Objects};
use self::recent_profiles::RecentProfiles;
use self::steady::Steady;
use self::totals::Totals;
use self::view::{Rules, View};
use crate::artifacts::store::ObjectStore;
use crate::artifacts::{Artifacts, Clock, UploadId};
use crate::config::SignalConfig;
use crate::limits::Limits;
use crate::metrics::{Metrics, ProfileCounts};

/// The longest reason for ignoring a build ID.
const REASON_BYTES_MAX: usize = 500;

/// What arrived without symbols, on this replica and on all others.
#[derive(Debug)]
pub struct Signal {
    state: Mutex<State>,
    objects: tokio::sync::Mutex<Objects>,
    artifacts: Arc<Artifacts>,
    metrics: Arc<Metrics>,
    clock: Clock,
    time: Steady,
    config: SignalConfig,
    /// How writing or reading the ledger fails at present, in a word.
    failing: Mutex<Option<&'static str>>,
    replica: UploadId,
    sets_max: usize,
    entries_max: usize,
}

/// What a [`Signal`] is made of.
#[derive(Debug)]
pub struct SignalParts<'a> {
    /// Where the ledger lies, beside the debug files.
    pub store: Arc<dyn ObjectStore>,
    /// Says which build IDs have symbols.
    pub artifacts: Arc<Artifacts>,
    /// Counts failures of the ledger.
    pub metrics: Arc<Metrics>,
    /// What time it is.
    pub clock: Clock,
    /// When something counts.
    pub config: SignalConfig,
    /// How much is kept.
    pub limits: &'a Limits,
}

/// Which part of the list of missing build IDs is wanted.
#[derive(Clone, Debug, Default)]
pub struct MissingQuery {
    /// Only those that this service sent.
    pub service: Option<String>,
    /// Only those that this version sent.
    pub version: Option<String>,
    /// Only those that were sent from here.
    pub deployment: Option<String>,
    /// Only those behind this one.
    pub after: Option<Identity>,
    /// At most so many.
    pub limit: usize,
}

/// A decision about a build ID that somebody makes.
#[derive(Clone, Debug)]
pub struct IgnoreDecision {
    /// The build ID or other identity.
    pub identity: Identity,
    /// Why it is to be ignored; `None` to ignore it no longer.
    pub reason: Option<String>,
    /// Who decides, when the request was authenticated.
    pub who: Option<String>,
}

impl Signal {
    /// Opens the ledger in the store and compares it with what is stored, for some seconds at most.
    pub async fn open(parts: SignalParts<'_>) -> Arc<Self> {
        let signal = Arc::new(Self::new(parts));
        signal.take_up().await;
        signal
    }

    fn new(parts: SignalParts<'_>) -> Self {
        let (sets_max, entries_max) = (
            parts.limits.label_sets_max,
            parts.limits.ledger_build_ids_max,
        );
        let replica = parts.clock.upload_id();
        let time = Steady::new(parts.clock.clone());
        let started = time.now();
        let state = State {
            table: LabelTable::new(sets_max),
            totals: Totals::new(sets_max),
            own: OwnLedger::new(replica, entries_max),
            elsewhere: Arc::new(Folded::default()),
            checks: Checks::default(),
            ignored: Ignored::new(&parts.config.ignore_modules),
            recent: RecentProfiles::default(),
            rules: Rules::new(&parts.config),
            entries_max,
            started,
            has_read_all: false,
            written: 0,
        };
        let objects = Objects::new(parts.store, parts.clock.clone(), parts.limits);
        Self {
            state: Mutex::new(state),
            objects: tokio::sync::Mutex::new(objects),
            artifacts: parts.artifacts,
            metrics: parts.metrics,
            clock: parts.clock,
            time,
            config: parts.config,
            failing: Mutex::default(),
            replica,
            sets_max,
            entries_max,
        }
    }

    /// Counts a profile that arrived. Cheap: a few look-ups per module, under one lock.
    pub fn observe(&self, observation: &Observation) {
        let now = self.time.now();
        self.state.lock().observe(observation, now);
    }

    /// What the metrics show, per label set.
    pub fn profile_counts(&self) -> Vec<ProfileCounts> {
        let now = self.time.now();
        let (shown, snapshot) = {
            let mut state = self.state.lock();
            (state.table.show(now), state.snapshot(now))
        };
        let view = snapshot.view();
        let (sets, mut rows): (Vec<LabelSet>, Vec<ProfileCounts>) = shown.into_iter().unzip();
        let mut missing = view.counts(&sets, self.sets_max);
        for (labels, row) in sets.iter().zip(&mut rows) {
            row.unknown_build_ids = missing.remove(labels).flatten();
        }
        // Sets that were seen before this replica started, or by others only.
        let elsewhere = missing.into_iter().map(|(labels, unknown)| ProfileCounts {
            labels: labels.values().map(str::to_owned),
            unknown_build_ids: unknown,
            ..ProfileCounts::default()
        });
        rows.extend(elsewhere);
        rows
    }

    /// Build IDs that are missing and not ignored, in order, those of a service first seen or not.
    pub fn missing(&self, query: &MissingQuery) -> Vec<MissingBuildId> {
        let view = self.view();
        let is_wanted = |wanted: &Option<String>, found: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == found)
        };
        let is_of = |labels: &LabelSet| {
            is_wanted(&query.service, &labels.service)
                && is_wanted(&query.version, &labels.version)
                && is_wanted(&query.deployment, &labels.deployment)
        };
        let identities = view.identities().into_iter();
        identities
            .filter(|identity| query.after.as_ref().is_none_or(|after| after < *identity))
            .filter_map(|identity| view.get(identity))
            .filter(|found| found.ignored.is_none())
            .filter(|found| found.entry.seen_by.iter().any(|by| is_of(&by.labels)))
            .take(query.limit)
            .collect()
    }

    /// What is known of one build ID without symbols, ignored or not; `None` when no profile had it
    /// lately, or it has symbols.
    pub fn missing_one(&self, identity: &Identity) -> Option<MissingBuildId> {
        self.view().get(identity)
    }

    /// The decision by which a build ID is ignored, whether a profile had it or not.
    pub fn ignored(&self, identity: &Identity) -> Option<IgnoreRecord> {
        self.state.lock().ignored.decision(identity).cloned()
    }

    /// All decisions by which build IDs are ignored, behind `after` in order of their identities, at most
    /// `limit`; each with what profiles say of the build ID, when it was seen lately.
    pub fn all_ignored(
        &self,
        after: Option<&Identity>,
        limit: usize,
    ) -> Vec<(IgnoreRecord, Option<MissingBuildId>)> {
        let view = self.view();
        let decisions = view.ignored.decisions(after).take(limit);
        let with_missing = decisions.map(|record| (record.clone(), view.get(&record.identity)));
        with_missing.collect()
    }

    /// Ignores a build ID, or ignores it no longer; durable when it answers. It beats every decision that
    /// was made before, on whatever replica. `None` when it was not ignored and is not to be.
    ///
    /// # Errors
    /// If the store cannot be read and written now, or too many are ignored.
    pub async fn decide(
        &self,
        decision: IgnoreDecision,
    ) -> Result<Option<IgnoreRecord>, LedgerError> {
        let clean = |reason: String| labels::cleaned(&reason, REASON_BYTES_MAX);
        let new = NewDecision {
            identity: decision.identity,
            decision: self.clock.upload_id(),
            reason: decision.reason.map(clean),
            who: decision.who,
        };
        // No reading of older decisions may end after this one is known.
        let mut objects = self.objects.lock().await;
        let Some(record) = objects.decide(new).await? else {
            return Ok(None);
        };
        self.state.lock().ignored.add(record.clone());
        tracing::info!(identity = %record.identity, reason = record.reason, "{} is {}",
            record.identity, if record.reason.is_some() { "ignored" } else { "ignored no longer" });
        Ok(Some(record))
    }

    /// Build IDs that this replica keeps a note of.
    pub fn ledger_len(&self) -> usize {
        let state = self.state.lock();
        state.own.len().max(state.elsewhere.entries.len())
    }

    fn view(&self) -> View {
        let now = self.time.now();
        let snapshot = self.state.lock().snapshot(now);
        snapshot.view()
    }
}
