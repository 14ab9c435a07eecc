//! Where an answer ends: time, memory and the disk, each with its own words and nothing else harmed.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

use unhex_testkit::server::{Home, Server};

use crate::asked::ask;
use crate::message::{Recipe, protobuf};
use crate::{OTLP, PROGRAM, PROTOBUF, metric, post, store_in};

#[test]
fn a_query_that_takes_too_long_is_504() {
    // It takes connections and says nothing, so that the query waits for names.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", silent.local_addr().expect("bound"));
    let arguments = ["--symbols", &url, "--query-seconds-max", "1s"];
    let server = Server::start_in(Home::new(), PROGRAM, &arguments);
    let answer = post(&server, OTLP, &[PROTOBUF], &protobuf(&Recipe::default()));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answer = ask(&server, "/query/top");
    assert_eq!(answer.status, 504, "{}", answer.text());
    let text = answer.text();
    assert!(text.contains("query_seconds_max") && text.contains("urn:unhex:problem:timeout"));
    // Its turn is free again.
    assert!(metric(&server, "unhex_store_queries_running").abs() < f64::EPSILON);
}

#[test]
fn a_query_beyond_its_memory_is_422_and_a_smaller_one_is_answered() {
    let server = store_in(Home::new(), &["--query-memory-bytes-max", "1MiB"]);
    for (service, stacks) in [("large", 60_000), ("small", 10)] {
        let message = protobuf(&Recipe {
            services: vec![service.to_owned()],
            samples: stacks,
            stacks,
            ..Recipe::default()
        });
        let answer = post(&server, OTLP, &[PROTOBUF], &message);
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let of = |service| {
        let selector = format!("%7Bservice%3D%22{service}%22%7D");
        ask(&server, &format!("/query/top?query={selector}"))
    };
    let answer = of("large");
    assert_eq!(answer.status, 422, "{}", answer.text());
    assert!(answer.text().contains("query_memory_bytes_max"));
    let answer = of("small");
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn a_file_that_the_disk_cannot_take_is_503_and_a_smaller_one_is_still_taken() {
    let home = Home::new();
    let script = home.path().join("limited");
    // dash counts in blocks of 512 bytes. Beyond the limit the system sends a signal that ends whoever does not expect it.
    let text = format!("#!/bin/sh\nulimit -f 200\nexec '{PROGRAM}' \"$@\"\n");
    std::fs::write(&script, text).expect("written");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("ours");
    let server = Server::start_in(home, &script, &["--symbols", "none"]);
    let message = |samples| {
        protobuf(&Recipe {
            samples,
            stacks: samples,
            ..Recipe::default()
        })
    };
    let answer = post(&server, OTLP, &[PROTOBUF], &message(60_000));
    // Of what exporters send again, which is right: somebody makes room.
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert_eq!(answer.header("retry-after"), Some("5"));
    let answer = post(&server, OTLP, &[PROTOBUF], &message(10));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answer = ask(&server, "/query/top");
    assert_eq!(answer.status, 200, "{}", answer.text());
}
