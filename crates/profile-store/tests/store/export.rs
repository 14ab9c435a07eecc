//! The Delta log: it says what the fold says, whoever writes it, and shows no row that is deleted.

use std::collections::{BTreeMap, BTreeSet};

use deltalake_core::DeltaTableBuilder;
use deltalake_core::table::builder::parse_table_uri;
use futures_util::TryStreamExt as _;
use unhex_profile_store::clock::Clock;
use unhex_profile_store::export::{Exported, Exporter};
use unhex_profile_store::objects::{Listed, Objects};
use unhex_profile_store::table::names::{
    ContentHash, FileKind, Hour, Output, OutputName, PublishId, SegmentName,
};
use unhex_profile_store::table::record::{
    Compaction, Deletion, Label, Record, RowSelector, RowTotals, Tombstone,
};

use crate::backends::over_each;
use crate::files::in_memory;

fn hour() -> Hour {
    "2026-12-01/07".parse().unwrap()
}

fn publish(number: u8) -> PublishId {
    PublishId::new("2026-12-01T07:30:00Z".parse().unwrap(), [number; 10])
}

fn segment(number: u8) -> SegmentName {
    SegmentName {
        hour: hour(),
        id: publish(number),
        content: ContentHash([number; 32]),
        rows: 10,
    }
}

async fn put_segment(objects: &Objects, number: u8) {
    // Nothing here reads the rows.
    objects
        .put(&segment(number).to_string(), "rows".into())
        .await
        .unwrap();
}

async fn compact(objects: &Objects, number: u8, base: &[u8], applied: &[u8]) -> String {
    let id = publish(number);
    let output = OutputName {
        hour: hour(),
        id,
        kind: FileKind::Samples,
        sha256: ContentHash([number; 32]),
        rows: 7,
    };
    objects
        .put(&output.to_string(), "rows".into())
        .await
        .unwrap();
    let base: Vec<SegmentName> = base.iter().map(|&number| segment(number)).collect();
    let record = Record::Compaction(
        Compaction {
            id,
            hour: hour(),
            generation: u32::from(number),
            applied: applied.iter().map(|&number| publish(number)).collect(),
            outputs: vec![Output {
                name: output,
                bytes: 4,
            }],
            totals: RowTotals {
                base_rows: base.iter().map(|name| name.rows).sum(),
                sample_rows: 7,
                total_rows: 0,
                samples: 0,
            },
            base,
        }
        .into(),
    );
    objects
        .put(&record.name().to_string(), record.to_json().unwrap().into())
        .await
        .unwrap();
    output.to_string()
}

async fn delete_a_service(objects: &Objects, number: u8) {
    let rows = RowSelector::Matching(BTreeMap::from([(Label::Service, "a".to_owned())]));
    let record = Record::Tombstone(
        Tombstone {
            id: publish(number),
            hour: hour(),
            deletion: Deletion {
                kinds: BTreeSet::from([FileKind::Samples]),
                rows,
            },
        }
        .into(),
    );
    objects
        .put(&record.name().to_string(), record.to_json().unwrap().into())
        .await
        .unwrap();
}

fn exporter_of(objects: &Objects) -> Exporter {
    let now = "2026-12-01T07:45:00Z".parse().unwrap();
    Exporter::new(objects.clone(), Clock::new(move || now))
}

async fn exported(exporter: &mut Exporter) -> Exported {
    exporter.export_recent().await.unwrap()
}

/// What somebody who knows the log alone reads: the keys of the files, and their partitions.
async fn shown(objects: &Objects) -> BTreeSet<String> {
    let root = parse_table_uri("memory:///").unwrap();
    let builder = DeltaTableBuilder::from_url(root.clone()).unwrap();
    let table = builder
        .with_storage_backend(objects.store(), root)
        .load()
        .await
        .unwrap();
    let files = table.snapshot().unwrap().log_data().into_iter();
    files
        .map(|file| {
            let partitions = file.partition_values_map();
            assert_eq!(partitions["date"].as_deref(), Some("2026-12-01"));
            assert_eq!(partitions["hour"].as_deref(), Some("7"));
            file.path().into_owned()
        })
        .collect()
}

fn segments(numbers: &[u8]) -> BTreeSet<String> {
    numbers
        .iter()
        .map(|&number| segment(number).to_string())
        .collect()
}

