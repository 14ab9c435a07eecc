//! OTLP out: what is written means the same to our reader and to the derived types, and refers to nothing that is not there.

use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceRequest;
use opentelemetry_proto::tonic::profiles::v1development::{
    Function, KeyValueAndUnit, Link, Location, Mapping, ProfilesDictionary, Stack,
};
use proptest::prelude::*;
use prost::Message as _;
use unhex_build_id::{IdKind, Identity};
use unhex_pprof::{
    Binary, BinaryRole, Builder, CodeAddress, Extent, Frame, FrameKind, Function as NamedFunction,
    Limits, Line, NewSample, Profile, Profiles, ValueType, otlp,
};

use crate::plain::{PlainAttribute, PlainProfile, PlainValue, kinds, plain};
use crate::recipe::{built, recipe};
use crate::requests::{meaning, request};

proptest! {
    #[test]
    fn what_was_read_is_written_with_the_same_meaning(request in request()) {
        let bytes = request.encode_to_vec();
        let first = otlp::decode(&bytes, &Limits::default()).unwrap().profiles;
        let written = otlp::encode(&first);
        let second = otlp::decode(&written, &Limits::default()).unwrap();
        prop_assert_eq!(&second.rejected, &[]);
        prop_assert_eq!(plain(&second.profiles), as_written(plain(&first)));
        // The same to the derived types.
        let derived = ExportProfilesServiceRequest::decode(&written[..]).unwrap();
        prop_assert_eq!(meaning(&derived), as_written(plain(&first)));
        assert_sound(derived.dictionary.as_ref().unwrap());
    }

    #[test]
    fn what_is_written_twice_is_the_same(request in request()) {
        let bytes = request.encode_to_vec();
        let model = otlp::decode(&bytes, &Limits::default()).unwrap().profiles;
        let written = otlp::encode(&model);
        prop_assert_eq!(&otlp::encode(&model), &written);
        let again = otlp::decode(&written, &Limits::default()).unwrap().profiles;
        prop_assert_eq!(otlp::encode(&again), written);
    }

    #[test]
    fn a_profile_of_several_types_becomes_one_for_each(recipe in recipe()) {
        let model = built(&recipe);
        let written = otlp::encode(&model);
        let again = otlp::decode(&written, &Limits::default()).unwrap().profiles;
        let profile = &model.profiles()[0];
        let totals: Vec<_> = again.profiles().iter().flat_map(|one| again.totals(one)).collect();
        let expected = model.totals(profile);
        if expected.is_empty() {
            prop_assert_eq!(totals, [0]);
        } else {
            prop_assert_eq!(totals, expected);
        }
        for one in again.profiles() {
            prop_assert_eq!(one.sample_count(), profile.sample_count());
        }
    }
}

/// A profile as it is read back: lists and maps are written as their text.
fn as_written(mut profiles: Vec<PlainProfile>) -> Vec<PlainProfile> {
    let flatten = |list: &mut Vec<PlainAttribute>| {
        for attribute in list {
            if let PlainValue::Structured(text) = &attribute.value {
                attribute.value = PlainValue::Text(text.clone());
            }
        }
    };
    for profile in &mut profiles {
        flatten(&mut profile.resource);
        flatten(&mut profile.scope.2);
        flatten(&mut profile.attributes);
        for sample in &mut profile.samples {
            flatten(&mut sample.attributes);
            for frame in &mut sample.frames {
                flatten(&mut frame.attributes);
                if let Some(binary) = &mut frame.binary {
                    flatten(&mut binary.attributes);
                }
            }
        }
    }
    profiles
}

/// Entry 0 of each table is its zero value, and what refers leads somewhere.
fn assert_sound(dictionary: &ProfilesDictionary) {
    assert_eq!(dictionary.mapping_table[0], Mapping::default());
    assert_eq!(dictionary.location_table[0], Location::default());
    assert_eq!(dictionary.function_table[0], Function::default());
    assert_eq!(dictionary.link_table[0], Link::default());
    assert_eq!(dictionary.string_table[0], "");
    assert_eq!(dictionary.attribute_table[0], KeyValueAndUnit::default());
    assert_eq!(dictionary.stack_table[0], Stack::default());
    let within = |index: i32, length| assert!(usize::try_from(index).unwrap() < length);
    for stack in &dictionary.stack_table {
        for location in &stack.location_indices {
            within(*location, dictionary.location_table.len());
        }
    }
    for location in &dictionary.location_table {
        within(location.mapping_index, dictionary.mapping_table.len());
        for line in &location.lines {
            within(line.function_index, dictionary.function_table.len());
        }
    }
}

