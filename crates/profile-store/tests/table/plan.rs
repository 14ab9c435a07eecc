//! What is planned: compactions by their closure, deletions by age.

use std::collections::{BTreeMap, BTreeSet};

use unhex_profile_store::table::names::FileKind;
use unhex_profile_store::table::plan::{self, CompactionPlan, CompactionPolicy, Retention};
use unhex_profile_store::table::record::{Deletion, Label, RowSelector};

use crate::objects::{Objects, compaction, day, minute, output, publish, segment, tombstone};

fn planned(objects: &Objects, minutes: i64) -> Option<CompactionPlan> {
    plan::compaction(
        &objects.state(),
        &CompactionPolicy::default(),
        minute(minutes),
    )
}

fn inputs(plan: &CompactionPlan, kind: FileKind) -> Vec<String> {
    let files = match kind {
        FileKind::Samples => &plan.samples,
        FileKind::Totals => &plan.totals,
    };
    files.iter().map(|live| live.file.to_string()).collect()
}

#[test]
fn an_hour_is_compacted_ten_minutes_after_its_end() {
    let (a, b) = (segment(1, 1), segment(59, 2));
    let objects = Objects::default().with_segments(&[b, a]);
    assert_eq!(planned(&objects, 69), None);
    let plan = planned(&objects, 70).unwrap();
    assert_eq!(plan.base(), [a, b]);
    assert_eq!(plan.generation(), 1);
    let id = publish(70, 0);
    let outputs = vec![
        output(id, FileKind::Samples, 15),
        output(id, FileKind::Totals, 3),
    ];
    let record = plan.record(id, outputs, 77);
    assert_eq!(record.totals.base_rows, 20);
    assert_eq!(
        (record.totals.sample_rows, record.totals.total_rows),
        (15, 3)
    );
    let after = objects.with_compaction(&record);
    assert_eq!(after.state().accepted().len(), 1);
    assert_eq!(planned(&after, 500), None, "there is nothing to do twice");
}

#[test]
fn segments_that_come_late_are_compacted_with_the_closure_after_ten_minutes() {
    let (a, b) = (segment(1, 1), segment(2, 2));
    let first = compaction(publish(70, 0), &[a, b]);
    let (late, later) = (segment(100, 3), segment(105, 4));
    // The segments of the first compaction are swept by then.
    let objects = Objects::default()
        .with_compaction(&first)
        .with_segments(&[late, later]);
    assert_eq!(planned(&objects, 109), None);
    let plan = planned(&objects, 110).unwrap();
    assert_eq!(plan.generation(), 2);
    assert_eq!(plan.base(), [a, b, late, later]);
    for (kind, output) in FileKind::ALL.into_iter().zip(&first.outputs) {
        let expected = [output.name.to_string(), late.to_string(), later.to_string()];
        assert_eq!(inputs(&plan, kind), expected);
    }
}

#[test]
fn two_accepted_compactions_become_one() {
    let (a, b) = (segment(1, 1), segment(2, 2));
    let one = compaction(publish(70, 1), &[a]);
    let two = compaction(publish(70, 2), &[b]);
    let objects = Objects::default()
        .with_compaction(&one)
        .with_compaction(&two);
    let plan = planned(&objects, 71).unwrap();
    assert_eq!((plan.base(), plan.generation()), (&[a, b][..], 2));
}

#[test]
fn a_base_has_no_more_segments_than_it_may() {
    let segments = [1, 2, 3].map(|at| segment(at, 1 + u8::try_from(at).unwrap()));
    let policy = CompactionPolicy {
        base_segments_max: 2,
        ..CompactionPolicy::default()
    };
    let objects = Objects::default().with_segments(&segments);
    let plan = plan::compaction(&objects.state(), &policy, minute(70)).unwrap();
    assert_eq!(plan.base(), &segments[..2]);
    let expected: Vec<String> = segments[..2].iter().map(ToString::to_string).collect();
    assert_eq!(inputs(&plan, FileKind::Samples), expected);
    let full = compaction(publish(70, 0), &segments[..2]);
    let state = objects.with_compaction(&full).state();
    assert_eq!(plan::compaction(&state, &policy, minute(500)), None);
}

