//! Files of a dictionary: what is put in comes out, by what is wanted, before and after a merge.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use proptest::prelude::*;
use unhex_build_id::{IdKind, Identity};
use unhex_pprof::{CodeAddress, FrameHash, StackHash};
use unhex_profile_store::files::{
    FramesWanted, Packing, StackRow, StacksWanted, WrittenTable, frames_to_parquet,
    merge_dictionary, read_frames, read_series, read_stacks, series_to_parquet, stacks_to_parquet,
};
use unhex_profile_store::objects::{Objects, Operation};
use unhex_profile_store::rows::{FrameContent, FrameName, NativeFrame, Series, SeriesId};
use unhex_profile_store::table::dictionary::{DictionaryFile, DictionaryName, DictionaryTable};
use unhex_profile_store::table::names::{ContentHash, PublishId};

use crate::backends::over_each;
use crate::files::{block_on, in_memory, series};

fn stack(number: u32) -> StackHash {
    let mut hash = [9; 16];
    hash[..4].copy_from_slice(&number.to_be_bytes());
    StackHash(hash)
}

fn row(service: &str, number: u32) -> StackRow {
    let frames = (0..number % 5).map(|at| FrameHash([u8::try_from(at).unwrap(); 16]));
    StackRow {
        service: service.into(),
        stack: stack(number),
        frames: frames.collect(),
    }
}

async fn put(objects: &Objects, table: DictionaryTable, written: &WrittenTable) -> DictionaryFile {
    let sha256 = ContentHash::of(&written.bytes);
    let [.., a, b] = sha256.0;
    let name = DictionaryName {
        hour: "2026-12-01/13".parse().unwrap(),
        id: PublishId::new("2026-12-01T13:00:00Z".parse().unwrap(), [a ^ b; 10]),
        table,
        sha256,
        rows: written.rows,
    };
    objects
        .put(&name.to_string(), written.bytes.clone())
        .await
        .unwrap();
    let bytes = written.bytes.len() as u64;
    DictionaryFile { name, bytes }
}

fn any_text() -> impl Strategy<Value = Arc<str>> {
    prop_oneof!["", "main", "[a-zé]{1,9}"].prop_map(|text| text.as_str().into())
}

fn any_native() -> impl Strategy<Value = NativeFrame> {
    let identity = prop_oneof![
        Just(None),
        "[0-9a-f]{40}".prop_map(|text| Identity::parse(IdKind::Gnu, &text).ok()),
        "[0-9a-f]{32}".prop_map(|text| Identity::parse(IdKind::FileHash, &text).ok()),
    ];
    let address = (any::<u64>(), any::<bool>()).prop_map(|(address, is_link)| {
        if is_link {
            CodeAddress::Link(address)
        } else {
            CodeAddress::FileOffset(address)
        }
    });
    (identity, any_text(), address).prop_map(|(identity, file_name, address)| NativeFrame {
        identity,
        file_name,
        address,
    })
}

fn any_content() -> impl Strategy<Value = FrameContent> {
    let name = || {
        let parts = (any_text(), any_text(), any::<i64>());
        parts.prop_map(|(function, file_name, line)| FrameName {
            function,
            file_name,
            line,
        })
    };
    let names = || proptest::collection::vec(name(), 0..4);
    prop_oneof![
        any_native().prop_map(FrameContent::Native),
        any_native().prop_map(FrameContent::Vdso),
        (any_text(), names()).prop_map(|(language, names)| FrameContent::Named { language, names }),
        (any_text(), names())
            .prop_map(|(file_name, names)| FrameContent::Kernel { file_name, names }),
        any_text().prop_map(|runtime| FrameContent::MissingUnwinder { runtime }),
        any_text().prop_map(|reason| FrameContent::Truncated { reason }),
        any_text().prop_map(|file_name| FrameContent::Unplaced { file_name }),
    ]
}

proptest! {
    #[test]
    fn frames_come_back_exactly_and_of_two_with_one_number_the_lesser(
        contents in proptest::collection::vec((0..20_u8, any_content()), 1..60)
    ) {
        let numbered = || contents.iter().map(|(number, content)| (FrameHash([*number; 16]), content));
        let mut expected: BTreeMap<FrameHash, &FrameContent> = BTreeMap::new();
        for (number, content) in numbered() {
            expected.entry(number).and_modify(|kept| *kept = content.min(kept)).or_insert(content);
        }
        let wanted = FramesWanted(Arc::new(expected.keys().copied().collect()));
        let (one, other) = contents.split_at(contents.len() / 2);
        let read = block_on(async {
            let objects = in_memory();
            let mut files = Vec::new();
            for half in [one, other].into_iter().filter(|half| !half.is_empty()) {
                let half = half.iter().map(|(number, content)| (FrameHash([*number; 16]), content));
                let written = frames_to_parquet(half, Packing::Fresh).unwrap();
                files.push(put(&objects, DictionaryTable::Frames, &written).await);
            }
            let apart = read_frames(&objects, &files, &wanted).await.unwrap();
            let merged = merge_dictionary(&objects, &files).await.unwrap();
            prop_assert_eq!(merged.len(), 1);
            let file = put(&objects, DictionaryTable::Frames, &merged[0].written).await;
            let together = read_frames(&objects, &[file], &wanted).await.unwrap();
            prop_assert_eq!(&apart, &together);
            Ok(together)
        })?;
        let expected: BTreeMap<FrameHash, FrameContent> =
            expected.into_iter().map(|(number, content)| (number, content.clone())).collect();
        prop_assert_eq!(read.into_iter().collect::<BTreeMap<_, _>>(), expected);
    }
}

