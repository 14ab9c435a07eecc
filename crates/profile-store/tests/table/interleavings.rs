//! Every interleaving and every prefix of a few writes: two that ingest, one of them again what the other
//! sent, two that compact what they saw when they listed, and one that reads in two pages.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use unhex_profile_store::table::names::{FileKind, PublishId, RECORDS, SEGMENTS};

use crate::objects::{minute, publish, segment};
use crate::rule::{Job, Rule, Written};
use crate::store::{Lister, Object, Row, Store, View};

/// One step of somebody.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A segment is put: the minute, its content, and so its row.
    Put(i64, u8),
    /// A compaction lists and plans.
    Plan(PublishId),
    /// It puts its outputs.
    PutOutputs,
    /// It puts its record.
    PutRecord,
    /// A reading lists one more record.
    ListRecord,
    /// It lists what is left of the records.
    ListRecords,
    /// It lists the segments.
    ListSegments,
}

/// Where everybody is.
#[derive(Clone, Debug, Hash)]
struct Situation {
    store: Store,
    /// How many of its steps each has done.
    done: Vec<usize>,
    /// What each compaction is about to write.
    plans: Vec<Option<Written>>,
    /// What the reading has listed, and the rows that were there before it began.
    reading: Lister,
    there_before: Option<BTreeSet<u32>>,
}

/// What the exploration found.
#[derive(Debug, Default)]
struct Found {
    situations: BTreeSet<u64>,
    readings: usize,
    wrong: usize,
}

fn compaction(id: PublishId) -> [Step; 3] {
    [Step::Plan(id), Step::PutOutputs, Step::PutRecord]
}

/// The steps of everybody; those of the reading are given.
fn programs(reading: &[Step]) -> Vec<Vec<Step>> {
    // The IDs of the second are between those of the first.
    let twice = [compaction(publish(71, 1)), compaction(publish(73, 3))].concat();
    let once = compaction(publish(72, 2));
    vec![
        vec![Step::Put(1, 1), Step::Put(2, 2)],
        vec![Step::Put(3, 1)],
        twice,
        once.to_vec(),
        reading.to_vec(),
    ]
}

impl Situation {
    fn new(programs: &[Vec<Step>]) -> Self {
        Self {
            store: Store::default(),
            done: vec![0; programs.len()],
            plans: vec![None; programs.len()],
            reading: Lister::new(vec![RECORDS]),
            there_before: None,
        }
    }

    /// The rows that were put.
    fn there(&self) -> BTreeSet<u32> {
        let segments = self
            .store
            .0
            .iter()
            .filter(|(key, _)| key.starts_with(SEGMENTS));
        let rows = segments.filter_map(|(key, _)| self.store.rows(key));
        rows.flatten().map(|row| row.number).collect()
    }

    fn begin_reading(&mut self) {
        let there = self.there();
        self.there_before.get_or_insert(there);
    }

    fn list(&mut self, records: usize) {
        self.begin_reading();
        self.reading.page(&self.store, records);
    }

    fn take(&mut self, rule: Rule, who: usize, step: Step) {
        match step {
            Step::Put(at, content) => {
                let number = u32::from(content);
                let rows = vec![Row {
                    number,
                    service: "a",
                }];
                self.store
                    .put(&segment(at, content).to_string(), Object::Rows(rows));
            }
            Step::Plan(id) => {
                let job = rule.job(&self.store.view(), minute(70));
                self.plans[who] = job.map(|job| written(&self.store, id, &job));
            }
            Step::PutOutputs => {
                for (key, rows) in self.plans[who].iter().flat_map(|plan| plan.files.clone()) {
                    self.store.put(&key, Object::Rows(rows));
                }
            }
            Step::PutRecord => {
                if let Some(Written { record, .. }) = self.plans[who].take() {
                    self.store.put(&record.0, Object::Json(record.1));
                }
            }
            Step::ListRecord => self.list(1),
            Step::ListRecords => self.list(usize::MAX),
            Step::ListSegments => {
                self.begin_reading();
                self.reading.extend(self.store.keys_below(SEGMENTS));
            }
        }
        self.done[who] += 1;
    }
}

fn written(store: &Store, id: PublishId, job: &Job) -> Written {
    let rows = FileKind::ALL.map(|kind| {
        let inputs = job.inputs(kind);
        let files = inputs
            .iter()
            .map(|input| (input, store.rows(&input.key).unwrap()));
        files.flat_map(|(input, file)| input.rows(file)).collect()
    });
    job.written(id, rows)
}

/// Whether a reading has each of these rows once, and no other more than once.
fn is_right(rule: Rule, store: &Store, view: &View, expected: &BTreeSet<u32>) -> bool {
    FileKind::ALL.into_iter().all(|kind| {
        let inputs = rule.live(view, kind);
        let files = inputs
            .iter()
            .map(|input| (input, store.rows(&input.key).unwrap()));
        let rows = files.flat_map(|(input, file)| input.rows(file));
        let mut rows: Vec<u32> = rows.map(|row| row.number).collect();
        let all = rows.len();
        rows.sort_unstable();
        rows.dedup();
        rows.len() == all && expected.iter().all(|row| rows.contains(row))
    })
}

/// Goes on in every way from a situation, each of which is looked at once.
fn explore(rule: Rule, programs: &[Vec<Step>], from: &Situation, found: &mut Found) {
    let mut hash = DefaultHasher::new();
    from.hash(&mut hash);
    if !found.situations.insert(hash.finish()) {
        return;
    }
    found.readings += 1;
    let there = from.there();
    if !is_right(rule, &from.store, &from.store.view(), &there) {
        found.wrong += 1;
    }
    for (who, program) in programs.iter().enumerate() {
        let Some(&step) = program.get(from.done[who]) else {
            continue;
        };
        let mut next = from.clone();
        next.take(rule, who, step);
        let is_reading = matches!(
            step,
            Step::ListRecord | Step::ListRecords | Step::ListSegments
        );
        if is_reading && next.done[who] == program.len() {
            found.readings += 1;
            let view = next.reading.clone().read_records(&next.store);
            let view = view.expect("nothing is swept");
            let before = next.there_before.clone().unwrap_or_default();
            if !is_right(rule, &next.store, &view, &before) {
                found.wrong += 1;
            }
        }
        explore(rule, programs, &next, found);
    }
}

fn explored(rule: Rule, programs: &[Vec<Step>]) -> Found {
    let mut found = Found::default();
    explore(rule, programs, &Situation::new(programs), &mut found);
    found
}

/// A reading whose LIST of the records has pages.
const PAGED: [Step; 3] = [Step::ListRecord, Step::ListRecords, Step::ListSegments];

#[test]
fn in_every_interleaving_and_at_every_prefix_each_row_counts_once() {
    let readings = [PAGED.to_vec(), vec![Step::ListSegments, Step::ListRecords]];
    for reading in readings {
        let found = explored(Rule::Closure, &programs(&reading));
        assert_eq!(found.wrong, 0, "of {} readings", found.readings);
        assert!(found.situations.len() > 1_000, "{}", found.situations.len());
    }
}

#[test]
fn the_naive_rule_is_wrong_in_some_interleaving() {
    let mut programs = programs(&PAGED);
    // Without the resend, which that rule does not know.
    programs[1].clear();
    let found = explored(Rule::Naive, &programs);
    assert!(found.wrong > 0, "of {} readings", found.readings);
    let ours = explored(Rule::Closure, &programs);
    assert_eq!(ours.wrong, 0, "of {} readings", ours.readings);
}
