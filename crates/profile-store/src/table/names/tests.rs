//! Names: what is written is read back, nothing else is read, and the order is that of the texts.

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::*;

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn hour(text: &str) -> Hour {
    text.parse().unwrap()
}

fn any_name() -> impl Strategy<Value = ObjectName> {
    let instant = 0..=253_370_764_799_999_i64;
    let numbers = (instant.clone(), instant, 1..=ROWS_MAX, 0..5_u8);
    (numbers, any::<[u8; 10]>(), any::<[u8; 32]>()).prop_map(|(numbers, random, hash)| {
        let (of, began, rows, which) = numbers;
        let at = |millis| Timestamp::from_millisecond(millis).unwrap();
        let hour = Hour::of(at(of)).unwrap();
        let id = PublishId::new(at(began), random);
        let sha256 = ContentHash(hash);
        let record = |kind| ObjectName::Record(RecordName { hour, id, kind });
        let kind = FileKind::ALL[usize::from(which % 2)];
        match which {
            0 => record(RecordKind::Compaction),
            1 => record(RecordKind::Tombstone),
            2 => record(RecordKind::Unknown("merge-2".into())),
            3 => ObjectName::Segment(SegmentName {
                hour,
                id,
                content: sha256,
                rows,
            }),
            _ => ObjectName::Output(OutputName {
                hour,
                id,
                kind,
                sha256,
                rows,
            }),
        }
    })
}

proptest! {
    #[test]
    fn names_are_read_back_as_written_and_are_keys_everywhere(name in any_name()) {
        let key = name.to_string();
        prop_assert_eq!(key.parse(), Ok(name));
        let is_legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_./".contains(&b);
        prop_assert!(key.bytes().all(is_legal), "{}", key);
    }

    #[test]
    fn what_is_read_is_what_would_be_written(name in any_name(), at in 0..140_usize, byte in 32..127_u8) {
        let mut key = name.to_string().into_bytes();
        let at = at % key.len();
        key[at] = byte;
        let key = String::from_utf8(key).unwrap();
        if let Ok(read) = key.parse::<ObjectName>() {
            prop_assert_eq!(read.to_string(), key);
        }
    }

    #[test]
    fn records_of_a_kind_are_ordered_as_their_keys(a in any_name(), b in any_name()) {
        if let (ObjectName::Record(a), ObjectName::Record(b)) = (a, b) {
            prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
        }
    }
}

#[test]
fn hostile_keys_are_errors_that_say_what_is_wrong() {
    let id = "01a22cdf8cb5f6f38a8aee1bf2033d36";
    let hash = "5a9b9a3de2f37ff61337dc1c679a617258272ff8f48680f90fcc8dc82ab368bf";
    let keys = [
        String::new(),
        "_delta_log/00000000000000000000.json".to_owned(),
        format!("seg/2026-12-01/{id}.{hash}.1.parquet"),
        format!("seg/2026-12-01/24/{id}.{hash}.1.parquet"),
        format!("seg/2026-12-1/+7/{id}.{hash}.1.parquet"),
        format!("seg/2026-02-30/07/{id}.{hash}.1.parquet"),
        format!("seg/1969-12-31/23/{id}.{hash}.1.parquet"),
        format!("seg/9999-01-01/00/{id}.{hash}.1.parquet"),
        format!("seg/2026-12-01/13/../{id}.{hash}.1.parquet"),
        format!("seg/2026-12-01/13/{id}.{hash}.0.parquet"),
        format!("seg/2026-12-01/13/{id}.{hash}.01.parquet"),
        format!("seg/2026-12-01/13/{id}.{hash}.99999999999999999999.parquet"),
        format!("seg/2026-12-01/13/{id}.{hash}.1.2.parquet"),
        format!("seg/2026-12-01/13/{id}.{hash}.1"),
        format!("seg/2026-12-01/13/{id}.1.parquet"),
        format!("seg/2026-12-01/13/{}.{hash}.1.parquet", "f".repeat(32)),
        format!("out/2026-12-01/13/{id}.rollup.{hash}.1.parquet"),
        format!(
            "out/2026-12-01/13/{id}.samples.{}.1.parquet",
            hash.to_uppercase()
        ),
        format!("rec/2026-12-01/13/{id}.json"),
        format!("rec/2026-12-01/13/{id}.Compaction.json"),
        format!("rec/2026-12-01/13/{id}.compaction.json.tmp"),
        format!("rec/2026-12-01/13/{id}.{}.json", "a".repeat(25)),
        "seg/".repeat(200),
    ];
    let errors: Vec<String> = keys
        .iter()
        .map(|key| key.parse::<ObjectName>().expect_err(key).to_string())
        .collect();
    assert!(errors.iter().all(|error| !error.is_empty()), "{errors:?}");
    let too_long = keys.last().unwrap().parse::<ObjectName>();
    assert_eq!(too_long, Err(ParseNameError::TooLong(800)));
    let foreign = keys[1].parse::<ObjectName>();
    assert!(matches!(foreign, Err(ParseNameError::OtherFolder(_))));
}

