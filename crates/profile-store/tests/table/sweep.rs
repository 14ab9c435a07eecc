//! What may be swept: what was superseded for a day, in an order that is right at every step.

use unhex_profile_store::table::fold::FoldError;
use unhex_profile_store::table::names::{FileKind, OUTPUTS, ObjectName, RECORDS, SEGMENTS};
use unhex_profile_store::table::record::{Record, RowSelector};

use crate::objects::{Objects, compaction, day, live, minute, output, publish, segment, tombstone};

const DAY: i64 = 24 * 60;

#[test]
fn what_a_compaction_covers_goes_a_day_after_it() {
    let (a, again, late) = (segment(1, 1), segment(5, 1), segment(65, 2));
    let record = compaction(publish(70, 0), &[a]);
    let objects = Objects::default()
        .with_segments(&[a, again, late])
        .with_compaction(&record);
    assert_eq!(objects.sweepable(minute(69 + DAY)), []);
    let (rest, names) = objects.swept(minute(70 + DAY));
    assert_eq!(names, [a, again].map(ObjectName::Segment));
    let expected = [record.outputs[0].name.to_string(), late.to_string()];
    assert_eq!(live(&rest.state(), FileKind::Samples), expected);
    assert_eq!(
        rest.swept(day(1_000)).1,
        [],
        "nothing that counts is ever swept"
    );
}

#[test]
fn a_rejected_compaction_goes_when_it_and_the_winner_are_a_day_old_record_first() {
    let (a, b) = (segment(1, 1), segment(2, 2));
    let old = compaction(publish(70, 1), &[a]);
    let mut new = compaction(publish(200, 2), &[a, b]);
    new.generation = 2;
    let objects = Objects::default()
        .with_compaction(&old)
        .with_compaction(&new);
    assert_eq!(objects.sweepable(minute(199 + DAY)), []);
    let (_, names) = objects.swept(minute(200 + DAY));
    let record = Record::Compaction(old.clone().into()).name();
    let outputs = old.outputs.iter().map(|o| ObjectName::Output(o.name));
    let expected: Vec<ObjectName> = [ObjectName::Record(record)]
        .into_iter()
        .chain(outputs)
        .collect();
    assert_eq!(names, expected);
}

#[test]
fn outputs_whose_record_never_came_go_after_a_day() {
    let left = output(publish(70, 0), FileKind::Samples, 7);
    let record = compaction(publish(80, 0), &[segment(1, 1)]);
    let unnamed = output(record.id, FileKind::Samples, 3);
    let objects = Objects::default()
        .with_outputs(&[left, unnamed])
        .with_compaction(&record);
    assert_eq!(objects.sweepable(minute(69 + DAY)), []);
    let (_, names) = objects.swept(day(2));
    assert_eq!(
        names,
        [left, unnamed].map(|output| ObjectName::Output(output.name))
    );
}

#[test]
fn outputs_whose_record_came_behind_a_page_that_was_listed_stay_however_long_the_list_took() {
    let record = compaction(publish(70, 0), &[segment(1, 1)]);
    // Records were listed in minute 69, outputs two days later.
    let seen = Objects::default().with_outputs(&record.outputs);
    let later = minute(69 + 2 * DAY);
    let folders = [(RECORDS, minute(69)), (SEGMENTS, later), (OUTPUTS, later)];
    assert_eq!(seen.fold_of(&folders).unwrap().sweepable(), []);
    let anew = folders.map(|(folder, _)| (folder, later));
    let abandoned = seen.fold_of(&anew).unwrap().sweepable();
    assert_eq!(
        abandoned.len(),
        record.outputs.len(),
        "a record would have been listed"
    );
}

#[test]
fn nothing_is_concluded_from_what_was_not_listed() {
    let a = segment(1, 1);
    let record = compaction(publish(70, 0), &[a]);
    let objects = Objects::default()
        .with_segments(&[a])
        .with_compaction(&record);
    let of = |folders: &[&str]| {
        let began = folders.iter().map(|&folder| (folder, day(9)));
        objects.fold_of(&began.collect::<Vec<_>>())
    };
    assert_eq!(of(&[SEGMENTS, OUTPUTS]), Err(FoldError::NotListed(RECORDS)));
    assert_eq!(of(&[RECORDS, OUTPUTS]), Err(FoldError::NotListed(SEGMENTS)));
    let partly = of(&[SEGMENTS, OUTPUTS, "rec/2026-12-01/13/01"]);
    assert_eq!(partly, Err(FoldError::NotListed(RECORDS)));
    assert_eq!(of(&[SEGMENTS, RECORDS]).unwrap().sweepable(), []);
    let hour = ["seg/2026-12-01/13/", "out/2026-12-01/", "rec/2026-12-01/1"];
    let names = of(&hour).unwrap().sweepable();
    assert_eq!(names, [ObjectName::Segment(a)]);
}

#[test]
fn of_expired_samples_the_totals_and_their_record_stay() {
    let (a, late) = (segment(1, 1), segment(90, 2));
    let record = compaction(publish(70, 0), &[a]);
    let samples = tombstone(
        publish(100, 0),
        RowSelector::Everything,
        &[FileKind::Samples],
    );
    let objects = Objects::default()
        .with_segments(&[late])
        .with_compaction(&record)
        .with_tombstone(&samples);
    assert_eq!(objects.sweepable(minute(99 + DAY)), []);
    let (rest, names) = objects.swept(minute(100 + DAY));
    assert_eq!(names, [ObjectName::Output(record.outputs[0].name)]);
    let expected = [record.outputs[1].name.to_string(), late.to_string()];
    assert_eq!(live(&rest.state(), FileKind::Totals), expected);
}

#[test]
fn an_hour_that_expired_wholly_goes_and_its_tombstones_last() {
    let (a, late) = (segment(1, 1), segment(90, 2));
    let record = compaction(publish(70, 0), &[a]);
    let everything =
        |number, kind| tombstone(publish(100, number), RowSelector::Everything, &[kind]);
    let some = RowSelector::ExceptServices(["kept".to_owned()].into());
    let objects = Objects::default()
        .with_segments(&[a, late])
        .with_compaction(&record)
        .with_outputs(&[output(publish(71, 1), FileKind::Samples, 7)])
        .with_tombstone(&tombstone(publish(80, 9), some, &[FileKind::Samples]))
        .with_tombstone(&everything(1, FileKind::Samples))
        .with_tombstone(&everything(2, FileKind::Totals));
    let last: Vec<ObjectName> = [(1, FileKind::Samples), (2, FileKind::Totals)]
        .map(|(number, kind)| Record::Tombstone(everything(number, kind).into()).name())
        .map(ObjectName::Record)
        .into();
    let names = objects.sweepable(day(2));
    assert!(!names.iter().any(|name| last.contains(name)), "{names:?}");
    // A sweeper that dies at any step leaves an hour of which nothing is live.
    let mut rest = objects.clone();
    for name in &names {
        rest = rest.without(name);
        for kind in FileKind::ALL {
            assert_eq!(live(&rest.state(), kind), [""; 0], "after {name}");
        }
    }
    let (_, names) = rest.swept(day(2));
    assert_eq!(names, last);
}