#[tokio::test]
async fn series_come_back_with_all_their_labels_before_and_after_a_merge() {
    over_each(|objects| async move {
        let all: Vec<Arc<Series>> = (0..50)
            .map(|number| series("checkout", "2.4", &format!("h{number}")))
            .collect();
        let write = |some: &[Arc<Series>]| {
            series_to_parquet(some.iter().map(AsRef::as_ref), Packing::Fresh).unwrap()
        };
        let mut files = Vec::new();
        for some in [&all[..30], &all[20..]] {
            files.push(put(&objects, DictionaryTable::Series, &write(some)).await);
        }
        let merged = merge_dictionary(&objects, &files).await.unwrap();
        assert_eq!(merged[0].written.rows, 50);
        let merged = put(&objects, DictionaryTable::Series, &merged[0].written).await;
        for files in [&files[..], &[merged]] {
            let read = read_series(&objects, files, None).await.unwrap();
            assert_eq!(read.len(), 50);
            assert!(all.iter().all(|series| read[&series.id()] == *series));
            let wanted: BTreeSet<SeriesId> = [all[7].id(), SeriesId(1)].into();
            let read = read_series(&objects, files, Some(&wanted)).await.unwrap();
            assert_eq!(read.values().collect::<Vec<_>>(), [&all[7]]);
        }
    })
    .await;
}

#[tokio::test]
async fn stacks_of_other_services_are_not_read() {
    let bytes: Arc<Mutex<u64>> = Arc::default();
    let counted = Arc::clone(&bytes);
    let objects = in_memory().observed(Arc::new(move |request| {
        if request.operation == Operation::Get {
            *counted.lock() += request.bytes;
        }
    }));
    let services = ["a", "b", "c"];
    let all = services
        .iter()
        .flat_map(|service| (0..40_000).map(|number| row(service, number)));
    let written = stacks_to_parquet(all.collect(), Packing::Compacted).unwrap();
    let file = put(&objects, DictionaryTable::Stacks, &written).await;
    let stacks = Arc::new(
        [stack(3), stack(39_999), stack(77_777)]
            .into_iter()
            .collect(),
    );
    let mut wanted = StacksWanted {
        services: Some(BTreeSet::from(["a".into()])),
        stacks,
    };
    let mut read = read_stacks(&objects, &[file], &wanted).await.unwrap();
    assert_eq!(read.remove(&stack(3)), Some(row("a", 3).frames));
    assert_eq!(read.remove(&stack(39_999)), Some(row("a", 39_999).frames));
    assert!(read.is_empty());
    let of_one = std::mem::take(&mut *bytes.lock());
    wanted.services = None;
    assert_eq!(
        read_stacks(&objects, &[file], &wanted).await.unwrap().len(),
        2
    );
    let of_all = *bytes.lock();
    assert!(of_one * 3 < of_all * 2, "{of_one} of {of_all}");
    wanted.services = Some(BTreeSet::from(["d".into()]));
    assert!(
        read_stacks(&objects, &[file], &wanted)
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn a_file_that_was_swept_is_told_from_one_that_is_damaged() {
    over_each(|objects| async move {
        let written = stacks_to_parquet(vec![row("a", 3)], Packing::Fresh).unwrap();
        let mut file = put(&objects, DictionaryTable::Stacks, &written).await;
        let key = file.name.to_string();
        let wanted = StacksWanted {
            services: None,
            stacks: Arc::default(),
        };
        let mut damaged = written.bytes.to_vec();
        damaged[7] ^= 1;
        objects.put(&key, damaged.into()).await.unwrap();
        let error = merge_dictionary(&objects, &[file]).await.unwrap_err();
        assert!(
            !error.is_absence() && error.to_string().contains(&key),
            "{error}"
        );
        objects.delete(&key).await.unwrap();
        let error = read_stacks(&objects, &[file], &wanted).await.unwrap_err();
        assert!(error.is_absence(), "{error:?}");
        let error = merge_dictionary(&objects, &[file]).await.unwrap_err();
        assert!(error.is_absence(), "{error:?}");
        file.bytes = 7;
        objects.put(&key, "damaged".into()).await.unwrap();
        let error = read_stacks(&objects, &[file], &wanted).await.unwrap_err();
        assert!(!error.is_absence(), "{error:?}");
    })
    .await;
}
