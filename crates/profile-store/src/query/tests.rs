//! Sums are those of a naive fold however rows are split, and coverage adds up to everything.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BinaryViewArray, Int64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray,
};
use proptest::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use unhex_build_id::{IdKind, Identity};
use unhex_pprof::{CodeAddress, FrameHash, StackHash};

use super::columns::IsTotal;
use super::coverage::{CoverageBy, coverage};
use super::fold::{Asked, Fold, FoldPlan};
use super::only::{OnlyStacks, Others};
use super::stacks::Stacks;
use super::sums::{Group, Sums};
use crate::answers::Outcome;
use crate::rows::{FrameContent, FrameName, NativeFrame};
use crate::symbols::Names;
use crate::view::{ProfileType, Weight};

/// A row of samples.
#[derive(Clone, Debug)]
struct Row {
    labels: [String; 3],
    stack: u8,
    micros: i64,
    series: i64,
    count: i64,
    period: i64,
}

fn row() -> impl Strategy<Value = Row> {
    let label = |long: &'static str| prop_oneof![Just("a".to_owned()), Just(long.to_owned())];
    let labels = [
        label("a service with a name that no view has room for"),
        label("2.4"),
        label("production-of-the-whole-world"),
    ];
    let period = prop_oneof![0_i64..100, (i64::MAX - 5)..i64::MAX];
    (
        labels,
        0_u8..6,
        0_i64..7_200_000_000,
        0_i64..3,
        1_i64..50,
        period,
    )
        .prop_map(|(labels, stack, micros, series, count, period)| Row {
            labels,
            stack,
            micros,
            series,
            count: if period > 100 { 1 } else { count },
            period,
        })
}

fn hash(stack: u8) -> StackHash {
    StackHash([stack; 16])
}

fn batch(rows: &[Row]) -> RecordBatch {
    let label = |at: usize| -> ArrayRef {
        let values = rows.iter().map(|row| Some(row.labels[at].as_str()));
        Arc::new(values.collect::<StringViewArray>())
    };
    let numbers = |of: fn(&Row) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(rows.iter().map(of)))
    };
    let stacks = rows.iter().map(|row| Some(hash(row.stack).0));
    let times = TimestampMicrosecondArray::from_iter_values(rows.iter().map(|row| row.micros));
    RecordBatch::try_from_iter([
        ("service", label(0)),
        ("version", label(1)),
        ("deployment", label(2)),
        (
            "stack_id",
            Arc::new(stacks.collect::<BinaryViewArray>()) as ArrayRef,
        ),
        ("ts", Arc::new(times.with_timezone("UTC"))),
        ("series_id", numbers(|row| row.series)),
        ("count", numbers(|row| row.count)),
        ("period", numbers(|row| row.period)),
    ])
    .unwrap()
}

/// Which stacks a plan wants: all, some, or some of those that are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    All,
    Some,
    SomeOfKnown,
}

const WANTED: [u8; 2] = [1, 3];
const KNOWN: [u8; 3] = [0, 1, 3];

type Naive = (
    BTreeMap<(Group, StackHash), (i128, i128)>,
    FxHashSet<StackHash>,
);

/// What the plan says, without any of the shortcuts: sums, and what is noted.
fn naive(rows: &[Row], plan: &FoldPlan, wanted: Wanted) -> Naive {
    let mut sums = BTreeMap::new();
    let mut noted = FxHashSet::default();
    for row in rows {
        let label = |name: &str| match name {
            "service" => row.labels[0].as_str(),
            "version" => row.labels[1].as_str(),
            _ => row.labels[2].as_str(),
        };
        let series = plan.series.as_ref();
        if !plan.selector.matches(label) || series.is_some_and(|only| !only.contains(&row.series)) {
            continue;
        }
        if wanted != Wanted::All && !WANTED.contains(&row.stack) {
            if wanted == Wanted::SomeOfKnown && !KNOWN.contains(&row.stack) {
                noted.insert(hash(row.stack));
            }
            continue;
        }
        let step = plan.step_micros.map(|step| row.micros - row.micros % step);
        let group = Group {
            labels: plan
                .by_labels
                .then(|| row.labels.clone().map(Arc::<str>::from)),
            series: plan.by_series.then_some(row.series),
            step,
        };
        let stack = if plan.by_stack {
            hash(row.stack)
        } else {
            StackHash::default()
        };
        let sum: &mut (i128, i128) = sums.entry((group, stack)).or_default();
        if plan.asked == Asked::WhatAlone {
            continue;
        }
        sum.0 += i128::from(row.count);
        sum.1 += i128::from(row.count) * i128::from(row.period);
    }
    (sums, noted)
}

