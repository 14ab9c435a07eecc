//! Profiles as the profilers of the field send them.

use std::collections::BTreeMap;

use unhex_pprof::{
    Binary, BinaryRole, Builder, CodeAddress, Extent, Frame, Limits, NewSample, Profile, ValueType,
    otlp, pprof,
};
use unhex_profile_store::rows::{FrameContent, FrameCoverage, SampleRow, observed};

use crate::messages::{
    NOON_NANOS, PlainFrame, PlainSample, build_id, kept_with, labels, model, profile, sample,
};
use crate::totals::sums;

/// A message of opentelemetry-ebpf-profiler: 20 samples a second, timestamps without values, numbers of the thread and the CPU.
const EBPF_PROFILER: &str = r#"{
  "resourceProfiles": [{
    "resource": {"attributes": [
      {"key": "container.id", "value": {"stringValue": "c0ffee"}},
      {"key": "process.pid", "value": {"intValue": "42"}},
      {"key": "process.executable.name", "value": {"stringValue": "checkout"}}
    ]},
    "scopeProfiles": [{
      "scope": {"name": "go.opentelemetry.io/ebpf-profiler"},
      "profiles": [{
        "sampleType": {"typeStrindex": 1, "unitStrindex": 2},
        "periodType": {"typeStrindex": 3, "unitStrindex": 4},
        "period": "50000000",
        "timeUnixNano": "1796130000000000000",
        "samples": [
          {"stackIndex": 1, "attributeIndices": [3, 4, 5],
           "timestampsUnixNano": ["1796130000000000000", "1796130000050000999"]},
          {"stackIndex": 2, "attributeIndices": [3, 4], "timestampsUnixNano": ["1796130001000000000"]}
        ]
      }]
    }]
  }],
  "dictionary": {
    "stringTable": ["", "samples", "count", "cpu", "nanoseconds", "/app/checkout",
      "process.executable.build_id.gnu", "9a0f9a0f9a0f9a0f9a0f9a0f9a0f9a0f9a0f9a0f",
      "profile.frame.type", "native", "kernel", "thread.name", "worker", "thread.id",
      "cpu.logical_number", "do_syscall_64", "[kernel.kallsyms]", "abort-marker"],
    "attributeTable": [{},
      {"keyStrindex": 6, "value": {"stringValueStrindex": 7}},
      {"keyStrindex": 8, "value": {"stringValueStrindex": 9}},
      {"keyStrindex": 11, "value": {"stringValueStrindex": 12}},
      {"keyStrindex": 13, "value": {"intValue": "43"}},
      {"keyStrindex": 14, "value": {"intValue": "3"}},
      {"keyStrindex": 8, "value": {"stringValueStrindex": 10}},
      {"keyStrindex": 8, "value": {"stringValueStrindex": 17}}],
    "mappingTable": [{},
      {"memoryStart": "4096", "memoryLimit": "65536", "fileOffset": "4096", "filenameStrindex": 5, "attributeIndices": [1]},
      {"filenameStrindex": 16}],
    "functionTable": [{}, {"nameStrindex": 15}],
    "locationTable": [{},
      {"mappingIndex": 1, "address": "4409", "attributeIndices": [2]},
      {"mappingIndex": 2, "address": "77", "lines": [{"functionIndex": 1}], "attributeIndices": [6]},
      {"address": "4", "attributeIndices": [7]}],
    "stackTable": [{}, {"locationIndices": [2, 1]}, {"locationIndices": [1, 3]}]
  }
}"#;

#[test]
fn a_message_of_the_ebpf_profiler_is_cpu_time_at_the_times_of_its_samples() {
    let limits = Limits::default();
    let message = otlp::json_to_protobuf(EBPF_PROFILER.as_bytes(), &limits).expect("a message");
    let decoded = otlp::decode(&message, &limits).expect("profiles");
    let batch = kept_with(&decoded.profiles, &[]);
    assert_eq!((&batch.rejected[..], decoded.rejected.len()), (&[][..], 0));
    let times: Vec<i64> = batch.rows.iter().map(|row| row.time_unix_seconds).collect();
    let noon = 1_796_130_000;
    // The second one is 50 ms behind the first.
    assert_eq!(times, [noon, noon, noon + 1]);
    assert_eq!(sums(&batch.rows)["cpu"], (3, 150_000_000));

    let labels: Vec<(&str, &str)> = batch.rows[0].series.labels().collect();
    let expected = [
        ("container", "c0ffee"),
        ("deployment", "unlabelled"),
        ("instance", "unlabelled"),
        ("process.executable.name", "checkout"),
        ("process.pid", "42"),
        ("service", "unlabelled"),
        ("thread.name", "worker"),
        ("version", "unlabelled"),
    ];
    assert_eq!(labels, expected);
    assert_eq!(batch.series.len(), 1);

    let coverage = |row: &SampleRow| -> Vec<FrameCoverage> {
        let frames = batch.stacks[&row.stack].iter();
        frames.map(|frame| batch.frames[frame].coverage()).collect()
    };
    assert_eq!(
        coverage(&batch.rows[0]),
        [FrameCoverage::Kernel, FrameCoverage::ToAsk]
    );
    let last = coverage(&batch.rows[2]);
    assert!(
        matches!(
            last[..],
            [FrameCoverage::ToAsk, FrameCoverage::Truncated(_)]
        ),
        "{last:?}"
    );
    let places: Vec<CodeAddress> = batch
        .frames
        .values()
        .filter_map(|frame| match frame {
            FrameContent::Native(native) => Some(native.address),
            _ => None,
        })
        .collect();
    assert_eq!(places, [CodeAddress::Link(4_409)]);

    let told = observed(&batch, "b");
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].modules.len(), 1, "{:?}", told[0].modules);
    assert_eq!(told[0].modules[0].weight, 150_000_000);
}

