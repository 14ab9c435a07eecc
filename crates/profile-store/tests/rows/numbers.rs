//! Numbers of series, stacks and frames do not depend on where anything was seen.

use proptest::prelude::*;
use unhex_pprof::{CodeAddress, FrameHash};
use unhex_profile_store::rows::{
    Batch, FrameContent, FrameCoverage, FrameName, NativeFrame, SampleRow, StackCoverage,
};

use crate::messages::{
    PlainFrame, PlainProfile, build_id, kept, kept_with, labels, profile, reversed, sample,
};
use crate::totals::profiles;

proptest! {
    #[test]
    fn the_order_of_a_message_and_of_its_tables_changes_no_number(profiles in profiles()) {
        let (one, other) = (kept(&profiles), kept_with(&reversed(&profiles), &[]));
        prop_assert_eq!(&one.series, &other.series);
        prop_assert_eq!(&one.stacks, &other.stacks);
        prop_assert_eq!(&one.frames, &other.frames);
        prop_assert_eq!(in_order(one.rows), in_order(other.rows));
    }

    #[test]
    fn every_number_of_a_row_leads_to_what_it_stands_for_and_nothing_else_is_kept(profiles in profiles()) {
        let batch = kept(&profiles);
        let mut frames: Vec<FrameHash> = Vec::new();
        for row in &batch.rows {
            prop_assert_eq!(batch.series.get(&row.series.id()), Some(&row.series));
            frames.extend(batch.stacks[&row.stack].iter());
        }
        prop_assert!(batch.stacks.keys().all(|id| batch.rows.iter().any(|row| row.stack == *id)));
        prop_assert!(frames.iter().all(|id| batch.frames.contains_key(id)));
        prop_assert!(batch.frames.keys().all(|id| frames.contains(id)));
    }
}

fn in_order(mut rows: Vec<SampleRow>) -> Vec<SampleRow> {
    let numbers = |row: &SampleRow| (row.time_unix_seconds, row.count, row.period);
    rows.sort_by(|a, b| {
        let of = (a.series.id(), &a.profile_type, a.stack, numbers(a));
        of.cmp(&(b.series.id(), &b.profile_type, b.stack, numbers(b)))
    });
    rows
}

fn frame(of: PlainFrame) -> FrameContent {
    let batch = kept(&[profile(vec![sample(&[of], &[1, 10])])]);
    batch.frames.into_values().next().expect("a frame")
}

#[test]
fn a_native_frame_is_a_place_in_a_binary_without_the_names_that_came_with_it() {
    let native = frame(PlainFrame::Native(1, 0x1139));
    let expected = NativeFrame {
        identity: Some(build_id(1)),
        file_name: "/usr/lib/lib1.so".into(),
        address: CodeAddress::Link(0x1139),
    };
    assert_eq!(native, FrameContent::Native(expected));
    assert_eq!(native.coverage(), FrameCoverage::ToAsk);
}

#[test]
fn names_that_nobody_else_has_are_kept() {
    let names = |function: &str| {
        vec![FrameName {
            function: function.into(),
            file_name: "".into(),
            line: 7,
        }]
    };
    let python = FrameContent::Named {
        language: "cpython".into(),
        names: names("main"),
    };
    assert_eq!(frame(PlainFrame::Python("main")), python);
    assert_eq!(python.coverage(), FrameCoverage::Named);
    let tool = frame(PlainFrame::NamedNative("tool_main"));
    assert!(
        matches!(&tool, FrameContent::Named { names: of, .. } if *of == names("tool_main")),
        "{tool:?}"
    );
    let kernel = FrameContent::Kernel {
        file_name: "[kernel.kallsyms]".into(),
        names: names("schedule"),
    };
    assert_eq!(frame(PlainFrame::Kernel("schedule")), kernel);
}