/// One stack with a frame of each kind, as a profiler builds it.
fn all_kinds(builder: &mut Builder<'static>) {
    let binary = Binary {
        file_name: builder.string("/usr/bin/a"),
        identity: Identity::parse(IdKind::Gnu, "abcd").ok(),
        role: BinaryRole::File,
        extent: Extent {
            start: 0x1000,
            limit: 0x3000,
            file_offset: 0x1000,
        },
        ..Binary::default()
    };
    let binary = builder.binary(binary);
    let vdso = builder.string("[vdso]");
    let vdso = builder.binary(Binary {
        file_name: vdso,
        role: BinaryRole::Vdso,
        ..Binary::default()
    });
    let mut named = |name: &'static str, language: &'static str| {
        let name = builder.string(name);
        let function = builder.function(NamedFunction {
            name,
            ..NamedFunction::default()
        });
        let language = builder.string(language);
        let line = Line {
            function,
            ..Line::default()
        };
        let frame = Frame {
            language,
            ..Frame::default()
        };
        builder.frame(frame, &[line])
    };
    let kernel = named("do_syscall_64", "kernel");
    let java = named("[java]", "jvm");
    let end = named("[truncated: read fault]", "");
    let native = builder.string("native");
    let mut at = |binary, address| {
        let frame = Frame {
            binary: Some(binary),
            address,
            language: native,
            ..Frame::default()
        };
        builder.frame(frame, &[])
    };
    let frames = [kernel, at(vdso, 0x7a), at(binary, 0x1139), java, end];
    let stack = builder.stack(&frames);
    builder.sample(NewSample {
        stack,
        timestamps: &[1_000],
        ..NewSample::default()
    });
}

fn built_by_hand() -> Profiles<'static> {
    let mut builder = Builder::default();
    let counted = ValueType {
        name: builder.string("samples"),
        unit: builder.string("count"),
    };
    builder.profile(Profile {
        value_types: vec![counted],
        ..Profile::default()
    });
    all_kinds(&mut builder);
    builder.finish()
}

#[test]
fn frames_that_a_profiler_built_are_read_as_what_they_are() {
    let written = otlp::encode(&built_by_hand());
    let model = otlp::decode(&written, &Limits::default()).unwrap().profiles;
    assert_eq!(
        kinds(&model),
        [
            FrameKind::Kernel,
            FrameKind::Native(CodeAddress::Link(0x7a)),
            FrameKind::Native(CodeAddress::Link(0x1139)),
            FrameKind::MissingUnwinder,
            FrameKind::Truncated,
        ]
    );
    let frames = model.frames().iter();
    let binaries: Vec<_> = frames
        .filter_map(|frame| model.binary(frame.binary?))
        .collect();
    let identities: Vec<_> = binaries.iter().map(|binary| &binary.identity).collect();
    assert_eq!(
        identities,
        [&None, &Identity::parse(IdKind::Gnu, "abcd").ok()]
    );
    assert_eq!(binaries[0].role, BinaryRole::Vdso);
}

#[test]
fn neighbours_of_one_resource_and_scope_are_written_under_one() {
    let mut builder = Builder::default();
    for _ in 0..3 {
        builder.profile(Profile::default());
    }
    let derived = ExportProfilesServiceRequest::decode(&otlp::encode(&builder.finish())[..]);
    let derived = derived.unwrap();
    assert_eq!(derived.resource_profiles.len(), 1);
    assert_eq!(derived.resource_profiles[0].scope_profiles.len(), 1);
    assert_eq!(
        derived.resource_profiles[0].scope_profiles[0]
            .profiles
            .len(),
        3
    );
}
