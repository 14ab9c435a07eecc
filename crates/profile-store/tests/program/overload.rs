//! More than there is room for: told to come again, within bounds, and nothing is lost that was taken.

use std::sync::atomic::{AtomicUsize, Ordering};

use unhex_testkit::server::Server;

use crate::message::{Recipe, protobuf};
use crate::stored::cpu;
use crate::{OTLP, PROTOBUF, post, store, table};

#[test]
fn a_hundred_pushers_at_once_are_all_stored() {
    let server = store(&[]);
    std::thread::scope(|scope| {
        for pusher in 0..100 {
            let server = &server;
            scope.spawn(move || {
                for round in 0..3 {
                    let body = protobuf(&Recipe {
                        services: vec!["fleet".to_owned()],
                        samples: 100 + pusher + round,
                        ..Recipe::default()
                    });
                    push(server, &body);
                }
            });
        }
    });
    let expected: usize = (0..100).map(|pusher| 3 * (100 + pusher) + 3).sum();
    let stored = cpu(&table(server.home()), "fleet").count;
    assert_eq!(stored, i128::try_from(expected).expect("few"));
}

/// As exporters do: what is busy is sent again.
fn push(server: &Server, body: &[u8]) -> usize {
    for attempt in 0..1_000 {
        let answer = post(server, OTLP, &[PROTOBUF], body);
        match answer.status {
            200 => return attempt,
            429 => {
                assert_eq!(answer.header("retry-after"), Some("5"), "{}", answer.text());
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            status => panic!("{status}: {}", answer.text()),
        }
    }
    panic!("busy for ever");
}

#[test]
fn where_there_is_no_room_clients_are_told_to_come_again_and_then_it_is_taken() {
    let server = store(&[
        "--body-bytes-total-max",
        "64KiB",
        "--row-bytes-total-max",
        "64KiB",
        "--decoders-max",
        "1",
        "--ingest-queue-seconds-max",
        "0",
    ]);
    let busy = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for pusher in 0..20 {
            let (server, busy) = (&server, &busy);
            scope.spawn(move || {
                let body = protobuf(&Recipe {
                    services: vec!["fleet".to_owned()],
                    samples: 1_000 + pusher,
                    ..Recipe::default()
                });
                busy.fetch_add(push(server, &body), Ordering::Relaxed);
            });
        }
    });
    assert!(busy.load(Ordering::Relaxed) > 0, "nobody had to come again");
    let expected: i128 = (0..20).map(|pusher| 1_000 + pusher).sum();
    assert_eq!(cpu(&table(server.home()), "fleet").count, expected);
}
