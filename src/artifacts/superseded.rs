//! Records that no look-up asks for any more, though nobody deleted them.
//!
//! A file that came later, a newer converter or a deletion leaves symbol indexes and failures behind
//! that belong to no plan of today. Removing them changes nothing of what the state answers: a test
//! folds states with and without them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::content_hash::ContentHash;
use super::index_standing::{IndexStanding, Plan};
use super::layout::RecordName;
use super::located::ArtifactKind;
use super::record::IndexRecord;
use super::state::{State, Stored};
use unhex_symbols::quality::Quality;

impl State {
    /// Indexes, failures and refusals that say nothing any more to a server whose converter has this
    /// version. While an index is wanted the older ones stay, since another server may use them.
    pub fn superseded(&self, converter_version: u32) -> BTreeSet<RecordName> {
        let standing = self.index(converter_version);
        if matches!(standing, IndexStanding::Wanted { .. }) {
            return BTreeSet::new();
        }
        let plans = self.every_plan();
        let mut needed = BTreeSet::new();
        if let IndexStanding::Ready(index) = &standing {
            needed.insert(index.name);
        }
        for plan in &plans {
            needed.extend(self.kept_of(plan, converter_version));
        }
        let of_others = self.indexes.iter();
        let of_others = of_others.filter(|index| index.body.converter_version > converter_version);
        needed.extend(of_others.map(|index| index.name));
        needed.extend(self.verdicts(&needed));
        let indexes = self.indexes.iter();
        let indexes = indexes.filter(|index| !needed.contains(&index.name));
        let of_today = |sources: &BTreeSet<ContentHash>| {
            let mut plans = plans.iter();
            plans.any(|plan| plan.sources() == *sources)
        };
        let failures = self.failures.iter().filter(|failure| {
            let body = &failure.body;
            body.converter_version < converter_version
                || (body.converter_version == converter_version && !of_today(&body.sources))
        });
        let refusals = self.refusals.iter().filter(|_| self.is_empty());
        let indexes = indexes.map(|index| index.name);
        let failures = failures.map(|failure| failure.name);
        let refusals = refusals.map(|refusal| refusal.name);
        indexes.chain(failures).chain(refusals).collect()
    }

    /// The indexes of a plan that are asked for: the best, and while that is incomplete all, since
    /// they say which supplementary files were tried.
    fn kept_of(&self, plan: &Plan, converter_version: u32) -> BTreeSet<RecordName> {
        let Some(best) = self.made_by(plan, converter_version) else {
            return BTreeSet::new();
        };
        if !best.body.is_incomplete() {
            return [best.name].into();
        }
        let sources = plan.sources();
        let of_plan = self.indexes.iter().filter(|index| {
            index.body.converter_version == converter_version && index.body.sources == sources
        });
        of_plan.map(|index| index.name).collect()
    }

    /// The best index of each debug file of which one came out without DWARF, the best or one that
    /// stays: without the best the file would count with what its sections promise, or with that other
    /// one, and be converted again.
    fn verdicts(&self, stay: &BTreeSet<RecordName>) -> BTreeSet<RecordName> {
        let mut of_file: BTreeMap<ContentHash, Vec<&Stored<IndexRecord>>> = BTreeMap::new();
        let files = self.artifacts.iter().map(|artifact| &artifact.body);
        let lost = self.conflicts.iter().map(|lost| &lost.artifact.body);
        let debug_files: BTreeSet<ContentHash> = files
            .chain(lost)
            .filter(|artifact| artifact.kinds.contains(&ArtifactKind::Debuginfo))
            .map(|artifact| artifact.sha256)
            .collect();
        for index in &self.indexes {
            let mut converted = index.body.sources.intersection(&debug_files);
            if let (Some(&file), None) = (converted.next(), converted.next()) {
                of_file.entry(file).or_default().push(index);
            }
        }
        let mut verdicts = BTreeSet::new();
        for indexes in of_file.into_values() {
            let best = indexes
                .iter()
                .max_by_key(|index| (index.body.quality, Reverse(index.name)));
            let Some(best) = best.map(|index| index.name) else {
                continue;
            };
            let counts = |name: &RecordName| *name == best || stay.contains(name);
            let is_doubted = |index: &&Stored<IndexRecord>| {
                index.body.quality < Quality::DwarfLines && counts(&index.name)
            };
            if indexes.iter().any(is_doubted) {
                verdicts.insert(best);
            }
        }
        verdicts
    }
}
