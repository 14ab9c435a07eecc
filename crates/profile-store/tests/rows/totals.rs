//! Nothing is lost or rounded between a message, its rows and the rows of compaction.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use unhex_profile_store::rows::{RefusedError, SampleRow, TimeError, TypeTotals, totals};

use crate::messages::{
    GO, HEAP, NOON_NANOS, OTLP, PlainFrame, PlainProfile, PlainSample, kept, labels, model,
    profile, sample,
};

const LEAF: PlainFrame = PlainFrame::Native(1, 0x10);

/// Counts and values by type.
pub(crate) fn sums(rows: &[SampleRow]) -> BTreeMap<String, (i128, i128)> {
    let sum = |of: TypeTotals| (of.count, of.value);
    let totals = totals(rows).into_iter();
    totals
        .map(|(of, totals)| (of.to_string(), sum(totals)))
        .collect()
}

fn of(rows: &[(&str, i128, i128)]) -> BTreeMap<String, (i128, i128)> {
    let rows = rows.iter();
    rows.map(|(of, count, value)| ((*of).to_owned(), (*count, *value)))
        .collect()
}

pub(crate) fn frames() -> impl Strategy<Value = Vec<PlainFrame>> {
    let native = (0..3_u8, 0..4_u64).prop_map(|(number, at)| PlainFrame::Native(number, at));
    let frame = prop_oneof![
        4 => native,
        1 => Just(PlainFrame::Python("main")),
        1 => Just(PlainFrame::Kernel("do_syscall_64")),
        1 => Just(PlainFrame::NamedNative("tool_main")),
        1 => Just(PlainFrame::Vdso),
        1 => Just(PlainFrame::Jit),
        1 => Just(PlainFrame::MissingUnwinder("[java]")),
    ];
    vec(frame, 0..5)
}

/// Profiles of three shapes, in which samples have labels, some without values, with times in some minutes.
pub(crate) fn profiles() -> impl Strategy<Value = Vec<PlainProfile>> {
    let sample = |types: &'static [(&str, &str)]| {
        let value = prop_oneof![0..5_i64, 0..1_i64 << 36];
        let labels = prop_oneof![
            Just(vec![]),
            Just(labels(&[("endpoint", "/pay"), ("a", "b")]))
        ];
        let timestamps = vec((0..5_u64, 0..90_u64).prop_map(|(m, s)| m * 60 + s), 1..4);
        (
            frames(),
            labels,
            timestamps,
            any::<bool>(),
            vec(value, types.len() * 3),
        )
            .prop_map(move |(stack, labels, seconds, has_values, mut values)| {
                let is_otlp = types == OTLP;
                let rows = if is_otlp { seconds.len() } else { 1 };
                values.truncate(if is_otlp && !has_values {
                    0
                } else {
                    rows * types.len()
                });
                let nanos = seconds.iter().map(|s| NOON_NANOS - s * 1_000_000_000);
                let timestamps = if is_otlp { nanos.collect() } else { vec![] };
                PlainSample {
                    stack,
                    labels,
                    values,
                    timestamps,
                }
            })
    };
    let shape = prop_oneof![Just(GO), Just(OTLP), Just(HEAP)];
    let profile = shape.prop_flat_map(move |types| {
        let services = prop_oneof![Just("checkout"), Just("cart")];
        (vec(sample(types), 0..8), services, 1..50_000_000_i64).prop_map(
            move |(samples, service, period)| PlainProfile {
                resource: labels(&[("service.name", service)]),
                types,
                period: if types == OTLP { period } else { 10_000_000 },
                samples,
                ..PlainProfile::default()
            },
        )
    });
    vec(profile, 1..4)
}

/// The sums that the types of a message mean, from the model's own.
fn meant(profiles: &[PlainProfile]) -> BTreeMap<String, i128> {
    let model = model(profiles);
    let mut meant = BTreeMap::new();
    for (plain, profile) in profiles.iter().zip(model.profiles()) {
        let of_model = model.totals(profile);
        let is_paired = || {
            let mut samples = plain.samples.iter();
            samples.all(|sample| sample.values[0] != 0 || sample.values[1] == 0)
        };
        let named: Vec<(&str, i128)> = match plain.types {
            GO if is_paired() => vec![("cpu", of_model[1])],
            GO => vec![("samples:count", of_model[0]), ("cpu", of_model[1])],
            OTLP => vec![("cpu", of_model[0] * i128::from(plain.period))],
            _ => vec![
                ("alloc_objects:count", of_model[0]),
                ("alloc_space:bytes", of_model[1]),
                ("inuse_objects:count", of_model[2]),
                ("inuse_space:bytes", of_model[3]),
            ],
        };
        for (name, total) in named {
            *meant.entry(name.to_owned()).or_default() += total;
        }
    }
    meant.retain(|_, total| *total != 0);
    meant
}

proptest! {
    #[test]
    fn the_sums_of_rows_are_those_of_the_message(profiles in profiles()) {
        let batch = kept(&profiles);
        prop_assert_eq!(&batch.rejected, &[]);
        let rows = sums(&batch.rows);
        let mut values: BTreeMap<String, i128> =
            rows.iter().map(|(of, (_, value))| (of.clone(), *value)).collect();
        values.retain(|_, total| *total != 0);
        prop_assert_eq!(values, meant(&profiles));
    }
}

