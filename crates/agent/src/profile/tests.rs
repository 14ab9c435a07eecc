//! Samples in, the bytes of a message out, and what a reader of it sees.

use std::fs;
use std::sync::Arc;
use std::time::Instant;

use unhex_build_id::Identity;
use unhex_pprof::{
    CodeAddress, Frame, FrameKind, Limits, Profiles, Sample as SentSample, otlp, pprof,
};
use unhex_symbols::address::{FileOffset, ProcessAddress};
use unhex_symbols::segments::{LoadSegment, LoadSegments, Mapping};

use super::*;
use crate::labels::{Known, Labels};
use crate::processes::{Binary, BinaryKind, Processes, Region};
use crate::runtimes::Runtime;
use crate::sample::{FrameKind as Kind, ProcessId, Sample, Stop, ThreadId, UserFrame};

const PERIOD: Period = Period {
    start_unix_nanos: 1_700_000_000_000_000_000,
    duration_nanos: 5_000_000_000,
    sampling_nanos: 52_631_578,
};
const KALLSYMS: &str = "ffffffff81000000 T _text\nffffffff81000100 t do_syscall\n\
                        ffffffff81000200 t next\nffffffffc0000000 t inside\t[ext4]\n";

struct Host {
    _proc: tempfile::TempDir,
    namers: Namers,
    processes: Processes,
    batch: Batch,
}

/// A mapping of 0x1000 bytes whose file offset is 0x1000, and whose segment was linked to 0x401000.
fn region(start: u64, name: &str, kind: BinaryKind, identity: Option<&str>) -> Region {
    let segment = LoadSegment {
        address: 0x40_1000,
        file_offset: 0x1000,
        file_size_bytes: 0x1000,
        memory_size_bytes: 0x1000,
        align: 0x1000,
        executable: true,
    };
    let is_readable = identity.is_some();
    Region {
        mapping: Mapping {
            start: ProcessAddress(start),
            end: ProcessAddress(start + 0x1000),
            file_offset: FileOffset(0x1000),
        },
        binary: Arc::new(Binary {
            name: name.to_owned(),
            identity: identity.map(|id| Identity::Gnu(id.parse().unwrap())),
            segments: LoadSegments(is_readable.then_some(segment).into_iter().collect()),
            kind,
        }),
    }
}

impl Host {
    fn new() -> Self {
        let proc = tempfile::tempdir().unwrap();
        let process = proc.path().join("7");
        fs::create_dir_all(process.join("root/tmp")).unwrap();
        fs::write(
            process.join("root/tmp/perf-7.map"),
            "60010 8 Lgreet;::hello\n",
        )
        .unwrap();
        let mut processes = Processes::default();
        let regions = vec![
            region(0x10000, "/usr/bin/shop", BinaryKind::File, Some("0a0b")),
            region(0x20000, "[vdso]", BinaryKind::Vdso, Some("0c")),
            region(
                0x30000,
                "/usr/lib/gone.so (deleted)",
                BinaryKind::File,
                None,
            ),
            region(0x40000, "", BinaryKind::Anonymous, None),
            region(
                0x50000,
                "/memfd:doublemapper (deleted)",
                BinaryKind::File,
                None,
            ),
            region(0x60000, "", BinaryKind::Anonymous, None),
        ];
        processes.set(ProcessId(7), regions);
        let kernel = KernelSymbols::read(KALLSYMS.as_bytes());
        Self {
            namers: Namers::new(proc.path(), kernel),
            _proc: proc,
            processes,
            batch: Batch::default(),
        }
    }

    fn add(&mut self, kernel: &[u64], user: &[u64], stop: Stop, known: &Known) {
        let sample = sample(kernel, user, stop);
        let whose = Whose {
            process: self.processes.get(ProcessId(7)),
            known,
            now: Instant::now(),
            unix_offset_nanos: PERIOD.start_unix_nanos,
        };
        self.batch.add(&sample, whose, &mut self.namers);
    }

    fn sent(self) -> Vec<u8> {
        otlp::encode(&self.batch.into_profiles(PERIOD))
    }
}

fn sample(kernel: &[u64], user: &[u64], stop: Stop) -> Sample {
    let frame = |(depth, address): (usize, &u64)| UserFrame {
        address: ProcessAddress(*address),
        kind: if depth == 0 {
            Kind::Exact
        } else {
            Kind::Return
        },
    };
    Sample {
        time_monotonic_nanos: 1_000_000_000,
        period_nanos: 50_000_000,
        process: ProcessId(7),
        thread: ThreadId(8),
        processor: 0,
        kernel: kernel.to_vec(),
        user: user.iter().enumerate().map(frame).collect(),
        stop,
    }
}

