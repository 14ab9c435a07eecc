//! Rules by which a table is read and compacted: ours, and one that looks right and is not, so that it is
//! seen that the tests can fail.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use unhex_profile_store::table::fold::{HourState, LiveFile, ReadRecords, fold};
use unhex_profile_store::table::names::{
    ContentHash, FileKind, Listing, ObjectName, Output, OutputName, PublishId, RecordKind,
    RecordName, SEGMENTS,
};
use unhex_profile_store::table::plan::{self, CompactionPlan, CompactionPolicy};
use unhex_profile_store::table::record::{Record, RowSelector};

use crate::objects::{hour, minute};
use crate::store::{Row, View};

/// A file to read, without the rows that any of these selects.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    pub(crate) key: String,
    pub(crate) deleted: Vec<RowSelector>,
}

/// A compaction to do.
#[derive(Clone, Debug)]
pub(crate) enum Job {
    Closure(CompactionPlan),
    Naive {
        inputs: Vec<String>,
        generation: u64,
    },
}

/// What a compaction writes: its files, then its record.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Written {
    pub(crate) files: Vec<(String, Vec<Row>)>,
    pub(crate) record: (String, Vec<u8>),
}

/// How a table is read and compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The crate's.
    Closure,
    /// Records name what they read, outputs too, and the older generation goes first.
    Naive,
}

impl Rule {
    /// The files that have the rows of a kind, as far as one sees.
    pub(crate) fn live(self, view: &View, kind: FileKind) -> Vec<Input> {
        match self {
            Self::Closure => {
                let state = state(view, minute(0));
                let files = state.map(|state| state.live(kind)).unwrap_or_default();
                files.iter().map(Input::of).collect()
            }
            Self::Naive => {
                let (live, _) = naive(view);
                let word = format!(".{}.", kind.as_str());
                let of_kind = |key: &String| key.starts_with(SEGMENTS) || key.contains(&word);
                let keys = live.into_iter().filter(of_kind);
                let deleted = Vec::new;
                keys.map(|key| Input {
                    key,
                    deleted: deleted(),
                })
                .collect()
            }
        }
    }

    /// What to compact of what one sees.
    pub(crate) fn job(self, view: &View, now: Timestamp) -> Option<Job> {
        match self {
            Self::Closure => {
                // At once, so that there is more to go wrong.
                let policy = CompactionPolicy {
                    settle: SignedDuration::ZERO,
                    ..CompactionPolicy::default()
                };
                plan::compaction(&state(view, minute(0))?, &policy, now).map(Job::Closure)
            }
            Self::Naive => {
                let (live, generation) = naive(view);
                let is_fresh = live.iter().any(|key| key.starts_with(SEGMENTS));
                let inputs = live.into_iter().collect();
                let generation = generation + 1;
                is_fresh.then_some(Job::Naive { inputs, generation })
            }
        }
    }

    /// What may be swept of what was listed since `began`.
    pub(crate) fn sweepable(self, view: &View, began: Timestamp) -> Vec<String> {
        match self {
            Self::Closure => {
                let names = state(view, began).map(|state| state.sweepable());
                names.iter().flatten().map(ToString::to_string).collect()
            }
            Self::Naive => Vec::new(),
        }
    }
}

impl Input {
    fn of(live: &LiveFile) -> Self {
        Self {
            key: live.file.to_string(),
            deleted: live.deleted().cloned().collect(),
        }
    }

    /// The rows of a file that count.
    pub(crate) fn rows<'a>(&'a self, file: &'a [Row]) -> impl Iterator<Item = Row> + 'a {
        let all = file.iter().copied();
        all.filter(|row| {
            !self
                .deleted
                .iter()
                .any(|rows| rows.matches(|_| row.service))
        })
    }
}

