//! The program as a process: what real clients send comes out whole, and what hostile ones send harms nobody.
//!
//! `cargo test -p unhex-profile-store --test program`. By hand: five minutes of kills, `UNHEX_KILLS_SECONDS=300 cargo test -p
//! unhex-profile-store --test program kills -- --nocapture`; figures, `cargo test --release … figures -- --ignored --nocapture`.

#![cfg(test)]

mod alert;
mod asked;
mod bounds;
mod damage;
mod deletion;
mod documents;
mod figures;
mod folded;
mod grpc;
mod hostile;
mod in_and_out;
mod kills;
mod late;
mod message;
mod notes;
mod operation;
mod overload;
mod queries;
mod recordings;
mod resends;
mod stored;
mod throttling;

use std::path::Path;

use unhex_testkit::http::{self, Request, Response};
use unhex_testkit::server::{Home, Server};

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_unhex-store");
const OTLP: &str = "/v1development/profiles";
const PROTOBUF: (&str, &str) = ("Content-Type", "application/x-protobuf");

/// A store of its own, without a symbol server.
fn store(arguments: &[&str]) -> Server {
    store_in(Home::new(), arguments)
}

fn store_in(home: Home, arguments: &[&str]) -> Server {
    let all: Vec<&str> = ["--symbols", "none"]
        .iter()
        .chain(arguments)
        .copied()
        .collect();
    Server::start_in(home, PROGRAM, &all)
}

/// Where a store keeps its table.
fn table(home: &Home) -> std::path::PathBuf {
    Path::new(home.path()).join("unhex-store-data/table")
}

fn post(server: &Server, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
    try_post(&server.url(path), headers, body).expect("an answer")
}

fn try_post(url: &str, headers: &[(&str, &str)], body: &[u8]) -> Option<Response> {
    let method = "POST";
    http::send(&Request {
        method,
        url,
        headers,
        body,
    })
}

/// The value of a metric by its name with all labels; 0 if it is not there.
fn metric(server: &Server, series: &str) -> f64 {
    let text = http::get(&server.url("/metrics")).expect("metrics").text();
    let line = text.lines().find_map(|line| line.strip_prefix(series));
    line.map_or(0.0, |value| value.trim().parse().expect("a number"))
}
