//! Which index the state of a build ID has or wants, and from which files it is to be made.
//!
//! A debug file on which the converter fails does not hide the next one; a set of files is tried
//! once per version of the converter.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use unhex_build_id::BuildId;

use super::content_hash::ContentHash;
use super::located::ArtifactKind;
use super::record::{ArtifactRecord, IndexRecord};
use super::state::{State, Stored};
use crate::conversion::IndexFailure;

/// How many sets of sources are tried before a failure is final: each costs a conversion.
const PLANS_MAX: usize = 4;

/// How many packages of split units are tried, the earliest first: one belongs to a build ID, and a
/// damaged one must not hide those that come after it.
const PACKAGES_MAX: usize = 16;

/// The files that an index is to be made from.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The debug file.
    pub debuginfo: Option<Stored<ArtifactRecord>>,
    /// The executable; the same record as the debug file when that is both.
    pub executable: Option<Stored<ArtifactRecord>>,
    /// The package of split units.
    pub dwp: Option<Stored<ArtifactRecord>>,
}

/// What the state says of the symbol index, for one version of the converter.
#[derive(Clone, Debug, PartialEq)]
pub enum IndexStanding {
    /// Nothing to convert: no file at all, or none with code or symbols.
    NoSources,
    /// The index of the best files is there.
    Ready(Stored<IndexRecord>),
    /// It has to be made; meanwhile an index of fewer files may serve.
    Wanted {
        /// What to make it from.
        plan: Box<Plan>,
        /// An index by the same converter from fewer files.
        meanwhile: Option<Stored<IndexRecord>>,
    },
    /// The converter failed on these files, each time, and no index of fewer files is there.
    Failed(IndexFailure),
}

impl State {
    /// What is known of the symbol index that a converter of this version makes or made.
    ///
    /// Of the packages of split units each is tried, since only the converter can tell which one
    /// is sound and belongs here; the best index that came of them counts.
    pub fn index(&self, converter_version: u32) -> IndexStanding {
        let mut first_failure = None;
        for (plans, without_package) in self.plans() {
            let mut made: Vec<&Stored<IndexRecord>> = Vec::new();
            for plan in plans {
                let found = self.made_by(&plan, converter_version);
                let failure = self.failed_by(&plan, converter_version);
                if found.is_none() && failure.is_none() {
                    return self.wanted(plan, converter_version);
                }
                first_failure = first_failure.or(failure);
                made.extend(found);
            }
            // It is made only when no package led to an index, and may be there from before.
            if let Some(plan) = without_package {
                let found = self.made_by(&plan, converter_version);
                let failure = self.failed_by(&plan, converter_version);
                if found.is_none() && failure.is_none() && made.is_empty() {
                    return self.wanted(plan, converter_version);
                }
                first_failure = first_failure.or(failure);
                made.extend(found);
            }
            if let Some(best) = made.into_iter().max_by_key(|index| goodness(index)) {
                return IndexStanding::Ready(best.clone());
            }
        }
        let Some(failure) = first_failure else {
            return IndexStanding::NoSources;
        };
        // Files that came later and cannot be converted take nothing away.
        match self.meanwhile(&BTreeSet::new(), converter_version) {
            Some(index) => IndexStanding::Ready(index),
            None => IndexStanding::Failed(failure.clone()),
        }
    }

    fn wanted(&self, plan: Plan, converter_version: u32) -> IndexStanding {
        let meanwhile = self.meanwhile(&plan.sources(), converter_version);
        let plan = Box::new(plan);
        IndexStanding::Wanted { plan, meanwhile }
    }

    /// The best index that was made from exactly these files.
    pub(super) fn made_by(
        &self,
        plan: &Plan,
        converter_version: u32,
    ) -> Option<&Stored<IndexRecord>> {
        let sources = plan.sources();
        let same = self.indexes.iter().filter(|index| {
            index.body.converter_version == converter_version && index.body.sources == sources
        });
        // The one that had the supplementary file, else it would be made again and again.
        same.max_by_key(|index| {
            let whole = index.body.needs_supplement.is_none();
            let found = index.body.supplement.is_some();
            let failed = Reverse(index.body.units_failed);
            (whole, found, failed, Reverse(index.name))
        })
    }