#[test]
fn samples_and_the_cpu_time_that_they_count_are_one_row() {
    let rows = kept(&[profile(vec![sample(&[LEAF], &[3, 30_000_000])])]).rows;
    let [row] = rows.as_slice() else {
        panic!("{rows:?}")
    };
    assert_eq!((row.count, row.period), (3, 10_000_000));
    assert_eq!(row.time_unix_seconds, 1_796_130_000);
}

#[test]
fn cpu_time_that_no_whole_period_gives_is_two_rows_of_the_same_sums() {
    let batch = kept(&[profile(vec![sample(&[LEAF], &[3, 30_000_001])])]);
    assert_eq!(sums(&batch.rows), of(&[("cpu", 3, 30_000_001)]));
    assert_eq!(batch.rows.len(), 2);
}

#[test]
fn samples_and_values_that_do_not_fit_are_types_of_their_own() {
    let batch = kept(&[profile(vec![
        sample(&[LEAF], &[0, 5]),
        sample(&[LEAF], &[2, 0]),
    ])]);
    let expected = of(&[("cpu", 1, 5), ("samples:count", 2, 2)]);
    assert_eq!(sums(&batch.rows), expected);
}

#[test]
fn a_unit_of_cpu_time_does_not_matter_and_a_period_gives_samples_their_time() {
    let seconds = PlainProfile {
        types: &[("cpu", "seconds")],
        ..profile(vec![sample(&[LEAF], &[2])])
    };
    let samples = PlainProfile {
        types: OTLP,
        period: 50_000_000,
        samples: vec![PlainSample {
            stack: vec![LEAF],
            timestamps: vec![NOON_NANOS; 20],
            ..PlainSample::default()
        }],
        ..PlainProfile::default()
    };
    assert_eq!(
        sums(&kept(&[seconds, samples]).rows),
        of(&[("cpu", 21, 3_000_000_000)])
    );
}

#[test]
fn a_negative_value_rejects_its_profile_and_no_other() {
    let good = profile(vec![sample(&[LEAF], &[1, 10])]);
    let bad = profile(vec![sample(&[LEAF], &[1, 10]), sample(&[LEAF], &[1, -10])]);
    let batch = kept(&[good, bad]);
    assert_eq!(sums(&batch.rows), of(&[("cpu", 1, 10)]));
    let answer = batch.rejections().expect("a rejection");
    assert_eq!(
        answer,
        "profile 1: sample 1 has -10 for cpu: only profiles without negative values are kept; of a difference send both profiles"
    );
}

#[test]
fn a_negative_count_of_samples_is_refused_too() {
    let batch = kept(&[profile(vec![sample(&[LEAF], &[i64::MIN, 10])])]);
    let reason = &batch.rejected[0].reason;
    assert!(
        matches!(
            reason,
            RefusedError::Negative {
                value: i64::MIN,
                ..
            }
        ),
        "{reason}"
    );
    assert!(batch.rows.is_empty() && batch.series.is_empty() && batch.stacks.is_empty());
}

#[test]
fn the_largest_values_are_kept_and_larger_ones_refused() {
    let seconds = |value| PlainProfile {
        types: &[("cpu", "seconds")],
        ..profile(vec![sample(&[LEAF], &[value])])
    };
    let most = i64::MAX / 1_000_000_000;
    let batch = kept(&[seconds(most), seconds(most + 1)]);
    assert_eq!(sums(&batch.rows)["cpu"].1, i128::from(most) * 1_000_000_000);
    let reason = batch.rejected[0].reason.to_string();
    assert_eq!(
        reason,
        "sample 0 has 9223372037 times 1000000000 for cpu, beyond 64 bits"
    );
    let all = kept(&[profile(vec![sample(&[LEAF], &[i64::MAX, i64::MAX]); 2])]);
    assert_eq!(
        sums(&all.rows)["cpu"],
        (2 * i128::from(i64::MAX), 2 * i128::from(i64::MAX))
    );
}

#[test]
fn one_time_that_is_too_far_ahead_rejects_the_whole_profile() {
    let ahead = NOON_NANOS + 3_600_000_000_000;
    let wrong = PlainProfile {
        types: OTLP,
        samples: vec![PlainSample {
            timestamps: vec![NOON_NANOS, ahead],
            ..sample(&[LEAF], &[])
        }],
        ..PlainProfile::default()
    };
    let batch = kept(&[wrong]);
    assert!(batch.rows.is_empty(), "{:?}", batch.rows);
    let reason = &batch.rejected[0].reason;
    assert!(
        matches!(reason, RefusedError::Time(TimeError::Ahead { .. })),
        "{reason}"
    );
}

#[test]
fn a_profile_without_a_time_is_of_its_arrival() {
    let timeless = PlainProfile {
        time: 0,
        ..profile(vec![sample(&[LEAF], &[1, 10])])
    };
    let rows = kept(&[timeless]).rows;
    assert_eq!(rows[0].time_unix_seconds, 1_796_130_005);
}

#[test]
fn of_many_rejected_profiles_ten_are_described() {
    let bad = profile(vec![sample(&[LEAF], &[1, -10])]);
    let answer = kept(&vec![bad; 13]).rejections().expect("rejections");
    assert!(answer.ends_with("; and 3 more"), "{answer}");
    assert_eq!(answer.matches("profile ").count(), 10, "{answer}");
}
