//! Records: read back as written, and read strictly.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::table::names::{ContentHash, ObjectName, PublishId, SegmentName};

/// The names and the JSON of the examples in the document.
fn examples() -> Vec<(RecordName, Value)> {
    let document = include_str!("../../../../../docs/profile-table.md");
    let parts = document.split("```json\n");
    let examples = parts.clone().zip(parts.skip(1));
    let examples = examples.filter_map(|(before, after)| {
        let key = before.trim_end().rsplit('`').nth(1).unwrap();
        let Ok(ObjectName::Record(name)) = key.parse() else {
            assert!(key.starts_with("dic/"), "no key of a record: {key}");
            return None;
        };
        let json = after.split_once("```").unwrap().0;
        Some((name, serde_json::from_str(json).unwrap()))
    });
    examples.collect()
}

fn example(kind: &RecordKind) -> (RecordName, Value) {
    let found = examples().into_iter().find(|(name, _)| name.kind == *kind);
    found.unwrap()
}

fn sealed(value: &Value) -> Vec<u8> {
    seal::seal(serde_json::to_vec(value).unwrap())
}

/// What is said of the example of a compaction when a part of it is another.
fn refused(pointer: &str, other: Value) -> ReadRecordError {
    let (name, mut value) = example(&RecordKind::Compaction);
    *value.pointer_mut(pointer).expect(pointer) = other;
    Record::read(&sealed(&value), &name).expect_err(pointer)
}

#[test]
fn the_examples_of_the_document_are_read_and_written_back() {
    let examples = examples();
    assert_eq!(examples.len(), 2);
    for (name, example) in examples {
        let record = Record::read(&sealed(&example), &name).unwrap();
        assert_eq!(record.name(), name);
        let json = record.to_json().unwrap();
        assert_eq!(Record::read(&json, &name), Ok(record));
        let mut written: Value = serde_json::from_slice(&json).unwrap();
        assert!(
            written
                .as_object_mut()
                .unwrap()
                .remove("checksum")
                .is_some()
        );
        assert_eq!(written, example);
    }
}

#[test]
fn another_version_is_an_error_that_says_so_whatever_else_is_new() {
    for version in [0, 2, u32::MAX] {
        let (name, mut value) = example(&RecordKind::Compaction);
        value["version"] = json!(version);
        value["later"] = json!({"shape": []});
        let unsealed = serde_json::to_vec(&value).unwrap();
        let read = Record::read(&unsealed, &name);
        assert_eq!(read, Err(ReadRecordError::UnknownVersion(version)));
    }
    let (mut name, value) = example(&RecordKind::Tombstone);
    name.kind = RecordKind::Unknown("merge".into());
    let read = Record::read(&sealed(&value), &name);
    assert_eq!(read, Err(ReadRecordError::UnknownKind("merge".to_owned())));
}

#[test]
fn a_field_that_is_not_known_is_an_error() {
    for kind in [RecordKind::Compaction, RecordKind::Tombstone] {
        let (name, mut value) = example(&kind);
        value["later"] = json!(true);
        let read = Record::read(&sealed(&value), &name);
        assert!(matches!(read, Err(ReadRecordError::NotJson(_))), "{read:?}");
    }
    let error = refused("/totals", json!({"base_rows": 2000}));
    assert!(matches!(error, ReadRecordError::NotJson(_)), "{error}");
}

#[test]
fn a_record_that_was_changed_cut_or_moved_is_not_taken() {
    for (name, value) in examples() {
        let json = sealed(&value);
        for (place, _) in json.iter().enumerate().filter(|(_, b)| b.is_ascii_digit()) {
            let mut changed = json.clone();
            changed[place] ^= 1;
            assert!(Record::read(&changed, &name).is_err(), "{place}");
        }
        for length in 0..json.len() {
            assert!(Record::read(&json[..length], &name).is_err(), "{length}");
        }
        let mut elsewhere = name.clone();
        elsewhere.hour = "2026-12-01/14".parse().unwrap();
        let moved = Record::read(&json, &elsewhere);
        assert!(matches!(
            moved,
            Err(ReadRecordError::OtherKey { field: "hour", .. })
        ));
        elsewhere = name;
        elsewhere.id = PublishId::new(elsewhere.hour.start(), [0; 10]);
        let moved = Record::read(&json, &elsewhere);
        assert!(matches!(
            moved,
            Err(ReadRecordError::OtherKey { field: "ID", .. })
        ));
    }
}

