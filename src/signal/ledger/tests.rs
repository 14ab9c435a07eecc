//! Parts and their fold: the same in any order and with repetitions, bounded, read back as written.

use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;
use unhex_api::symbolize::Labels;
use unhex_build_id::{BuildId, Identity};

use super::*;
use crate::artifacts::UploadId;
use crate::signal::{LabelSet, Lately, Missing, Sent};

fn replica(number: u8) -> UploadId {
    UploadId::new(UNIX_EPOCH + Duration::from_secs(1), [number; 10])
}

fn identity(number: u8) -> Identity {
    Identity::Gnu(BuildId::from_bytes(&[number; 20]).unwrap())
}

fn labels(number: u8) -> LabelSet {
    LabelSet::new(&Labels {
        service: Some(format!("s{number}")),
        ..Labels::default()
    })
}

fn part(number: u8, sequence: u64, seen: &[(u8, u8, u64)]) -> Part {
    let mut own = OwnLedger::new(replica(number), 100);
    let mut sent = Vec::new();
    for (id, service, at) in seen {
        let labels = labels(*service);
        let weight = 1 + at % 7;
        let addresses = 1;
        own.see(
            &identity(*id),
            &Sighting {
                labels: &labels,
                name: at.is_multiple_of(2).then_some("libx.so"),
                missing: Missing::UnknownBuildId,
                sent: Sent { addresses, weight },
                profiles: 1,
                at: *at,
            },
        );
        let mut lately = Lately::default();
        lately.add(Sent { addresses, weight }, *at);
        sent.push((labels, lately));
    }
    Part {
        sequence,
        ..own.part(sent)
    }
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let seen = prop::collection::vec((0_u8..6, 0_u8..30, 0_u64..1 << 40), 0..40);
    let part = (0_u8..4, 0_u64..1_000_000, seen)
        .prop_map(|(number, sequence, seen)| part(number, sequence, &seen));
    prop::collection::vec(part, 0..6).prop_map(|mut parts| {
        // One replica writes each sequence number once.
        parts.sort_by_key(|part| (part.replica, part.sequence));
        parts.dedup_by_key(|part| (part.replica, part.sequence));
        parts
    })
}

proptest! {
    #[test]
    fn the_fold_is_the_same_in_any_order_and_with_repetitions(
        (parts, shuffled) in parts().prop_flat_map(|parts| {
            let mut twice = parts.clone();
            twice.extend(parts.iter().take(2).cloned());
            (Just(parts), Just(twice).prop_shuffle())
        })
    ) {
        prop_assert_eq!(Folded::of(&parts, 4), Folded::of(&shuffled, 4));
    }

    #[test]
    fn a_segment_is_read_back_as_written(
        seen in prop::collection::vec((0_u8..6, 0_u8..30, Just(9)), 0..40),
        sequence in any::<u64>(),
    ) {
        // All at one time: sums are whole, and JSON has them exactly.
        let segment = Segment::new(vec![part(1, sequence, &seen), part(2, 1, &seen)]);
        let read = Segment::decode(&segment.encode().unwrap()).unwrap();
        prop_assert_eq!(read, segment);
    }

    #[test]
    fn damaged_segments_are_errors(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Segment::decode(&bytes).is_err());
    }
}

#[test]
fn the_ledger_is_bounded_and_the_least_recently_seen_goes() {
    let mut own = OwnLedger::new(replica(1), 3);
    let labels = labels(0);
    for (id, at) in [(1, 1), (2, 2), (3, 3), (1, 4), (4, 5)] {
        own.see(
            &identity(id),
            &Sighting {
                labels: &labels,
                name: None,
                missing: Missing::NoDebugInfo,
                sent: Sent::default(),
                profiles: 1,
                at,
            },
        );
    }
    assert_eq!(own.len(), 3);
    assert!(own.get(&identity(2)).is_none());
    assert_eq!(own.get(&identity(1)).unwrap().profiles, 2);
    let parts = [own.part(Vec::new()), part(2, 1, &[(9, 0, 9), (8, 0, 1)])];
    let folded = Folded::of(&parts, 2);
    assert!(folded.entries.contains_key(&identity(9)) && folded.entries.len() == 2);
}

