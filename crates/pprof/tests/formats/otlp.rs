//! OTLP beside its derived types: any request that they encode means the same to both.

use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceRequest;
use opentelemetry_proto::tonic::profiles::v1development::{
    Profile, ProfilesDictionary, ResourceProfiles, Sample, ScopeProfiles, Stack,
};
use proptest::prelude::*;
use prost::Message as _;
use unhex_pprof::{DecodeError, Limits, otlp, pprof};

use crate::plain::plain;
use crate::pprof::Message;
use crate::requests::{meaning, request};

proptest! {
    #[test]
    fn a_request_means_what_its_derived_types_say(request in request()) {
        let bytes = request.encode_to_vec();
        let decoded = otlp::decode(&bytes, &Limits::default()).unwrap();
        prop_assert_eq!(&decoded.rejected, &[]);
        prop_assert_eq!(plain(&decoded.profiles), meaning(&request));
    }

    #[test]
    fn totals_are_the_same_in_pprof(request in request()) {
        let bytes = request.encode_to_vec();
        let model = otlp::decode(&bytes, &Limits::default()).unwrap().profiles;
        for profile in model.profiles() {
            let totals = model.totals(profile);
            // Sums of three values of 64 bits may leave 64 bits, which pprof has not.
            let Ok(file) = pprof::encode(&model, profile) else { continue };
            let again = pprof::decode(&file, &Limits::default()).unwrap();
            prop_assert_eq!(again.totals(&again.profiles()[0]), totals);
        }
    }
}

/// A request of one resource and scope.
pub(crate) fn of_profiles(
    dictionary: ProfilesDictionary,
    profiles: Vec<Profile>,
) -> ExportProfilesServiceRequest {
    let scope = ScopeProfiles {
        profiles,
        ..ScopeProfiles::default()
    };
    let resource = ResourceProfiles {
        scope_profiles: vec![scope],
        ..ResourceProfiles::default()
    };
    ExportProfilesServiceRequest {
        resource_profiles: vec![resource],
        dictionary: Some(dictionary),
    }
}

pub(crate) fn of_samples(samples: Vec<Sample>) -> Profile {
    Profile {
        samples,
        ..Profile::default()
    }
}

fn two_stacks() -> ProfilesDictionary {
    ProfilesDictionary {
        string_table: vec![String::new()],
        stack_table: vec![Stack::default(); 2],
        ..ProfilesDictionary::default()
    }
}

fn sample(stack_index: i32, values: &[i64], timestamps: &[u64]) -> Sample {
    Sample {
        stack_index,
        values: values.to_vec(),
        timestamps_unix_nano: timestamps.to_vec(),
        ..Sample::default()
    }
}

#[test]
fn a_profile_that_refers_to_nothing_is_rejected_alone() {
    let good = of_samples(vec![sample(1, &[4], &[]), sample(0, &[], &[9, 9])]);
    let far = of_samples(vec![sample(1, &[2], &[]), sample(2, &[1], &[])]);
    let negative = of_samples(vec![sample(-1, &[1], &[])]);
    let uneven = of_samples(vec![sample(1, &[1, 2, 3], &[5, 6])]);
    let request = of_profiles(
        two_stacks(),
        vec![far, good.clone(), negative, uneven, good],
    );
    let bytes = request.encode_to_vec();
    let decoded = otlp::decode(&bytes, &Limits::default()).unwrap();
    let model = &decoded.profiles;
    let totals: Vec<_> = model
        .profiles()
        .iter()
        .map(|profile| model.totals(profile))
        .collect();
    assert_eq!(totals, [[6], [6]]);
    let places: Vec<_> = decoded
        .rejected
        .iter()
        .map(|rejected| rejected.index)
        .collect();
    assert_eq!(places, [0, 2, 3]);
    let words: Vec<_> = decoded
        .rejected
        .iter()
        .map(|rejected| rejected.error.to_string())
        .collect();
    assert_eq!(
        words[0],
        "a sample refers to stack 2, which is not in the message (2 are)"
    );
    assert!(
        words[2].starts_with("a sample has 3 values, 2 are due"),
        "{words:?}"
    );
}

#[test]
fn a_sender_from_before_stack_tables_is_told_to_update() {
    let dictionary = ProfilesDictionary::default();
    let request = of_profiles(dictionary, vec![of_samples(vec![sample(3, &[1], &[])])]);
    let error = otlp::decode(&request.encode_to_vec(), &Limits::default()).unwrap_err();
    assert_eq!(error, DecodeError::NoStackTable);
    assert!(error.to_string().contains("update it"), "{error}");
}

#[test]
fn several_observations_of_one_stack_add_up() {
    let request = of_profiles(
        two_stacks(),
        vec![of_samples(vec![
            sample(1, &[2, 2, 3, 3], &[1, 2, 3, 4]),
            sample(1, &[], &[1, 2, 3]),
        ])],
    );
    let bytes = request.encode_to_vec();
    let model = otlp::decode(&bytes, &Limits::default()).unwrap().profiles;
    let observations: Vec<_> = model
        .samples(&model.profiles()[0])
        .map(|sample| sample.observations())
        .collect();
    assert_eq!(observations, [4, 3]);
    assert_eq!(model.totals(&model.profiles()[0]), [13]);
}

#[test]
fn fields_may_come_in_any_order_and_numbers_unpacked() {
    // Sample {stack 1, values 5 and 6 one by one, timestamps 8 and 9 too}.
    let timestamp = |message: Message, at: u8| {
        let mut message = message;
        message.0.push(5 << 3 | 1);
        message.0.extend([at, 0, 0, 0, 0, 0, 0, 0]);
        message
    };
    let sample = Message::default().number(4, 5).number(4, 6).number(1, 1);
    let sample = timestamp(timestamp(sample, 8), 9);
    let profile = Message::default().message(2, &sample);
    let scope = Message::default().bytes(1, b"\x0a\x01e");
    let scope = Message::default().message(2, &profile).message(1, &scope);
    let key_value = Message::default()
        .bytes(1, b"service.name")
        .bytes(2, b"\x0a\x01s");
    let resource = Message::default().message(1, &key_value);
    let resource = Message::default().message(2, &scope).message(1, &resource);
    let dictionary = Message::default()
        .message(7, &Message::default())
        .message(7, &Message::default());
    let split = Message::default().bytes(5, b"");
    let request = Message::default()
        .message(1, &resource)
        .message(2, &dictionary)
        .message(2, &split);
    let model = otlp::decode(&request.0, &Limits::default())
        .unwrap()
        .profiles;
    let profile = &plain(&model)[0];
    assert_eq!(
        (&profile.samples[0].values, &profile.samples[0].timestamps),
        (&vec![5, 6], &vec![8, 9])
    );
    assert_eq!(profile.resource[0].key, "service.name");
}

#[test]
fn a_request_of_nothing_has_no_profiles() {
    let decoded = otlp::decode(&[], &Limits::default()).unwrap();
    assert_eq!(decoded.profiles.profiles(), []);
}