#[tokio::test]
async fn the_log_follows_segments_compactions_and_sweeps() {
    over_each(|objects| async move {
        let mut exporter = exporter_of(&objects);
        assert_eq!(exported(&mut exporter).await, Exported::default());
        for number in [1, 2] {
            put_segment(&objects, number).await;
        }
        let two = exported(&mut exporter).await;
        assert_eq!((two.version, two.added, two.removed), (1, 2, 0));
        assert_eq!(shown(&objects).await, segments(&[1, 2]));
        let again = exported(&mut exporter).await;
        assert_eq!(
            (again.version, again.added),
            (1, 0),
            "nothing to say is no commit"
        );

        let output = compact(&objects, 1, &[1, 2], &[]).await;
        put_segment(&objects, 3).await;
        let mixed = exported(&mut exporter).await;
        assert_eq!((mixed.added, mixed.removed), (2, 2));
        let mut expected = segments(&[3]);
        expected.insert(output.clone());
        assert_eq!(shown(&objects).await, expected);

        let other = compact(&objects, 2, &[1, 2, 3], &[]).await;
        exported(&mut exporter_of(&objects)).await;
        assert_eq!(shown(&objects).await, BTreeSet::from([other]));
        let seen: Vec<Listed> = objects.list("", None).try_collect().await.unwrap();
        let ours = seen
            .iter()
            .filter(|object| !object.key.starts_with("_delta_log/"));
        for object in ours {
            objects.delete(&object.key).await.unwrap();
        }
        let (states, other) = (BTreeMap::new(), "2026-12-01/08".parse().unwrap());
        exporter
            .export(&BTreeSet::from([other]), &states)
            .await
            .unwrap();
        let seen = shown(&objects).await;
        assert_eq!(seen.len(), 1, "hours that nobody looked at stay");
        exporter.export_all().await.unwrap();
        assert_eq!(shown(&objects).await, BTreeSet::new());
    })
    .await;
}

#[tokio::test]
async fn replicas_that_export_at_once_say_the_same_and_nothing_twice() {
    over_each(|objects| async move {
        let mut exporters: Vec<Exporter> = (0..3).map(|_| exporter_of(&objects)).collect();
        for round in 0..6 {
            put_segment(&objects, round * 2 + 1).await;
            put_segment(&objects, round * 2 + 2).await;
            let exports = exporters.iter_mut().map(Exporter::export_recent);
            let done = futures_util::future::join_all(exports).await;
            assert!(done.iter().any(Result::is_ok), "{done:?}");
        }
        exported(&mut exporters[0]).await;
        assert_eq!(
            shown(&objects).await,
            segments(&(1..=12).collect::<Vec<u8>>())
        );
        let log: Vec<Listed> = objects
            .list("_delta_log/", None)
            .try_collect()
            .await
            .unwrap();
        let mut adds = 0;
        for object in log.iter().filter(|object| object.key.contains(".json")) {
            let bytes = objects.get(&object.key).await.unwrap().unwrap();
            let text = String::from_utf8(bytes.to_vec()).unwrap();
            adds += text
                .lines()
                .filter(|line| line.starts_with("{\"add\""))
                .count();
        }
        assert_eq!(adds, 12);
    })
    .await;
}

#[tokio::test]
async fn an_hour_with_deleted_rows_is_shown_again_when_it_was_compacted() {
    over_each(|objects| async move {
        let mut exporter = exporter_of(&objects);
        put_segment(&objects, 1).await;
        exported(&mut exporter).await;
        delete_a_service(&objects, 9).await;
        let left_out = exported(&mut exporter).await;
        assert_eq!((left_out.removed, left_out.hours_left_out), (1, 1));
        assert_eq!(shown(&objects).await, BTreeSet::new());
        let output = compact(&objects, 1, &[1], &[9]).await;
        let again = exported(&mut exporter).await;
        assert_eq!((again.added, again.hours_left_out), (1, 0));
        assert_eq!(shown(&objects).await, BTreeSet::from([output]));
    })
    .await;
}

#[tokio::test]
async fn an_hour_that_cannot_be_folded_stays_as_it_is() {
    over_each(|objects| async move {
        let mut exporter = exporter_of(&objects);
        put_segment(&objects, 1).await;
        exported(&mut exporter).await;
        put_segment(&objects, 2).await;
        let unknown = format!("rec/{}/{}.other.json", hour(), publish(3));
        objects
            .put(&unknown, "{\"version\":9}".into())
            .await
            .unwrap();
        exported(&mut exporter).await;
        assert_eq!(shown(&objects).await, segments(&[1]));
    })
    .await;
}

#[tokio::test]
async fn a_log_of_many_commits_has_checkpoints_and_is_read_from_the_last() {
    let objects = in_memory();
    let mut exporter = exporter_of(&objects);
    for number in 1..=104 {
        put_segment(&objects, number).await;
        exported(&mut exporter).await;
    }
    let last = objects.get("_delta_log/_last_checkpoint").await.unwrap();
    assert!(last.is_some());
    assert_eq!(shown(&objects).await.len(), 104);
}
