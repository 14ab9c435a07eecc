//! What the symbol server is told of a batch.

use unhex_api::observe::ObserveRequest;
use unhex_build_id::IdKind;
use unhex_profile_store::rows::observed;

use crate::messages::{
    HEAP, PlainFrame, PlainProfile, build_id, kept, kept_with, labels, profile, reversed, sample,
};

const ONE: PlainFrame = PlainFrame::Native(1, 0x10);
const TWO: PlainFrame = PlainFrame::Native(2, 0x20);

fn weights(request: &ObserveRequest) -> Vec<(&str, u64)> {
    let modules = request.modules.iter();
    modules
        .map(|module| (module.name.as_deref().unwrap_or(""), module.weight))
        .collect()
}

#[test]
fn each_binary_is_told_with_the_cpu_time_of_its_frames() {
    let stacks = vec![
        sample(&[ONE, ONE, TWO], &[1, 10_000_000]),
        sample(&[TWO], &[2, 20_000_000]),
    ];
    let profiles = [profile(stacks)];
    let told = observed(&kept(&profiles), "b");
    let [request] = told.as_slice() else {
        panic!("{told:?}")
    };
    let expected = [
        ("/usr/lib/lib1.so", 20_000_000),
        ("/usr/lib/lib2.so", 30_000_000),
    ];
    assert_eq!(weights(request), expected);
    assert_eq!(request.modules[0].build_id, build_id(1).to_string());
    assert_eq!(request.modules[0].id_kind, IdKind::Gnu);
    assert_eq!(request.labels.service.as_deref(), Some("checkout"));
    assert_eq!(request.labels.deployment.as_deref(), Some("unlabelled"));
    assert_eq!(
        (request.observe, request.profile_id.as_deref()),
        (true, Some("b-0"))
    );
    assert_eq!(observed(&kept_with(&reversed(&profiles), &[]), "b"), told);
}

#[test]
fn kernel_vdso_and_code_without_a_file_are_no_missing_symbols() {
    let stack = [
        PlainFrame::Kernel("schedule"),
        PlainFrame::Vdso,
        PlainFrame::Jit,
        PlainFrame::Python("main"),
        PlainFrame::NamedNative("tool_main"),
        PlainFrame::MissingUnwinder("[java]"),
        PlainFrame::Truncated("[truncated]"),
    ];
    let told = observed(&kept(&[profile(vec![sample(&stack, &[1, 10])])]), "b");
    assert_eq!((told.len(), weights(&told[0])), (1, vec![]));
}

#[test]
fn each_label_set_is_told_alone_and_without_cpu_time_samples_count() {
    let heap = PlainProfile {
        resource: labels(&[("service.name", "cart")]),
        types: HEAP,
        samples: vec![sample(&[ONE], &[1, 4_096, 0, 0])],
        ..PlainProfile::default()
    };
    let told = observed(&kept(&[profile(vec![sample(&[TWO], &[1, 10])]), heap]), "b");
    let services: Vec<_> = told
        .iter()
        .map(|request| request.labels.service.as_deref())
        .collect();
    assert_eq!(services, [Some("cart"), Some("checkout")]);
    assert_eq!(weights(&told[0]), [("/usr/lib/lib1.so", 2)]);
    assert_eq!(weights(&told[1]), [("/usr/lib/lib2.so", 10)]);
}

#[test]
fn too_many_binaries_are_told_in_parts_of_one_profile() {
    use unhex_build_id::Identity;
    use unhex_pprof::{
        Binary, BinaryRole, Builder, CodeAddress, Frame, FrameKind, NewSample, Profile, ValueType,
    };
    let mut builder = Builder::default();
    let name = builder.string("wall");
    builder.profile(Profile {
        value_types: vec![ValueType {
            name,
            ..ValueType::default()
        }],
        ..Profile::default()
    });
    let frames: Vec<_> = (0..5_000_u32)
        .map(|number| {
            let identity = Identity::parse(IdKind::Gnu, &format!("{number:08x}")).ok();
            let binary = builder.binary(Binary {
                identity,
                role: BinaryRole::File,
                ..Binary::default()
            });
            let kind = FrameKind::Native(CodeAddress::Link(1));
            builder.frame(
                Frame {
                    kind,
                    binary: Some(binary),
                    ..Frame::default()
                },
                &[],
            )
        })
        .collect();
    let stack = builder.stack(&frames);
    builder.sample(NewSample {
        stack,
        values: &[i64::MAX],
        ..NewSample::default()
    });
    let told = observed(&kept_with(&builder.finish(), &[]), "b");
    let sizes: Vec<usize> = told.iter().map(|request| request.modules.len()).collect();
    assert_eq!(sizes, [4_096, 904]);
    assert!(
        told.iter()
            .all(|request| request.profile_id.as_deref() == Some("b-0")),
        "{:?}",
        told[1].profile_id
    );
}
