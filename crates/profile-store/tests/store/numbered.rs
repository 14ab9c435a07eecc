//! Segments as appends write them: numbers of a writer instead of stacks, which queries and compactions look up.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::AsArray as _;
use bytes::Bytes;
use futures_util::TryStreamExt as _;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use unhex_pprof::{FrameHash, StackHash};
use unhex_profile_store::append::{Appender, AppenderParts, Message, RequestHash};
use unhex_profile_store::limits::Limits;
use unhex_profile_store::metrics::Metrics;
use unhex_profile_store::objects::Objects;
use unhex_profile_store::query::{LinesBy, Question};
use unhex_profile_store::rows::{Batch, FrameContent, FrameName, SampleRow, Series};
use unhex_profile_store::view::{FilterTexts, StackFilter};

use crate::asked::{Asked, question};
use crate::fleet::{Now, at_once, replica};
use crate::ingested::{hour, minute, stack_id};

const PERIOD: i64 = 52_631_578;

/// What ends the writing of a replica that is dropped.
struct Writing {
    appender: Appender,
    tasks: TaskTracker,
    stopping: CancellationToken,
}

impl Writing {
    fn to(objects: &Objects, now: &Now) -> Self {
        let appender = Appender::new(AppenderParts {
            objects: objects.clone(),
            clock: now.clock(),
            metrics: Arc::new(Metrics::new(100)),
            limits: Limits {
                window_millis_max: std::time::Duration::from_millis(1),
                ..Limits::default()
            },
        });
        let (tasks, stopping) = (TaskTracker::new(), CancellationToken::new());
        appender.run(&tasks, stopping.clone(), stopping.clone());
        Self {
            appender,
            tasks,
            stopping,
        }
    }

    /// One sample of each stack, of a service, at a minute.
    async fn append(&self, service: &str, at: i64, stacks: impl IntoIterator<Item = u64>) {
        let labels = [
            ("deployment", "prod"),
            ("service", service),
            ("version", "1"),
        ];
        let labels = labels.map(|(name, value)| (name.into(), value.into()));
        let series = Arc::new(Series::of_labels(labels.to_vec()).unwrap());
        let profile_type: Arc<str> = "cpu".into();
        let mut batch = Batch::default();
        for stack in stacks {
            batch.rows.push(SampleRow {
                series: Arc::clone(&series),
                profile_type: Arc::clone(&profile_type),
                stack: hash_of(stack),
                time_unix_seconds: minute(at).as_second(),
                count: 1,
                period: PERIOD,
            });
            let frame = FrameHash(stack_id(stack + 1_000_000));
            batch.stacks.insert(hash_of(stack), [frame].into());
            batch.frames.insert(frame, frame_of(stack));
        }
        batch.series.insert(series.id(), series);
        let hash = RequestHash(rand::random());
        let message = Message { hash, batch };
        self.appender.append(message, Box::new(())).await.unwrap();
    }

