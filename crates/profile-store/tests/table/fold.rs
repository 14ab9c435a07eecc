//! The fold by example: what is accepted, what is fresh, and what is left out.

use std::collections::BTreeMap;

use proptest::prelude::*;
use unhex_profile_store::table::fold::{Claimant, FoldError, ReadRecords, fold};
use unhex_profile_store::table::names::{FileKind, Listing, RecordKind};
use unhex_profile_store::table::record::{Label, ReadRecordError, RowSelector};

use crate::objects::{
    Objects, compaction, hour, live, minute, output, publish, segment, tombstone,
};

const BOTH: [FileKind; 2] = FileKind::ALL;

fn of_service(service: &str) -> RowSelector {
    RowSelector::Matching(BTreeMap::from([(Label::Service, service.to_owned())]))
}

#[test]
fn an_output_is_live_through_its_record_only_and_then_its_base_is_not() {
    let (a, b, late) = (segment(1, 1), segment(2, 2), segment(70, 3));
    let record = compaction(publish(71, 0), &[a, b]);
    let before = Objects::default()
        .with_segments(&[a, b, late])
        .with_outputs(&record.outputs);
    let fresh = [a, b, late].map(|name| name.to_string());
    for kind in BOTH {
        assert_eq!(live(&before.state(), kind), fresh, "{kind:?}");
    }
    let state = before.with_compaction(&record).state();
    for (kind, output) in BOTH.into_iter().zip(&record.outputs) {
        let expected = [output.name.to_string(), late.to_string()];
        assert_eq!(live(&state, kind), expected, "{kind:?}");
    }
    let rows = state.live(FileKind::Samples);
    let rows: Vec<u64> = rows.iter().map(|live| live.file.rows()).collect();
    assert_eq!(rows, [20, 10]);
    let claimants: Vec<Claimant> = state.spare().iter().map(|spare| spare.claimant).collect();
    assert_eq!(claimants, [Claimant::Compaction(record.id); 2]);
}

#[test]
fn a_higher_generation_wins_then_the_smaller_id_and_what_the_loser_alone_covered_is_fresh() {
    let (a, b, c) = (segment(1, 1), segment(2, 2), segment(3, 3));
    let one = compaction(publish(71, 1), &[a, b]);
    let other = compaction(publish(71, 2), &[b, c]);
    let objects = Objects::default().with_segments(&[a, b, c]);
    let raced = objects.with_compaction(&other).with_compaction(&one);
    let state = raced.state();
    assert_eq!(state.accepted()[0].id, one.id);
    assert_eq!(state.rejected()[0].compaction.id, other.id);
    assert_eq!(state.rejected()[0].winner, one.id);
    assert_eq!(state.fresh().len(), 1);
    assert_eq!(state.fresh()[0].name, c);
    let mut closure = compaction(publish(80, 9), &[a, b, c]);
    closure.generation = 2;
    let state = raced.with_compaction(&closure).state();
    assert_eq!(state.accepted()[0].id, closure.id);
    assert_eq!(state.rejected().len(), 2);
    assert_eq!(state.fresh(), []);
}

#[test]
fn a_later_record_is_enough_without_the_one_that_it_builds_on() {
    let (a, b, c) = (segment(1, 1), segment(2, 2), segment(70, 3));
    let mut later = compaction(publish(90, 0), &[a, b, c]);
    later.generation = 2;
    let seen = Objects::default()
        .with_segments(&[a, b, c])
        .with_compaction(&later);
    let expected = [later.outputs[0].name.to_string()];
    assert_eq!(live(&seen.state(), FileKind::Samples), expected);
}

#[test]
fn of_sends_of_one_content_within_ten_minutes_one_counts() {
    let sends = [0, 8, 16].map(|at| segment(at, 1));
    let state = Objects::default().with_segments(&sends).state();
    let fresh: Vec<_> = state.fresh().iter().map(|segment| segment.name).collect();
    assert_eq!(
        fresh,
        [sends[0], sends[2]],
        "the bound is to the one that counts"
    );
    assert_eq!(state.spare()[0].claimant, Claimant::Segment(sends[0].id));
    // The compaction did not see the first.
    let record = compaction(publish(71, 0), &sends[1..2]);
    let objects = Objects::default().with_segments(&sends);
    let state = objects.with_compaction(&record).state();
    assert_eq!(
        state.fresh(),
        [],
        "both are within ten minutes of the one that is compacted"
    );
}

#[test]
fn compactions_of_two_sends_of_one_content_are_not_both_accepted() {
    let (first, again, other) = (segment(1, 1), segment(6, 1), segment(7, 2));
    let one = compaction(publish(71, 1), &[first]);
    let two = compaction(publish(71, 2), &[again, other]);
    let objects = Objects::default().with_segments(&[first, again, other]);
    let state = objects.with_compaction(&one).with_compaction(&two).state();
    assert_eq!(state.accepted().len(), 1);
    let expected = [one.outputs[0].name.to_string(), other.to_string()];
    assert_eq!(live(&state, FileKind::Samples), expected);
}

