//! Which build IDs nobody wants to hear of: the kernel's vDSO, file names by pattern, and those that
//! somebody ignored with a reason.
//!
//! What somebody ignored is an immutable record in the object store, and so is taking it back; the
//! one of a build ID counts that knew of the others, whoever wrote it and in whatever order they are
//! read.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;

use serde::{Deserialize, Serialize};
use unhex_build_id::Identity;

use crate::artifacts::UploadId;
use crate::glob::{Dialect, Glob};

/// What the kernel maps into every process; nobody has debug files of it.
const OF_THE_KERNEL: [&str; 5] = [
    "[vdso]",
    "[vsyscall]",
    "linux-vdso.so.1",
    "linux-vdso32.so.1",
    "linux-gate.so.1",
];

/// The version of the records that this program writes.
pub(super) const RECORD_VERSION: u32 = 1;

/// One decision about a build ID: to ignore it, or to ignore it no longer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IgnoreRecord {
    /// The version of this format.
    pub version: u32,
    /// The build ID or other identity.
    pub identity: Identity,
    /// One more than that of every decision on the same build ID that was known: the highest counts.
    #[serde(default)]
    pub number: u64,
    /// What makes it unique, with the time: of two that did not know of each other the later counts.
    pub decision: UploadId,
    /// Why it is ignored; absent when it is ignored no longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The name of the token or user, when the request was authenticated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
}

impl IgnoreRecord {
    /// Of two decisions on one build ID the one of higher rank counts.
    pub(super) fn rank(&self) -> (u64, UploadId) {
        (self.number, self.decision)
    }
}

/// Modules that never count, and decisions about single ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Ignored {
    /// Patterns, and whether each is for the whole name with its folders.
    globs: Vec<(Glob, bool)>,
    latest: BTreeMap<Identity, IgnoreRecord>,
}

impl Ignored {
    /// Ignores file names that match one of `globs`.
    pub(super) fn new(globs: &[String]) -> Self {
        let parse = |glob: &String| (Glob::new(glob, Dialect::Names), glob.contains('/'));
        Self {
            globs: globs.iter().map(parse).collect(),
            latest: BTreeMap::new(),
        }
    }

    /// Takes a decision in; an older one than is known changes nothing.
    pub(super) fn add(&mut self, record: IgnoreRecord) {
        match self.latest.entry(record.identity.clone()) {
            Entry::Vacant(free) => {
                free.insert(record);
            }
            Entry::Occupied(mut known) if known.get().rank() < record.rank() => {
                known.insert(record);
            }
            Entry::Occupied(_) => {}
        }
    }

    /// Forgets all decisions but those that `records` are.
    pub(super) fn replace(&mut self, records: impl IntoIterator<Item = IgnoreRecord>) {
        self.latest.clear();
        records.into_iter().for_each(|record| self.add(record));
    }

    /// The decision by which a build ID is ignored.
    pub(super) fn decision(&self, identity: &Identity) -> Option<&IgnoreRecord> {
        let record = self.latest.get(identity)?;
        record.reason.is_some().then_some(record)
    }

    /// All decisions by which build IDs are ignored, behind `after` in order of their identities.
    pub(super) fn decisions(
        &self,
        after: Option<&Identity>,
    ) -> impl Iterator<Item = &IgnoreRecord> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let records = self.latest.range((from, Bound::Unbounded));
        records
            .map(|(_, record)| record)
            .filter(|record| record.reason.is_some())
    }

    /// Whether files of that name never count.
    pub(super) fn is_name_ignored(&self, name: &str) -> bool {
        let last = name.rsplit('/').next().unwrap_or(name);
        OF_THE_KERNEL.contains(&last)
            || self.globs.iter().any(|(glob, is_for_path)| {
                let wanted = if *is_for_path { name } else { last };
                glob.matches(wanted)
            })
    }

    /// Whether a module never counts.
    pub(super) fn is_ignored(&self, identity: Option<&Identity>, name: Option<&str>) -> bool {
        identity.is_some_and(|identity| self.decision(identity).is_some())
            || name.is_some_and(|name| self.is_name_ignored(name))
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn record(millis: u64, reason: Option<&str>) -> IgnoreRecord {
        IgnoreRecord {
            version: RECORD_VERSION,
            identity: Identity::Gnu("ab01".parse().unwrap()),
            number: 1,
            decision: UploadId::new(UNIX_EPOCH + Duration::from_millis(millis), [0; 10]),
            reason: reason.map(str::to_owned),
            who: None,
        }
    }

    #[test]
    fn a_name_is_matched_by_its_last_part_and_the_vdso_always() {
        let ignored = Ignored::new(&["libcuda*".to_owned(), "/opt/*/x".to_owned()]);
        for name in [
            "[vdso]",
            "linux-vdso.so.1",
            "/usr/lib/libcuda.so.1",
            "/opt/a/x",
        ] {
            assert!(ignored.is_name_ignored(name), "{name}");
        }
        for name in ["", "vdso", "libc.so.6", "/opt/x"] {
            assert!(!ignored.is_name_ignored(name), "{name}");
        }
    }

    #[test]
    fn the_latest_decision_counts_in_whatever_order_they_come() {
        let (early, late) = (record(1, Some("vendor")), record(2, None));
        let identity = &early.identity;
        let mut ignored = Ignored::default();
        ignored.replace([late.clone(), early.clone()]);
        assert_eq!(ignored.decision(identity), None);
        ignored.replace([early.clone()]);
        assert_eq!(ignored.decision(identity), Some(&early));
        ignored.add(late);
        assert!(!ignored.is_ignored(Some(identity), None));
    }

    #[test]
    fn a_decision_that_knew_of_another_beats_it_whatever_the_clocks_said() {
        let by_fast_clock = record(9_000, None);
        let mut by_slow_clock = record(1, Some("vendor"));
        by_slow_clock.number = 2;
        let identity = &by_slow_clock.identity;
        let mut ignored = Ignored::default();
        ignored.replace([by_slow_clock.clone(), by_fast_clock]);
        assert_eq!(ignored.decision(identity), Some(&by_slow_clock));
    }
}