    async fn end(self) {
        self.stopping.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

fn hash_of(stack: u64) -> StackHash {
    StackHash(stack_id(stack))
}

fn frame_of(stack: u64) -> FrameContent {
    FrameContent::Named {
        language: "cpython".into(),
        names: vec![FrameName {
            function: format!("f{stack}").into(),
            file_name: "".into(),
            line: 0,
        }],
    }
}

/// Keys of some folder, with the objects.
async fn files(objects: &Objects, prefix: &str, part: &str) -> BTreeMap<String, Bytes> {
    let listed: Vec<_> = objects.list(prefix, None).try_collect().await.unwrap();
    let mut files = BTreeMap::new();
    for object in listed {
        if object.key.contains(part) {
            let bytes = objects.get(&object.key).await.unwrap().unwrap();
            files.insert(object.key, bytes);
        }
    }
    files
}

/// The lengths of `stack_id` in the rows of a file.
fn lengths(file: &Bytes) -> Vec<usize> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(file.clone()).unwrap();
    let mut lengths = Vec::new();
    for batch in reader.build().unwrap() {
        let batch = batch.unwrap();
        let stacks = batch.column_by_name("stack_id").unwrap();
        let stacks = stacks.as_binary::<i32>().iter().flatten();
        lengths.extend(stacks.map(<[u8]>::len));
    }
    lengths
}

fn both_hours() -> Question {
    question("{}", minute(0), minute(120))
}

/// Samples by the name of the leaf.
async fn told(asked: &Asked) -> BTreeMap<String, i128> {
    let (everything, question) = (StackFilter::default(), both_hours());
    let merged = asked.queries.profile(&question, &everything);
    let merged = merged.await.unwrap();
    let mut told = BTreeMap::new();
    for stack in merged.stacks() {
        let call = merged.calls(stack.frames[0])[0];
        let name = merged.functions()[call.function.index()].name.to_string();
        *told.entry(name).or_default() += stack.weight.count;
    }
    told
}

/// So many samples of each of these stacks.
fn expected(samples: &[(std::ops::Range<u64>, i128)]) -> BTreeMap<String, i128> {
    let mut expected = BTreeMap::new();
    for (stacks, count) in samples {
        for stack in stacks.clone() {
            *expected.entry(format!("f{stack}")).or_default() += count;
        }
    }
    expected
}

/// Samples of a function over both hours.
async fn of_function(asked: &Asked, function: &str) -> i128 {
    let filter = FilterTexts {
        function: Some(function),
        ..FilterTexts::default()
    };
    let by = LinesBy {
        labels: Vec::new(),
        step_seconds: 3_600,
    };
    let filter = StackFilter::new(filter).unwrap();
    let question = both_hours();
    let lines = asked.queries.series(&question, &filter, &by);
    let lines = lines.await.unwrap().lines;
    let values = lines.iter().flat_map(|line| line.points.values());
    values.sum::<i128>() / i128::from(PERIOD)
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_numbers_are_those_of_their_stacks_before_and_after_compactions() {
    let asked = Asked::at(minute(50)).await;
    let (maintenance, _spill) = replica(&asked.objects, &asked.now, at_once());
    let replicas = [(); 2].map(|()| Writing::to(&asked.objects, &asked.now));
    // Stacks of several services, of both replicas, and in the order in which they came, which is not that of the hashes.
    for (service, stacks) in [("checkout", 0..300), ("payment", 200..400)] {
        replicas[0].append(service, 10, stacks.clone().rev()).await;
        replicas[1].append(service, 11, stacks.clone()).await;
        replicas[0].append(service, 12, stacks).await;
    }
    asked.now.set(minute(75));
    replicas[0].append("checkout", 70, 0..100).await;
    replicas[1].append("checkout", 71, 300..350).await;
    let all = expected(&[(0..300, 3), (200..400, 3), (0..100, 1), (300..350, 1)]);
    let functions = [("^f7$", 4), ("^f320$", 4), ("^f250$", 6), ("^f999$", 0)];
    let answers = async || {
        assert_eq!(told(&asked).await, all);
        for (function, count) in functions {
            assert_eq!(of_function(&asked, function).await, count, "{function}");
        }
    };
    let segments = files(&asked.objects, "seg/", "").await;
    let numbered: Vec<usize> = segments.values().flat_map(lengths).collect();
    assert!(numbered.iter().all(|length| *length == 12), "{numbered:?}");
    answers().await;
    // The first hour is compacted, the second goes on.
    maintenance
        .compact(hour())
        .await
        .unwrap()
        .expect("it is due");
    answers().await;
    replicas[1].append("payment", 15, 0..10).await;
    asked.now.set(minute(140));
    let later = hour().start() + jiff::SignedDuration::from_hours(1);
    let later = unhex_profile_store::table::names::Hour::of(later).unwrap();
    maintenance
        .compact(later)
        .await
        .unwrap()
        .expect("it is due");
    maintenance
        .compact(hour())
        .await
        .unwrap()
        .expect("one came late");
    let outputs = files(&asked.objects, "out/", ".samples.").await;
    let hashes: Vec<usize> = outputs.values().flat_map(lengths).collect();
    assert!(hashes.iter().all(|length| *length == 16), "{hashes:?}");
    let all = expected(&[
        (0..300, 3),
        (200..400, 3),
        (0..100, 1),
        (300..350, 1),
        (0..10, 1),
    ]);
    assert_eq!(told(&asked).await, all);
    assert_eq!(of_function(&asked, "^f7$").await, 5);
    // Many small files of numbers are merged into one that says the same.
    let merged = maintenance.round().await;
    merged.unwrap();
    assert_eq!(told(&asked).await, all);
    // What comes after a listing that is still remembered.
    replicas[1].append("payment", 130, 900..905).await;
    replicas[0].append("payment", 119, 900..905).await;
    let all: BTreeMap<String, i128> = all.into_iter().chain(expected(&[(900..905, 1)])).collect();
    assert_eq!(told(&asked).await, all);
    for replica in replicas {
        replica.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_that_are_lost_count_on_and_are_known_again_when_they_are_restored() {
    let asked = Asked::at(minute(75)).await;
    let (maintenance, _spill) = replica(&asked.objects, &asked.now, at_once());
    let replica = Writing::to(&asked.objects, &asked.now);
    replica.append("checkout", 10, 0..20).await;
    replica.append("checkout", 11, 0..25).await;
    let all = expected(&[(0..20, 1), (0..25, 1)]);
    assert_eq!(told(&asked).await, all);
    let lost = files(&asked.objects, "dic/", ".numbers.").await;
    assert_eq!(lost.len(), 2);
    let (key, bytes) = lost.first_key_value().unwrap();
    asked.objects.delete(key).await.unwrap();
    let without = asked.another().await;
    let not_found = |told: &BTreeMap<String, i128>| {
        let found: i128 = told.values().sum();
        assert_eq!(found, 45);
        told.iter().any(|(name, _)| name.contains("not found"))
    };
    assert!(not_found(&told(&without).await));
    asked.now.set(minute(90));
    // What is not known stays in the outputs as it was.
    maintenance
        .compact(hour())
        .await
        .unwrap()
        .expect("it is due");
    let without = asked.another().await;
    assert!(not_found(&told(&without).await));
    asked.objects.put(key, bytes.clone()).await.unwrap();
    let with = asked.another().await;
    assert_eq!(told(&with).await, all);
    replica.end().await;
}

#[tokio::test]
async fn a_row_of_a_stack_that_is_known_takes_few_bytes() {
    let now = Now::at(minute(50));
    let objects = crate::replicas::in_memory();
    let replica = Writing::to(&objects, &now);
    for at in [10, 11] {
        replica.append("checkout", at, 0..10_000).await;
    }
    // One in three, as a second of a large fleet has them.
    replica
        .append("checkout", 12, (0..10_000).filter(|stack| stack % 3 == 0))
        .await;
    replica.end().await;
    let segments = files(&objects, "seg/", "").await;
    let sizes: Vec<(usize, usize)> = segments
        .values()
        .map(|file| (file.len(), lengths(file).len()))
        .collect();
    for (bytes, rows) in &sizes {
        assert!(bytes < rows, "{sizes:?}: a hash alone has 16 bytes");
    }
}
