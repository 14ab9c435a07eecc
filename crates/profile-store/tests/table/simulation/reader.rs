//! Who reads, and looks whether what it read is right.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use unhex_profile_store::table::names::{FileKind, PUBLISH_MINUTES_MAX, RECORDS, SEGMENTS};
use unhex_profile_store::table::record::Deletion;

use super::Replica;
use super::compactor::folders;
use super::world::World;
use crate::rule::{Input, Rule, state};
use crate::store::{Lister, Row};

/// Lists in pages and reads a few files a step, for an hour at most.
#[derive(Debug, Default)]
pub(super) enum Reader {
    #[default]
    Idle,
    Lists(Began, Lister),
    Reads(Began, Reading),
}

/// What was true when a reading began.
#[derive(Debug)]
pub(super) struct Began {
    at: Timestamp,
    acknowledged: BTreeMap<u32, Row>,
    deletions: usize,
}

/// What is left to read, and how often each row was there, of each kind.
#[derive(Debug)]
pub(super) struct Reading {
    files: Vec<(FileKind, Input)>,
    counts: BTreeMap<FileKind, BTreeMap<u32, usize>>,
}

impl Replica for Reader {
    fn is_idle(&self) -> bool {
        matches!(self, Self::Idle)
    }

    fn step(&mut self, world: &mut World) {
        let longest = SignedDuration::from_mins(PUBLISH_MINUTES_MAX);
        *self = match std::mem::take(self) {
            Self::Idle => {
                let began = Began {
                    at: world.now,
                    acknowledged: world.acknowledged.clone(),
                    deletions: world.deletions.len(),
                };
                Self::Lists(began, Lister::new(folders(world, &[RECORDS, SEGMENTS])))
            }
            Self::Lists(began, _) | Self::Reads(began, _)
                if world.now.duration_since(began.at) > longest =>
            {
                Self::Idle
            }
            Self::Lists(began, mut lister) => {
                let keys = 1 + world.random.below(12);
                if lister.page(&world.store, keys) {
                    Self::Lists(began, lister)
                } else {
                    // A record that is gone was swept: the next reading lists again.
                    let reading = Reading::of(world, lister);
                    reading.map_or(Self::Idle, |reading| Self::Reads(began, reading))
                }
            }
            Self::Reads(began, mut reading) => {
                if reading.files.is_empty() {
                    world.found.readings += 1;
                    reading.check(world, &began);
                    Self::Idle
                } else if reading.goes_on(world) {
                    Self::Reads(began, reading)
                } else {
                    Self::Idle
                }
            }
        };
    }
}

impl Reading {
    fn of(world: &mut World, lister: Lister) -> Option<Self> {
        let view = lister.read_records(&world.store)?;
        let rule = world.config.rule;
        if rule == Rule::Closure {
            let rejected = state(&view, world.now).map_or(0, |state| state.rejected().len());
            world.found.rejected += rejected;
        }
        let of_kind = |kind| {
            let inputs = rule.live(&view, kind).into_iter();
            inputs.map(move |input| (kind, input))
        };
        Some(Self {
            files: FileKind::ALL.into_iter().flat_map(of_kind).collect(),
            counts: FileKind::ALL.map(|kind| (kind, BTreeMap::new())).into(),
        })
    }

    /// Reads some files; whether they were there.
    fn goes_on(&mut self, world: &mut World) -> bool {
        for _ in 0..=world.random.below(8) {
            let Some((kind, input)) = self.files.pop() else {
                return true;
            };
            let Some(rows) = world.store.rows(&input.key) else {
                let what = format!("{} is needed and gone", input.key);
                world.found.wrong.push(what);
                return false;
            };
            let counts = self.counts.entry(kind).or_default();
            for row in input.rows(rows) {
                *counts.entry(row.number).or_default() += 1;
            }
        }
        true
    }

    /// Finds what is wrong, one line a reading.
    fn check(&self, world: &mut World, began: &Began) {
        let before = &world.deletions[..began.deletions];
        let mut wrong = Vec::new();
        for (&kind, counts) in &self.counts {
            let is_deleted = |row: &Row, deletions: &[Deletion]| {
                let mut of_kind = deletions.iter().filter(|of| of.kinds.contains(&kind));
                of_kind.any(|deletion| deletion.rows.matches(|_| row.service))
            };
            for (number, row) in &began.acknowledged {
                let count = counts.get(number).copied().unwrap_or(0);
                let is_right = match count {
                    // Deleted before, or meanwhile.
                    0 => is_deleted(row, &world.deletions),
                    1 => !is_deleted(row, before),
                    _ => false,
                };
                if !is_right {
                    wrong.push(format!("row {number} counts {count} times among {kind:?}"));
                }
            }
            for (number, count) in counts.iter().filter(|&(_, &count)| count > 1) {
                wrong.push(format!("row {number} counts {count} times among {kind:?}"));
            }
        }
        world.found.wrong.extend(wrong.into_iter().next());
    }
}
