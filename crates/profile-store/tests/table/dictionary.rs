//! The dictionary: nothing that was put before a LIST began is missing from what is live by that LIST, whatever merges, sweeps and crashes happen between
//! its pages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use unhex_profile_store::table::dictionary::{
    DictionaryFile, DictionaryListing, DictionaryName, DictionaryObject, DictionaryState,
    DictionaryTable, Merge, MergeName,
};
use unhex_profile_store::table::names::{ContentHash, PublishId};

use crate::objects::hour;

type Facts = BTreeSet<u32>;

#[derive(Clone, Debug)]
enum Object {
    File(Facts),
    Record(Vec<u8>),
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A replica puts a new fact, or one that is there.
    Append {
        is_new: bool,
    },
    /// A merger, sweeper or reader begins, gets the next page, or does what it does next.
    Go(usize),
    /// One of them dies.
    Die(usize),
    Pass {
        hours: i64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Merge,
    Sweep,
    Read,
}

/// Somebody at work: a LIST page by page, then its role.
#[derive(Clone, Debug)]
struct Worker {
    role: Role,
    began: Timestamp,
    /// What was there when it began.
    facts: Facts,
    after: String,
    keys: Vec<String>,
    /// What remains to be done, one a step.
    puts: Vec<(String, Object)>,
    deletes: Vec<String>,
    is_listed: bool,
}

struct World {
    now: Timestamp,
    number: u32,
    objects: BTreeMap<String, Object>,
    facts: Facts,
    workers: [Option<Worker>; 4],
    readings: u32,
}

const ROLES: [Role; 4] = [Role::Merge, Role::Merge, Role::Sweep, Role::Read];

fn file(id: PublishId, facts: &Facts) -> DictionaryName {
    DictionaryName {
        hour: hour(),
        id,
        table: DictionaryTable::Stacks,
        sha256: ContentHash::of(format!("{facts:?}").as_bytes()),
        rows: facts.len().max(1) as u64,
    }
}

impl World {
    fn new() -> Self {
        Self {
            now: hour().start(),
            number: 0,
            objects: BTreeMap::new(),
            facts: Facts::new(),
            workers: [const { None }; 4],
            readings: 0,
        }
    }

    fn publish(&mut self) -> PublishId {
        self.number += 1;
        self.now += SignedDuration::from_secs(1);
        let mut random = [0; 10];
        random[..4].copy_from_slice(&self.number.to_be_bytes());
        PublishId::new(self.now, random)
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Append { is_new } => {
                let id = self.publish();
                let fact = if is_new { self.number } else { 1 };
                let facts = Facts::from([fact]);
                let name = file(id, &facts);
                self.objects.insert(name.to_string(), Object::File(facts));
                self.facts.insert(fact);
            }
            Step::Go(which) => self.go(which),
            Step::Die(which) => self.workers[which] = None,
            Step::Pass { hours } => {
                // Whoever is at work gives up within an hour.
                self.workers = [const { None }; 4];
                self.now += SignedDuration::from_hours(hours);
            }
        }
    }

    fn go(&mut self, which: usize) {
        let Some(mut worker) = self.workers[which].take() else {
            self.workers[which] = Some(Worker {
                role: ROLES[which],
                began: self.now,
                facts: self.facts.clone(),
                after: String::new(),
                keys: Vec::new(),
                puts: Vec::new(),
                deletes: Vec::new(),
                is_listed: false,
            });
            return;
        };
        if !worker.is_listed {
            let page = self.objects.keys().filter(|key| **key > worker.after);
            let page: Vec<String> = page.take(3).cloned().collect();
            worker.is_listed = page.len() < 3;
            worker.after = page.last().cloned().unwrap_or(worker.after);
            worker.keys.extend(page);
            if !worker.is_listed || self.fold(&mut worker) {
                self.workers[which] = Some(worker);
            }
            return;
        }
        if let Some((key, object)) = worker.puts.pop() {
            self.objects.insert(key, object);
            self.workers[which] = Some(worker);
        } else if let Some(key) = worker.deletes.pop() {
            self.objects.remove(&key);
            self.workers[which] = Some(worker);
        }
    }

    fn state(&self, keys: &[String]) -> Option<DictionaryState> {
        let (mut listing, mut merges) = (DictionaryListing::default(), Vec::new());
        for key in keys {
            listing.add(key, 1);
        }
        for &name in &listing.merges {
            // Swept meanwhile: list again.
            let Object::Record(json) = self.objects.get(&name.to_string())? else {
                panic!("{name} is no record");
            };
            merges.push(Arc::new(Merge::read(json, name).unwrap()));
        }
        Some(DictionaryState::of(hour(), &listing, merges))
    }

    /// What is live, if all of it is still there.
    fn read(&self, state: &DictionaryState) -> Option<(Vec<DictionaryFile>, Facts)> {
        let files: Vec<DictionaryFile> = state.live(DictionaryTable::Stacks).collect();
        let mut facts = Facts::new();
        for file in &files {
            match self.objects.get(&file.name.to_string())? {
                Object::File(said) => facts.extend(said),
                Object::Record(_) => panic!("{file:?} is no file"),
            }
        }
        Some((files, facts))
    }

