//! kill -9 in a loop while profiles come and hours are compacted: every acknowledged sample is counted exactly once afterwards.
//!
//! Clients do what exporters do: what was not acknowledged is sent again, byte for byte, to whichever replica. A minute by default under `CI`, a few
//! seconds else; five minutes by `UNHEX_KILLS_SECONDS=300`.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use unhex_testkit::server::{Home, Server};

use crate::folded::{compact_and_crash, counts};
use crate::message::{Recipe, now_nanos, protobuf};
use crate::stored::{assert_dictionary_is_whole, cpu};
use crate::{OTLP, PROGRAM, PROTOBUF};

const CLIENTS: usize = 6;
const SAMPLES: usize = 50;
/// A client gives up on a message that nobody takes: then the store is broken.
const PATIENCE: Duration = Duration::from_mins(2);

fn seconds() -> u64 {
    let set = std::env::var("UNHEX_KILLS_SECONDS").ok();
    let usual = if std::env::var_os("CI").is_some() {
        60
    } else {
        10
    };
    set.map_or(usual, |set| set.parse().expect("seconds"))
}

fn start(home: Home, data: &str) -> Server {
    let arguments = ["--symbols", "none", "--data", data];
    Server::start_in(home, PROGRAM, &arguments)
}

/// Sends a message until somebody acknowledges it, to one replica after the other.
fn send(urls: &[Mutex<String>; 2], first: usize, body: &[u8]) -> usize {
    let began = Instant::now();
    for attempt in 0.. {
        let url = urls[(first + attempt) % 2]
            .lock()
            .expect("no panic")
            .clone();
        let answer = crate::try_post(&url, &[PROTOBUF], body);
        match answer.map(|answer| answer.status) {
            Some(200) => return attempt,
            None | Some(429 | 503) => {}
            Some(status) => panic!("a message was refused: {status}"),
        }
        assert!(began.elapsed() < PATIENCE, "nobody takes a message");
        std::thread::sleep(Duration::from_millis(50));
    }
    unreachable!("attempts do not end");
}

#[test]
fn every_acknowledged_sample_is_counted_once_whoever_is_killed() {
    let table = tempfile::tempdir().expect("a folder");
    let data = table.path().to_str().expect("UTF-8").to_owned();
    let mut servers: [Option<Server>; 2] = [0, 1].map(|_| Some(start(Home::new(), &data)));
    let url = |server: &Option<Server>| server.as_ref().expect("it runs").url(OTLP);
    let urls = [0, 1].map(|at| Mutex::new(url(&servers[at])));
    let (stop, acknowledged) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (resent, mut kills) = (AtomicUsize::new(0), 0_usize);
    let compactions = std::thread::scope(|scope| {
        let (stopping, path) = (CancellationToken::new(), table.path().join("table"));
        let stop_compacting = stopping.clone();
        let compacting = scope.spawn(move || compact_and_crash(&path, &stop_compacting));
        for client in 0..CLIENTS {
            let (urls, stop, acknowledged, resent) = (&urls, &stop, &acknowledged, &resent);
            scope.spawn(move || {
                for number in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let body = protobuf(&Recipe {
                        services: vec!["checkout".to_owned(), format!("client-{client}")],
                        samples: SAMPLES,
                        stacks: 10 + number % 7,
                        // Some are late: rows of an hour that others write no more.
                        time_unix_nanos: now_nanos() - 3_600_000_000_000 * (number as u64 % 3),
                        ..Recipe::default()
                    });
                    let attempts = send(urls, client + number, &body);
                    resent.fetch_add(attempts, Ordering::Relaxed);
                    acknowledged.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let end = Instant::now() + Duration::from_secs(seconds());
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(150 + 370 * (kills as u64 % 5)));
            let at = kills % 2;
            let home = servers[at].take().expect("it runs").kill();
            kills += 1;
            servers[at] = Some(start(home, &data));
            *urls[at].lock().expect("no panic") = url(&servers[at]);
        }
        stop.store(true, Ordering::Relaxed);
        stopping.cancel();
        compacting.join().expect("no panic")
    });
    let messages = acknowledged.load(Ordering::Relaxed);
    let resent = resent.load(Ordering::Relaxed);
    println!(
        "{messages} messages acknowledged, {resent} sent again, {kills} kills, {compactions} compactions"
    );
    assert!(messages > 0 && kills > 0 && compactions > 0);
    let expected = i128::try_from(messages * SAMPLES).expect("few");
    let table = table.path().join("table");
    assert_eq!(cpu(&table, "checkout").count, expected);
    let of_clients = (0..CLIENTS).map(|client| cpu(&table, &format!("client-{client}")).count);
    assert_eq!(of_clients.sum::<i128>(), expected);
    assert_dictionary_is_whole(&table);
    // As queries see it, from the outputs of compactions where there are some.
    let folded = counts(&table);
    assert_eq!(i128::from(folded["checkout"]), expected);
    assert_eq!(
        folded
            .values()
            .map(|count| i128::from(*count))
            .sum::<i128>(),
        2 * expected
    );
    for server in servers.into_iter().flatten() {
        assert!(server.stop().success());
    }
}
