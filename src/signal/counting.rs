//! What one profile changes: the counters of its label set and the notes on its build IDs.
//!
//! One request takes the lock once and costs a few look-ups per module; addresses were summed up
//! before. Nothing here waits.

use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashSet;
use unhex_api::symbolize::ModuleStatus;
use unhex_build_id::Identity;

use super::checked::{Answer, Checks};
use super::ignored::Ignored;
use super::label_table::{Counts, LabelTable, SeenAt};
use super::labels::{LabelSet, cleaned};
use super::lately::Sent;
use super::ledger::{Folded, OwnLedger, Part, Sighting};
use super::objects::Contents;
use super::observation::{Missing, Observation, ObservedModule, Outcome};
use super::recent_profiles::RecentProfiles;
use super::totals::Totals;
use super::view::{Knowledge, Rules, View, millis};

/// The longest file name that is kept.
const NAME_BYTES_MAX: usize = 256;

/// So long the alert remembers the last value of the gauge: within it a replica that has started need
/// not say what it does not know yet.
const ALERT_MEMORY: Duration = Duration::from_mins(5);

/// How often what label sets sent is written when no build ID without symbols came: others need it to
/// tell how much of a service one of theirs is, which changes slowly.
const SUMS_WRITTEN_EVERY: Duration = Duration::from_mins(1);

/// The largest weight of a module that is believed: that of a century of a million cores in milliseconds
/// is less, and so is what a float counts by ones.
const WEIGHT_MAX: u64 = 1 << 53;

/// All that is held in memory.
#[derive(Debug)]
pub(super) struct State {
    pub(super) table: LabelTable,
    pub(super) totals: Totals,
    pub(super) own: OwnLedger,
    /// What the other replicas saw, and those before them.
    pub(super) elsewhere: Arc<Folded>,
    pub(super) checks: Checks,
    pub(super) ignored: Ignored,
    pub(super) recent: RecentProfiles,
    pub(super) rules: Rules,
    pub(super) entries_max: usize,
    /// When this replica started.
    pub(super) started: u64,
    /// Whether all that is in the store was read once.
    pub(super) has_read_all: bool,
    /// When the part of this replica was written last.
    pub(super) written: u64,
}

/// All that a view is made of, taken under the lock; the view is made outside.
#[derive(Debug)]
pub(super) struct Snapshot {
    elsewhere: Arc<Folded>,
    own: Part,
    checks: Checks,
    ignored: Ignored,
    rules: Rules,
    knowledge: Knowledge,
    entries_max: usize,
    now: u64,
}

impl Snapshot {
    /// What is missing at that moment, over all replicas.
    pub(super) fn view(self) -> View {
        View {
            folded: Folded::clone(&self.elsewhere).with(&self.own, self.entries_max),
            checks: self.checks,
            ignored: self.ignored,
            rules: self.rules,
            knowledge: self.knowledge,
            now: self.now,
        }
    }
}

/// A request while it is counted.
#[derive(Debug)]
struct Counting<'a> {
    labels: &'a LabelSet,
    profile_id: Option<&'a str>,
    seen: FxHashSet<&'a Identity>,
    counts: Counts,
    now: u64,
}

impl State {
    /// Counts a profile, or a part of one.
    pub(super) fn observe(&mut self, observation: &Observation, now: u64) {
        let mut counting = Counting {
            labels: &observation.labels,
            profile_id: observation.profile_id.as_deref(),
            seen: FxHashSet::default(),
            counts: Counts::default(),
            now,
        };
        let mut sent = Sent::default();
        let mut lacks_symbols = false;
        for module in &observation.modules {
            let part = sent_by(module);
            sent.addresses = sent.addresses.saturating_add(part.addresses);
            sent.weight = sent.weight.saturating_add(part.weight);
            lacks_symbols |= self.observe_module(module, &mut counting);
        }
        let labels = &observation.labels;
        let mut is_first = |what: &str| match &observation.profile_id {
            Some(id) => self.recent.is_first((what, labels, id)),
            None => true,
        };
        counting.counts.profiles = u64::from(is_first("arrived"));
        counting.counts.profiles_unknown = u64::from(lacks_symbols && is_first("lacks symbols"));
        self.totals.add(labels, sent, now);
        let elsewhere = self.elsewhere.sent.get(labels);
        let since = [
            self.totals.since(labels),
            elsewhere.and_then(|sent| sent.since()),
        ];
        let first_seen = since.into_iter().flatten().min().unwrap_or(now);
        let seen = SeenAt { first_seen, now };
        self.table.count(labels, counting.counts, seen);
    }

