//! How many samples a second one core reads: `cargo bench -p unhex-pprof --bench decode`.
//!
//! The message is one of a whole host in the shape of the OpenTelemetry eBPF profiler: a profile for each of 200 containers,
//! timestamps and no values, thread and CPU as attributes. Beside it the derived types of `opentelemetry-proto` decode the same bytes,
//! which gives structures without any of the rules.
#![expect(
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a measurement that meets the unexpected has failed, and prints what it is of"
)]

mod host;

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceRequest;
use prost::Message as _;
use unhex_pprof::{Hashes, Limits, StackId, otlp, pprof};

use host::{CONTAINERS, SAMPLES, request};

fn limits() -> Limits {
    Limits::default()
}

/// The hashes of all stacks, folded so that none is left out.
fn stack_hashes(model: &unhex_pprof::Profiles<'_>, stacks: &[StackId]) -> u8 {
    let mut hashes = Hashes::of(model);
    stacks
        .iter()
        .fold(0, |all, id| all ^ hashes.stack(*id).0[0])
}

/// The stacks that samples have, each once.
fn used_stacks(model: &unhex_pprof::Profiles<'_>) -> Vec<StackId> {
    let profiles = model.profiles().iter();
    let mut all: Vec<StackId> = profiles
        .flat_map(|profile| model.samples(profile).map(|sample| sample.stack))
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn read_otlp(c: &mut Criterion) {
    let bytes = request(CONTAINERS).encode_to_vec();
    let model = otlp::decode(&bytes, &limits())
        .expect("a sound request")
        .profiles;
    let samples: usize = model
        .profiles()
        .iter()
        .map(unhex_pprof::Profile::sample_count)
        .sum();
    assert_eq!(samples, SAMPLES);
    let stacks = used_stacks(&model);
    eprintln!(
        "{} bytes, {samples} samples, {} stacks, {} frames",
        bytes.len(),
        stacks.len(),
        model.frames().len()
    );
    let mut group = c.benchmark_group("otlp");
    group.throughput(Throughput::Elements(SAMPLES as u64));
    group.bench_function("to the model", |b| {
        b.iter(|| black_box(otlp::decode(black_box(&bytes), &limits()).expect("a request")));
    });
    group.bench_function("to the model, and all stacks hashed", |b| {
        b.iter(|| {
            let decoded = otlp::decode(black_box(&bytes), &limits()).expect("a request");
            black_box(stack_hashes(&decoded.profiles, &stacks))
        });
    });
    group.bench_function("by derived types, structures only", |b| {
        b.iter(|| {
            black_box(ExportProfilesServiceRequest::decode(black_box(
                bytes.as_slice(),
            )))
        });
    });
    group.finish();
}

fn read_and_write_pprof(c: &mut Criterion) {
    let bytes = request(1).encode_to_vec();
    let model = otlp::decode(&bytes, &limits())
        .expect("a sound request")
        .profiles;
    let largest = model
        .profiles()
        .iter()
        .max_by_key(|profile| profile.sample_count());
    let profile = largest.expect("a profile");
    let file = pprof::encode(&model, profile).expect("a file");
    let again = pprof::decode(&file, &limits()).expect("a file");
    let first = again.profiles().first().expect("a profile");
    assert_eq!(again.totals(first), model.totals(profile));
    let mut group = c.benchmark_group("pprof");
    group.throughput(Throughput::Elements(SAMPLES as u64));
    group.bench_function("to the model", |b| {
        b.iter(|| black_box(pprof::decode(black_box(&file), &limits()).expect("a file")));
    });
    group.bench_function("from the model", |b| {
        b.iter(|| black_box(pprof::encode(&model, profile).expect("a file")));
    });
    group.finish();
}

criterion_group!(benches, read_otlp, read_and_write_pprof);
criterion_main!(benches);
