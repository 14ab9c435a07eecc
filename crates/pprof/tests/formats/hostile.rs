//! Bytes of strangers: a model or an error that says what to do, in memory and time that the input is worth.

use std::collections::HashSet;

use opentelemetry_proto::tonic::profiles::v1development::{
    Location, ProfilesDictionary, Sample, Stack,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use prost::Message as _;
use unhex_pprof::{DecodeError, Hashes, Limits, otlp, packed, pprof, unpacked};

use crate::exercise::exercise;
use crate::otlp::{of_profiles, of_samples};
use crate::pprof::{Message, file};
use crate::requests::request;

/// A pprof file and a request with everything in them.
pub(crate) fn whole() -> [Vec<u8>; 2] {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let made = std::iter::repeat_with(|| {
        request()
            .new_tree(&mut runner)
            .expect("a request")
            .current()
            .encode_to_vec()
    });
    let large = made.take(20).max_by_key(Vec::len).expect("requests");
    let line = Message::default().number(1, 1).number(2, 12).number(3, 4);
    let location = Message::default()
        .number(1, 1)
        .number(2, 1)
        .number(3, 0x40_1000);
    let mapping = Message::default()
        .number(1, 1)
        .number(2, 0x40_0000)
        .number(3, 0x50_0000);
    let label = Message::default().number(1, 3).number(3, 7).number(4, 4);
    let sample = Message::default()
        .bytes(1, &[1, 1])
        .bytes(2, &[9])
        .message(3, &label);
    let file = file(&["/bin/a", "9a0f", "main"])
        .message(2, &sample)
        .message(3, &mapping.number(5, 3).number(6, 4).number(7, 1))
        .message(4, &location.message(4, &line).number(5, 1))
        .message(
            5,
            &Message::default().number(1, 1).number(2, 5).number(5, 2),
        )
        .message(11, &Message::default().number(1, 1).number(2, 2))
        .number(9, 1)
        .bytes(13, &[3, 4]);
    [large, file.0]
}

#[test]
fn a_message_that_is_cut_or_changed_anywhere_never_panics() {
    for bytes in whole() {
        for end in 0..=bytes.len() {
            exercise(&bytes[..end]);
        }
        for place in 0..bytes.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[place] = byte;
                exercise(&changed);
            }
        }
    }
}

#[test]
fn a_message_that_is_cut_inside_a_field_is_an_error_and_says_where() {
    let [_, bytes] = whole();
    // Behind the last field's tag and length.
    let cut = &bytes[..bytes.len() - 1];
    let error = pprof::decode(cut, &Limits::default()).unwrap_err();
    assert!(
        matches!(error, DecodeError::Malformed { offset, .. } if offset < cut.len()),
        "{error:?}"
    );
    assert!(
        error.to_string().contains("cut or damaged on the way"),
        "{error}"
    );
}

proptest! {
    #[test]
    fn any_bytes_are_a_model_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        exercise(&bytes);
        exercise(&packed(&bytes));
    }

    #[test]
    fn a_request_with_changed_bytes_never_panics(
        request in request(),
        changes in prop::collection::vec((any::<usize>(), any::<u8>()), 1..5),
    ) {
        let mut bytes = request.encode_to_vec();
        if bytes.is_empty() {
            return Ok(());
        }
        for (place, byte) in changes {
            let place = place % bytes.len();
            bytes[place] = byte;
        }
        exercise(&bytes);
    }
}

#[test]
fn lengths_of_two_to_the_64_are_errors() {
    for field in 1..=16 {
        for length in [u64::MAX, u64::MAX - 10, 1 << 63, 1 << 32] {
            let mut message = Message::default().number(field, length).0;
            message[0] |= 2;
            let limits = Limits::default();
            assert!(
                pprof::decode(&message, &limits).is_err(),
                "{field} {length:#x}"
            );
            assert!(
                otlp::decode(&message, &limits).is_err(),
                "{field} {length:#x}"
            );
        }
    }
}

