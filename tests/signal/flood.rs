//! Invented build IDs, services and versions, by the million: everything stays bounded.
//!
//! A process of its own, so that its memory is its own. A million requests:
//! `UNHEX_FLOOD=1000000 cargo test --release --test signal flood -- --ignored --nocapture`.

use std::process::Command;
use std::time::{Duration, Instant};

use unhex::metrics::Metrics;
use unhex_api::symbolize::ModuleStatus;
use unhex_testkit::run;

use crate::replica::{Start, Time, counts, labels, module, profile, unknown};

/// As many as a busy build machine sends in some seconds.
const REQUESTS: u64 = 50_000;

const SETS_MAX: usize = 200;
const BUILD_IDS_MAX: usize = 5_000;

/// A number that looks like chance, the same in every run (splitmix64).
fn scattered(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[test]
fn a_flood_of_invented_names_leaves_metrics_memory_and_ledger_bounded() {
    let program = std::env::current_exe().unwrap();
    let said = run::succeed(Command::new(program).args([
        "--exact",
        "flood::flood_in_a_process_of_its_own",
        "--ignored",
        "--nocapture",
    ]));
    assert!(said.text().contains("1 passed"), "{}", said.all());
    println!("{}", said.text());
}

#[tokio::test]
#[ignore = "the test above runs it"]
async fn flood_in_a_process_of_its_own() {
    let requests = std::env::var("UNHEX_FLOOD").map_or(REQUESTS, |text| text.parse().unwrap());
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    let mut start = Start::new(folder.path(), &time);
    start.limits.label_sets_max = SETS_MAX;
    start.limits.ledger_build_ids_max = BUILD_IDS_MAX;
    let signal = start.open().await;
    let checkout = |version: &str| {
        let mut sent = profile(vec![module(1, ModuleStatus::Found, 1)]);
        sent.labels = labels("checkout", version);
        signal.observe(&sent);
    };
    checkout("1");
    time.advance(Duration::from_mins(2));
    checkout("1");
    let metrics = Metrics::new();
    let mut text_bytes_max = 0;
    let mut memory_early = 0;
    let mut newest = 1;
    let begun = Instant::now();
    for number in 0..requests {
        let chance = scattered(number);
        let mut sent = profile(vec![unknown(chance)]);
        sent.labels = labels(
            &format!("s{}", chance % 100_000),
            &format!("v{}", chance >> 40),
        );
        sent.profile_id = chance.is_multiple_of(2).then(|| format!("p{chance}"));
        signal.observe(&sent);
        if number % (requests / 20) == 0 {
            newest += 1;
            checkout(&newest.to_string());
            let text = metrics.render(&signal.profile_counts()).unwrap();
            text_bytes_max = text_bytes_max.max(text.len());
            signal.synchronize().await.unwrap();
            time.advance(Duration::from_secs(15));
            let mine = counts(&signal, &labels("checkout", &newest.to_string()));
            assert_eq!(mine.profiles, 1, "the newest version is never in _other");
        }
        if number == requests / 2 {
            memory_early = resident_bytes();
        }
    }
    let took = begun.elapsed();
    let counted = signal.profile_counts();
    assert!(
        counted.len() <= SETS_MAX + 1,
        "{} label sets",
        counted.len()
    );
    assert!(counted.iter().any(|counts| counts.labels[0] == "_other"));
    let text = String::from_utf8(metrics.render(&counted).unwrap()).unwrap();
    let series = text
        .lines()
        .filter(|line| line.contains("service="))
        .count();
    assert!(series <= (SETS_MAX + 1) * 9, "{series} series");
    assert!(
        !text.contains(&format!("{:016x}", scattered(requests - 1))),
        "no build ID"
    );
    assert_eq!(signal.ledger_len(), BUILD_IDS_MAX);
    let grown = resident_bytes().saturating_sub(memory_early);
    assert!(grown < 48 << 20, "{grown} bytes more in the second half");
    println!(
        "{requests} requests in {took:?}, {series} series, /metrics at most {text_bytes_max} bytes, \
         {grown} bytes more memory in the second half"
    );
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let kibibytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kibibytes << 10
}