    fn failed_by(&self, plan: &Plan, converter_version: u32) -> Option<&IndexFailure> {
        let sources = plan.sources();
        let failure = self.failures.iter().find(|failure| {
            failure.body.converter_version == converter_version && failure.body.sources == sources
        });
        failure.map(|failure| &failure.body.failure)
    }

    /// An index by the same converter from files that are still there: it is right, only not the
    /// best that there could be.
    fn meanwhile(
        &self,
        wanted: &BTreeSet<ContentHash>,
        converter_version: u32,
    ) -> Option<Stored<IndexRecord>> {
        self.indexes
            .iter()
            .filter(|index| index.body.converter_version == converter_version)
            .filter(|index| {
                let there = |hash: &ContentHash| {
                    self.artifacts
                        .iter()
                        .any(|artifact| artifact.body.sha256 == *hash)
                };
                !index.body.sources.is_empty() && index.body.sources.iter().all(there)
            })
            .max_by_key(|index| {
                let shared = index.body.sources.intersection(wanted).count();
                (index.body.quality, shared, Reverse(index.name))
            })
            .cloned()
    }

    /// The sets of files to make an index from, the best debug file first: one on which the
    /// converter fails must not hide the next one. Beside each debug file's plans stands the one
    /// without a package, for when all packages are of no use.
    fn plans(&self) -> Vec<(Vec<Plan>, Option<Plan>)> {
        let executable = self.best(ArtifactKind::Executable).cloned();
        let packages = distinct(self.of_kind(ArtifactKind::Dwp), PACKAGES_MAX);
        let debug_files = distinct(self.of_kind(ArtifactKind::Debuginfo), PLANS_MAX - 1);
        let mut debug_files: Vec<_> = debug_files.into_iter().map(Some).collect();
        if executable.is_some() {
            debug_files.push(None);
        }
        let mut plans: Vec<(Vec<Plan>, Option<Plan>)> = Vec::new();
        for debuginfo in debug_files {
            let plan = |dwp| Plan {
                debuginfo: debuginfo.clone(),
                executable: executable.clone(),
                dwp,
            };
            let bare = plan(None);
            if plans
                .last()
                .and_then(|(first, without)| without.as_ref().or_else(|| first.first()))
                .is_some_and(|known| known.sources() == bare.sources())
            {
                continue;
            }
            plans.push(if packages.is_empty() {
                (vec![bare], None)
            } else {
                let with = packages.iter().cloned().map(|dwp| plan(Some(dwp)));
                (with.collect(), Some(bare))
            });
        }
        plans
    }
}

/// The first files that differ in content.
fn distinct<'a>(
    files: impl Iterator<Item = &'a Stored<ArtifactRecord>>,
    count_max: usize,
) -> Vec<Stored<ArtifactRecord>> {
    let mut seen = BTreeSet::new();
    files
        .filter(|file| seen.insert(file.body.sha256))
        .take(count_max)
        .cloned()
        .collect()
}

/// Larger is better: quality, then damage, then how many files and how much they gave; the earlier
/// one of two equals.
fn goodness(index: &Stored<IndexRecord>) -> impl Ord + use<> {
    let body = &index.body;
    (
        body.quality,
        Reverse(body.units_failed),
        body.needs_supplement.is_none(),
        body.sources.len(),
        (body.lines, body.functions),
        Reverse(index.name),
    )
}

impl State {
    /// Every set of files that an index may be made from.
    pub(super) fn every_plan(&self) -> Vec<Plan> {
        let plans = self.plans().into_iter();
        plans
            .flat_map(|(with, without)| with.into_iter().chain(without))
            .collect()
    }

    /// The plan that was carried out when an index was made, if it would be carried out again.
    pub fn plan_of(&self, index: &IndexRecord) -> Option<Plan> {
        let mut plans = self.every_plan().into_iter();
        plans.find(|plan| plan.sources() == index.sources)
    }
}

impl Plan {
    /// The build ID of the supplementary file that its debug file asks for.
    pub fn supplement(&self) -> Option<&BuildId> {
        let asks = self.debuginfo.as_ref().or(self.executable.as_ref())?;
        Some(&asks.body.elf.as_ref()?.supplement.as_ref()?.build_id)
    }

    /// The hashes of its files.
    pub fn sources(&self) -> BTreeSet<ContentHash> {
        [&self.debuginfo, &self.executable, &self.dwp]
            .into_iter()
            .flatten()
            .map(|artifact| artifact.body.sha256)
            .collect()
    }
}