#[test]
fn every_index_out_of_range_is_found() {
    let sound = file(&["a"]);
    let of = |field, message| Message(sound.0.clone()).message(field, &message);
    let number = |field, value| Message::default().number(1, 1).number(field, value);
    let first = |value| Message::default().number(1, value);
    let line = Message::default().number(1, 9);
    let bad = [
        of(1, first(9)),
        of(1, first(u64::MAX)),
        of(2, first(9).number(2, 1)),
        of(2, Message::default().number(2, 1).message(3, &first(9))),
        of(
            2,
            Message::default()
                .number(2, 1)
                .message(3, &Message::default().number(2, 9)),
        ),
        of(3, number(5, 9)),
        of(3, number(6, 1 << 40)),
        of(4, number(2, 9)),
        of(4, first(1).message(4, &line)),
        of(5, number(2, 9)),
        of(5, number(3, u64::MAX)),
        of(5, number(4, 9)),
        of(11, first(9)),
        Message(sound.0.clone()).number(7, 9),
        Message(sound.0.clone()).number(13, 9),
        Message(sound.0.clone()).number(14, 9),
    ];
    for (at, message) in bad.iter().enumerate() {
        let error = pprof::decode(&message.0, &Limits::default()).map(|_| at);
        assert!(
            matches!(error, Err(DecodeError::OutOfRange { .. })),
            "{at}: {error:?}"
        );
    }
}

#[test]
fn a_stack_is_as_deep_as_the_limit_and_no_deeper() {
    let of_depth = |depth: usize| {
        let dictionary = ProfilesDictionary {
            string_table: vec![String::new()],
            location_table: vec![Location::default(); 2],
            stack_table: vec![
                Stack::default(),
                Stack {
                    location_indices: vec![1; depth],
                },
            ],
            ..ProfilesDictionary::default()
        };
        let sample = Sample {
            stack_index: 1,
            values: vec![1],
            ..Sample::default()
        };
        of_profiles(dictionary, vec![of_samples(vec![sample])]).encode_to_vec()
    };
    let limits = Limits::default();
    let deep = of_depth(limits.stack_depth);
    let model = otlp::decode(&deep, &limits).unwrap().profiles;
    let mut hashes = Hashes::of(&model);
    let sample = model.samples(&model.profiles()[0]).next().unwrap();
    let _hash = hashes.stack(sample.stack);
    assert_eq!(model.stack(sample.stack).len(), limits.stack_depth);
    let error = otlp::decode(&of_depth(limits.stack_depth + 1), &limits).unwrap_err();
    assert_eq!(
        error,
        DecodeError::TooLarge {
            what: "frames of a stack",
            max: limits.stack_depth
        }
    );
    let location = Message::default().number(1, 1);
    let sample = Message::default()
        .bytes(1, &vec![1; limits.stack_depth + 1])
        .number(2, 1);
    let pprof = file(&[]).message(4, &location).message(2, &sample);
    assert!(pprof::decode(&pprof.0, &limits).is_err());
}

