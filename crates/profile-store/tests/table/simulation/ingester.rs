//! Who writes segments and tombstones.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use unhex_profile_store::table::names::{ContentHash, FileKind, PublishId, SegmentName};
use unhex_profile_store::table::record::{Deletion, Label, Record, RowSelector, Tombstone};

use super::Replica;
use super::world::{Content, World};
use crate::objects::hour;
use crate::store::{Object, Row};

/// Writes segments, also of what another did not answer.
#[derive(Debug, Default)]
pub(super) struct Ingester(Option<(PublishId, Content)>);

/// Deletes rows: of one service, then all samples, then all.
#[derive(Debug)]
pub(super) struct Deleter;

impl Replica for Ingester {
    fn is_idle(&self) -> bool {
        self.0.is_none()
    }

    fn step(&mut self, world: &mut World) {
        let Some((id, content)) = self.0.take() else {
            self.0 = Some(begun(world));
            return;
        };
        if !world.may_publish(id) {
            return;
        }
        let name = SegmentName {
            hour: hour(),
            id,
            content: ContentHash::of(&content.number.to_be_bytes()),
            rows: content.rows.len() as u64,
        };
        let object = Object::Rows(content.rows.clone());
        world.store.put(&name.to_string(), object);
        let is_heard = !world.config.is_whole || !world.random.is_in(30);
        if is_heard {
            let rows = content.rows.iter().map(|row| (row.number, *row));
            world.acknowledged.extend(rows);
        } else {
            world.found.deaths += 1;
            world.unanswered.push(content);
        }
    }
}

/// A publish of what somebody sends again, or of new rows.
fn begun(world: &mut World) -> (PublishId, Content) {
    let id = world.publish();
    // Clients give up so early that clocks which differ by four minutes make no ten of it.
    let last = world.now - SignedDuration::from_mins(6);
    world.unanswered.retain(|content| content.first > last);
    if let Some(content) = world.unanswered.pop() {
        world.found.resent += 1;
        return (id, content);
    }
    world.contents += 1;
    let number = world.contents;
    let rows = (0..=world.random.below(3)).zip(number * 10..);
    let services = ["a", "b"];
    let rows = rows.map(|(_, number)| Row {
        number,
        service: services[world.random.below(2)],
    });
    let content = Content {
        number,
        rows: rows.collect(),
        first: world.now,
    };
    if world.config.is_whole && world.random.is_in(10) {
        // A client that does not wait: its first send may come behind the second.
        world.unanswered.push(content.clone());
    }
    (id, content)
}

impl Replica for Deleter {
    fn is_idle(&self) -> bool {
        true
    }

    fn step(&mut self, world: &mut World) {
        if !world.random.is_in(2) {
            return;
        }
        let of_b = BTreeMap::from([(Label::Service, "b".to_owned())]);
        let one = |kind| BTreeSet::from([kind]);
        let (kinds, rows) = match world.random.below(10) {
            0..6 => (FileKind::ALL.into(), RowSelector::Matching(of_b)),
            6..8 => (one(FileKind::Samples), RowSelector::Matching(of_b)),
            8 => (one(FileKind::Samples), RowSelector::Everything),
            _ => (one(FileKind::Totals), RowSelector::Everything),
        };
        let deletion = Deletion { kinds, rows };
        let tombstone = Tombstone {
            id: world.publish(),
            hour: hour(),
            deletion: deletion.clone(),
        };
        let record = Record::Tombstone(tombstone.into());
        let json = record.to_json().unwrap();
        world
            .store
            .put(&record.name().to_string(), Object::Json(json));
        world.deletions.push(deletion);
        world.found.deleted += 1;
    }
}
