//! What OTLP leaves to practice: identities, kinds of frame, addresses, attributes by number.

use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList,
};
use opentelemetry_proto::tonic::profiles::v1development::{
    Function, KeyValueAndUnit, Line, Location, Mapping, ProfilesDictionary, Sample, Stack,
    ValueType,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;
use unhex_build_id::IdKind;
use unhex_pprof::{CodeAddress, DecodeError, FrameKind, Limits, Profiles, otlp};

use crate::otlp::{of_profiles, of_samples};
use crate::plain::{PlainValue, kinds, plain};

/// A dictionary that grows by what is asked of it.
struct Tables(ProfilesDictionary);

impl Tables {
    fn new() -> Self {
        Self(ProfilesDictionary {
            mapping_table: vec![Mapping::default()],
            location_table: vec![Location::default()],
            function_table: vec![Function::default()],
            string_table: vec![String::new()],
            attribute_table: vec![KeyValueAndUnit::default()],
            stack_table: vec![Stack::default()],
            ..ProfilesDictionary::default()
        })
    }

    fn text(&mut self, text: &str) -> i32 {
        self.0.string_table.push(text.to_owned());
        last(&self.0.string_table)
    }

    fn attribute(&mut self, key: &str, value: &str) -> i32 {
        let (key_strindex, text) = (self.text(key), self.text(value));
        let value = Some(AnyValue {
            value: Some(Any::StringValueStrindex(text)),
        });
        self.0.attribute_table.push(KeyValueAndUnit {
            key_strindex,
            value,
            unit_strindex: 0,
        });
        last(&self.0.attribute_table)
    }

    fn mapping(
        &mut self,
        name: &str,
        [start, limit, offset]: [u64; 3],
        ids: &[(&str, &str)],
    ) -> i32 {
        let ids = ids
            .iter()
            .map(|(kind, id)| self.attribute(&format!("process.executable.build_id.{kind}"), id));
        let attribute_indices = ids.collect();
        let filename_strindex = self.text(name);
        self.0.mapping_table.push(Mapping {
            memory_start: start,
            memory_limit: limit,
            file_offset: offset,
            filename_strindex,
            attribute_indices,
        });
        last(&self.0.mapping_table)
    }

    fn frame(&mut self, mapping_index: i32, address: u64, kind: &str, names: &[&str]) {
        let lines = names.iter().map(|name| {
            let name_strindex = self.text(name);
            self.0.function_table.push(Function {
                name_strindex,
                ..Function::default()
            });
            Line {
                function_index: last(&self.0.function_table),
                line: 3,
                column: 0,
            }
        });
        let lines = lines.collect();
        let attribute_indices = match kind {
            "" => Vec::new(),
            kind => vec![self.attribute("profile.frame.type", kind)],
        };
        self.0.location_table.push(Location {
            mapping_index,
            address,
            lines,
            attribute_indices,
        });
    }

    /// A request with one sample, whose stack are all frames.
    fn request(self) -> Vec<u8> {
        let mut dictionary = self.0;
        let location_indices = (1..=last(&dictionary.location_table)).collect();
        dictionary.stack_table.push(Stack { location_indices });
        let sample = Sample {
            stack_index: 1,
            values: vec![1],
            ..Sample::default()
        };
        of_profiles(dictionary, vec![of_samples(vec![sample])]).encode_to_vec()
    }
}

fn last<T>(table: &[T]) -> i32 {
    i32::try_from(table.len()).expect("a few") - 1
}

fn read(bytes: &[u8]) -> Profiles<'_> {
    otlp::decode(bytes, &Limits::default())
        .expect("a sound request")
        .profiles
}

const GNU: (&str, &str) = ("gnu", "9a0f");

#[test]
fn an_address_of_the_ebpf_profiler_is_a_link_address() {
    let mut tables = Tables::new();
    let mapping = tables.mapping("libc.so.6", [0x2_8000, 0x19_0000, 0x2_7000], &[GNU]);
    tables.frame(mapping, 0x2_9d8f, "native", &[]);
    tables.frame(mapping, 0x10, "native", &[]);
    let high = tables.mapping("a", [0, 0, 0], &[GNU]);
    tables.frame(high, u64::MAX, "native", &[]);
    let bytes = tables.request();
    let link = |address| FrameKind::Native(CodeAddress::Link(address));
    assert_eq!(
        kinds(&read(&bytes)),
        [link(0x2_9d8f), link(0x10), link(u64::MAX)]
    );
}

#[test]
fn an_address_of_a_process_in_otlp_becomes_a_file_offset() {
    let mut tables = Tables::new();
    let mapping = tables.mapping("a", [0x5555_5555_5000, 0x5555_5555_9000, 0x1000], &[GNU]);
    tables.frame(mapping, 0x5555_5555_5139, "", &[]);
    tables.frame(mapping, 0x5555_5556_0000, "", &[]);
    let bytes = tables.request();
    let offset = FrameKind::Native(CodeAddress::FileOffset(0x1139));
    assert_eq!(kinds(&read(&bytes)), [offset, FrameKind::Unplaced]);
}