impl Job {
    /// What to read for the outputs of a kind.
    pub(crate) fn inputs(&self, kind: FileKind) -> Vec<Input> {
        match (self, kind) {
            (Self::Closure(plan), FileKind::Samples) => {
                plan.samples.iter().map(Input::of).collect()
            }
            (Self::Closure(plan), FileKind::Totals) => plan.totals.iter().map(Input::of).collect(),
            (Self::Naive { inputs, .. }, kind) => {
                let word = format!(".{}.", kind.as_str());
                let of_kind = |key: &&String| key.starts_with(SEGMENTS) || key.contains(&word);
                let keys = inputs.iter().filter(of_kind).cloned();
                let deleted = Vec::new;
                keys.map(|key| Input {
                    key,
                    deleted: deleted(),
                })
                .collect()
            }
        }
    }

    /// The files and the record, given the rows of both kinds.
    pub(crate) fn written(&self, id: PublishId, rows: [Vec<Row>; 2]) -> Written {
        let files = FileKind::ALL.into_iter().zip(rows);
        let files: Vec<(Output, Vec<Row>)> = files
            .filter(|(_, rows)| !rows.is_empty())
            .map(|(kind, rows)| (output(id, kind, &rows), rows))
            .collect();
        let outputs: Vec<Output> = files.iter().map(|(output, _)| *output).collect();
        let kind = RecordKind::Compaction;
        let key = RecordName {
            hour: hour(),
            id,
            kind,
        }
        .to_string();
        let json = match self {
            Self::Closure(plan) => {
                let record = plan.record(id, outputs, 1);
                Record::Compaction(record.into()).to_json().unwrap()
            }
            Self::Naive { inputs, generation } => {
                let outputs: Vec<String> = outputs.iter().map(|o| o.name.to_string()).collect();
                let json = json!({"generation": generation, "inputs": inputs, "outputs": outputs});
                json.to_string().into_bytes()
            }
        };
        let files = files.into_iter();
        Written {
            files: files
                .map(|(output, rows)| (output.name.to_string(), rows))
                .collect(),
            record: (key, json),
        }
    }
}

fn output(id: PublishId, kind: FileKind, rows: &[Row]) -> Output {
    let name = OutputName {
        hour: hour(),
        id,
        kind,
        sha256: ContentHash::of(format!("{rows:?}").as_bytes()),
        rows: rows.len() as u64,
    };
    Output { name, bytes: 9 }
}

/// The state of the hour as one sees it who began to list then; nothing when nothing was seen.
pub(crate) fn state(view: &View, began: Timestamp) -> Option<HourState> {
    let mut listing = Listing::default();
    listing.add("", began, view.keys.iter().map(|key| (key, 9)));
    assert_eq!(listing.foreign_count(), 0, "{listing:?}");
    let read: ReadRecords = view
        .records
        .iter()
        .map(|(key, json)| {
            let Ok(ObjectName::Record(name)) = key.parse() else {
                panic!("no record: {key}");
            };
            (name.clone(), Record::read(json, &name))
        })
        .collect();
    let folded = fold(&listing, &read).remove(&hour())?;
    Some(folded.expect("records that this program wrote"))
}

/// The live keys by the naive rule, and the highest generation.
fn naive(view: &View) -> (BTreeSet<String>, u64) {
    let mut records: Vec<(u64, &String, Value)> = view
        .records
        .iter()
        .map(|(key, json)| {
            let value: Value = serde_json::from_slice(json).unwrap();
            (value["generation"].as_u64().unwrap(), key, value)
        })
        .collect();
    records.sort_by_key(|(generation, key, _)| (*generation, *key));
    let keys = |value: &Value| -> Vec<String> {
        let keys = value.as_array().unwrap().iter();
        keys.map(|key| key.as_str().unwrap().to_owned()).collect()
    };
    let (mut consumed, mut highest) = (BTreeSet::new(), 0);
    let mut live: BTreeSet<String> = view.keys.iter().cloned().collect();
    live.retain(|key| key.starts_with(SEGMENTS));
    for (generation, _, record) in records {
        let inputs = keys(&record["inputs"]);
        if inputs.iter().any(|input| consumed.contains(input)) {
            continue;
        }
        highest = generation;
        live.extend(keys(&record["outputs"]));
        consumed.extend(inputs);
    }
    live.retain(|key| !consumed.contains(key));
    (live, highest)
}