#[test]
fn a_newer_segment_than_this_program_knows_is_refused() {
    let mut segment = Segment::new(Vec::new());
    segment.version = 99;
    let error = Segment::decode(&segment.encode().unwrap()).unwrap_err();
    assert!(matches!(error, ReadSegmentError::TooNew(99)), "{error}");
}

#[test]
fn the_examples_of_the_document_are_read_and_written_back() {
    let document = include_str!("../../../docs/object-layout.md");
    let (_, document) = document.split_once("## The ledger").unwrap();
    let mut examples = document.split("```json\n").skip(1);
    let mut next = || {
        let (json, _) = examples.next().unwrap().split_once("```").unwrap();
        serde_json::from_str::<serde_json::Value>(json).unwrap()
    };
    let (part, decision) = (next(), next());
    let read: Part = serde_json::from_value(part.clone()).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), part);
    let read: crate::signal::IgnoreRecord = serde_json::from_value(decision.clone()).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), decision);
}

fn seen_in(part: &Part) -> Vec<u64> {
    part.entries
        .iter()
        .map(|listed| listed.entry.last_seen)
        .collect()
}

#[test]
fn a_writer_drops_what_was_seen_first_until_the_segment_is_small_enough_for_readers() {
    let seen: Vec<(u8, u8, u64)> = (0..100)
        .map(|id| (id, id, u64::from(id) * 7 % 101))
        .collect();
    let whole = part(1, 1, &seen);
    let json_bytes_max = 10_000;
    let cut = whole.clone().within(json_bytes_max);
    let mut latest = seen_in(&whole);
    latest.sort_unstable_by(|one, two| two.cmp(one));
    latest.truncate(cut.entries.len());
    assert_eq!(seen_in(&cut), latest);
    assert!(cut.entries.len() > 9 && cut.sent.len() > 9, "{cut:?}");
    let segment = serde_json::to_vec(&Segment::new(vec![cut])).unwrap();
    assert!((json_bytes_max * 9 / 10..=json_bytes_max).contains(&segment.len()));
    assert_eq!(whole.clone().within(1 << 20).entries.len(), 100);
}

#[test]
fn parts_go_into_as_few_segments_as_hold_them() {
    let seen: Vec<(u8, u8, u64)> = (0..10).map(|id| (id, 0, 1)).collect();
    let parts: Vec<Part> = (0..9).map(|number| part(number, 1, &seen)).collect();
    let bytes = serde_json::to_vec(&parts[0]).unwrap().len();
    let groups = packed(parts.clone(), bytes * 3 + 100);
    assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 3]);
    assert_eq!(groups.concat(), parts);
    assert_eq!(packed(parts, 1).len(), 9, "each is small enough by itself");
}

#[test]
fn of_parts_that_are_left_behind_as_much_is_kept_as_a_ledger_has() {
    let parts = [
        part(1, 1, &[(1, 1, 10), (2, 1, 30)]),
        part(2, 1, &[(1, 1, 20), (3, 2, 40)]),
        part(3, 1, &[(4, 3, 5)]),
    ];
    let bounds = KeptBounds {
        forgotten_before: 6,
        entries_max: 3,
        sent_max: 100,
    };
    let kept = kept(&parts, &bounds);
    assert_eq!(
        kept.iter().map(seen_in).collect::<Vec<_>>(),
        [vec![30], vec![40, 20]]
    );
    assert_eq!(kept[1].replica, parts[1].replica);
    assert!(has_run_out(&Segment::new(vec![parts[2].clone()]), 6));
    assert!(!has_run_out(&Segment::new(parts.to_vec()), 6));
}

#[test]
fn a_library_of_everybody_keeps_the_services_that_it_had_first() {
    let mut own = OwnLedger::new(replica(1), 100);
    for round in 0..3_u64 {
        for number in 0..300_u64 {
            let labels = LabelSet::new(&Labels {
                service: Some(format!("s{number}")),
                ..Labels::default()
            });
            own.see(
                &identity(1),
                &Sighting {
                    labels: &labels,
                    name: None,
                    missing: Missing::UnknownBuildId,
                    sent: Sent::default(),
                    profiles: 1,
                    at: 1_000 * round + number,
                },
            );
        }
    }
    let entry = own.get(&identity(1)).unwrap();
    assert_eq!(entry.seen_by.len(), 256);
    assert!(entry.seen_by.iter().all(|by| by.profiles == 3));
}