#[test]
fn a_profile_of_go_is_the_same_out_of_a_pprof_file() {
    let stack = [PlainFrame::Native(1, 0x1139), PlainFrame::Native(1, 0x1200)];
    let go = profile(vec![PlainSample {
        labels: labels(&[("endpoint", "/pay")]),
        ..sample(&stack, &[3, 30_000_000])
    }]);
    let request = [
        ("service", "checkout"),
        ("version", "2.4"),
        ("deployment", "prod"),
        ("team", "pay"),
    ];
    let model = model(std::slice::from_ref(&go));
    let file = pprof::encode(&model, &model.profiles()[0]).expect("a pprof");
    let read = pprof::decode(&file, &Limits::default()).expect("a profile");
    let batch = kept_with(&read, &request);
    assert_eq!(
        sums(&batch.rows),
        BTreeMap::from([("cpu".to_owned(), (3, 30_000_000))])
    );
    let [row] = batch.rows.as_slice() else {
        panic!("{:?}", batch.rows)
    };
    let found: Vec<(&str, &str)> = row.series.labels().collect();
    let expected = [
        ("deployment", "prod"),
        ("endpoint", "/pay"),
        ("instance", "unlabelled"),
        ("service", "checkout"),
        ("team", "pay"),
        ("version", "2.4"),
    ];
    assert_eq!(found, expected);
    let told = observed(&batch, "b");
    assert_eq!(told[0].modules[0].build_id, build_id(1).to_string());
    assert_eq!(told[0].modules[0].weight, 60_000_000);
}

#[test]
fn a_pprof_of_parcas_agent_counts_samples_of_19_hertz_at_link_addresses() {
    let mut builder = Builder::default();
    let mut value_type = |name, unit| ValueType {
        name: builder.string(name),
        unit: builder.string(unit),
    };
    let (counted, cpu) = (
        value_type("samples", "count"),
        value_type("cpu", "nanoseconds"),
    );
    builder.profile(Profile {
        value_types: vec![counted],
        period_type: Some(cpu),
        period: 52_631_578,
        time_unix_nanos: NOON_NANOS,
        ..Profile::default()
    });
    let file_name = builder.string("/usr/bin/app");
    let id_text = builder.string(build_id(1).to_string());
    let binary = builder.binary(Binary {
        file_name,
        identity: Some(build_id(1)),
        id_text,
        role: BinaryRole::File,
        extent: Extent {
            start: 0x40_0000,
            limit: 0x50_0000,
            file_offset: 0,
        },
        ..Binary::default()
    });
    let frame = Frame {
        binary: Some(binary),
        address: 0x40_1139,
        ..Frame::default()
    };
    let frame = builder.frame(frame, &[]);
    let stack = builder.stack(&[frame]);
    builder.sample(NewSample {
        stack,
        values: &[19],
        ..NewSample::default()
    });
    let model = builder.finish();
    let file = pprof::encode(&model, &model.profiles()[0]).expect("a pprof");
    let read = pprof::decode(&file, &Limits::default()).expect("a profile");
    let batch = kept_with(&read, &[]);
    let row = &batch.rows[0];
    assert_eq!(
        (row.profile_type.as_ref(), row.count, row.period),
        ("cpu", 19, 52_631_578)
    );
    let frames: Vec<&FrameContent> = batch.frames.values().collect();
    let [FrameContent::Native(native)] = frames.as_slice() else {
        panic!("{frames:?}")
    };
    assert_eq!(native.address, CodeAddress::FileOffset(0x1139));
}
