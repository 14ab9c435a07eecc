//! What one profile changes: the counters of its label set and the notes on its build IDs.
//!
//! One request takes the lock once and costs a few look-ups per module; addresses were summed up
//! before. Nothing here waits.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use unhex_api::symbolize::ModuleStatus;
use unhex_build_id::Identity;

use super::ignored::Ignored;
use super::label_table::{Counts, LabelTable};
use super::labels::{LabelSet, cleaned};
use super::lately::Sent;
use super::ledger::{Folded, OwnLedger, Sighting};
use super::observation::{Missing, Observation, ObservedModule, Outcome};
use super::recent_profiles::RecentProfiles;
use super::view::{Checked, Rules, View};

/// The longest file name that is kept.
const NAME_BYTES_MAX: usize = 256;

/// All that is held in memory.
#[derive(Debug)]
pub(super) struct State {
    pub(super) table: LabelTable,
    pub(super) own: OwnLedger,
    /// What the other replicas saw, and those before them.
    pub(super) elsewhere: Arc<Folded>,
    pub(super) checked: FxHashMap<Identity, Checked>,
    pub(super) ignored: Ignored,
    pub(super) recent: RecentProfiles,
    pub(super) rules: Rules,
    pub(super) entries_max: usize,
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
            sent.addresses = sent.addresses.saturating_add(module.addresses);
            sent.weight = sent.weight.saturating_add(module.weight);
            lacks_symbols |= self.observe_module(module, &mut counting);
        }
        let labels = &observation.labels;
        let mut is_first = |what: &str| match &observation.profile_id {
            Some(id) => self.recent.is_first((what, labels, id)),
            None => true,
        };
        counting.counts.profiles = u64::from(is_first("arrived"));
        counting.counts.profiles_unknown = u64::from(lacks_symbols && is_first("lacks symbols"));
        self.table.count(labels, counting.counts, sent, now);
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
        let is_past_grace = counting.now.saturating_sub(first_seen) > self.rules.grace;
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
            sent: Sent {
                addresses: module.addresses,
                weight: module.weight,
            },
            profiles: u64::from(is_first),
            at: counting.now,
        };
        self.own.see(identity, &sighting);
    }

    /// Notes that a build ID has symbols.
    pub(super) fn mend(&mut self, identity: &Identity, at: u64) {
        if self.first_seen(identity).is_some() {
            let missing = None;
            self.checked
                .insert(identity.clone(), Checked { at, missing });
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

    /// What is missing at this moment, over all replicas.
    pub(super) fn view(&self, now: u64) -> View {
        let own = self.own.part(self.table.sent());
        View {
            folded: Folded::clone(&self.elsewhere).with(&own, self.entries_max),
            checked: self.checked.clone(),
            ignored: self.ignored.clone(),
            rules: self.rules,
            now,
        }
    }
}
