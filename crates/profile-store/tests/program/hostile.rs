//! What strangers send: each is an error that says why, and the store lives on.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use unhex_testkit::http;
use unhex_testkit::server::Server;

use crate::message::{Recipe, gzip, pprof, protobuf, request};
use crate::stored::{cpu, files};
use crate::{OTLP, PROTOBUF, post, store, table};

fn assert_lives(server: &Server) {
    let health = http::get(&server.url("/readyz")).expect("an answer");
    assert_eq!(health.status, 200, "{}", server.log());
    let good = post(server, "/profiles?service=good", &[], &pprof(1));
    assert_eq!(good.status, 200, "{}", good.text());
}

#[test]
fn everything_that_is_no_message_is_400_and_nothing_is_stored() {
    let server = store(&[]);
    let good = protobuf(&Recipe::default());
    let mut cut: Vec<Vec<u8>> = (1..good.len())
        .step_by(97)
        .map(|end| good[..end].to_vec())
        .collect();
    cut.push(b"<html>".to_vec());
    for body in &cut {
        let answer = post(&server, OTLP, &[PROTOBUF], body);
        assert_eq!(
            answer.status,
            400,
            "{} bytes: {}",
            body.len(),
            answer.text()
        );
        // google.rpc.Status: field 1 is INVALID_ARGUMENT.
        assert!(answer.body.starts_with(&[8, 3]), "{:?}", answer.body);
    }
    let json = ("Content-Type", "application/json");
    let encoded = |encoding| [PROTOBUF, ("Content-Encoding", encoding)];
    for (headers, body) in [
        (vec![json], &b"{\"resourceProfiles\": 7}"[..]),
        (vec![json], b"{"),
        (encoded("gzip").to_vec(), b"no gzip"),
        (encoded("gzip").to_vec(), &gzip(&good)[..50]),
        (encoded("zstd").to_vec(), b"no zstd"),
    ] {
        let answer = post(&server, OTLP, &headers, body);
        assert_eq!(answer.status, 400, "{headers:?}: {}", answer.text());
    }
    for body in [
        &b"not a pprof"[..],
        b"\x1f\x8b\x08",
        b"\x0a\xff\xff\xff\xff\x0f",
    ] {
        let answer = post(&server, "/profiles?service=x", &[], body);
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert!(answer.text().contains("urn:unhex:problem:bad-request"));
    }
    for (headers, status) in [
        (vec![("Content-Type", "text/plain")], 415),
        (encoded("br").to_vec(), 415),
        (encoded("gzip, gzip").to_vec(), 415),
    ] {
        assert_eq!(post(&server, OTLP, &headers, &good).status, status);
    }
    assert_eq!(files(&table(server.home()), "seg").len(), 0);
    assert_lives(&server);
}

fn best_gzip(bytes: &[u8]) -> Vec<u8> {
    let best = flate2::Compression::best();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), best);
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

#[test]
fn a_body_that_unpacks_to_a_gigabyte_costs_neither_memory_nor_time_beyond_the_limit() {
    let server = store(&["--message-bytes-max", "4MiB"]);
    // A gigabyte in a megabyte, as gzip in members of 16 MiB.
    let zeros = vec![0; 16 << 20];
    let bombs = [
        ("gzip", best_gzip(&zeros).repeat(64)),
        (
            "zstd",
            zstd::encode_all(&*zeros, 1).expect("zstd").repeat(64),
        ),
    ];
    drop(zeros);
    assert_eq!(post(&server, "/profiles", &[], &pprof(1)).status, 200);
    let before = server.peak_memory_bytes();
    for (encoding, bomb) in &bombs {
        assert!(bomb.len() < 2 << 20, "{} bytes", bomb.len());
        let headers = [PROTOBUF, ("Content-Encoding", encoding)];
        let answer = post(&server, OTLP, &headers, bomb);
        assert_eq!(answer.status, 413, "{encoding}: {}", answer.text());
        assert!(answer.text().contains("message_bytes_max, 4194304 bytes"));
        let answer = post(
            &server,
            "/profiles",
            &[("Content-Encoding", encoding)],
            bomb,
        );
        assert_eq!(answer.status, 413, "{encoding}: {}", answer.text());
    }
    let grown = server.peak_memory_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more");
    let announced = [PROTOBUF, ("Content-Length", "100000000")];
    let answer = post(&server, OTLP, &announced, b"");
    assert_eq!(answer.status, 413, "refused before it is sent");
    assert_lives(&server);
}

