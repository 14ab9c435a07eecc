//! OTLP in JSON: as the derived types write it, and as the specification allows it.

use proptest::prelude::*;
use prost::Message as _;
use unhex_pprof::{DecodeError, Limits, otlp};

use crate::plain::{PlainProfile, PlainValue, plain};
use crate::requests::{meaning, request};

fn read(json: &str) -> Result<Vec<PlainProfile>, DecodeError> {
    let message = otlp::json_to_protobuf(json.as_bytes(), &Limits::default())?;
    Ok(plain(&otlp::decode(&message, &Limits::default())?.profiles))
}

proptest! {
    #[test]
    fn json_of_the_derived_types_means_the_same(request in request()) {
        let mut json = serde_json::to_value(&request).unwrap();
        for link in json["dictionary"]["linkTable"].as_array_mut().unwrap() {
            // The derived types write lists of numbers here, the specification wants hex.
            for id in link.as_object_mut().unwrap().values_mut() {
                let bytes: Vec<u8> = serde_json::from_value(id.clone()).unwrap();
                *id = unhex_build_id::Hex(&bytes).to_string().into();
            }
        }
        prop_assert_eq!(read(&json.to_string()).unwrap(), meaning(&request));
    }

    #[test]
    fn any_text_is_a_message_or_an_error(json in "[\\[\\]{}\":,a-z0-9]{0,40}") {
        let _either = read(&json);
    }
}

pub(crate) const WHOLE: &str = r#"{
  "unknownField": {"a": [1, {"b": null}]},
  "resourceProfiles": [{
    "resource": {"attributes": [
      {"key": "service.name", "value": {"stringValue": "checkout"}},
      {"key_strindex": 1, "value": {"stringValueStrindex": "2"}},
      {"key": "process.pid", "value": {"intValue": "9223372036854775807"}},
      {"key": "empty", "value": {"stringValue": ""}},
      {"key": "zero", "value": {"intValue": 0}},
      {"key": "nan", "value": {"doubleValue": "-Infinity"}},
      {"key": "bytes", "value": {"bytesValue": "-_8"}}
    ]},
    "scopeProfiles": [{
      "scope": null,
      "profiles": [{
        "sampleType": {"typeStrindex": 3, "unitStrindex": 4},
        "samples": [
          {"stackIndex": 1, "values": ["-5", 7], "timestampsUnixNano": ["1", 18446744073709551615]},
          {"linkIndex": 1, "timestamps_unix_nano": [3]}
        ],
        "timeUnixNano": "1700000000000000000",
        "durationNano": "10",
        "period": "20",
        "profileId": "0102030405060708090a0b0c0d0e0f10"
      }]
    }]
  }],
  "dictionary": {
    "stringTable": ["", "by.number", "text", "cpu", "nanoseconds"],
    "linkTable": [{}, {"traceId": "5B8EFFF798038103D269B633813FC60C", "spanId": "EEE19B7EC3C1B174"}],
    "stackTable": [{}, {"locationIndices": [1]}],
    "locationTable": [{}, {"address": "18446744073709551615"}]
  }
}"#;

#[test]
fn everything_that_the_specification_allows_is_read() {
    let profiles = read(WHOLE).unwrap();
    let profile = &profiles[0];
    let values: Vec<_> = profile
        .resource
        .iter()
        .map(|one| (one.key.as_str(), &one.value))
        .collect();
    assert_eq!(
        values[1],
        ("by.number", &PlainValue::Text("text".to_owned()))
    );
    assert_eq!(values[2].1, &PlainValue::Integer(i64::MAX));
    assert_eq!(values[3].1, &PlainValue::Text(String::new()));
    assert_eq!(values[4].1, &PlainValue::Integer(0));
    assert_eq!(values[5].1, &PlainValue::Double(f64::NEG_INFINITY));
    assert_eq!(values[6].1, &PlainValue::Structured("\"+/8=\"".to_owned()));
    assert_eq!(
        profile.value_types,
        [("cpu".to_owned(), "nanoseconds".to_owned())]
    );
    assert_eq!(profile.id.map(|id| id[15]), Some(0x10));
    assert_eq!(profile.time_unix_nanos, 1_700_000_000_000_000_000);
    let [first, second] = &profile.samples[..] else {
        panic!("{:?}", profile.samples)
    };
    assert_eq!(
        (&first.values, &first.timestamps),
        (&vec![-5, 7], &vec![1, u64::MAX])
    );
    assert_eq!(first.frames[0].address, u64::MAX);
    assert_eq!(
        second.link.map(|(trace, span)| (trace[0], span[7])),
        Some((0x5b, 0x74))
    );
}

#[test]
fn what_is_no_request_says_where() {
    for (json, words) in [
        ("", "line 1 column 0"),
        ("[]", "an object, a request of profiles"),
        (r#"{"resourceProfiles": 5}"#, "a list"),
        (r#"{"dictionary": {"stringTable": [5]}}"#, "a string"),
        (
            r#"{"dictionary": {"locationTable": [{"address": "0x5"}]}}"#,
            "is no whole number",
        ),
        (
            r#"{"dictionary": {"locationTable": [{"address": 1.5}]}}"#,
            "1.5 is no whole number",
        ),
        (
            r#"{"dictionary": {"locationTable": [{"address": 1e20}]}}"#,
            "is no whole number of 64 bits",
        ),
        (
            r#"{"dictionary": {"linkTable": [{"spanId": "zz"}]}}"#,
            "line 1 column",
        ),
        ("{} {}", "trailing characters"),
    ] {
        let error = read(json).unwrap_err().to_string();
        assert!(error.contains(words), "{json}: {error}");
    }
}

#[test]
fn whole_numbers_may_have_an_exponent_or_a_point() {
    for (written, value) in [
        ("1e7", 10_000_000),
        ("\"1e7\"", 10_000_000),
        ("12.0", 12),
        ("-2.5e1", -25),
        ("\"-9223372036854775808\"", i64::MIN),
        ("-9223372036854775808.0", i64::MIN),
    ] {
        let json = format!(
            r#"{{"resourceProfiles":[{{"scopeProfiles":[{{"profiles":[{{"samples":[{{"values":[{written}]}}]}}]}}]}}]}}"#
        );
        let read = read(&json).unwrap_or_else(|error| panic!("{written}: {error}"));
        let values = &read[0].samples[0].values;
        assert_eq!(values, &vec![value], "{written}");
    }
}

#[test]
fn json_without_end_is_an_error() {
    let deep = r#"{"resourceProfiles":[{"resource":{"attributes":[{"value":"#.to_owned()
        + &r#"{"arrayValue":{"values":["#.repeat(100_000);
    assert!(matches!(read(&deep), Err(DecodeError::Json { .. })));
}

#[test]
fn json_that_is_cut_anywhere_is_an_error() {
    let end = WHOLE.rfind('}').expect("an end");
    for cut in 0..end {
        let error = read(WHOLE.get(..cut).expect("ASCII"));
        assert!(
            matches!(error, Err(DecodeError::Json { .. })),
            "{cut}: {error:?}"
        );
    }
}

#[test]
fn an_encoded_request_of_json_is_read_by_the_derived_types() {
    let message = otlp::json_to_protobuf(WHOLE.as_bytes(), &Limits::default()).unwrap();
    let request = opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceRequest::decode(message.as_slice());
    assert_eq!(request.unwrap().resource_profiles.len(), 1);
}