fn known(service: &str, runtime: Option<Runtime>) -> Known {
    Known {
        labels: Labels::from_iter([("service.name".to_owned(), service.to_owned())]),
        runtime,
    }
}

/// Each frame as `kind name file+address`.
fn described(model: &Profiles<'_>, sample: SentSample<'_>) -> Vec<String> {
    let frames = model.stack(sample.stack).iter();
    frames
        .filter_map(|id| model.frame(*id))
        .map(|frame| frame_text(model, frame))
        .collect()
}

fn frame_text(model: &Profiles<'_>, frame: &Frame) -> String {
    let name = model.lines(frame).first().map_or("", |line| {
        let function = model.function(line.function).unwrap();
        model.text(function.name)
    });
    let binary = frame.binary.and_then(|id| model.binary(id));
    let file = binary.map_or("", |binary| model.text(binary.file_name));
    let identity = binary.and_then(|binary| binary.identity.as_ref());
    let identity = identity
        .map(|id| format!(" {}:{id}", id.kind()))
        .unwrap_or_default();
    match frame.kind {
        FrameKind::Native(CodeAddress::Link(address)) => {
            format!("native {file}+{address:#x}{identity}")
        }
        FrameKind::Native(CodeAddress::FileOffset(offset)) => {
            format!("native {file}@{offset:#x}{identity}")
        }
        kind => format!("{kind:?} {name} {file}{identity}")
            .trim_end()
            .to_owned(),
    }
}

/// The stacks of a message of one profile.
fn stacks(message: &[u8]) -> Vec<Vec<String>> {
    let read = otlp::decode(message, &Limits::default()).unwrap();
    let model = &read.profiles;
    let profile = &model.profiles()[0];
    model
        .samples(profile)
        .map(|sample| described(model, sample))
        .collect()
}

fn one_stack(kernel: &[u64], user: &[u64], stop: Stop, runtime: Option<Runtime>) -> Vec<String> {
    let mut host = Host::new();
    host.add(kernel, user, stop, &known("shop", runtime));
    stacks(&host.sent()).remove(0)
}