#[test]
fn a_body_that_stops_coming_or_comes_too_slowly_is_cut() {
    let server = store(&["--body-stall-seconds-max", "1s", "--body-seconds-max", "3s"]);
    let address = server.url("").trim_start_matches("http://").to_owned();
    let start = || {
        let mut client = TcpStream::connect(&address).expect("a connection");
        let head = format!(
            "POST {OTLP} HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: 1000\r\n\r\nabc"
        );
        client.write_all(head.as_bytes()).expect("it is there");
        client
            .set_read_timeout(Some(Duration::from_mins(1)))
            .expect("a socket");
        client
    };
    let answer = |mut client: TcpStream| {
        let mut text = Vec::new();
        // Whether the connection ends with FIN or RST after the answer does not matter.
        let _ended = client.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    };
    let stalled = answer(start());
    assert!(stalled.starts_with("HTTP/1.1 408"), "{stalled}");
    let slow = start();
    let mut drip = slow.try_clone().expect("a socket");
    let dripping = std::thread::spawn(move || {
        while drip.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(200));
        }
    });
    let slow = answer(slow);
    assert!(slow.starts_with("HTTP/1.1 408"), "{slow}");
    assert!(slow.contains("body_seconds_max"), "{slow}");
    dripping.join().expect("it ends with the connection");
    let mut half = start();
    half.write_all(b"half").expect("it is there");
    drop(half);
    assert_lives(&server);
}

#[test]
fn a_wrong_clock_is_told_and_its_profiles_are_not_kept() {
    let server = store(&[]);
    for time_unix_nanos in [
        1_000_000_000,
        crate::message::now_nanos() + 7_200_000_000_000,
    ] {
        let body = protobuf(&Recipe {
            time_unix_nanos,
            ..Recipe::default()
        });
        let answer = post(&server, OTLP, &[PROTOBUF], &body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(
            answer
                .text()
                .contains("set the clock of the host that sent it")
        );
    }
    // A time of nanoseconds that was meant in another unit is of 1970, in pprof too: field 9 is the time.
    let old = [pprof(1), vec![9 << 3, 1]].concat();
    let answer = post(&server, "/profiles", &[], &old);
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert!(answer.text().contains("samples are kept for 21 days"));
    assert_eq!(files(&table(server.home()), "seg").len(), 0);
    assert_lives(&server);
}

#[test]
fn labels_that_explode_cost_their_labels_and_no_sample() {
    let server = store(&["--label-sets-max", "3"]);
    let samples = 80_000;
    let body = protobuf(&Recipe {
        samples,
        own_labels: true,
        ..Recipe::default()
    });
    let answer = post(&server, OTLP, &[PROTOBUF], &body);
    assert_eq!((answer.status, answer.text().as_str()), (200, ""));
    let count = i128::try_from(samples).expect("few");
    assert_eq!(cpu(&table(server.home()), "checkout").count, count);
    let left_out = crate::metric(
        &server,
        "unhex_store_labels_left_out_total{what=\"samples\"}",
    );
    assert!(left_out >= 80_000.0, "{left_out}");
    // Services that explode share one series.
    let services = (0..20).map(|number| format!("service-{number}")).collect();
    let body = protobuf(&Recipe {
        services,
        samples: 1,
        ..Recipe::default()
    });
    assert_eq!(post(&server, OTLP, &[PROTOBUF], &body).status, 200);
    let metrics = http::get(&server.url("/metrics")).expect("metrics").text();
    let lines = metrics
        .lines()
        .filter(|line| line.starts_with("unhex_store_samples_total"));
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("service=\"_other\"")));
    let long = "x".repeat(10_000);
    let answer = post(
        &server,
        &format!("/profiles?service={long}&{long}=1"),
        &[],
        &pprof(1),
    );
    assert_eq!(answer.status, 200, "{}", answer.text());
    let query: Vec<String> = (0..200).map(|number| format!("l{number}=1")).collect();
    let query = query.join("&");
    let answer = post(&server, &format!("/profiles?{query}"), &[], &pprof(1));
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert_lives(&server);
}

#[test]
fn a_message_that_refers_to_what_it_has_not_is_400_or_rejected_in_part() {
    let server = store(&[]);
    let mut bad = request(&Recipe::default());
    bad.dictionary
        .as_mut()
        .expect("one")
        .stack_table
        .truncate(1);
    let body = prost::Message::encode_to_vec(&bad);
    let answer = post(&server, OTLP, &[PROTOBUF], &body);
    assert_eq!(answer.status, 200);
    assert!(answer.text().contains("refers to"), "{}", answer.text());
    assert_lives(&server);
}
