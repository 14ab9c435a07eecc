//! What the log should have of some hours, and what of that it lacks or has too much of: pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::table::fold::{File, FoldError, HourState};
use crate::table::names::{FileKind, Hour, ObjectName, PublishId, SegmentName};
use crate::table::record::Compaction;

/// What to change in the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Files that count and are not in it.
    pub adds: Vec<NewFile>,
    /// Files that are in it and count no more.
    pub removes: Vec<OldFile>,
    /// Hours that are not shown at all: rows that are deleted are still in their files.
    pub hours_left_out: BTreeSet<Hour>,
}

/// A file to add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    /// Its name.
    pub file: File,
    /// Its length.
    pub bytes: u64,
    /// Whether it brings rows that the log did not have, as opposed to the same in another file.
    pub is_change: bool,
}

/// A file to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldFile {
    /// Its key.
    pub key: String,
    /// Whether its rows go, as opposed to being in another file.
    pub is_change: bool,
}

/// What to change in a log that has the files `listed`, so that of the hours that were looked at it has those that count. An hour of these without a state
/// is gone, one that cannot be folded stays as it is, and so do all others.
pub fn difference<'k>(
    looked_at: &BTreeSet<Hour>,
    states: &BTreeMap<Hour, Result<HourState, FoldError>>,
    listed: impl IntoIterator<Item = &'k str>,
) -> Difference {
    let mut by_hour: BTreeMap<Hour, Listed> = BTreeMap::new();
    let mut difference = Difference::default();
    for key in listed {
        match key.parse() {
            Ok(ObjectName::Segment(name)) => {
                by_hour.entry(name.hour).or_default().segments.insert(name);
            }
            Ok(ObjectName::Output(name)) if name.kind == FileKind::Samples => {
                let of = by_hour.entry(name.hour).or_default();
                of.outputs.insert(key.to_owned(), name.id);
            }
            // Somebody else's: this log has nothing but samples.
            _ => difference.removes.push(OldFile {
                key: key.to_owned(),
                is_change: true,
            }),
        }
    }
    for hour in looked_at {
        let listed = by_hour.remove(hour).unwrap_or_default();
        match states.get(hour) {
            Some(Ok(state)) => of_hour(state, &listed, &mut difference),
            Some(Err(_)) => {}
            None => {
                let gone = listed.keys();
                let gone = gone.map(|key| OldFile {
                    key,
                    is_change: true,
                });
                difference.removes.extend(gone);
            }
        }
    }
    difference
}

/// What the log has of an hour.
#[derive(Debug, Default)]
struct Listed {
    segments: BTreeSet<SegmentName>,
    /// The compactions of outputs by key.
    outputs: BTreeMap<String, PublishId>,
}

impl Listed {
    fn has(&self, file: &File) -> bool {
        match file {
            File::Segment(name) => self.segments.contains(name),
            File::Output(name) => self.outputs.contains_key(&name.to_string()),
        }
    }

    fn keys(&self) -> impl Iterator<Item = String> {
        let segments = self.segments.iter().map(ToString::to_string);
        segments.chain(self.outputs.keys().cloned())
    }
}

fn of_hour(state: &HourState, listed: &Listed, difference: &mut Difference) {
    let mut live = state.live(FileKind::Samples);
    if live.iter().any(|file| !file.unapplied.is_empty()) {
        difference.hours_left_out.insert(state.hour());
        live.clear();
    }
    let content = Content::of(state, listed);
    let wanted: BTreeSet<String> = live.iter().map(|live| live.file.to_string()).collect();
    let new = live.into_iter().filter(|live| !listed.has(&live.file));
    difference.adds.extend(new.map(|live| NewFile {
        is_change: match &live.file {
            File::Segment(name) => !content.shown.contains(name),
            File::Output(name) => !content.is_shown(&name.id),
        },
        file: live.file,
        bytes: live.bytes,
    }));
    let is_emptied = wanted.is_empty();
    let segments = listed.segments.iter().map(|name| OldFile {
        key: name.to_string(),
        is_change: is_emptied || !content.kept.contains(name),
    });
    let outputs = listed.outputs.iter().map(|(key, id)| OldFile {
        key: key.clone(),
        is_change: is_emptied || !content.is_kept(id),
    });
    let old = segments.chain(outputs);
    difference
        .removes
        .extend(old.filter(|old| !wanted.contains(&old.key)));
}

/// Which segments' rows the log has before and after, in whatever files.
struct Content<'s> {
    compactions: BTreeMap<PublishId, &'s Compaction>,
    shown: BTreeSet<SegmentName>,
    kept: BTreeSet<SegmentName>,
}

impl<'s> Content<'s> {
    fn of(state: &'s HourState, listed: &Listed) -> Self {
        let accepted = state.accepted().iter().map(AsRef::as_ref);
        let rejected = state.rejected().iter().map(|of| of.compaction.as_ref());
        let compactions: BTreeMap<PublishId, &Compaction> = accepted
            .clone()
            .chain(rejected)
            .map(|compaction| (compaction.id, compaction))
            .collect();
        let mut shown = listed.segments.clone();
        for id in listed.outputs.values() {
            let base = compactions.get(id).map(|compaction| &compaction.base);
            shown.extend(base.into_iter().flatten().copied());
        }
        let fresh = state.fresh().iter().map(|segment| segment.name);
        let covered = accepted.flat_map(|compaction| compaction.base.iter().copied());
        Self {
            kept: fresh.chain(covered).collect(),
            compactions,
            shown,
        }
    }

    fn is_all_in(&self, id: &PublishId, of: &BTreeSet<SegmentName>) -> bool {
        self.compactions.get(id).is_some_and(|compaction| {
            compaction.applied.is_empty() && compaction.base.iter().all(|name| of.contains(name))
        })
    }

    fn is_shown(&self, id: &PublishId) -> bool {
        self.is_all_in(id, &self.shown)
    }

    fn is_kept(&self, id: &PublishId) -> bool {
        self.is_all_in(id, &self.kept)
    }
}
