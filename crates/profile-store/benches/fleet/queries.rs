//! How long questions take.
//!
//! The table is that of one service of the fleet after compaction: 21 days of hourly totals, two more services in the last day, and
//! one hour of 60 s rows, 14.4 million. Stacks have 40 frames. The dictionary lies in the last hour alone, which has all that the earlier ones would have. Names come from a server of
//! this process that knows a name for every address. Each question is asked four times: the first time nothing is known, and the best of the other three.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use unhex_api::client::ClientOptions;
use unhex_profile_store::clock::Clock;
use unhex_profile_store::engine::{Engine, EngineOptions};
use unhex_profile_store::objects::Objects;
use unhex_profile_store::query::{LinesBy, Queries, QueriesParts, Question, Window};
use unhex_profile_store::reading::Readings;
use unhex_profile_store::symbols::{Symbols, SymbolsOptions};
use unhex_profile_store::view::{FilterTexts, ProfileType, StackFilter};

use crate::symbol_server;
use crate::table::{Size, now, write};

async fn write_table(objects: &Objects, size: &Size) {
    let began = Instant::now();
    let written = write(objects, size).await;
    println!(
        "written in {:.1} s: {} hours of totals, {} rows in {} bytes; one hour of {} samples, {} rows in {} bytes",
        began.elapsed().as_secs_f64(),
        size.hours,
        written.total_rows,
        written.total_bytes,
        written.samples,
        written.sample_rows,
        written.sample_bytes,
    );
}

/// Measures what has `only` in its description. A table that is there is asked as it is.
pub(crate) async fn measure(folder: &Path, size: &Size, only: &str) {
    let is_there = folder.join("table").is_dir();
    let objects = Objects::folder(&folder.join("table")).expect("a table");
    if !is_there {
        write_table(&objects, size).await;
    }
    let server = symbol_server::start().await;
    let end = now();
    let day = |days: i64| end - SignedDuration::from_hours(24 * days);
    let hour = end - SignedDuration::from_hours(1);
    let within = hour + SignedDuration::from_mins(1);
    let everything = StackFilter::default();
    let function = FilterTexts {
        function: Some("^function_7$"),
        ..FilterTexts::default()
    };
    let function = StackFilter::new(function).expect("a pattern");
    for (what, from, to) in [
        ("24 h of one service, merged, with names", day(1), end),
        ("one whole hour, merged, with names", hour, end),
        ("59 minutes, merged from 60 s rows, with names", within, end),
    ] {
        if !what.contains(only) {
            continue;
        }
        let asking = Asking::over(&objects, folder, Clock::new(now), Some(&server));
        let question = question(from, to);
        let ask = async || {
            let merged = asking.queries.profile(&question, &everything).await;
            let merged = merged.expect("an answer");
            assert!(
                merged.names_lacking().is_none(),
                "{:?}",
                merged.names_lacking()
            );
            merged.stacks().len()
        };
        report(what, ask).await;
    }
    let asking = Asking::over(&objects, folder, Clock::new(now), Some(&server));
    let alone = question(within, end);
    let ask = async || {
        let sums = asking.queries.sums_by_stack(&alone).await;
        sums.expect("an answer").iter().count()
    };
    let what = "59 minutes, merged from 60 s rows, without names";
    if what.contains(only) {
        report(what, ask).await;
    }
    let by = LinesBy {
        labels: Vec::new(),
        step_seconds: 3_600,
    };
    let from = end - SignedDuration::from_hours(size.hours);
    let question = question(from, end);
    let ask = async || {
        let lines = asking.queries.series(&question, &function, &by).await;
        lines.expect("an answer").lines[0].points.len()
    };
    let what = "21 days of one function, by the hour";
    if what.contains(only) {
        report(what, ask).await;
    }
    println!("{} of memory at most", most_memory());
}

/// Who answers, with nothing in memory.
pub(crate) struct Asking {
    pub(crate) queries: Queries,
}

impl Asking {
    pub(crate) fn over(
        objects: &Objects,
        folder: &Path,
        clock: Clock,
        server: Option<&str>,
    ) -> Self {
        let threads = std::thread::available_parallelism().expect("processors");
        let engine = Engine::new(
            objects.store(),
            &EngineOptions {
                memory_bytes: 1 << 30,
                spill: folder.join("spill"),
                spill_bytes_max: 1 << 30,
                threads,
                parts_per_thread: 8.try_into().expect("a number"),
            },
        );
        let symbols = Symbols::new(SymbolsOptions {
            client: server.map(|server| ClientOptions {
                server: server.to_owned(),
                ..ClientOptions::default()
            }),
            bytes_max: 256 << 20,
            recheck: Duration::from_secs(20),
            wait: Duration::from_secs(20),
            rest: Duration::from_secs(5),
        });
        Self {
            queries: Queries::new(QueriesParts {
                objects: objects.clone(),
                engine: engine.expect("an engine"),
                readings: Arc::new(Readings::new(objects.clone(), clock)),
                symbols: Arc::new(symbols.expect("an address")),
                stack_bytes_max: 256 << 20,
            }),
        }
    }
}

fn question(from: Timestamp, to: Timestamp) -> Question {
    question_of("checkout", from, to)
}

pub(crate) fn question_of(service: &str, from: Timestamp, to: Timestamp) -> Question {
    let selector = format!(r#"{{service="{service}"}}"#);
    Question {
        selector: selector.parse().expect("a selector"),
        profile_type: ProfileType::cpu(),
        window: Window::new(from, to).expect("a window"),
    }
}

pub(crate) async fn report(what: &str, ask: impl AsyncFn() -> usize) {
    let mut took = Vec::new();
    let mut found = 0;
    for _ in 0..4 {
        let began = Instant::now();
        found = ask().await;
        took.push(began.elapsed());
    }
    let best = took[1..].iter().min().expect("three");
    println!(
        "{what}: {:.3} s the first time, {:.3} s then ({found} found)",
        took[0].as_secs_f64(),
        best.as_secs_f64(),
    );
}

/// As the kernel has it.
fn most_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.unwrap_or("an unknown amount").trim().to_owned()
}
