//! Requests of any shape in the derived types of `opentelemetry-proto`, and what they mean by those types alone.

use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::profiles::v1development::{
    Function, KeyValueAndUnit, Line, Link, Location, Mapping, Profile, ProfilesDictionary,
    ResourceProfiles, Sample, ScopeProfiles, Stack, ValueType,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use proptest::collection::vec;
use proptest::prelude::*;
use unhex_pprof::Extent;

use crate::plain::{
    PlainAttribute, PlainBinary, PlainFrame, PlainLine, PlainProfile, PlainSample, PlainValue,
};

/// Entries of each table, entry 0 included.
const ENTRIES: i32 = 6;

fn index() -> std::ops::Range<i32> {
    0..ENTRIES
}

fn indices() -> impl Strategy<Value = Vec<i32>> {
    vec(0..ENTRIES, 0..4)
}

fn any_value() -> impl Strategy<Value = Option<AnyValue>> {
    let value = prop_oneof![
        "[a-z]{0,4}".prop_map(Value::StringValue),
        any::<bool>().prop_map(Value::BoolValue),
        any::<i64>().prop_map(Value::IntValue),
        // Parsers of JSON may be off by the last bit, but not for these.
        (-1_000_000..1_000_000).prop_map(|eighths| Value::DoubleValue(f64::from(eighths) / 8.0)),
    ];
    value.prop_map(|value| Some(AnyValue { value: Some(value) }))
}

fn key_values() -> impl Strategy<Value = Vec<KeyValue>> {
    let one = ("[a-z.]{1,4}", any_value()).prop_map(|(key, value)| KeyValue {
        key,
        value,
        key_strindex: 0,
    });
    vec(one, 0..3)
}

fn rest<T: Clone + Default + std::fmt::Debug>(
    one: impl Strategy<Value = T>,
) -> impl Strategy<Value = Vec<T>> {
    let others = usize::try_from(ENTRIES - 1).expect("a few");
    vec(one, others).prop_map(|mut all| {
        all.insert(0, T::default());
        all
    })
}

fn dictionary() -> impl Strategy<Value = ProfilesDictionary> {
    let mapping = (any::<[u64; 3]>(), index(), indices()).prop_map(
        |([memory_start, memory_limit, file_offset], filename_strindex, attribute_indices)| {
            Mapping {
                memory_start,
                memory_limit,
                file_offset,
                filename_strindex,
                attribute_indices,
            }
        },
    );
    // A line of function 0 is none, which has a test of its own.
    let line =
        (1..ENTRIES, any::<i64>(), any::<i64>()).prop_map(|(function_index, line, column)| Line {
            function_index,
            line,
            column,
        });
    let location = (index(), any::<u64>(), vec(line, 0..3), indices()).prop_map(
        |(mapping_index, address, lines, attribute_indices)| Location {
            mapping_index,
            address,
            lines,
            attribute_indices,
        },
    );
    let function = (index(), index(), index(), any::<i64>()).prop_map(
        |(name_strindex, system_name_strindex, filename_strindex, start_line)| Function {
            name_strindex,
            system_name_strindex,
            filename_strindex,
            start_line,
        },
    );
    let link = (any::<[u8; 16]>(), any::<[u8; 8]>()).prop_map(|(trace, span)| Link {
        trace_id: trace.to_vec(),
        span_id: span.to_vec(),
    });
    let attribute =
        (index(), any_value(), index()).prop_map(|(key_strindex, value, unit_strindex)| {
            KeyValueAndUnit {
                key_strindex,
                value,
                unit_strindex,
            }
        });
    let stack = indices().prop_map(|location_indices| Stack { location_indices });
    let tables = (rest(mapping), rest(location), rest(function), rest(link));
    let others = (rest("[a-z/\\[\\]]{0,5}"), rest(attribute), rest(stack));
    (tables, others).prop_map(|(tables, others)| ProfilesDictionary {
        mapping_table: tables.0,
        location_table: tables.1,
        function_table: tables.2,
        link_table: tables.3,
        string_table: others.0,
        attribute_table: others.1,
        stack_table: others.2,
    })
}

fn profile() -> impl Strategy<Value = Profile> {
    let value_type = (index(), index()).prop_map(|(type_strindex, unit_strindex)| ValueType {
        type_strindex,
        unit_strindex,
    });
    let counted = (1_usize..4, 0_usize..3).prop_flat_map(|(observations, shape)| {
        let (values, timestamps) = (shape != 1, shape != 0);
        (
            vec(any::<i64>(), if values { observations } else { 0 }),
            vec(any::<u64>(), if timestamps { observations } else { 0 }),
        )
    });
    let sample = (index(), indices(), index(), counted).prop_map(
        |(stack_index, attribute_indices, link_index, (values, timestamps_unix_nano))| Sample {
            stack_index,
            attribute_indices,
            link_index,
            values,
            timestamps_unix_nano,
        },
    );
    let types = (value_type.clone(), proptest::option::of(value_type));
    let numbers = (any::<u64>(), any::<u64>(), any::<i64>(), any::<[u8; 16]>());
    (types, vec(sample, 0..6), numbers, indices()).prop_map(
        |((sample_type, period_type), samples, numbers, attribute_indices)| Profile {
            sample_type: Some(sample_type),
            samples,
            time_unix_nano: numbers.0,
            duration_nano: numbers.1,
            period_type,
            period: numbers.2,
            profile_id: numbers.3.to_vec(),
            attribute_indices,
            ..Profile::default()
        },
    )
}

/// Any request in which every index leads somewhere.
pub(crate) fn request() -> impl Strategy<Value = ExportProfilesServiceRequest> {
    let scope = (
        ("[a-z]{0,3}", "[0-9]{0,3}"),
        key_values(),
        vec(profile(), 0..3),
    )
        .prop_map(|((name, version), attributes, profiles)| {
            let scope = InstrumentationScope {
                name,
                version,
                attributes,
                ..Default::default()
            };
            ScopeProfiles {
                scope: Some(scope),
                profiles,
                ..Default::default()
            }
        });
    let resource = (key_values(), vec(scope, 0..3)).prop_map(|(attributes, scope_profiles)| {
        let resource = Some(Resource {
            attributes,
            ..Default::default()
        });
        ResourceProfiles {
            resource,
            scope_profiles,
            ..Default::default()
        }
    });
    (vec(resource, 0..3), dictionary()).prop_map(|(resource_profiles, dictionary)| {
        ExportProfilesServiceRequest {
            resource_profiles,
            dictionary: Some(dictionary),
        }
    })
}

/// What a request means.
pub(crate) fn meaning(request: &ExportProfilesServiceRequest) -> Vec<PlainProfile> {
    let dictionary = request.dictionary.clone().unwrap_or_default();
    let follow = Follow(&dictionary);
    let mut all = Vec::new();
    for resource in &request.resource_profiles {
        let of_resource = resource.resource.clone().unwrap_or_default();
        for scope in &resource.scope_profiles {
            let of_scope = scope.scope.clone().unwrap_or_default();
            all.extend(scope.profiles.iter().map(|profile| PlainProfile {
                resource: follow.key_values(&of_resource.attributes),
                scope: (
                    of_scope.name.clone(),
                    of_scope.version.clone(),
                    follow.key_values(&of_scope.attributes),
                ),
                ..follow.profile(profile)
            }));
        }
    }
    all
}

struct Follow<'d>(&'d ProfilesDictionary);

