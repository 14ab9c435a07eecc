//! `GET /query/*` of the program: every form has the total that went in, and what is wrong is said.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;
use unhex_testkit::http::{self, Response};
use unhex_testkit::run;
use unhex_testkit::server::Server;

use crate::message::{Recipe, protobuf};
use crate::{OTLP, PROTOBUF, metric, post, store};

const DEADLINE: Duration = Duration::from_mins(1);
/// 100 samples at 20 Hz.
const NANOS: i128 = 5_000_000_000;

pub(crate) fn ask(server: &Server, path: &str) -> Response {
    http::get(&server.url(path)).expect("an answer")
}

pub(crate) fn json(server: &Server, path: &str) -> Value {
    let answer = ask(server, path);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    serde_json::from_str(&answer.text()).expect("JSON")
}

fn filled() -> Server {
    let server = store(&[]);
    let recipe = Recipe {
        services: vec!["checkout".to_owned(), "payment".to_owned()],
        ..Recipe::default()
    };
    let answered = post(&server, OTLP, &[PROTOBUF], &protobuf(&recipe));
    assert_eq!(answered.status, 200, "{}", answered.text());
    server
}

const CHECKOUT: &str = "query=%7Bservice%3D%22checkout%22%7D";

#[test]
fn every_form_has_the_total_that_went_in() {
    let server = filled();
    let graph = json(&server, &format!("/query/profile?{CHECKOUT}"));
    assert_eq!(
        graph["total"]["value"].as_i64(),
        i64::try_from(NANOS).ok(),
        "{graph}"
    );
    assert_eq!(graph["total"]["count"], 100);
    let folded = ask(&server, &format!("/query/profile?{CHECKOUT}&format=folded"));
    let values = folded.text();
    let values = values
        .lines()
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<i128>().ok());
    assert_eq!(values.sum::<i128>(), NANOS);
    let packed = ask(&server, &format!("/query/profile?{CHECKOUT}&format=pprof")).body;
    let limits = unhex_pprof::Limits::default();
    let model = unhex_pprof::unpacked(&packed, &limits).expect("gzip");
    let model = unhex_pprof::pprof::decode(&model, &limits).expect("a pprof");
    assert!(model.totals(&model.profiles()[0]).contains(&NANOS));
    let speedscope = json(
        &server,
        &format!("/query/profile?{CHECKOUT}&format=speedscope"),
    );
    assert_eq!(
        speedscope["profiles"][0]["endValue"].as_i64(),
        i64::try_from(NANOS).ok()
    );
    let svg = ask(&server, &format!("/query/profile?{CHECKOUT}&format=svg"));
    assert_eq!(svg.header("content-type"), Some("image/svg+xml"));
    assert!(svg.text().contains("<svg"));

    let top = json(&server, &format!("/query/top?{CHECKOUT}&limit=1000"));
    let own = top["functions"].as_array().expect("a list").iter();
    let own = own.map(|function| function["self"]["value"].as_i64().expect("a number"));
    assert_eq!(i128::from(own.sum::<i64>()), NANOS, "{top}");
    let coverage = json(&server, "/query/coverage");
    let own = coverage["rows"].as_array().expect("a list").iter();
    let own: f64 = own
        .map(|row| row["self_seconds"].as_f64().expect("a number"))
        .sum();
    assert!((own - 10.0).abs() < 1e-6, "{coverage}");
    assert_eq!(coverage["total_seconds"], 10.0);
    let series = json(&server, "/query/series?group_by=service&step=1h");
    let lines = series["lines"].as_array().expect("a list");
    assert_eq!(lines.len(), 2, "{series}");
    assert!(lines.iter().all(|line| line["total"] == 5.0), "{series}");
    let labels = json(&server, "/query/labels?label=service");
    assert_eq!(labels["values"], serde_json::json!(["checkout", "payment"]));
    let labels = json(&server, "/query/labels");
    assert_eq!(labels["types"][0], "cpu", "{labels}");
    let segments = json(&server, "/query/segments");
    let hours = segments["hours"].as_array().expect("a list");
    assert!(
        hours
            .iter()
            .any(|hour| hour["fresh"]["rows"].as_u64() > Some(0)),
        "{segments}"
    );
    let key = hours[0]["sample_files"][0].as_str().expect("a key");
    assert!(key.starts_with("seg/"), "{key}");
}

