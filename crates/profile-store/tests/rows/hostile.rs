//! Messages that are made to cost much, or to be mistaken for others.

use unhex_pprof::{Builder, Frame, FrameKind, Function, Line, NewSample, Profile, ValueType};
use unhex_profile_store::rows::{BATCH_ROWS_MAX, FRAME_TEXT_BYTES_MAX, FrameContent, SERIES_MAX};

use crate::messages::{OTLP, PlainProfile, PlainSample, kept, kept_with, labels, sample};
use crate::totals::sums;

fn with_label(number: usize, key: &str) -> PlainSample {
    PlainSample {
        labels: vec![(key.to_owned(), number.to_string())],
        ..sample(&[], &[1, 10])
    }
}

#[test]
fn a_label_that_differs_in_each_sample_goes_and_no_sample_does() {
    let samples = (0..=SERIES_MAX).map(|number| with_label(number, "trace"));
    let of = PlainProfile {
        samples: samples.collect(),
        ..PlainProfile::default()
    };
    let batch = kept(&[of]);
    assert_eq!(batch.series.len(), 1);
    assert_eq!(batch.left_out.samples, SERIES_MAX as u64 + 1);
    assert_eq!(sums(&batch.rows)["cpu"].0, SERIES_MAX as i128 + 1);
    assert_eq!(batch.rows[0].series.service(), "checkout");
}

#[test]
fn free_labels_that_differ_in_each_profile_go_and_the_service_stays() {
    let of = |number: usize| PlainProfile {
        attributes: labels(&[("request", &number.to_string())]),
        samples: vec![sample(&[], &[1, 10])],
        ..PlainProfile::default()
    };
    let profiles: Vec<PlainProfile> = (0..=SERIES_MAX).map(of).collect();
    let batch = kept(&profiles);
    assert_eq!(batch.series.len(), 1);
    assert_eq!(batch.left_out.labels, SERIES_MAX as u64 + 1);
    assert_eq!(batch.rows.len(), SERIES_MAX + 1);
    assert_eq!(batch.rows[0].series.version(), "2.4");
}

#[test]
fn names_of_frames_are_bounded_and_cannot_break_a_line() {
    let mut builder = Builder::default();
    let unit = builder.string("wall");
    let value_types = vec![ValueType { name: unit, unit }];
    builder.profile(Profile {
        value_types,
        ..Profile::default()
    });
    let long = format!("a\n\u{202e}{}", "x".repeat(1 << 20));
    let name = builder.string(long);
    let function = builder.function(Function {
        system_name: name,
        ..Function::default()
    });
    let line = Line {
        function,
        ..Line::default()
    };
    let frame = Frame {
        kind: FrameKind::Named,
        ..Frame::default()
    };
    let frame = builder.frame(frame, &[line]);
    let stack = builder.stack(&[frame]);
    builder.sample(NewSample {
        stack,
        values: &[1],
        ..NewSample::default()
    });
    let batch = kept_with(&builder.finish(), &[]);
    let Some(FrameContent::Named { names, .. }) = batch.frames.values().next() else {
        panic!("{:?}", batch.frames.len());
    };
    assert_eq!(names[0].function.len(), FRAME_TEXT_BYTES_MAX);
    assert!(names[0].function.starts_with("axx"));
}

#[test]
fn a_type_cannot_be_mistaken_for_cpu_time() {
    for (types, name) in [
        (&[("cpu", "")], "cpu:"),
        (&[("cpu", "cycles")], "cpu:cycles"),
        (&[("a:b", "c")], "a_b:c"),
        (&[("", "\u{0}bytes")], ":bytes"),
    ] as [(&'static [(&str, &str)], &str); 4]
    {
        let samples = vec![sample(&[], &[5])];
        let rows = kept(&[PlainProfile {
            types,
            samples,
            ..PlainProfile::default()
        }])
        .rows;
        assert_eq!(rows[0].profile_type.as_ref(), name);
        assert_eq!((rows[0].count, rows[0].period), (1, 5));
    }
}

#[test]
fn a_second_type_of_cpu_time_is_not_added_to_the_first() {
    let types = &[
        ("samples", "count"),
        ("cpu", "nanoseconds"),
        ("cpu", "milliseconds"),
    ];
    let samples = vec![sample(&[], &[2, 20, 7])];
    let rows = kept(&[PlainProfile {
        types,
        samples,
        ..PlainProfile::default()
    }])
    .rows;
    let sums = sums(&rows);
    assert_eq!(sums["cpu"], (2, 20));
    assert_eq!(sums["cpu:milliseconds"], (1, 7));
    assert_eq!(sums.len(), 2, "{sums:?}");
}

#[test]
fn a_profile_with_more_observations_than_fit_is_rejected_alone() {
    let of = |observations| PlainProfile {
        types: OTLP,
        samples: vec![sample(&[], &vec![1; observations])],
        ..PlainProfile::default()
    };
    let batch = kept(&[of(2), of(BATCH_ROWS_MAX - 1), of(1)]);
    assert_eq!(batch.rows.len(), 3);
    let answer = batch.rejections().expect("a rejection");
    assert_eq!(
        answer,
        "profile 1: with it the message has more than 4194304 observations: send less at a time"
    );
}
