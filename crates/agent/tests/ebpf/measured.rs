//! What the engine costs and how many stacks are whole on this host, whatever runs; by hand, see CONTRIBUTING.md.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use unhex_agent::engine::Engine;
use unhex_agent::engine::ebpf::EbpfSettings;
use unhex_agent::processes::Processes;
use unhex_agent::sample::{Sample, Stop};

use crate::sampled::{Alone, engine};

fn setting(name: &str, otherwise: u32) -> u32 {
    let text = std::env::var(name).unwrap_or_default();
    text.parse().unwrap_or(otherwise)
}

/// Lines of `/proc/self/FILE` that begin so.
fn lines(path: &str, starts: &[&str]) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let wanted = text
        .lines()
        .filter(|line| starts.iter().any(|start| line.starts_with(start)));
    wanted
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

/// What the kernel says of loaded programs of this process.
fn programs() -> Vec<String> {
    let entries = std::fs::read_dir("/proc/self/fdinfo").expect("a folder");
    let paths = entries
        .flatten()
        .map(|entry| entry.path().display().to_string());
    let starts = [
        "verified_insns",
        "run_time_ns",
        "run_cnt",
        "prog_jited",
        "memlock",
    ];
    paths
        .map(|path| lines(&path, &starts).join(", "))
        .filter(|said| said.contains("verified_insns"))
        .collect()
}

/// What was seen.
#[derive(Default)]
struct Seen {
    ends: BTreeMap<(String, Stop), u64>,
    by_stop: BTreeMap<Stop, u64>,
    frames: u64,
    deepest: u64,
    slowest_poll: Duration,
}

impl Seen {
    fn add(&mut self, processes: &Processes, sample: &Sample) {
        let process = processes.get(sample.process);
        let first = process.and_then(|process| process.regions().first());
        let path = first.map_or("?", |region| region.binary.name.as_str());
        let name = path.rsplit('/').next().unwrap_or(path).to_owned();
        let frames = u64::try_from(sample.user.len()).expect("a count");
        self.frames += frames;
        self.deepest = self.deepest.max(frames);
        *self.ends.entry((name, sample.stop)).or_default() += 1;
        *self.by_stop.entry(sample.stop).or_default() += 1;
    }
}

/// Polls for so many seconds.
fn sampled(alone: &mut Alone, seconds: u32) -> Seen {
    let (engine, processes) = (&mut alone.engine, &mut alone.processes);
    let end = Instant::now() + Duration::from_secs(seconds.into());
    let mut seen = Seen::default();
    while Instant::now() < end {
        let begun = Instant::now();
        let taken = engine.poll(processes, &mut |processes, sample| {
            seen.add(processes, &sample);
        });
        taken.expect("the engine goes on");
        seen.slowest_poll = seen.slowest_poll.max(begun.elapsed());
        let between = Duration::from_millis(setting("UNHEX_AGENT_POLL_MILLIS", 100).into());
        std::thread::park_timeout(between);
    }
    seen
}

#[test]
#[ignore = "takes as long as it is told to, and says what it saw; see CONTRIBUTING.md"]
fn what_the_host_runs_is_sampled_and_counted() {
    let rate = setting("UNHEX_AGENT_RATE", 19);
    let seconds = setting("UNHEX_AGENT_SECONDS", 10);
    let stats = "/proc/sys/kernel/bpf_stats_enabled";
    std::fs::write(stats, "1").expect("root");
    let settings = EbpfSettings {
        samples_per_second: rate,
        ..EbpfSettings::default()
    };
    let begun = Instant::now();
    let Some(mut engine) = engine(settings) else {
        return;
    };
    println!(
        "started in {:?}, {} processes",
        begun.elapsed(),
        engine.processes.len()
    );
    sampled(&mut engine, setting("UNHEX_AGENT_WARM_SECONDS", 0));
    let before = processor_time();
    let seen = sampled(&mut engine, seconds);
    let ran = processor_time().saturating_sub(before);
    println!(
        "{rate} a second for {seconds} s: {:?}, {:?}",
        seen.by_stop,
        engine.engine.counters()
    );
    println!("ran for {ran:?}, slowest poll {:?}", seen.slowest_poll);
    println!("{} frames, deepest {}", seen.frames, seen.deepest);
    println!("{:?}", programs());
    println!(
        "{:?}",
        lines("/proc/self/status", &["VmRSS", "RssAnon", "RssFile"])
    );
    println!("{:?}", lines("/proc/loadavg", &[""]));
    let mut names: Vec<_> = seen.ends.into_iter().collect();
    names.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    for ((name, stop), count) in names.into_iter().take(40) {
        println!("{count:6} {name} {stop:?}");
    }
    std::fs::write(stats, "0").expect("root");
    assert!(seen.frames > 0, "nothing ran");
}

/// How long all threads of this process ran.
fn processor_time() -> Duration {
    let nanos = std::fs::read_dir("/proc/self/task")
        .expect("a folder")
        .flatten()
        .map(|task| {
            let stat = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            stat.split_whitespace()
                .next()
                .and_then(|nanos| nanos.parse::<u64>().ok())
                .unwrap_or(0)
        });
    Duration::from_nanos(nanos.sum())
}