#[test]
fn native_code_is_sent_by_identity_and_link_address_and_calls_at_the_call() {
    let found = one_stack(&[], &[0x10123, 0x10200, 0x20010], Stop::Root, None);
    let expected = [
        "native shop+0x401123 gnu:0a0b",
        "native shop+0x4011ff gnu:0a0b",
        "native [vdso]+0x40100f gnu:0c",
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_call_that_is_the_last_instruction_of_its_mapping_belongs_to_it() {
    let found = one_stack(&[], &[0x10123, 0x11000], Stop::Root, None);
    assert_eq!(found[1], "native shop+0x401fff gnu:0a0b");
}

#[test]
fn a_file_that_could_not_be_read_is_sent_by_name_and_file_offset_and_no_mapping_by_nothing() {
    let found = one_stack(&[], &[0x30010, 0x99999], Stop::NoMapping, None);
    let expected = [
        "native gone.so+0x1010",
        "Unplaced",
        "Truncated [truncated: no mapping]",
    ];
    assert_eq!(found, expected);
}

#[test]
fn the_kernel_is_sent_by_name_in_front_of_the_process() {
    let kernel = [
        0xffff_ffff_8100_0110,
        0xffff_ffff_8100_0200,
        0xffff_ffff_c000_0020,
        0xffff_0000_0000_0000,
    ];
    let found = one_stack(&kernel, &[0x10123], Stop::Root, None);
    let expected = [
        "Kernel do_syscall vmlinux",
        "Kernel do_syscall vmlinux",
        "Kernel inside ext4",
        "Kernel  vmlinux",
        "native shop+0x401123 gnu:0a0b",
    ];
    assert_eq!(found, expected);
}

#[test]
fn code_that_only_a_runtime_could_unwind_is_one_frame_without_a_binary() {
    let user = [0x40010, 0x40020, 0x50010, 0x10123];
    let java = one_stack(&[], &user, Stop::Root, Some(Runtime::Java));
    assert_eq!(
        java,
        ["MissingUnwinder [java]", "native shop+0x401122 gnu:0a0b"]
    );
    let unknown = one_stack(&[], &user, Stop::Jit, None);
    let expected = [
        "MissingUnwinder [jit]",
        "native shop+0x401122 gnu:0a0b",
        "Truncated [truncated: jit]",
    ];
    assert_eq!(unknown, expected);
}

#[test]
fn code_that_its_runtime_named_has_that_name() {
    let found = one_stack(&[], &[0x60011, 0x10123], Stop::Root, Some(Runtime::Java));
    assert_eq!(found[0], "Named Lgreet;::hello");
}

#[test]
fn every_stop_reason_but_the_roots_is_the_last_frame() {
    for stop in Stop::ALL {
        let found = one_stack(&[], &[0x10123], stop, None);
        let last = found.last().unwrap();
        if stop.is_complete() {
            assert_eq!(found.len(), 1, "{found:?}");
        } else {
            let expected = format!("Truncated [truncated: {}]", stop.as_str());
            assert_eq!(*last, expected);
        }
    }
}

#[test]
fn each_label_set_is_a_resource_and_samples_have_no_attributes() {
    let mut host = Host::new();
    for service in ["b", "a", "b"] {
        host.add(&[], &[0x10123], Stop::Root, &known(service, None));
    }
    assert_eq!(host.batch.len(), 3);
    let message = host.sent();
    let read = otlp::decode(&message, &Limits::default()).unwrap();
    let model = &read.profiles;
    let resources = model.profiles().iter().map(|profile| {
        let attributes = model.attributes(profile.resource);
        let texts = attributes.map(|attribute| {
            let unhex_pprof::Value::Text(value) = attribute.value else {
                panic!("{attribute:?}");
            };
            format!("{}={}", model.text(attribute.key), model.text(value))
        });
        texts.collect::<Vec<String>>().join(",")
    });
    let resources: Vec<String> = resources.collect();
    assert_eq!(resources, ["service.name=a", "service.name=b"]);
    for profile in model.profiles() {
        assert!(
            model
                .samples(profile)
                .all(|sample| sample.attributes.is_empty())
        );
    }
    let profile = &model.profiles()[1];
    assert_eq!(model.cpu_nanos_per_value(profile, 0), Some(1));
    let sample = model.samples(profile).next().unwrap();
    assert_eq!(sample.observations(), 2);
    assert_eq!(sample.total(0), 100_000_000);
    let time = PERIOD.start_unix_nanos + 1_000_000_000;
    assert_eq!(sample.timestamps, [time, time]);
    assert_eq!(profile.duration_nanos, PERIOD.duration_nanos);
    assert_eq!(model.text(profile.origin.name), "unhex-agent");
}

#[test]
fn a_file_of_one_host_has_everything_in_one_profile_with_labels() {
    let mut host = Host::new();
    for service in ["b", "a", "b"] {
        host.add(&[], &[0x10123], Stop::Root, &known(service, None));
    }
    let model = host.batch.into_one_profile(PERIOD);
    let bytes = pprof::encode(&model, &model.profiles()[0]).unwrap();
    let model = pprof::decode(&bytes, &Limits::default()).unwrap();
    let profile = &model.profiles()[0];
    assert_eq!(model.totals(profile), [3, 150_000_000]);
    let samples: Vec<_> = model.samples(profile).collect();
    assert_eq!(samples.len(), 2);
    assert_eq!(samples[1].total(0), 2);
    assert_eq!(samples[1].attributes.len(), 1);
    let frames = described(&model, samples[0]);
    // Readers of pprof take the file offset.
    assert_eq!(frames, ["native shop@0x1123 gnu:0a0b"]);
}

#[test]
fn files_have_their_paths_where_they_are_looked_for() {
    let mut host = Host::new();
    host.batch = Batch::new(FileNames::Path);
    host.add(&[], &[0x10123], Stop::Root, &known("shop", None));
    let expected = ["native /usr/bin/shop+0x401123 gnu:0a0b"];
    assert_eq!(stacks(&host.sent()), [expected]);
}

#[test]
fn equal_samples_give_equal_bytes_whatever_came_first() {
    let message = |services: [&str; 2]| {
        let mut host = Host::new();
        for service in services {
            host.add(&[], &[0x10123, 0x10200], Stop::Root, &known(service, None));
        }
        host.sent()
    };
    assert_eq!(message(["a", "b"]), message(["b", "a"]));
}

#[test]
fn a_batch_is_full_by_its_samples() {
    let mut host = Host::new();
    let known = known("a", None);
    host.add(&[], &[0x10123], Stop::Root, &known);
    assert!(!host.batch.is_full());
    for _ in 0..1 << 16 {
        host.add(&[], &[0x10123], Stop::Root, &known);
    }
    assert!(host.batch.is_full());
}