#[test]
fn rows_of_compacted_files_that_a_tombstone_selects_are_written_out_of_them_once() {
    let a = segment(1, 1);
    let first = compaction(publish(70, 0), &[a]);
    let rows = RowSelector::Matching(BTreeMap::from([(Label::Service, "checkout".to_owned())]));
    let deletion = tombstone(publish(80, 0), rows, &[FileKind::Samples]);
    let objects = Objects::default()
        .with_compaction(&first)
        .with_tombstone(&deletion);
    let plan = planned(&objects, 81).unwrap();
    let deleted = |files: &[_]| -> usize {
        let files = files.iter();
        let of = |live: &unhex_profile_store::table::fold::LiveFile| live.deleted().count();
        files.map(of).sum()
    };
    assert_eq!(deleted(&plan.samples), 1);
    assert_eq!(deleted(&plan.totals), 0, "totals are kept for longer");
    let record = plan.record(publish(81, 0), first.outputs[..0].to_vec(), 0);
    assert_eq!(record.applied, [deletion.id]);
    assert_eq!(planned(&objects.with_compaction(&record), 500), None);
}

#[test]
fn what_has_expired_wholly_is_not_compacted() {
    let a = segment(1, 1);
    let objects = Objects::default().with_segments(&[a]);
    let expired =
        |number, kinds: &[FileKind]| tombstone(publish(60, number), RowSelector::Everything, kinds);
    let samples = objects.with_tombstone(&expired(1, &[FileKind::Samples]));
    let plan = planned(&samples, 500).unwrap();
    assert_eq!(plan.samples, []);
    assert_eq!(inputs(&plan, FileKind::Totals), [a.to_string()]);
    let all = samples.with_tombstone(&expired(2, &[FileKind::Totals]));
    assert_eq!(planned(&all, 500), None);
}

/// What has expired so many days after the hour's end, in words.
fn expired(objects: &Objects, retention: &Retention, days: i64) -> Vec<Deletion> {
    let now = day(days) + jiff::SignedDuration::from_hours(1);
    plan::expired(&objects.state(), retention, now)
}

fn deletion(kind: FileKind, rows: RowSelector) -> Deletion {
    Deletion {
        kinds: BTreeSet::from([kind]),
        rows,
    }
}

/// The objects with tombstones of these deletions.
fn with(objects: &Objects, deletions: &[Deletion]) -> Objects {
    let numbered = deletions.iter().zip(1..);
    numbered.fold(objects.clone(), |objects, (deletion, number)| {
        let kinds: Vec<FileKind> = deletion.kinds.iter().copied().collect();
        objects.with_tombstone(&tombstone(
            publish(60, number),
            deletion.rows.clone(),
            &kinds,
        ))
    })
}

#[test]
fn samples_expire_after_three_weeks_and_totals_after_three_months() {
    let objects = Objects::default().with_segments(&[segment(1, 1)]);
    let retention = Retention::default();
    assert_eq!(expired(&objects, &retention, 20), []);
    let samples = deletion(FileKind::Samples, RowSelector::Everything);
    let totals = deletion(FileKind::Totals, RowSelector::Everything);
    assert_eq!(
        expired(&objects, &retention, 21),
        std::slice::from_ref(&samples)
    );
    let said = with(&objects, std::slice::from_ref(&samples));
    assert_eq!(
        expired(&said, &retention, 89),
        [],
        "what was said is not said again"
    );
    assert_eq!(
        expired(&said, &retention, 90),
        std::slice::from_ref(&totals)
    );
    assert_eq!(
        expired(&with(&objects, &[samples, totals]), &retention, 999),
        []
    );
}

#[test]
fn services_may_be_kept_for_longer_and_for_less() {
    let objects = Objects::default().with_segments(&[segment(1, 1)]);
    let days = [("long", 40), ("short", 3)];
    let retention = Retention {
        samples_days_by_service: days.map(|(name, days)| (name.to_owned(), days)).into(),
        ..Retention::default()
    };
    let short = RowSelector::Matching([(Label::Service, "short".to_owned())].into());
    let short = deletion(FileKind::Samples, short);
    assert_eq!(expired(&objects, &retention, 2), []);
    assert_eq!(
        expired(&objects, &retention, 3),
        std::slice::from_ref(&short)
    );
    let three = with(&objects, std::slice::from_ref(&short));
    assert_eq!(expired(&three, &retention, 20), []);
    let most = RowSelector::ExceptServices(["long".to_owned()].into());
    let most = deletion(FileKind::Samples, most);
    assert_eq!(expired(&three, &retention, 21), std::slice::from_ref(&most));
    let weeks = with(&objects, &[short, most]);
    assert_eq!(expired(&weeks, &retention, 39), []);
    let rest = deletion(FileKind::Samples, RowSelector::Everything);
    assert_eq!(expired(&weeks, &retention, 40), [rest]);
}
