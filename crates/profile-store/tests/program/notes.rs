//! The symbol server is told what arrived, and nobody waits for it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use unhex_testkit::fault_proxy::{Fault, FaultProxy};
use unhex_testkit::run;
use unhex_testkit::server::{Home, Server};

use crate::message::{Recipe, protobuf};
use crate::{OTLP, PROGRAM, PROTOBUF, metric, post};

const DEADLINE: Duration = Duration::from_mins(1);
const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 14\r\nConnection: close\r\n\r\n{\"modules\":[]}";

/// Takes notes as the symbol server does, and keeps them. It ends with the process.
fn symbol_server() -> (String, Arc<Mutex<Vec<Value>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    let notes = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&notes);
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            if let Some(note) = take_note(&client) {
                kept.lock().expect("no panic").push(note);
            }
        }
    });
    (url, notes)
}

fn take_note(mut client: &TcpStream) -> Option<Value> {
    let mut reader = BufReader::new(client);
    let mut length = 0;
    for line in reader.by_ref().lines().map_while(Result::ok) {
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').unwrap_or_default();
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    client.write_all(ANSWER.as_bytes()).ok()?;
    serde_json::from_slice(&body).ok()
}

fn store(symbols: &str) -> Server {
    Server::start_in(Home::new(), PROGRAM, &["--symbols", symbols])
}

fn delivered(server: &Server) -> f64 {
    metric(
        server,
        "unhex_store_observe_notes_total{outcome=\"delivered\"}",
    )
}

#[test]
fn one_note_for_each_label_set_says_the_build_ids_and_their_cpu_time() {
    let (symbols, notes) = symbol_server();
    let server = store(&symbols);
    let body = protobuf(&Recipe {
        services: vec!["a".to_owned(), "b".to_owned()],
        ..Recipe::default()
    });
    for _ in 0..2 {
        assert_eq!(post(&server, OTLP, &[PROTOBUF], &body).status, 200);
    }
    run::poll("two notes", DEADLINE, || {
        (delivered(&server) >= 2.0).then_some(())
    });
    // A resend is not told again.
    let notes = notes.lock().expect("no panic");
    assert_eq!(notes.len(), 2, "{notes:?}");
    for note in notes.iter() {
        assert_eq!(note["labels"]["version"], "2.4", "{note}");
        let module = &note["modules"][0];
        assert_eq!(
            module["build_id"],
            "00112233445566778899aabbccddeeff00112233"
        );
        // 100 samples of 50 ms, each with one frame in it.
        assert_eq!(module["weight"], 5_000_000_000_u64, "{note}");
    }
}

#[test]
fn ingest_does_not_notice_that_the_symbol_server_is_away_and_it_hears_of_all_later() {
    let (behind, notes) = symbol_server();
    let symbols = FaultProxy::before(&behind);
    symbols.fail(Fault::status(503));
    symbols.fail_next([Fault::Close, Fault::Reset, Fault::Truncate]);
    let server = store(&symbols.url());
    for number in 0..3 {
        let body = protobuf(&Recipe {
            services: vec![format!("service-{number}")],
            ..Recipe::default()
        });
        assert_eq!(post(&server, OTLP, &[PROTOBUF], &body).status, 200);
    }
    run::poll("attempts", DEADLINE, || {
        (symbols.requests() >= 3).then_some(())
    });
    symbols.fail(Fault::None);
    run::poll("all notes", Duration::from_mins(2), || {
        (delivered(&server) >= 3.0).then_some(())
    });
    let retried = metric(
        &server,
        "unhex_store_observe_notes_total{outcome=\"retried\"}",
    );
    assert!(retried >= 3.0, "{retried}");
    assert!(notes.lock().expect("no panic").len() >= 3);
}
