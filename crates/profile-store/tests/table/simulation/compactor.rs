//! Who compacts, and who sweeps.

use jiff::Timestamp;
use unhex_profile_store::table::names::{FileKind, PublishId, RECORDS, SEGMENTS};

use super::Replica;
use super::world::World;
use crate::rule::{Job, Written};
use crate::store::{FOLDERS, Lister, Object, Row};

/// Compacts what it saw when it listed, however long ago that is.
#[derive(Debug, Default)]
pub(super) enum Compactor {
    #[default]
    Idle,
    Lists(PublishId, Lister),
    Reads(PublishId, Job),
    Writes(PublishId, Written),
}

/// Removes what may be removed, an object a step.
#[derive(Debug, Default)]
pub(super) enum Sweeper {
    #[default]
    Idle,
    Lists(Timestamp, Lister),
    /// The keys in reverse.
    Removes(Vec<String>),
}

impl Replica for Compactor {
    fn is_idle(&self) -> bool {
        matches!(self, Self::Idle)
    }

    fn step(&mut self, world: &mut World) {
        let before = std::mem::take(self);
        if world.dies() {
            return;
        }
        *self = match before {
            Self::Idle => {
                let id = world.publish();
                Self::Lists(id, Lister::new(folders(world, &[SEGMENTS, RECORDS])))
            }
            Self::Lists(id, mut lister) => {
                let keys = 1 + world.random.below(12);
                if lister.page(&world.store, keys) {
                    Self::Lists(id, lister)
                } else {
                    let view = lister.read_records(&world.store);
                    let job = view.and_then(|view| world.config.rule.job(&view, world.now));
                    job.map_or(Self::Idle, |job| Self::Reads(id, job))
                }
            }
            Self::Reads(id, job) => match read(world, &job) {
                Some(rows) => Self::Writes(id, job.written(id, rows)),
                // It was stale for a day: what it wants to read was swept.
                None => Self::Idle,
            },
            Self::Writes(id, mut written) => {
                if !world.may_publish(id) {
                    Self::Idle
                } else if let Some((key, rows)) = written.files.pop() {
                    world.store.put(&key, Object::Rows(rows));
                    Self::Writes(id, written)
                } else {
                    let (key, json) = written.record;
                    world.store.put(&key, Object::Json(json));
                    world.found.published += 1;
                    Self::Idle
                }
            }
        };
    }
}

fn read(world: &World, job: &Job) -> Option<[Vec<Row>; 2]> {
    let read = |kind| {
        let mut rows = Vec::new();
        for input in job.inputs(kind) {
            rows.extend(input.rows(world.store.rows(&input.key)?));
        }
        Some(rows)
    };
    Some([read(FileKind::Samples)?, read(FileKind::Totals)?])
}

/// The folders in any order.
pub(super) fn folders(world: &mut World, folders: &[&'static str]) -> Vec<&'static str> {
    let mut folders = folders.to_vec();
    let turned = world.random.below(folders.len());
    folders.rotate_left(turned);
    folders
}

impl Replica for Sweeper {
    fn is_idle(&self) -> bool {
        matches!(self, Self::Idle)
    }

    fn step(&mut self, world: &mut World) {
        let before = std::mem::take(self);
        if world.dies() {
            return;
        }
        *self = match before {
            Self::Idle => Self::Lists(world.now, Lister::new(folders(world, &FOLDERS))),
            Self::Lists(began, mut lister) => {
                let keys = 1 + world.random.below(30);
                if lister.page(&world.store, keys) {
                    Self::Lists(began, lister)
                } else {
                    let as_of = began + world.config.sweeps_early;
                    let view = lister.read_records(&world.store);
                    let rule = world.config.rule;
                    let keys = view.map(|view| rule.sweepable(&view, as_of));
                    Self::Removes(keys.into_iter().flatten().rev().collect())
                }
            }
            Self::Removes(mut keys) => match keys.pop() {
                None => Self::Idle,
                Some(key) => {
                    // The other sweeper may have been here.
                    world.found.swept += usize::from(world.store.0.remove(&key).is_some());
                    Self::Removes(keys)
                }
            },
        };
    }
}