    /// Counts a module; whether it makes its profile one with a build ID without symbols.
    fn observe_module<'a>(
        &mut self,
        module: &'a ObservedModule,
        counting: &mut Counting<'a>,
    ) -> bool {
        let name = module.name.as_deref();
        let Some(missing) = Missing::of(module.status) else {
            self.observe_found(module, counting);
            return false;
        };
        let is_ignored = self.ignored.is_ignored(module.identity.as_ref(), name);
        let outcome = if is_ignored {
            Outcome::Ignored
        } else {
            Outcome::of(module.status)
        };
        counting.counts.add_frames(outcome, module.weight);
        let Some(identity) = &module.identity else {
            return false;
        };
        if name.is_some_and(|name| self.ignored.is_name_ignored(name)) {
            return false;
        }
        let first_seen = self.first_seen(identity).unwrap_or(counting.now);
        self.see(identity, missing, module, counting);
        let is_past_grace = self.rules.is_past_grace(first_seen, counting.now);
        !is_ignored && (missing.is_definite() || is_past_grace)
    }

    fn observe_found(&mut self, module: &ObservedModule, counting: &mut Counting<'_>) {
        let nameless = module.weight_without_function.min(module.weight);
        let rest = module.weight.saturating_sub(nameless);
        let outcome = Outcome::of(module.status);
        counting.counts.add_frames(outcome, rest);
        counting.counts.add_frames(Outcome::NoFunction, nameless);
        if let Some(identity) = &module.identity
            && module.status == ModuleStatus::Found
        {
            self.mend(identity, counting.now);
        }
    }

    fn see<'a>(
        &mut self,
        identity: &'a Identity,
        missing: Missing,
        module: &'a ObservedModule,
        counting: &mut Counting<'a>,
    ) {
        let labels = counting.labels;
        let is_first = counting.seen.insert(identity)
            && counting
                .profile_id
                .is_none_or(|id| self.recent.is_first((labels, id, identity)));
        let name = module
            .name
            .as_deref()
            .map(|name| cleaned(name, NAME_BYTES_MAX));
        let sighting = Sighting {
            labels,
            name: name.as_deref().filter(|name| !name.is_empty()),
            missing,
            sent: sent_by(module),
            profiles: u64::from(is_first),
            at: counting.now,
        };
        for gone in self.own.see(identity, &sighting) {
            if !self.elsewhere.entries.contains_key(&gone) {
                self.checks.remove(&gone);
            }
        }
        let at = counting.now;
        self.note_asked(
            identity,
            at,
            (missing != Missing::Unavailable).then_some(missing),
        );
    }

    /// Notes why the store says that a build ID has no symbols; `None` when it could not say.
    pub(super) fn note_asked(&mut self, identity: &Identity, at: u64, missing: Option<Missing>) {
        let checked = self.checks.entry(identity.clone()).or_default();
        match missing {
            Some(_) => checked.note(Answer { at, missing }),
            None => checked.note_failed(at),
        }
    }

    /// Notes that the store says that a build ID has symbols.
    pub(super) fn mend(&mut self, identity: &Identity, at: u64) {
        if self.first_seen(identity).is_none() {
            return;
        }
        let checked = self.checks.entry(identity.clone()).or_default();
        checked.note(Answer { at, missing: None });
        if checked.is_mended() {
            self.own.remove(identity);
        }
    }

    fn first_seen(&self, identity: &Identity) -> Option<u64> {
        let own = self.own.get(identity);
        let elsewhere = self.elsewhere.entries.get(identity);
        own.into_iter()
            .chain(elsewhere)
            .map(|entry| entry.first_seen)
            .min()
    }

    /// What a view of this moment is made of.
    pub(super) fn snapshot(&self, now: u64) -> Snapshot {
        let is_fresh = now.saturating_sub(self.started) < millis(ALERT_MEMORY);
        Snapshot {
            elsewhere: Arc::clone(&self.elsewhere),
            own: self.own.part(self.totals.rows()),
            checks: self.checks.clone(),
            ignored: self.ignored.clone(),
            rules: self.rules,
            knowledge: match (is_fresh, self.has_read_all) {
                (true, false) => Knowledge::Partial,
                (true, true) => Knowledge::Fresh,
                (false, _) => Knowledge::Settled,
            },
            entries_max: self.entries_max,
            now,
        }
    }

    /// The part that has to be written, if anything changed; for sums alone not every time.
    pub(super) fn part_to_write(&mut self, now: u64) -> Option<Part> {
        let is_time = now.saturating_sub(self.written) >= millis(SUMS_WRITTEN_EVERY);
        let is_due = self.own.has_changed() || (is_time && self.totals.has_changed());
        if !is_due {
            return None;
        }
        self.totals.note_written();
        self.written = now;
        Some(self.own.next_part(self.totals.rows()))
    }

    /// Takes in what was read of the store; `others` are the parts of other replicas in it.
    pub(super) fn take_in(&mut self, contents: Contents, others: Folded) {
        let is_there = contents.parts().any(|part| self.own.is_latest(part));
        if self.own.is_wanted() && !is_there {
            // Damaged, or taken away: nobody but this replica can write it anew.
            self.own.note_unwritten();
        }
        self.has_read_all |= contents.is_whole;
        self.elsewhere = Arc::new(others);
        self.ignored.replace(contents.decisions);
        let (own, elsewhere) = (&self.own, &self.elsewhere);
        self.checks.retain(|identity, _| {
            own.get(identity).is_some() || elsewhere.entries.contains_key(identity)
        });
    }
}

/// What of a module counts in shares. A weight that nobody can have measured says nothing there: it
/// would make all else a share of nothing for weeks.
fn sent_by(module: &ObservedModule) -> Sent {
    let weight = Some(module.weight).filter(|weight| *weight <= WEIGHT_MAX);
    Sent {
        addresses: module.addresses,
        weight: weight.unwrap_or_default(),
    }
}