#[test]
fn a_record_that_would_count_rows_twice_or_lose_them_is_not_taken() {
    let (_, example) = example(&RecordKind::Compaction);
    let first = example["base"][0].as_str().unwrap();
    // The same content one second later.
    let resent = first.replacen("01a22cdf8cb5", "01a22cdf909d", 1);
    let key = example["outputs"][0]["key"].as_str().unwrap();
    let segment = format!("seg/2026-12-01/13/{first}.parquet");
    let cases = [
        ("/base/1", json!(first)),
        ("/base/1", json!(resent)),
        ("/base/1", json!("../escape")),
        ("/base", json!([])),
        ("/generation", json!(0)),
        ("/applied/0", json!("")),
        (
            "/applied",
            json!([example["applied"][0], example["applied"][0]]),
        ),
        ("/outputs/1/key", json!(key)),
        ("/outputs/0/key", json!(key.replace("/13/", "/12/"))),
        ("/outputs/0/key", json!(key.replace("01a22d16", "01a22d17"))),
        ("/outputs/0/key", json!(segment)),
        ("/outputs", json!([])),
        ("/totals/base_rows", json!(1999)),
        ("/totals/sample_rows", json!(1701)),
        ("/totals/total_rows", json!(0)),
        ("/hour", json!("2026-12-01")),
    ];
    for (pointer, other) in cases {
        let error = refused(pointer, other);
        assert!(
            matches!(error, ReadRecordError::Unsound(_)),
            "{pointer}: {error}"
        );
    }
}

#[test]
fn a_record_beyond_a_limit_is_neither_read_nor_written() {
    let (name, value) = example(&RecordKind::Compaction);
    let Ok(Record::Compaction(body)) = Record::read(&sealed(&value), &name) else {
        panic!("a compaction");
    };
    let mut large = Compaction::clone(&body);
    large.applied = (0..=TOMBSTONES_APPLIED_MAX)
        .map(|number| PublishId::new(large.hour.start(), number_bytes(number)))
        .collect();
    let written = Record::Compaction(large.into()).to_json();
    let expected = "4097 tombstones, at most 4096 are allowed";
    assert_eq!(written.unwrap_err().to_string(), expected);
    let too_long = vec![b' '; RECORD_BYTES_MAX + 1];
    let read = Record::read(&too_long, &name);
    assert_eq!(read, Err(ReadRecordError::TooLong(RECORD_BYTES_MAX + 1)));
}

#[test]
fn the_largest_base_fits_into_a_record() {
    let hour = "2026-12-01/13".parse().unwrap();
    let base: Vec<SegmentName> = (0..BASE_SEGMENTS_MAX)
        .map(|number| SegmentName {
            hour,
            id: PublishId::new(hour.start(), number_bytes(number)),
            content: ContentHash::of(&number_bytes(number)),
            rows: 1 << 20,
        })
        .collect();
    let compaction = Compaction {
        id: PublishId::new(hour.start(), [0; 10]),
        hour,
        generation: 1,
        totals: RowTotals {
            base_rows: base.len() as u64 * (1 << 20),
            ..RowTotals::default()
        },
        base,
        applied: Vec::new(),
        outputs: Vec::new(),
    };
    let json = Record::Compaction(compaction.into()).to_json();
    let bytes = json.unwrap().len();
    assert!((40 << 20..RECORD_BYTES_MAX).contains(&bytes), "{bytes}");
}

fn number_bytes(number: usize) -> [u8; 10] {
    let mut bytes = [0; 10];
    bytes[2..].copy_from_slice(&number.to_be_bytes());
    bytes
}

#[test]
fn a_tombstone_that_selects_by_nothing_is_not_taken() {
    let cases = [
        ("/kinds", json!([])),
        ("/kinds", json!(["samples", "samples"])),
        ("/rows", json!({"matching": {}})),
        ("/rows", json!({"matching": {"pod": "a"}})),
        ("/rows", json!({"except_services": []})),
        ("/rows", json!("nothing")),
        (
            "/rows/matching/service",
            json!("s".repeat(LABEL_BYTES_MAX + 1)),
        ),
    ];
    for (pointer, other) in cases {
        let (name, mut value) = example(&RecordKind::Tombstone);
        *value.pointer_mut(pointer).expect(pointer) = other;
        let read = Record::read(&sealed(&value), &name);
        assert!(read.is_err(), "{pointer}: {read:?}");
    }
}

fn any_selector() -> impl Strategy<Value = RowSelector> {
    let service = prop::sample::select(vec!["a", "b", "c"]).prop_map(str::to_owned);
    let label = prop::sample::select(vec![Label::Service, Label::Version]);
    let labels = prop::collection::btree_map(label, service.clone(), 1..3);
    prop_oneof![
        Just(RowSelector::Everything),
        prop::collection::btree_set(service, 1..3).prop_map(RowSelector::ExceptServices),
        labels.prop_map(RowSelector::Matching),
    ]
}

proptest! {
    #[test]
    fn a_selector_that_contains_another_selects_all_of_its_rows(
        one in any_selector(),
        other in any_selector(),
    ) {
        let rows = ["a", "b", "c", "d"];
        let rows = rows.iter().flat_map(|service| rows.iter().map(move |version| (service, version)));
        for (service, version) in rows {
            let row = BTreeMap::from([(Label::Service, *service), (Label::Version, *version)]);
            let label = |label| row.get(&label).copied().unwrap_or("");
            let (one_takes, other_takes) = (one.matches(label), other.matches(label));
            prop_assert!(!one.contains(&other) || one_takes || !other_takes, "{:?} {:?} {:?}", one, other, row);
        }
        prop_assert!(one.contains(&one));
        prop_assert!(RowSelector::Everything.contains(&one));
    }

    #[test]
    fn arbitrary_bytes_are_an_error_and_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for (name, _) in examples() {
            prop_assert!(Record::read(&bytes, &name).is_err());
        }
    }
}