#[test]
fn the_best_identity_is_chosen_and_what_is_none_is_passed_over() {
    let hash = "a7e79e8a85da69bad5c3fea209342ac9";
    for (ids, expected) in [
        (
            &[("go", "a/b/c/d"), ("htlhash", hash), GNU][..],
            Some(IdKind::Gnu),
        ),
        (
            &[("go", "a/b/c/d"), ("htlhash", hash)],
            Some(IdKind::FileHash),
        ),
        (
            &[("go", "a/b/c/d"), ("profiling", hash)],
            Some(IdKind::FileHash),
        ),
        (
            &[("go", "a/b/c/d"), ("htlhash", "not hex")],
            Some(IdKind::Go),
        ),
        (&[("gnu", ""), ("htlhash", hash)], Some(IdKind::FileHash)),
        (&[("gnu", "xyz")], None),
        (&[], None),
    ] {
        let mut tables = Tables::new();
        tables.mapping("a", [0, 0, 0], ids);
        let bytes = tables.request();
        let model = read(&bytes);
        let found = model.binaries()[1].identity.as_ref();
        assert_eq!(
            found.map(unhex_build_id::Identity::kind),
            expected,
            "{ids:?}"
        );
    }
}

#[test]
fn kernel_interpreted_and_cut_stacks_are_told_apart() {
    let mut tables = Tables::new();
    let vmlinux = tables.mapping("vmlinux", [0, 0, 0], &[GNU]);
    let python = tables.mapping("/usr/bin/python3", [0, 0, 0], &[GNU]);
    tables.frame(vmlinux, 0x1234, "kernel", &["do_syscall_64"]);
    tables.frame(python, 7, "cpython", &["handler"]);
    tables.frame(python, 8, "cpython", &[]);
    tables.frame(0, 0, "jvm", &["[java]"]);
    tables.frame(python, 9, "go", &["main.main"]);
    tables.frame(0, 0x7fff_0000, "native", &[]);
    tables.frame(0, 0, "", &["[truncated: max depth]"]);
    tables.frame(0, 42, "abort-marker", &[]);
    tables.frame(python, 9, "newlang", &["f"]);
    let bytes = tables.request();
    let model = read(&bytes);
    let native = FrameKind::Native(CodeAddress::Link(9));
    let expected = [
        FrameKind::Kernel,
        FrameKind::Named,
        FrameKind::MissingUnwinder,
        FrameKind::MissingUnwinder,
        native,
        FrameKind::Unplaced,
        FrameKind::Truncated,
        FrameKind::Truncated,
        FrameKind::Named,
    ];
    assert_eq!(kinds(&model), expected);
    let names: Vec<_> = plain(&model)[0].samples[0]
        .frames
        .iter()
        .map(|frame| {
            frame
                .lines
                .first()
                .map_or_else(String::new, |line| line.name.clone())
        })
        .collect();
    assert_eq!(names[2], "[cpython]");
    assert_eq!(names[4], "main.main");
    assert_eq!(names[7], "[truncated: unwinding error 42]");
}

#[test]
fn attributes_of_resources_and_scopes_are_followed_into_the_string_table() {
    let mut tables = Tables::new();
    let (key, text) = (tables.text("service.name"), tables.text("checkout"));
    let by_number = KeyValue {
        key_strindex: key,
        value: Some(AnyValue {
            value: Some(Any::StringValueStrindex(text)),
        }),
        ..KeyValue::default()
    };
    let mut request = of_profiles(tables.0, vec![of_samples(Vec::new())]);
    let resource = Resource {
        attributes: vec![by_number.clone()],
        ..Resource::default()
    };
    request.resource_profiles[0].resource = Some(resource);
    let scope = InstrumentationScope {
        attributes: vec![by_number],
        ..Default::default()
    };
    request.resource_profiles[0].scope_profiles[0].scope = Some(scope);
    let bytes = request.encode_to_vec();
    let model = read(&bytes);
    let profile = &plain(&model)[0];
    for attribute in [&profile.resource[0], &profile.scope.2[0]] {
        assert_eq!(attribute.key, "service.name");
        assert_eq!(attribute.value, PlainValue::Text("checkout".to_owned()));
    }
}

fn with_resource_value(value: Any) -> Vec<u8> {
    let value = Some(AnyValue { value: Some(value) });
    let key_value = KeyValue {
        key: "k".to_owned(),
        value,
        ..KeyValue::default()
    };
    let mut tables = Tables::new();
    tables.text("by number");
    let mut request = of_profiles(tables.0, vec![of_samples(Vec::new())]);
    let resource = Resource {
        attributes: vec![key_value],
        ..Resource::default()
    };
    request.resource_profiles[0].resource = Some(resource);
    request.encode_to_vec()
}

fn any(value: Any) -> AnyValue {
    AnyValue { value: Some(value) }
}

