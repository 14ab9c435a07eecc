//! Messages of the derived types of `opentelemetry-proto`, as the Collector and its exporters build them, and small pprofs.

use std::io::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::profiles::v1development::{
    Function, KeyValueAndUnit, Line, Link, Location, Mapping, Profile, ProfilesDictionary,
    ResourceProfiles, Sample, ScopeProfiles, Stack, ValueType,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;

/// CPU time of one sample: 20 Hz.
pub(crate) const PERIOD_NANOS: i64 = 50_000_000;

/// What to put into a message.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    /// A profile each.
    pub(crate) services: Vec<String>,
    /// Samples of each.
    pub(crate) samples: usize,
    /// Distinct stacks.
    pub(crate) stacks: usize,
    /// Of the first sample, in nanoseconds since 1970.
    pub(crate) time_unix_nanos: u64,
    /// From one sample to the next.
    pub(crate) apart_nanos: u64,
    /// Attributes of each sample that nobody else has.
    pub(crate) own_labels: bool,
}

impl Default for Recipe {
    fn default() -> Self {
        Self {
            services: vec!["checkout".to_owned()],
            samples: 100,
            stacks: 10,
            // No two messages are the same.
            time_unix_nanos: now_nanos(),
            apart_nanos: 1_000,
            own_labels: false,
        }
    }
}

pub(crate) fn now_nanos() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.expect("after 1970").as_nanos()).expect("64 bits")
}

fn index(of: usize) -> i32 {
    i32::try_from(of).expect("small")
}

fn text(value: &str) -> AnyValue {
    let value = Some(Value::StringValue(value.to_owned()));
    AnyValue { value }
}

fn attribute(key: &str, value: &str) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(text(value)),
        key_strindex: 0,
    }
}

/// One native binary with a build ID, one interpreted function, and stacks of both.
fn dictionary(stacks: usize) -> ProfilesDictionary {
    let strings = [
        "",
        "samples",
        "count",
        "cpu",
        "nanoseconds",
        "profile.frame.type",
        "process.executable.build_id.gnu",
        "/usr/bin/checkout",
        "handle",
        "app.py",
        "request.id",
    ];
    let attribute = |key_strindex, value: &str| KeyValueAndUnit {
        key_strindex,
        value: Some(text(value)),
        unit_strindex: 0,
    };
    let mut locations = vec![
        Location::default(),
        Location {
            lines: vec![Line {
                function_index: 1,
                line: 7,
                ..Line::default()
            }],
            attribute_indices: vec![2],
            ..Location::default()
        },
    ];
    locations.extend((0..stacks).map(|at| Location {
        mapping_index: 1,
        address: 0x2000 + 16 * at as u64,
        lines: Vec::new(),
        attribute_indices: vec![1],
    }));
    let mut stack_table = vec![Stack::default()];
    stack_table.extend((0..stacks).map(|at| Stack {
        location_indices: vec![index(at + 2), 1],
    }));
    ProfilesDictionary {
        mapping_table: vec![
            Mapping::default(),
            Mapping {
                memory_start: 0x2000,
                memory_limit: 0x80_0000,
                file_offset: 0x1000,
                filename_strindex: 7,
                attribute_indices: vec![3],
            },
        ],
        location_table: locations,
        function_table: vec![
            Function::default(),
            Function {
                name_strindex: 8,
                filename_strindex: 9,
                ..Function::default()
            },
        ],
        link_table: vec![Link::default()],
        string_table: strings.map(str::to_owned).to_vec(),
        attribute_table: vec![
            KeyValueAndUnit::default(),
            attribute(5, "native"),
            attribute(5, "cpython"),
            attribute(6, "00112233445566778899aabbccddeeff00112233"),
        ],
        stack_table,
    }
}

/// The message.
pub(crate) fn request(recipe: &Recipe) -> ExportProfilesServiceRequest {
    let mut dictionary = dictionary(recipe.stacks);
    let mut number = 0_usize;
    let mut sample = |at: usize| {
        let mut attribute_indices = Vec::new();
        if recipe.own_labels {
            attribute_indices.push(index(dictionary.attribute_table.len()));
            dictionary.attribute_table.push(KeyValueAndUnit {
                key_strindex: 10,
                value: Some(text(&format!("request-{number}"))),
                unit_strindex: 0,
            });
        }
        number += 1;
        Sample {
            stack_index: index(1 + at % recipe.stacks),
            attribute_indices,
            timestamps_unix_nano: vec![recipe.time_unix_nanos + recipe.apart_nanos * at as u64],
            ..Sample::default()
        }
    };
    let resource_profiles = recipe.services.iter().map(|service| {
        let profile = Profile {
            sample_type: Some(ValueType {
                type_strindex: 1,
                unit_strindex: 2,
            }),
            period_type: Some(ValueType {
                type_strindex: 3,
                unit_strindex: 4,
            }),
            period: PERIOD_NANOS,
            time_unix_nano: recipe.time_unix_nanos,
            samples: (0..recipe.samples).map(&mut sample).collect(),
            ..Profile::default()
        };
        ResourceProfiles {
            resource: Some(Resource {
                attributes: vec![
                    attribute("service.name", service),
                    attribute("service.version", "2.4"),
                    attribute("container.id", "c0ffee"),
                ],
                ..Resource::default()
            }),
            scope_profiles: vec![ScopeProfiles {
                profiles: vec![profile],
                ..ScopeProfiles::default()
            }],
            ..ResourceProfiles::default()
        }
    });
    let resource_profiles = resource_profiles.collect();
    ExportProfilesServiceRequest {
        resource_profiles,
        dictionary: Some(dictionary),
    }
}

/// The message as protobuf.
pub(crate) fn protobuf(recipe: &Recipe) -> Vec<u8> {
    request(recipe).encode_to_vec()
}

/// A message as JSON; the derived types write IDs as lists of numbers, where OTLP has hex.
pub(crate) fn json(message: &ExportProfilesServiceRequest) -> Vec<u8> {
    let mut value = serde_json::to_value(message).expect("JSON");
    let mut waiting = vec![&mut value];
    while let Some(next) = waiting.pop() {
        match next {
            serde_json::Value::Object(members) => {
                for name in ["profileId", "traceId", "spanId"] {
                    if let Some(id) = members.get_mut(name) {
                        *id = "".into();
                    }
                }
                waiting.extend(members.values_mut());
            }
            serde_json::Value::Array(elements) => waiting.extend(elements),
            _ => {}
        }
    }
    serde_json::to_vec(&value).expect("JSON")
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// A pprof of one sample of so many seconds of CPU time, with a name: `sample_type {1: 1, 2: 2}`, a sample at the location
/// of a function, strings "", "cpu", "seconds", "main".
pub(crate) fn pprof(seconds: u8) -> Vec<u8> {
    let mut file = b"\x0a\x04\x08\x01\x10\x02\x12\x06\x0a\x01\x01\x12\x01".to_vec();
    file.push(seconds);
    file.extend(b"\x22\x06\x08\x01\x22\x02\x08\x01\x2a\x04\x08\x01\x10\x03");
    file.extend(b"\x32\x00\x32\x03cpu\x32\x07seconds\x32\x04main");
    file
}
