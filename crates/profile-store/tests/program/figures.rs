//! Figures for BENCHMARKS.md, by hand, of a release program: `UNHEX_STORE_MEASURED=target/release/unhex-store cargo test -p
//! unhex-profile-store --test program figures -- --ignored --nocapture`.
//!
//! `UNHEX_FIGURES_SECONDS` says how long each load lasts, 60 s by default.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use prost::Message as _;
use unhex_testkit::server::{Home, Server};

use crate::message::{Recipe, now_nanos, request};
use crate::{OTLP, PROTOBUF, metric, post};

/// A load: so many hosts that push at once, each so many samples of so many stacks.
#[derive(Clone, Copy, Debug)]
struct Load {
    pushers: usize,
    samples: usize,
    stacks: usize,
    /// Between two pushes of one host; none as fast as it can.
    every: Option<Duration>,
}

fn seconds() -> u64 {
    let set = std::env::var("UNHEX_FIGURES_SECONDS").ok();
    set.map_or(60, |set| set.parse().expect("seconds"))
}

/// The same message under another number, which no reader knows: field 1000.
fn numbered(body: &[u8], number: u64) -> Vec<u8> {
    let mut numbered = body.to_vec();
    prost::encoding::encode_key(1_000, prost::encoding::WireType::Varint, &mut numbered);
    prost::encoding::encode_varint(number, &mut numbered);
    numbered
}

fn quantile(sorted: &[Duration], per_thousand: usize) -> Duration {
    let at = (sorted.len() * per_thousand / 1_000).min(sorted.len() - 1);
    sorted[at]
}

fn measure(load: Load) {
    let program =
        std::env::var("UNHEX_STORE_MEASURED").expect("UNHEX_STORE_MEASURED: a release program");
    let program = std::path::absolute(program).expect("a path");
    let server = Server::start_in(Home::new(), program, &["--symbols", "none"]);
    let body = request(&Recipe {
        samples: load.samples,
        stacks: load.stacks,
        // 500 samples a second.
        time_unix_nanos: now_nanos() - 60_000_000_000,
        apart_nanos: 2_000_000,
        ..Recipe::default()
    });
    let body = Arc::new(body.encode_to_vec());
    let (stop, sent, waits) = (
        AtomicBool::new(false),
        AtomicUsize::new(0),
        Mutex::new(Vec::new()),
    );
    let cpu_before = metric(&server, "process_cpu_seconds_total");
    let began = Instant::now();
    let mut memory = Vec::new();
    std::thread::scope(|scope| {
        for pusher in 0..load.pushers {
            let (server, body, stop, sent, waits) = (&server, &body, &stop, &sent, &waits);
            scope.spawn(move || {
                for round in 0.. {
                    let number = (pusher as u64) << 32 | round;
                    let message = numbered(body, number);
                    let asked = Instant::now();
                    let answer = post(server, OTLP, &[PROTOBUF], &message);
                    if answer.status == 200 {
                        sent.fetch_add(1, Ordering::Relaxed);
                        waits.lock().expect("no panic").push(asked.elapsed());
                    }
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    if let Some(every) = load.every {
                        std::thread::sleep(every.saturating_sub(asked.elapsed()));
                    }
                }
            });
        }
        let part = Duration::from_secs(seconds()) / 6;
        for _ in 0..6 {
            std::thread::sleep(part);
            memory.push(server.memory_bytes() >> 20);
        }
        stop.store(true, Ordering::Relaxed);
    });
    let took = began.elapsed().as_secs_f64();
    let cpu = metric(&server, "process_cpu_seconds_total") - cpu_before;
    let mut waits = waits.into_inner().expect("no panic");
    waits.sort();
    let samples = sent.into_inner() * load.samples;
    let stored = metric(&server, "unhex_store_written_bytes_total{kind=\"segment\"}");
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let samples = samples as f64;
    println!(
        "{load:?}, {} bytes a message: {:.0} samples/s, {:.2} M samples/s a core ({cpu:.1} s of {took:.1} s), \
         p50 {:?}, p99 {:?}, longest {:?}, resident MB {memory:?}, {:.2} bytes a sample in segments",
        body.len(),
        samples / took,
        samples / cpu / 1e6,
        quantile(&waits, 500),
        quantile(&waits, 990),
        waits[waits.len() - 1],
        stored / samples,
    );
}

#[test]
#[ignore = "minutes, for figures"]
fn hosts_that_push_as_fast_as_it_goes() {
    // What a host of 64 cores makes in 30 s at 20 Hz and 40 %.
    measure(Load {
        pushers: 16,
        samples: 15_000,
        stacks: 3_000,
        every: None,
    });
}

#[test]
#[ignore = "minutes, for figures"]
fn a_hundred_hosts_that_push_every_five_seconds() {
    measure(Load {
        pushers: 100,
        samples: 2_560,
        stacks: 1_000,
        every: Some(Duration::from_secs(5)),
    });
}