#[test]
fn each_way_of_having_no_name_is_told_from_the_others() {
    let coverage = |of| frame(of).coverage();
    assert_eq!(coverage(PlainFrame::Kernel("")), FrameCoverage::Kernel);
    assert_eq!(coverage(PlainFrame::Vdso), FrameCoverage::Vdso);
    assert_eq!(coverage(PlainFrame::Jit), FrameCoverage::Unplaced);
    assert_eq!(
        coverage(PlainFrame::NamedNative("")),
        FrameCoverage::NoIdentity
    );
    let java = FrameCoverage::MissingUnwinder("java".into());
    assert_eq!(coverage(PlainFrame::MissingUnwinder("[java]")), java);
    let deep = "[truncated: max depth]";
    assert_eq!(
        coverage(PlainFrame::Truncated(deep)),
        FrameCoverage::Truncated(deep.into())
    );
}

#[test]
fn a_stack_says_where_it_broke_nearest_to_the_root() {
    let native = PlainFrame::Native(1, 0x10);
    let java = PlainFrame::MissingUnwinder("[java]");
    let truncated = PlainFrame::Truncated("[truncated]");
    let ends = |stack: &[PlainFrame]| {
        let batch = kept(&[profile(vec![sample(stack, &[1, 10])])]);
        batch.stack_coverage(batch.rows[0].stack)
    };
    assert_eq!(ends(&[native]), Some(StackCoverage::Unwound));
    assert_eq!(ends(&[]), Some(StackCoverage::Unwound));
    let is_java = Some(StackCoverage::MissingUnwinder("java".into()));
    assert_eq!(ends(&[native, java, native]), is_java);
    let is_truncated = Some(StackCoverage::Truncated("[truncated]".into()));
    assert_eq!(ends(&[native, java, truncated]), is_truncated);
    let batch: Batch = kept(&[]);
    assert_eq!(
        batch.stack_coverage(unhex_pprof::StackHash::default()),
        None
    );
}

#[test]
fn one_binary_under_two_names_is_one_frame_with_the_lesser_name() {
    use unhex_pprof::{
        Binary, BinaryRole, Builder, Frame, FrameKind, NewSample, Profile, ValueType,
    };
    for names in [["/a/app", "/b/app"], ["/b/app", "/a/app"]] {
        let mut builder = Builder::default();
        let name = builder.string("wall");
        let value_types = vec![ValueType {
            name,
            ..ValueType::default()
        }];
        builder.profile(Profile {
            value_types,
            ..Profile::default()
        });
        for file_name in names {
            let file_name = builder.string(file_name);
            let binary = builder.binary(Binary {
                file_name,
                identity: Some(build_id(1)),
                role: BinaryRole::File,
                ..Binary::default()
            });
            let kind = FrameKind::Native(CodeAddress::FileOffset(1));
            let frame = builder.frame(
                Frame {
                    kind,
                    binary: Some(binary),
                    ..Frame::default()
                },
                &[],
            );
            let stack = builder.stack(&[frame]);
            builder.sample(NewSample {
                stack,
                values: &[1],
                ..NewSample::default()
            });
        }
        let batch = kept_with(&builder.finish(), &[]);
        let frames: Vec<&FrameContent> = batch.frames.values().collect();
        let [FrameContent::Native(native)] = frames.as_slice() else {
            panic!("{frames:?}")
        };
        assert_eq!(&*native.file_name, "/a/app");
    }
}

#[test]
fn series_differ_by_each_label() {
    let with = |name: &str, value: &str| {
        let mut resource = labels(&[("service.name", "checkout")]);
        resource.extend(labels(&[(name, value)]));
        let samples = vec![sample(&[], &[1, 10])];
        let batch = kept(&[PlainProfile {
            resource,
            samples,
            ..PlainProfile::default()
        }]);
        batch.rows[0].series.id()
    };
    let ids = [
        with("a", "b"),
        with("a", "c"),
        with("ab", ""),
        with("service.version", "b"),
    ];
    for (place, id) in ids.iter().enumerate() {
        assert!(!ids[..place].contains(id), "{ids:?}");
    }
}