    /// Whether there is more to do.
    fn fold(&mut self, worker: &mut Worker) -> bool {
        let Some(state) = self.state(&worker.keys) else {
            return false;
        };
        match worker.role {
            Role::Read => {
                if let Some((_, facts)) = self.read(&state) {
                    let missing: Vec<&u32> = worker.facts.difference(&facts).collect();
                    assert!(missing.is_empty(), "{missing:?} of {state:?}");
                    self.readings += 1;
                }
                false
            }
            Role::Sweep => {
                let swept = state.sweepable(worker.began);
                worker.deletes = swept.iter().rev().map(ToString::to_string).collect();
                true
            }
            Role::Merge => {
                let Some((files, facts)) = self.read(&state) else {
                    return false;
                };
                if state.plan(2).is_none() {
                    return false;
                }
                // Its ID is older than its LIST.
                let mut random = [0; 10];
                self.number += 1;
                random[..4].copy_from_slice(&self.number.to_be_bytes());
                let id = PublishId::new(worker.began, random);
                let name = file(id, &facts);
                let merge = Merge {
                    id,
                    hour: hour(),
                    outputs: vec![DictionaryFile { name, bytes: 1 }],
                    replaces: files.iter().map(|file| file.name).collect(),
                };
                let record: MergeName = merge.name();
                let json = merge.to_json().unwrap();
                worker.puts = vec![
                    (record.to_string(), Object::Record(json)),
                    (name.to_string(), Object::File(facts)),
                ];
                true
            }
        }
    }

    /// A reading of one instant.
    fn check(&self) {
        let keys: Vec<String> = self.objects.keys().cloned().collect();
        let state = self.state(&keys).expect("all records are there");
        let (_, facts) = self.read(&state).expect("all files are there");
        assert_eq!(facts, self.facts, "{state:?}");
    }
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => any::<bool>().prop_map(|is_new| Step::Append { is_new }),
        16 => (0..4_usize).prop_map(Step::Go),
        1 => (0..4_usize).prop_map(Step::Die),
        1 => prop_oneof![Just(1), Just(25)].prop_map(|hours| Step::Pass { hours }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn nothing_is_missing_whatever_is_merged_and_swept_between_the_pages_of_a_list(
        steps in proptest::collection::vec(any_step(), 1..150)
    ) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
            world.check();
        }
    }

    #[test]
    fn any_subset_of_the_objects_in_any_order_lacks_only_what_was_not_listed(
        steps in proptest::collection::vec(any_step(), 1..120),
        subset in proptest::collection::vec(any::<bool>(), 200),
    ) {
        let mut world = World::new();
        for step in steps.into_iter().filter(|step| !matches!(step, Step::Pass { .. })) {
            world.step(step);
        }
        // Without sweeps every file is there: what a subset of the listing shows is said by what is live of it.
        let shown = world.objects.keys().zip(subset).filter(|(_, is_shown)| *is_shown);
        let mut keys: Vec<String> = shown.map(|(key, _)| key.clone()).collect();
        let listed = keys.iter().filter_map(|key| match &world.objects[key] {
            Object::File(facts) => Some(facts.clone()),
            Object::Record(_) => None,
        });
        let listed: Facts = listed.flatten().collect();
        let state = world.state(&keys).unwrap();
        let (_, facts) = world.read(&state).unwrap();
        prop_assert!(facts.is_superset(&listed), "{:?}", state);
        keys.reverse();
        prop_assert_eq!(world.state(&keys).unwrap(), state);
    }
}

#[test]
fn all_that_was_replaced_goes_in_the_end_and_its_records_too() {
    let mut world = World::new();
    let work = |world: &mut World, which: usize| {
        world.go(which);
        while world.workers[which].is_some() {
            world.go(which);
        }
    };
    for _ in 0..3 {
        for _ in 0..4 {
            world.step(Step::Append { is_new: true });
        }
        work(&mut world, 0);
    }
    assert!(world.objects.len() > 12);
    for _ in 0..4 {
        world.step(Step::Pass { hours: 25 });
        work(&mut world, 2);
        world.check();
    }
    let left: Vec<&String> = world.objects.keys().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    work(&mut world, 3);
    assert_eq!(world.readings, 1);
}

#[test]
fn a_dictionary_is_abandoned_only_when_all_of_it_is_a_day_old() {
    let mut world = World::new();
    world.step(Step::Append { is_new: true });
    world.step(Step::Pass { hours: 25 });
    world.step(Step::Append { is_new: true });
    let keys: Vec<String> = world.objects.keys().cloned().collect();
    let state = world.state(&keys).unwrap();
    assert_eq!(state.abandoned(world.now), []);
    let tomorrow = world.now + SignedDuration::from_hours(25);
    let gone: Vec<String> = state
        .abandoned(tomorrow)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(gone, keys);
}

#[test]
fn a_record_that_was_not_read_hides_nothing_and_stops_merging_and_sweeping() {
    let mut world = World::new();
    world.step(Step::Append { is_new: true });
    world.step(Step::Append { is_new: true });
    let mut listing = DictionaryListing::default();
    for key in world.objects.keys() {
        listing.add(key, 1);
    }
    listing.add("dic/2026-12-01/13/other", 1);
    assert_eq!(listing.foreign_count, 1);
    let whole = DictionaryState::of(hour(), &listing, []);
    assert_eq!(whole.plan(2).map(|plan| plan.files.len()), Some(2));
    assert_eq!(whole.plan(3), None);
    let (hour, id) = (hour(), world.publish());
    listing.add(
        &DictionaryObject::Merge(MergeName { hour, id }).to_string(),
        1,
    );
    let partial = DictionaryState::of(hour, &listing, []);
    assert_eq!(partial.live(DictionaryTable::Stacks).count(), 2);
    assert_eq!(partial.plan(2), None);
    let later = world.now + SignedDuration::from_hours(99);
    assert_eq!(partial.sweepable(later), []);
}
