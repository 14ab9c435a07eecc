//! How long a view of a large merged profile takes: `cargo bench -p unhex-profile-store --bench views`.
//!
//! 60,000 stacks of 40 frames, some with an inlined call, over 20,000 functions: a service of 24 hours after merging. Callers are shared as in real
//! programs: most calls go to the most frequent callee; beside it the worst case, stacks that have little in common.
#![expect(
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a measurement that meets the unexpected has failed, and prints what it is of"
)]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use unhex_build_id::Identity;
use unhex_pprof::CodeAddress;
use unhex_profile_store::answers::Asked;
use unhex_profile_store::rows::{FrameContent, NativeFrame};
use unhex_profile_store::view::{
    Call, FoldedLines, FrameNumber, Heading, Merged, ProfileType, TopOptions, Tree, Weight,
    flame_graph, pprof, svg, top,
};

const STACKS: usize = 60_000;
const DEPTH: usize = 40;
const FUNCTIONS: usize = 20_000;
/// Places in the code of a function that are sampled.
const PLACES: usize = 3;

/// Calls in a hundred that go to another callee than the most frequent one, in a usual program; and the most.
const USUAL: usize = 12;
const WORST: usize = 100;

/// Numbers that look random and are the same in every run (Knuth's multiplier).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let end = u64::try_from(end).expect("64 bits");
        usize::try_from((self.0 >> 33) % end).expect("64 bits")
    }

    /// Which of a function's callees is called: the first, but for so many calls in a hundred.
    fn callee(&mut self, others_in_100: usize) -> usize {
        if self.below(100) >= others_in_100 {
            return 0;
        }
        self.below(12)
    }
}

fn call(function: usize) -> Call {
    Call {
        function: format!(
            "crate_{}::module_{}::function_{function}",
            function % 40,
            function % 400
        )
        .into(),
        file: format!("src/module_{}.rs", function % 400).into(),
        line: 7,
    }
}

fn merged(others_in_100: usize) -> Merged {
    let mut merged = Merged::new(ProfileType::cpu());
    let identity = Identity::Gnu("9a0f12".parse().expect("hex"));
    let mut frames: Vec<FrameNumber> = Vec::new();
    for place in 0..FUNCTIONS * PLACES {
        let native = FrameContent::Native(NativeFrame {
            identity: Some(identity.clone()),
            file_name: "/usr/bin/checkout".into(),
            address: CodeAddress::Link(place as u64 * 16),
        });
        let function = place / PLACES;
        let outer = call(function);
        let names = if function.is_multiple_of(8) {
            vec![call((function + 1) % FUNCTIONS), outer]
        } else {
            vec![outer]
        };
        frames.push(merged.frame(&native, &names));
    }
    let mut numbers = Numbers(1);
    for _ in 0..STACKS {
        let mut function = 0;
        let mut stack = Vec::with_capacity(DEPTH);
        for depth in 0..DEPTH {
            stack.push(
                *frames
                    .get(function * PLACES + numbers.below(PLACES))
                    .expect("a frame"),
            );
            function = (function * 31 + numbers.callee(others_in_100) * 7_919 + depth) % FUNCTIONS;
        }
        stack.reverse();
        let count = i128::try_from(1 + numbers.below(50)).expect("128 bits");
        let value = count * 52_631_578;
        merged.stack(&stack, Weight { count, value });
    }
    merged
}

fn views(c: &mut Criterion) {
    let merged = merged(USUAL);
    let tree = Tree::whole(&merged);
    let total = merged.total().value;
    eprintln!(
        "{STACKS} stacks of {DEPTH} frames, {} functions, {} nodes",
        merged.functions().len(),
        tree.nodes().len()
    );
    let mut group = c.benchmark_group("views");
    group.sample_size(10);
    group.bench_function("tree", |b| {
        b.iter(|| {
            let tree = Tree::whole(black_box(&merged));
            assert_eq!(tree.nodes().first().map(|root| root.total), Some(total));
        });
    });
    let apart = self::merged(WORST);
    eprintln!("worst: {} nodes", Tree::whole(&apart).nodes().len());
    group.bench_function("tree, worst", |b| {
        b.iter(|| Tree::whole(black_box(&apart)).nodes().len());
    });
    group.bench_function("tree of 8,192 nodes", |b| {
        b.iter(|| {
            let tree = Tree::whole(black_box(&merged)).cut_to(8_192);
            assert_eq!(tree.nodes().first().map(|root| root.total), Some(total));
        });
    });
    group.bench_function("top", |b| {
        let options = TopOptions {
            limit: 100,
            ..TopOptions::default()
        };
        b.iter(|| assert_eq!(top(&merged, options, Asked::default()).total.value, total));
    });
    let cut = Tree::whole(&merged).cut_to(8_192);
    group.bench_function("flame graph of 8,192 nodes as JSON", |b| {
        b.iter(|| {
            let answer = flame_graph(black_box(&cut), Asked::default());
            serde_json::to_vec(&answer).expect("JSON").len()
        });
    });
    group.bench_function("picture of 8,192 nodes", |b| {
        b.iter(|| {
            svg(black_box(&cut), &Heading::default())
                .expect("a picture")
                .len()
        });
    });
    group.bench_function("folded", |b| {
        b.iter(|| {
            FoldedLines::of(tree.clone())
                .map(|line| line.len())
                .sum::<usize>()
        });
    });
    group.bench_function("pprof", |b| {
        b.iter(|| {
            pprof(black_box(&merged), &Heading::default())
                .expect("a file")
                .len()
        });
    });
    group.finish();
}

criterion_group!(benches, views);
criterion_main!(benches);