#[test]
fn a_relative_window_is_told_back_as_an_absolute_one_that_answers_the_same() {
    let server = filled();
    let first = ask(&server, &format!("/query/top?{CHECKOUT}&from=-2h&limit=3"));
    let link = first.header("content-location").expect("a link").to_owned();
    assert!(
        link.starts_with("/query/top?query=") && link.contains("limit=3"),
        "{link}"
    );
    let again = ask(&server, &link);
    assert_eq!(again.status, 200, "{}", again.text());
    assert_eq!(again.text(), first.text());
    let answer: Value = serde_json::from_str(&first.text()).expect("JSON");
    assert_eq!(answer["asked"]["permalink"], link.as_str());
    assert_eq!(answer["asked"]["query"], r#"{service="checkout"}"#);
}

#[test]
fn what_is_wrong_with_a_question_is_said_with_its_place() {
    let server = store(&[]);
    for (path, words) in [
        (
            "/query/top?query=%7Bservice%3D%22a%22",
            "query: selector, character",
        ),
        ("/query/top?query=%7Bservice%3D~%22(%22%7D", "pattern"),
        (
            "/query/top?from=yesterday",
            "from: \"yesterday\" is no time",
        ),
        ("/query/top?from=now&to=-1h", "not after its begin"),
        ("/query/top?from=-999w", "at most"),
        ("/query/top?limit=0", "limit: \"0\""),
        ("/query/top?colour=red", "unknown field `colour`"),
        ("/query/top?order=best", "neither self nor total"),
        ("/query/top?function=~(", "function: pattern"),
        ("/query/profile?format=gif", "format: \"gif\""),
        ("/query/profile?format=pprof&max_nodes=5", "never cut"),
        ("/query/series?step=1s", "at least 60 seconds"),
        ("/query/coverage?group_by=host", "group_by: \"host\""),
    ] {
        let answer = ask(&server, path);
        assert_eq!(answer.status, 400, "{path}: {}", answer.text());
        assert_eq!(
            answer.header("content-type"),
            Some("application/problem+json"),
            "{path}"
        );
        let problem: Value = serde_json::from_str(&answer.text()).expect("JSON");
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(detail.contains(words), "{path}: {detail}");
    }
    let nothing = json(&server, "/query/top");
    assert_eq!(nothing["total"]["value"], 0);
}

#[test]
fn a_query_whose_connection_closes_is_dropped_and_gives_its_turn_back() {
    // Nobody answers at this address, so that a query with native frames waits for its names.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let symbols = format!("http://{}", silent.local_addr().expect("an address"));
    let server = Server::start_in(
        unhex_testkit::server::Home::new(),
        crate::PROGRAM,
        &[
            "--symbols",
            &symbols,
            "--queries-max",
            "1",
            "--query-queue-seconds-max",
            "1",
        ],
    );
    let body = crate::late::profile("abcdabcd", &[0x1000], 1);
    assert_eq!(
        post(&server, "/profiles?service=app", &[], &body).status,
        200
    );
    let address = server.url("").trim_start_matches("http://").to_owned();
    let mut waiting = TcpStream::connect(&address).expect("a connection");
    waiting
        .write_all(b"GET /query/top HTTP/1.1\r\nHost: x\r\n\r\n")
        .expect("sent");
    run::poll("the only turn to be taken", DEADLINE, || {
        let busy = ask(&server, "/query/labels");
        (busy.status == 429).then(|| assert!(busy.header("retry-after").is_some()))
    });
    drop(waiting);
    run::poll("the turn to come back", DEADLINE, || {
        (ask(&server, "/query/labels").status == 200).then_some(())
    });
    waiting_answers_nobody(&server);
}

/// The query that nobody waited for was no answered request.
fn waiting_answers_nobody(server: &Server) {
    let answered = metric(
        server,
        "unhex_store_http_requests_total{route=\"top\",status=\"200\"}",
    );
    assert!(answered.abs() < f64::EPSILON, "{answered}");
    let mut stream =
        TcpStream::connect(server.url("").trim_start_matches("http://")).expect("it lives");
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