#[test]
fn keys_that_are_not_ours_are_left_out_of_a_listing_and_shown() {
    let many = (0..FOREIGN_SHOWN_MAX + 7).map(|number| (format!("other/{number}"), 1));
    let id = "01a22cdf8cb5f6f38a8aee1bf2033d36";
    let ours = format!("rec/2026-12-01/13/{id}.tombstone.json");
    let (mut listing, began) = (Listing::default(), time("2026-12-01T14:00:00Z"));
    listing.add("", began, many);
    listing.add("rec/", began, [(ours.as_str(), 9), (ours.as_str(), 9)]);
    assert_eq!(listing.records().len(), 1, "a key that is listed twice");
    assert_eq!(listing.foreign().count(), FOREIGN_SHOWN_MAX);
    assert_eq!(listing.foreign_count(), FOREIGN_SHOWN_MAX + 7);
    let first = listing.foreign().next().unwrap();
    assert_eq!(first.key, "other/0");
    assert_eq!(
        first.why.to_string(),
        "\"other/0\" is in no folder of the table"
    );
}

#[test]
fn an_hour_begins_and_ends_on_the_hour_whatever_the_date() {
    let hour_of = |text: &str| Hour::of(time(text)).unwrap().to_string();
    assert_eq!(hour_of("2026-12-01T13:59:59.999Z"), "2026-12-01/13");
    assert_eq!(hour_of("2028-02-29T00:00:00Z"), "2028-02-29/00");
    assert_eq!(hour_of("1970-01-01T00:00:00Z"), "1970-01-01/00");
    assert_eq!(hour_of("9998-12-31T23:59:59Z"), "9998-12-31/23");
    assert!(Hour::of(time("9999-01-01T00:00:00Z")).is_err());
    assert!(Hour::of(time("1969-12-31T23:59:59.999Z")).is_err());
    let thirteen = hour("2026-12-01/13");
    assert_eq!(thirteen.start(), time("2026-12-01T13:00:00Z"));
    let ten = SignedDuration::from_mins(10);
    assert_eq!(thirteen.since_end(time("2026-12-01T14:10:00Z")), ten);
    assert_eq!(thirteen.since_end(time("2026-12-01T13:50:00Z")), -ten);
}

#[test]
fn a_publish_is_given_up_after_an_hour_and_settled_after_a_day() {
    let id = PublishId::new(time("2026-12-01T13:00:00.007Z"), [7; 10]);
    assert_eq!(id.began(), time("2026-12-01T13:00:00.007Z"));
    assert_eq!(id.check_publish(time("2026-12-01T14:00:00Z")), Ok(()));
    let late = id.check_publish(time("2026-12-01T14:00:00.007Z"));
    assert_eq!(late, Err(PublishTooOldError { id, minutes: 60 }));
    assert!(!id.is_settled(time("2026-12-02T13:00:00Z")));
    assert!(id.is_settled(time("2026-12-02T13:00:00.007Z")));
    let behind = id.check_publish(time("2026-12-01T12:00:00Z"));
    assert_eq!(behind, Ok(()), "a clock that went back");
}

#[test]
fn ten_minutes_tell_a_resend_from_a_second_profile() {
    let of = |began: &str, content: u8| SegmentName {
        hour: hour("2026-12-01/13"),
        id: PublishId::new(time(began), [content; 10]),
        content: ContentHash([content; 32]),
        rows: 5,
    };
    let first = of("2026-12-01T13:00:00Z", 1);
    assert!(first.is_same_content(&first));
    let within = of("2026-12-01T13:10:00Z", 1);
    assert!(first.is_same_content(&within) && within.is_same_content(&first));
    assert!(!first.is_same_content(&of("2026-12-01T13:10:00.001Z", 1)));
    assert!(!first.is_same_content(&of("2026-12-01T13:00:00Z", 2)));
    let mut elsewhere = within;
    elsewhere.hour = hour("2026-12-01/14");
    assert!(!first.is_same_content(&elsewhere));
}