#[test]
fn rows_that_a_tombstone_selects_are_left_out_of_what_does_not_lack_them() {
    let (a, late) = (segment(1, 1), segment(70, 2));
    let deletion = tombstone(publish(60, 0), of_service("checkout"), &BOTH);
    let mut record = compaction(publish(71, 0), &[a]);
    let objects = Objects::default()
        .with_segments(&[a, late])
        .with_tombstone(&deletion);
    let unapplied = |objects: &Objects, kind| -> Vec<usize> {
        let files = objects.state().live(kind);
        files.iter().map(|live| live.deleted().count()).collect()
    };
    let before = objects.clone().with_compaction(&record);
    record.applied = vec![deletion.id];
    let after = objects.with_compaction(&record);
    for kind in BOTH {
        assert_eq!(unapplied(&before, kind), [1, 1]);
        assert_eq!(
            unapplied(&after, kind),
            [0, 1],
            "what came late has its rows"
        );
    }
}

#[test]
fn samples_may_expire_before_totals_do() {
    let (a, late) = (segment(1, 1), segment(70, 2));
    let record = compaction(publish(71, 0), &[a]);
    let samples = tombstone(
        publish(99, 0),
        RowSelector::Everything,
        &[FileKind::Samples],
    );
    let objects = Objects::default().with_segments(&[a, late]);
    let state = objects
        .with_compaction(&record)
        .with_tombstone(&samples)
        .state();
    assert!(state.is_expired(FileKind::Samples) && !state.is_expired(FileKind::Totals));
    assert_eq!(live(&state, FileKind::Samples), [""; 0]);
    let expected = [record.outputs[1].name.to_string(), late.to_string()];
    assert_eq!(live(&state, FileKind::Totals), expected);
}

#[test]
fn an_hour_with_a_record_that_is_not_understood_is_an_error_and_the_others_are_not() {
    let a = segment(1, 1);
    let record = compaction(publish(71, 0), &[a]);
    let objects = Objects::default().with_segments(&[a]);
    let sound = objects.clone().with_compaction(&record);
    let newer = format!("rec/{}/{}.merge.json", hour(), publish(72, 0));
    let error = sound.with_key(&newer).fold().unwrap_err();
    assert!(matches!(error, FoldError::NotRead(_)), "{error}");
    let mut listing = Listing::default();
    let keys = [(newer.as_str(), 9), ("seg/2026-12-01/14/x", 9)];
    listing.add("", minute(0), keys);
    let name = listing.records().first().unwrap().clone();
    assert_eq!(name.kind, RecordKind::Unknown("merge".into()));
    let mut other = a;
    other.hour = "2026-12-01/14".parse().unwrap();
    listing.add("seg/", minute(0), [(other.to_string(), 9)]);
    let source = ReadRecordError::UnknownKind("merge".to_owned());
    let read = ReadRecords::from([(name.clone(), Err(source.clone()))]);
    let hours = fold(&listing, &read);
    assert_eq!(hours[&hour()], Err(FoldError::Unreadable { name, source }));
    assert_eq!(hours[&other.hour].as_ref().unwrap().fresh().len(), 1);
    assert_eq!(listing.foreign_count(), 1);
}

proptest! {
    #[test]
    fn the_order_of_the_listing_and_repeated_keys_change_nothing(
        order in Just((0..12_usize).collect::<Vec<_>>()).prop_shuffle(),
        repeated in 0..12_usize,
    ) {
        let segments = [segment(0, 1), segment(5, 1), segment(2, 2), segment(3, 3), segment(70, 4)];
        let mut high = compaction(publish(90, 1), &[segments[1], segments[2], segments[3]]);
        high.generation = 2;
        let low = compaction(publish(71, 2), &segments[2..4]);
        let deletion = tombstone(publish(60, 0), of_service("checkout"), &BOTH);
        let objects = Objects::default()
            .with_segments(&segments)
            .with_compaction(&high)
            .with_compaction(&low)
            .with_tombstone(&deletion);
        let mut mixed = objects.clone();
        mixed.reorder(&order, repeated);
        prop_assert_eq!(mixed.state(), objects.state());
        let began = minute(24 * 60 + 200);
        prop_assert_eq!(mixed.sweepable(began), objects.sweepable(began));
    }
}

#[test]
fn outputs_that_no_record_names_count_for_nothing() {
    let alone = Objects::default().with_outputs(&[output(publish(71, 0), FileKind::Samples, 7)]);
    assert_eq!(live(&alone.state(), FileKind::Samples), [""; 0]);
}