fn told(sums: &Sums) -> BTreeMap<(Group, StackHash), (i128, i128)> {
    let all = sums.iter();
    all.map(|(group, stack, weight)| ((group.clone(), stack), (weight.count, weight.value)))
        .collect()
}

fn plan() -> impl Strategy<Value = (FoldPlan, Wanted)> {
    let selector = prop_oneof![
        Just("{}"),
        Just(r#"{service="a"}"#),
        Just(r#"{service=~"a.+",version!="2.4"}"#),
    ];
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    let asked = prop_oneof![Just(Asked::HowMuch), Just(Asked::WhatAlone)];
    let step = prop_oneof![
        Just(None),
        Just(Some(60_000_000)),
        Just(Some(3_600_000_000))
    ];
    let wanted = prop_oneof![
        Just(Wanted::All),
        Just(Wanted::Some),
        Just(Wanted::SomeOfKnown)
    ];
    let only = (wanted, any::<bool>());
    (selector, flags, step, only, asked).prop_map(
        |(selector, (by_labels, by_series, by_stack), step_micros, only, asked)| {
            let stacks = match only.0 {
                Wanted::All => None,
                Wanted::Some => Some(OnlyStacks::new([], &WANTED.map(hash), Others::LeftOut)),
                Wanted::SomeOfKnown => {
                    let (known, wanted) = (KNOWN.map(hash), WANTED.map(hash));
                    Some(OnlyStacks::new(known, &wanted, Others::Noted))
                }
            };
            let plan = FoldPlan {
                selector: selector.parse().unwrap(),
                by_labels,
                by_series,
                step_micros,
                by_stack,
                asked,
                stacks: stacks.map(Arc::new),
                series: only.1.then(|| Arc::new([0, 2].into_iter().collect())),
            };
            (plan, only.0)
        },
    )
}

proptest! {
    #[test]
    fn sums_are_those_of_a_naive_fold_however_rows_are_split(
        mut rows in prop::collection::vec(row(), 0..60),
        cuts in prop::collection::vec(0_usize..60, 0..4),
        ((plan, wanted), is_sorted) in (plan(), any::<bool>()),
    ) {
        if is_sorted {
            rows.sort_by(|a, b| (&a.labels, a.stack, a.micros).cmp(&(&b.labels, b.stack, b.micros)));
        }
        let plan = Arc::new(plan);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(rows.len())).collect();
        cuts.extend([0, rows.len()]);
        cuts.sort_unstable();
        let mut parts = [(); 2].map(|()| Fold::new(Arc::clone(&plan), IsTotal::No));
        for (number, cut) in cuts.windows(2).enumerate() {
            parts[number % 2].add(&batch(&rows[cut[0]..cut[1]])).unwrap();
        }
        let mut sums = Sums::default();
        for part in parts {
            sums.merge(part.finish());
        }
        let (expected, noted) = naive(&rows, &plan, wanted);
        prop_assert_eq!(told(&sums), expected);
        prop_assert_eq!(sums.take_noted(), noted);
    }
}

fn native(build_id: Option<&str>, address: u64) -> FrameContent {
    let identity = build_id.map(|id| Identity::parse(IdKind::Gnu, id).unwrap());
    FrameContent::Native(NativeFrame {
        identity,
        file_name: "/usr/bin/checkout".into(),
        address: CodeAddress::Link(address),
    })
}

/// One frame of each kind.
fn frames() -> Vec<FrameContent> {
    let name = FrameName {
        function: "f".into(),
        file_name: "".into(),
        line: 0,
    };
    let FrameContent::Native(vdso) = native(Some("cc"), 1) else {
        unreachable!()
    };
    vec![
        native(Some("aa"), 1),
        native(Some("aa"), 2),
        native(None, 1),
        FrameContent::Vdso(vdso),
        FrameContent::Named {
            language: "cpython".into(),
            names: vec![name.clone()],
        },
        FrameContent::Kernel {
            file_name: "".into(),
            names: vec![name],
        },
        FrameContent::MissingUnwinder {
            runtime: "python".into(),
        },
        FrameContent::Truncated {
            reason: "max depth".into(),
        },
        FrameContent::Unplaced {
            file_name: "".into(),
        },
    ]
}

fn stacks_of(stacks: &[Vec<u8>]) -> (Stacks, Vec<StackHash>) {
    let contents = frames().into_iter().zip(0_u8..);
    let contents: FxHashMap<FrameHash, Arc<FrameContent>> = contents
        .map(|(frame, number)| (FrameHash([number; 16]), Arc::new(frame)))
        .collect();
    let hashes: Vec<StackHash> = (0_u8..).take(stacks.len()).map(hash).collect();
    let both = hashes.iter().zip(stacks).map(|(hash, frames)| {
        let frames = frames.iter().map(|frame| FrameHash([*frame; 16]));
        (*hash, frames.collect::<Arc<[FrameHash]>>())
    });
    (Stacks::new(both, &contents), hashes)
}

const BY_BINARY: CoverageBy = CoverageBy {
    labels: [true, false, false],
    binary: true,
};

fn weight(value: i128) -> Weight {
    Weight { count: 1, value }
}

proptest! {
    #[test]
    fn the_own_weights_of_coverage_add_up_to_everything_and_the_rest_stays_below(
        stacks in prop::collection::vec(prop::collection::vec(0_u8..9, 0..6), 1..12),
        weights in prop::collection::vec((0_u8..13, 0_i128..1_000, any::<bool>()), 0..40),
    ) {
        let (stacks, hashes) = stacks_of(&stacks);
        let mut sums = Sums::default();
        for (stack, value, is_other) in weights {
            let service = if is_other { "a" } else { "b" };
            let group = sums.group(&Group {
                labels: Some([service, "1", "prod"].map(Arc::from)),
                ..Group::default()
            });
            // One is in no dictionary.
            let stack = hashes.get(usize::from(stack)).copied();
            sums.add(group, stack.unwrap_or(hash(200)), weight(value));
        }
        let coverage = coverage(&sums, (&stacks, &Names::default()), BY_BINARY);
        let own: i128 = coverage.rows.iter().map(|row| row.own.value).sum();
        prop_assert_eq!(own, sums.total().value);
        prop_assert_eq!(coverage.total, sums.total());
        for row in &coverage.rows {
            prop_assert!(row.own.value <= row.weight.value && row.weight.value <= row.of.value);
            prop_assert_eq!(&*row.labels[1], "");
        }
        prop_assert!(coverage.whole.value <= coverage.total.value);
        let merged = stacks.merged(ProfileType::cpu(), &sums, &Names::default());
        prop_assert_eq!(merged.total(), sums.total());
    }
}

#[test]
fn a_stack_counts_once_in_each_row_that_it_has_frames_of() {
    // Twice in a binary that nobody could be asked about, below the kernel, and cut off.
    let (stacks, hashes) = stacks_of(&[vec![5, 0, 1, 7], vec![4], vec![3, 8]]);
    let mut sums = Sums::default();
    let group = sums.group(&Group::default());
    sums.add(group, hashes[0], weight(10));
    sums.add(group, hashes[1], weight(2));
    sums.add(group, hashes[2], weight(1));
    let coverage = coverage(&sums, (&stacks, &Names::default()), BY_BINARY);
    let rows: Vec<_> = coverage
        .rows
        .iter()
        .map(|row| (row.class.outcome, row.weight.value, row.own.value))
        .collect();
    let expected = [
        (Outcome::Kernel, 10, 10),
        (Outcome::Truncated, 10, 0),
        (Outcome::Unavailable, 10, 0),
        (Outcome::Named, 2, 2),
        (Outcome::Unplaced, 1, 0),
        (Outcome::Vdso, 1, 1),
    ];
    assert_eq!(rows.len(), expected.len(), "{rows:?}");
    assert!(expected.iter().all(|row| rows.contains(row)), "{rows:?}");
    assert_eq!((coverage.whole.value, coverage.total.value), (3, 13));
    let truncated = coverage
        .rows
        .iter()
        .find(|row| row.class.outcome == Outcome::Truncated);
    assert_eq!(&*truncated.unwrap().class.detail, "max depth");
}