#[test]
fn lists_maps_and_bytes_become_json() {
    let entry = |key: &str, value| KeyValue {
        key: key.to_owned(),
        value: Some(any(value)),
        ..KeyValue::default()
    };
    let list = ArrayValue {
        values: vec![
            any(Any::StringValue("a\"b".to_owned())),
            any(Any::StringValueStrindex(1)),
            any(Any::IntValue(-3)),
            any(Any::DoubleValue(0.5)),
            any(Any::DoubleValue(f64::NAN)),
            any(Any::BytesValue(vec![1, 2, 3])),
            AnyValue::default(),
        ],
    };
    let map = KeyValueList {
        values: vec![
            entry("list", Any::ArrayValue(list)),
            entry("is", Any::BoolValue(true)),
        ],
    };
    let bytes = with_resource_value(Any::KvlistValue(map));
    let found = plain(&read(&bytes))[0].resource[0].value.clone();
    let expected = r#"{"list":["a\"b","by number",-3,0.5,"NaN","AQID",null],"is":true}"#;
    assert_eq!(found, PlainValue::Structured(expected.to_owned()));
}

#[test]
fn lists_within_lists_without_end_are_an_error() {
    let mut value = Any::IntValue(1);
    for _ in 0..20 {
        value = Any::ArrayValue(ArrayValue {
            values: vec![any(value)],
        });
    }
    let bytes = with_resource_value(value);
    let error = otlp::decode(&bytes, &Limits::default()).unwrap_err();
    let what = "lists and maps within each other";
    assert_eq!(error, DecodeError::TooLarge { what, max: 16 });
}

#[test]
fn a_short_list_of_one_long_string_is_an_error() {
    let values = vec![any(Any::StringValueStrindex(1)); 1_000];
    let mut tables = Tables::new();
    tables.text(&"long".repeat(50_000));
    let value = Some(any(Any::ArrayValue(ArrayValue { values })));
    let mut request = of_profiles(tables.0, vec![of_samples(Vec::new())]);
    let key_value = KeyValue {
        key: "k".to_owned(),
        value,
        ..KeyValue::default()
    };
    let resource = Resource {
        attributes: vec![key_value],
        ..Resource::default()
    };
    request.resource_profiles[0].resource = Some(resource);
    let error = otlp::decode(&request.encode_to_vec(), &Limits::default()).unwrap_err();
    assert!(
        matches!(
            error,
            DecodeError::TooLarge {
                max: 0x100_0000,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn samples_are_cpu_time_by_their_period() {
    for (counted, period, expected) in [
        (
            ["samples", "count"],
            Some(["cpu", "nanoseconds"]),
            Some(50_000_000),
        ),
        (
            ["samples", "count"],
            Some(["cpu", "milliseconds"]),
            Some(50_000_000 * 1_000_000),
        ),
        (["cpu", "nanoseconds"], None, Some(1)),
        (
            ["cpu", "microseconds"],
            Some(["cpu", "nanoseconds"]),
            Some(1_000),
        ),
        (["samples", "count"], None, None),
        (["samples", "count"], Some(["wall", "nanoseconds"]), None),
        (
            ["off_cpu", "nanoseconds"],
            Some(["cpu", "nanoseconds"]),
            None,
        ),
        (["alloc_space", "bytes"], Some(["space", "bytes"]), None),
    ] {
        let mut tables = Tables::new();
        let mut typed = |[name, unit]: [&str; 2]| ValueType {
            type_strindex: tables.text(name),
            unit_strindex: tables.text(unit),
        };
        let mut profile = of_samples(Vec::new());
        profile.sample_type = Some(typed(counted));
        profile.period_type = period.map(&mut typed);
        profile.period = 50_000_000;
        let bytes = of_profiles(tables.0, vec![profile]).encode_to_vec();
        let model = read(&bytes);
        let found = model.cpu_nanos_per_value(&model.profiles()[0], 0);
        assert_eq!(found, expected, "{counted:?} {period:?}");
    }
}

#[test]
fn a_period_of_nothing_or_less_makes_no_cpu_time() {
    for (period, expected) in [
        (0, None),
        (-5, None),
        (i64::MAX, None),
        (7, Some(7_000_000_000)),
    ] {
        let mut tables = Tables::new();
        let texts = ["samples", "count", "cpu", "seconds"].map(|text| tables.text(text));
        let mut profile = of_samples(Vec::new());
        let [samples, count, cpu, seconds] = texts;
        profile.sample_type = Some(ValueType {
            type_strindex: samples,
            unit_strindex: count,
        });
        profile.period_type = Some(ValueType {
            type_strindex: cpu,
            unit_strindex: seconds,
        });
        profile.period = period;
        let bytes = of_profiles(tables.0, vec![profile]).encode_to_vec();
        let model = read(&bytes);
        assert_eq!(
            model.cpu_nanos_per_value(&model.profiles()[0], 0),
            expected,
            "{period}"
        );
    }
}
