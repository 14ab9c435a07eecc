//! Deletion by label: what it takes, what it refuses, and that what comes later of the same is gone, too.

use std::process::Command;

use jiff::{SignedDuration, Timestamp};
use unhex_profile_store::table::names::Hour;
use unhex_testkit::http::{Request, send};
use unhex_testkit::run;
use unhex_testkit::server::Server;

use crate::folded::counts;
use crate::message::{Recipe, protobuf};
use crate::{OTLP, PROTOBUF, post, store, table};

fn delete(server: &Server, query: &str, from: &str, to: &str) -> (u16, String) {
    let query = query
        .replace('"', "%22")
        .replace('{', "%7B")
        .replace('}', "%7D");
    let url = server.url(&format!("/profiles?query={query}&from={from}&to={to}"));
    let answer = send(&Request {
        method: "DELETE",
        url: &url,
        headers: &[],
        body: &[],
    });
    let answer = answer.expect("an answer");
    (answer.status, answer.text())
}

#[test]
fn profiles_of_a_service_are_deleted_and_do_not_come_back() {
    let server = store(&[]);
    let message = |samples| {
        protobuf(&Recipe {
            services: vec!["mistake".to_owned(), "checkout".to_owned()],
            samples,
            ..Recipe::default()
        })
    };
    assert_eq!(post(&server, OTLP, &[PROTOBUF], &message(100)).status, 200);
    let table = table(server.home());
    assert_eq!(counts(&table)["mistake"], 100);
    let hour = |hours| {
        let hour = Hour::of(Timestamp::now() + SignedDuration::from_hours(hours));
        hour.expect("an hour").start().to_string()
    };
    let (from, to) = (hour(-1), hour(2));
    let query = "{service=\"mistake\",version=\"2.4\"}";
    let (status, said) = delete(&server, query, &from, &to);
    assert_eq!(status, 200, "{said}");
    assert!(said.contains("\"hours\":["), "{said}");
    assert_eq!(counts(&table).get("mistake"), None);
    assert_eq!(counts(&table)["checkout"], 100);
    assert_eq!(post(&server, OTLP, &[PROTOBUF], &message(50)).status, 200);
    assert_eq!(counts(&table).get("mistake"), None);
    assert_eq!(counts(&table)["checkout"], 150);
    // Again, at the command line, is nothing more.
    let mut command = Command::new(crate::PROGRAM);
    command.args([
        "delete",
        query,
        "--from",
        &from,
        "--to",
        &to,
        "--store",
        &server.url(""),
    ]);
    let said = run::succeed(&mut command).text();
    assert!(said.contains("of them were deleted before"), "{said}");
    assert!(said.contains("deleted of "), "{said}");
    for (query, from, to, words) in [
        ("{}", &*from, &*to, "say which profiles"),
        ("{host=\"a\"}", &from, &to, "not by host"),
        ("{service=~\"a.*\"}", &from, &to, "= alone"),
        ("service", &from, &to, "no selector"),
        (
            "{service=\"a\"}",
            "2026-12-01T13:30:00Z",
            &to,
            "2026-12-01T13:00:00Z is",
        ),
        ("{service=\"a\"}", "yesterday", &to, "no time like"),
        ("{service=\"a\"}", &to, &from, "are none"),
    ] {
        let (status, said) = delete(&server, query, from, to);
        assert_eq!(status, 400, "{query} {from} {to}: {said}");
        assert!(said.contains(words), "{said}");
    }
}