/// Each within its bound, and 64 million frames in one message of 64 MB.
#[test]
fn many_deep_stacks_are_read_up_to_their_frames_in_all() {
    let limits = Limits {
        stack_frames: 1_000,
        ..Limits::default()
    };
    let error = DecodeError::TooLarge {
        what: "frames of all stacks",
        max: 1_000,
    };
    let of_stacks = |stacks: usize| {
        let stack = |depth: usize| Stack {
            location_indices: vec![1; depth],
        };
        let dictionary = ProfilesDictionary {
            string_table: vec![String::new()],
            location_table: vec![Location::default(); 2],
            stack_table: std::iter::once(0)
                .chain(std::iter::repeat_n(100, stacks))
                .map(stack)
                .collect(),
            ..ProfilesDictionary::default()
        };
        of_profiles(dictionary, Vec::new()).encode_to_vec()
    };
    assert!(otlp::decode(&of_stacks(10), &limits).is_ok());
    assert_eq!(otlp::decode(&of_stacks(11), &limits).unwrap_err(), error);

    let pprof = |stacks: usize| {
        let location = Message::default().number(1, 1);
        // Of different depths, so that they are different stacks.
        let samples =
            (0..stacks).map(|at| Message::default().bytes(1, &vec![1; 100 - at]).number(2, 1));
        samples.fold(file(&[]).message(4, &location), |all, sample| {
            all.message(2, &sample)
        })
    };
    assert!(pprof::decode(&pprof(10).0, &limits).is_ok());
    assert_eq!(pprof::decode(&pprof(11).0, &limits).unwrap_err(), error);
}

#[test]
fn a_million_strings_are_read_and_too_many_are_not() {
    let strings = vec!["s"; 1_000_000];
    let message = file(&strings);
    let limits = Limits::default();
    assert!(pprof::decode(&message.0, &limits).is_ok());
    let tight = Limits {
        strings: 1_000_000,
        ..limits
    };
    let error = pprof::decode(&message.0, &tight).unwrap_err();
    assert_eq!(
        error,
        DecodeError::TooLarge {
            what: "strings",
            max: 1_000_000
        }
    );
    assert_eq!(
        error.to_string(),
        "more than 1000000 strings: send less at a time"
    );
}

#[test]
fn a_message_beyond_the_limit_is_not_looked_at() {
    let limits = Limits {
        message_bytes: 10,
        ..Limits::default()
    };
    let error = DecodeError::TooLarge {
        what: "bytes of a message",
        max: 10,
    };
    assert_eq!(otlp::decode(&[0xff; 11], &limits).unwrap_err(), error);
    assert_eq!(pprof::decode(&[0xff; 11], &limits).unwrap_err(), error);
    assert_eq!(
        otlp::json_to_protobuf(&[0xff; 11], &limits).unwrap_err(),
        error
    );
    assert_eq!(unpacked(&[0xff; 11], &limits).unwrap_err(), error);
}

/// Whoever looks through the string at each use is at it for hours.
#[test]
fn one_long_string_that_is_used_everywhere_is_looked_through_once() {
    let long = "f".repeat(8 << 20);
    let perf_map = format!("/tmp/perf-{}", "7".repeat(8 << 20));
    let mut file = file(&[&long, &perf_map]);
    let function = Message::default().number(1, 1).number(2, 3).number(4, 3);
    let typed = Message::default().number(3, 1);
    file = file.message(5, &function).message(11, &typed);
    let mut every_location = Vec::new();
    for id in 1..=20_000 {
        let name = 3 + id % 2;
        let mapping = Message::default()
            .number(1, id)
            .number(5, name)
            .number(6, 3);
        let line = Message::default().number(1, 1);
        let location = Message::default()
            .number(1, id)
            .number(2, id)
            .message(4, &line);
        file = file
            .message(3, &mapping)
            .message(4, &location)
            .number(13, 3);
        let label = Message::default().number(1, 3).number(2, 3);
        let sample = Message::default()
            .number(1, id)
            .number(2, 1)
            .message(3, &label);
        every_location.push(sample);
    }
    file = every_location
        .iter()
        .fold(file, |file, sample| file.message(2, sample));
    let limits = Limits::default();
    let model = pprof::decode(&file.0, &limits).unwrap();
    let profile = &model.profiles()[0];
    let mut hashes = Hashes::of(&model);
    let different: HashSet<_> = model
        .samples(profile)
        .map(|sample| hashes.stack(sample.stack))
        .collect();
    assert_eq!(different.len(), 1, "the same name everywhere");
    let bytes = pprof::encode(&model, profile).unwrap();
    assert!(bytes.len() < file.0.len() + (1 << 20));
}