fn at<T: Clone>(table: &[T], index: i32) -> T {
    table[usize::try_from(index).expect("no negative index")].clone()
}

impl Follow<'_> {
    fn text(&self, index: i32) -> String {
        at(&self.0.string_table, index)
    }

    fn value(&self, value: Option<&AnyValue>) -> PlainValue {
        match value.and_then(|any| any.value.clone()) {
            None => PlainValue::Empty,
            Some(Value::StringValue(text)) => PlainValue::Text(text),
            Some(Value::StringValueStrindex(index)) => PlainValue::Text(self.text(index)),
            Some(Value::BoolValue(is)) => PlainValue::Bool(is),
            Some(Value::IntValue(number)) => PlainValue::Integer(number),
            Some(Value::DoubleValue(number)) => PlainValue::Double(number),
            Some(other) => panic!("{other:?} is not made here"),
        }
    }

    fn key_values(&self, all: &[KeyValue]) -> Vec<PlainAttribute> {
        let plain = all.iter().map(|one| PlainAttribute {
            key: one.key.clone(),
            value: self.value(one.value.as_ref()),
            unit: String::new(),
        });
        plain.collect()
    }

    fn attributes(&self, indices: &[i32]) -> Vec<PlainAttribute> {
        let used = indices.iter().filter(|index| **index != 0);
        let plain = used
            .map(|index| at(&self.0.attribute_table, *index))
            .map(|one| PlainAttribute {
                key: self.text(one.key_strindex),
                value: self.value(one.value.as_ref()),
                unit: self.text(one.unit_strindex),
            });
        plain.collect()
    }

    fn profile(&self, profile: &Profile) -> PlainProfile {
        let typed = |counted: &ValueType| {
            (
                self.text(counted.type_strindex),
                self.text(counted.unit_strindex),
            )
        };
        PlainProfile {
            value_types: vec![typed(&profile.sample_type.unwrap_or_default())],
            period_type: profile.period_type.as_ref().map(typed),
            period: profile.period,
            time_unix_nanos: profile.time_unix_nano,
            duration_nanos: profile.duration_nano,
            id: profile
                .profile_id
                .clone()
                .try_into()
                .ok()
                .filter(|id| *id != [0; 16]),
            attributes: self.attributes(&profile.attribute_indices),
            texts: vec![String::new(); 3],
            samples: profile
                .samples
                .iter()
                .map(|sample| self.sample(sample))
                .collect(),
            ..PlainProfile::default()
        }
    }

    fn sample(&self, sample: &Sample) -> PlainSample {
        let link = (sample.link_index != 0).then(|| at(&self.0.link_table, sample.link_index));
        let stack = at(&self.0.stack_table, sample.stack_index);
        PlainSample {
            frames: stack
                .location_indices
                .iter()
                .map(|index| self.frame(*index))
                .collect(),
            values: sample.values.clone(),
            timestamps: sample.timestamps_unix_nano.clone(),
            attributes: self.attributes(&sample.attribute_indices),
            link: link.map(|link| {
                (
                    link.trace_id.try_into().unwrap(),
                    link.span_id.try_into().unwrap(),
                )
            }),
        }
    }

    fn frame(&self, index: i32) -> PlainFrame {
        let location = at(&self.0.location_table, index);
        let lines = location.lines.iter().map(|line| {
            let function = at(&self.0.function_table, line.function_index);
            PlainLine {
                name: self.text(function.name_strindex),
                system_name: self.text(function.system_name_strindex),
                file_name: self.text(function.filename_strindex),
                start_line: function.start_line,
                line: line.line,
                column: line.column,
            }
        });
        let mapping = at(&self.0.mapping_table, location.mapping_index);
        let binary = PlainBinary {
            file_name: self.text(mapping.filename_strindex),
            id_text: String::new(),
            extent: Extent {
                start: mapping.memory_start,
                limit: mapping.memory_limit,
                file_offset: mapping.file_offset,
            },
            attributes: self.attributes(&mapping.attribute_indices),
        };
        PlainFrame {
            address: location.address,
            is_folded: false,
            binary: (location.mapping_index != 0).then_some(binary),
            lines: lines.collect(),
            attributes: self.attributes(&location.attribute_indices),
        }
    }
}
