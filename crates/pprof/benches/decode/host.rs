//! A message of a whole host, the same each time.

use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::profiles::v1development::{
    Function, KeyValueAndUnit, Link, Location, Mapping, Profile, ProfilesDictionary,
    ResourceProfiles, Sample, ScopeProfiles, Stack, ValueType,
};
use opentelemetry_proto::tonic::resource::v1::Resource;

/// What a 64-core host at 40 % makes in 200 s at 20 Hz.
pub(crate) const SAMPLES: usize = 102_400;

/// Each of them is sampled 2 to 3 times: `SAMPLES / STACKS`.
const STACKS: u64 = 40_000;
const LOCATIONS: u64 = 20_000;
const MAPPINGS: u64 = 400;
const THREADS: u64 = 2_000;
pub(crate) const CONTAINERS: usize = 200;
const MAX_DEPTH: u64 = 50;

/// Numbers that look random and are not: `SplitMix64`.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> i32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        i32::try_from((z ^ (z >> 31)) % end).expect("small numbers")
    }
}

struct Dictionary(ProfilesDictionary);

impl Dictionary {
    fn text(&mut self, text: String) -> i32 {
        self.0.string_table.push(text);
        i32::try_from(self.0.string_table.len() - 1).expect("few strings")
    }

    fn attribute(&mut self, key_strindex: i32, value: Value) -> i32 {
        let value = Some(AnyValue { value: Some(value) });
        self.0.attribute_table.push(KeyValueAndUnit {
            key_strindex,
            value,
            unit_strindex: 0,
        });
        i32::try_from(self.0.attribute_table.len() - 1).expect("few attributes")
    }
}

fn dictionary(numbers: &mut Numbers) -> Dictionary {
    let mut dictionary = Dictionary(ProfilesDictionary {
        mapping_table: vec![Mapping::default()],
        location_table: vec![Location::default()],
        function_table: vec![Function::default()],
        link_table: vec![Link::default()],
        string_table: ["", "samples", "count", "cpu", "nanoseconds"]
            .map(str::to_owned)
            .to_vec(),
        attribute_table: vec![KeyValueAndUnit::default()],
        stack_table: vec![Stack::default()],
    });
    let frame_type = dictionary.text("profile.frame.type".to_owned());
    let native = dictionary.attribute(frame_type, Value::StringValue("native".to_owned()));
    let key = dictionary.text("process.executable.build_id.gnu".to_owned());
    for mapping in 0..MAPPINGS {
        let id = format!("{mapping:040x}");
        let attribute = dictionary.attribute(key, Value::StringValue(id));
        let filename_strindex = dictionary.text(format!("/usr/lib/lib{mapping}.so"));
        dictionary.0.mapping_table.push(Mapping {
            memory_start: 0x2000,
            memory_limit: 0x80_0000,
            file_offset: 0x1000,
            filename_strindex,
            attribute_indices: vec![attribute],
        });
    }
    for _ in 0..LOCATIONS {
        dictionary.0.location_table.push(Location {
            mapping_index: 1 + numbers.below(MAPPINGS),
            address: 0x2000 + u64::from(numbers.below(0x7f_0000).unsigned_abs()),
            lines: Vec::new(),
            attribute_indices: vec![native],
        });
    }
    for _ in 0..STACKS {
        let depth = 1 + numbers.below(MAX_DEPTH);
        let location_indices = (0..depth).map(|_| 1 + numbers.below(LOCATIONS)).collect();
        dictionary.0.stack_table.push(Stack { location_indices });
    }
    dictionary
}

/// The message; its samples are dealt out to so many containers.
pub(crate) fn request(containers: usize) -> ExportProfilesServiceRequest {
    let mut numbers = Numbers(1);
    let mut dictionary = dictionary(&mut numbers);
    let (id, name) = (
        dictionary.text("thread.id".to_owned()),
        dictionary.text("thread.name".to_owned()),
    );
    let cpu = dictionary.text("cpu.logical_number".to_owned());
    let first_thread = dictionary.0.attribute_table.len();
    for thread in 0..THREADS {
        dictionary.attribute(id, Value::IntValue(i64::try_from(thread).expect("few")));
        dictionary.attribute(name, Value::StringValue(format!("worker-{}", thread % 50)));
    }
    let first_cpu = dictionary.0.attribute_table.len();
    for number in 0..64 {
        dictionary.attribute(cpu, Value::IntValue(number));
    }
    let (first_thread, first_cpu) = (
        i32::try_from(first_thread).expect("few"),
        i32::try_from(first_cpu).expect("few"),
    );
    let mut sample = |time: u64| {
        let thread = first_thread + 2 * numbers.below(THREADS);
        Sample {
            stack_index: 1 + numbers.below(STACKS),
            attribute_indices: vec![thread, thread + 1, first_cpu + numbers.below(64)],
            timestamps_unix_nano: vec![1_700_000_000_000_000_000 + time],
            ..Sample::default()
        }
    };
    let resource_profiles = (0..containers).map(|container| {
        let samples = (0..SAMPLES / containers)
            .map(|at| sample(at as u64 * 50_000_000))
            .collect();
        let profile = Profile {
            sample_type: Some(ValueType {
                type_strindex: 1,
                unit_strindex: 2,
            }),
            period_type: Some(ValueType {
                type_strindex: 3,
                unit_strindex: 4,
            }),
            period: 50_000_000,
            samples,
            ..Profile::default()
        };
        let value = Some(AnyValue {
            value: Some(Value::StringValue(format!("{container:064x}"))),
        });
        let attribute = KeyValue {
            key: "container.id".to_owned(),
            value,
            key_strindex: 0,
        };
        ResourceProfiles {
            resource: Some(Resource {
                attributes: vec![attribute],
                ..Resource::default()
            }),
            scope_profiles: vec![ScopeProfiles {
                profiles: vec![profile],
                ..Default::default()
            }],
            ..ResourceProfiles::default()
        }
    });
    ExportProfilesServiceRequest {
        resource_profiles: resource_profiles.collect(),
        dictionary: Some(dictionary.0),
    }
}
