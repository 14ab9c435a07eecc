//! Which index the state of a build ID has or wants, and from which files it is to be made.
//!
//! A debug file on which the converter fails does not hide the next one; a set of files is tried
//! once per version of the converter.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use unhex_build_id::BuildId;

use super::content_hash::ContentHash;
use super::located::{ArtifactKind, IndexFailure};
use super::record::{ArtifactRecord, IndexRecord};
use super::state::{State, Stored};

/// How many sets of sources are tried before a failure is final: each costs a conversion.
const PLANS_MAX: usize = 4;

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
    /// The converter failed on these files, each time.
    Failed(IndexFailure),
}

impl State {
    /// What is known of the symbol index that a converter of this version makes or made.
    pub fn index(&self, converter_version: u32) -> IndexStanding {
        let mut first_failure = None;
        for plan in self.plans() {
            let sources = plan.sources();
            // Of two by the same converter the one that had the supplementary file.
            let same = self.indexes.iter().filter(|index| {
                index.body.converter_version == converter_version && index.body.sources == sources
            });
            let best = same.max_by_key(|index| {
                let whole = index.body.needs_supplement.is_none();
                (whole, index.body.supplement.is_some(), Reverse(index.name))
            });
            if let Some(index) = best {
                return IndexStanding::Ready(index.clone());
            }
            let failure = self.failures.iter().find(|failure| {
                failure.body.converter_version == converter_version
                    && failure.body.sources == sources
            });
            let Some(failure) = failure else {
                let meanwhile = self.meanwhile(&plan, converter_version);
                let plan = Box::new(plan);
                return IndexStanding::Wanted { plan, meanwhile };
            };
            first_failure.get_or_insert_with(|| failure.body.failure.clone());
        }
        first_failure.map_or(IndexStanding::NoSources, IndexStanding::Failed)
    }

    /// An index by the same converter from files that are still there: it is right, only not the
    /// best that there could be.
    fn meanwhile(&self, plan: &Plan, converter_version: u32) -> Option<Stored<IndexRecord>> {
        let wanted = plan.sources();
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
                let shared = index.body.sources.intersection(&wanted).count();
                (index.body.quality, shared, Reverse(index.name))
            })
            .cloned()
    }

    /// The sets of files to make an index from, the best first: a debug file on which the converter
    /// fails must not hide the next one.
    fn plans(&self) -> Vec<Plan> {
        let executable = self.best(ArtifactKind::Executable).cloned();
        let dwp = self.best(ArtifactKind::Dwp).cloned();
        let mut debug_files: Vec<Option<Stored<ArtifactRecord>>> = Vec::new();
        for artifact in self.of_kind(ArtifactKind::Debuginfo) {
            let again = |known: &Option<Stored<ArtifactRecord>>| {
                known
                    .as_ref()
                    .is_some_and(|known| known.body.sha256 == artifact.body.sha256)
            };
            if !debug_files.iter().any(again) {
                debug_files.push(Some(artifact.clone()));
            }
        }
        debug_files.truncate(PLANS_MAX - 1);
        if executable.is_some() {
            debug_files.push(None);
        }
        let mut plans: Vec<Plan> = debug_files
            .into_iter()
            .map(|debuginfo| Plan {
                debuginfo,
                executable: executable.clone(),
                dwp: dwp.clone(),
            })
            .collect();
        plans.dedup_by_key(|plan| plan.sources());
        plans
    }
}

impl State {
    /// The plan that was carried out when an index was made, if it would be carried out again.
    pub fn plan_of(&self, index: &IndexRecord) -> Option<Plan> {
        let mut plans = self.plans().into_iter();
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
