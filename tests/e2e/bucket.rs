//! What only a bucket gives: servers that lose everything but lose nothing.

use std::time::Duration;

use unhex_testkit::fixture::Program;
use unhex_testkit::s3_server::S3Server;
use unhex_testkit::server::{Home, Server};
use unhex_testkit::{http, run};

use crate::llvm::address_of_outer;
use crate::stores::server_over;
use crate::symbol_server::UNHEX;

const TEXT: &str = "static int inner(int n) { return n * 42; }\nint outer(int n) { return inner(n) + 1; }\nint main(int c, char **v) { return outer(c); }\n";

/// How long anything may take on a busy machine.
const DEADLINE: Duration = Duration::from_mins(1);

fn names(server: &Server, build_id: &str, address: &str) -> String {
    let request = format!(
        "{{\"modules\": [{{\"build_id\": \"{build_id}\", \"addresses\": [\"{address}\"]}}], \
         \"wait_seconds\": 20}}"
    );
    let answer = http::post_json(&server.url("/symbolize"), &request).expect("an answer");
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.text()
}

#[test]
fn a_killed_server_is_replaced_by_one_with_an_empty_disk() {
    let Some(s3) = S3Server::shared() else {
        return;
    };
    let bucket = format!("s3://{}/a/b", s3.bucket());
    let program = Program::c(TEXT).flags(&["-g", "-O0"]).build();
    let (id, bytes) = (program.build_id(), program.bytes());
    let address = address_of_outer(program.path());
    let path = format!("/buildid/{id}/debuginfo");

    let first = server_over(s3, &bucket);
    let stored = http::put(&first.url(&path), &bytes).expect("an answer");
    assert_eq!(stored.status, 201, "{}", stored.text());
    // At once: the answer said that it is durable.
    drop(first.kill());

    let second = server_over(s3, &bucket);
    let found = http::get(&second.url(&path)).expect("an answer");
    assert!(
        (found.status, &found.body) == (200, &bytes),
        "{}",
        second.log()
    );
    let said = names(&second, &id, &address);
    assert!(
        said.contains("\"outer\"") && said.contains("main.c"),
        "{said}"
    );

    // What one server takes in, another one has within seconds, and what one deletes.
    let third = server_over(s3, &bucket);
    assert_eq!(names(&third, &id, &address), said);
    let other = Program::c("int main(void) { return 7; }")
        .flags(&["-g"])
        .build();
    let other_path = format!("/buildid/{}/debuginfo", other.build_id());
    let absent = http::get(&third.url(&other_path)).expect("an answer");
    assert_eq!(absent.status, 404);
    http::put(&second.url(&other_path), &other.bytes()).expect("an answer");
    run::poll("the other server to see the upload", DEADLINE, || {
        let found = http::get(&third.url(&other_path)).expect("an answer");
        (found.status == 200 && found.body == other.bytes()).then_some(())
    });
    let deleted = http::send(&http::Request {
        method: "DELETE",
        url: &third.url(&format!("/build-ids/{id}")),
        headers: &[],
        body: &[],
    });
    assert!(matches!(deleted.expect("an answer").status, 200 | 204));
    run::poll("the other server to see the deletion", DEADLINE, || {
        let gone = http::get(&second.url(&path)).expect("an answer");
        (gone.status == 404).then_some(())
    });
}

#[test]
fn a_server_says_that_its_bucket_is_gone_and_knows_nothing_then() {
    let Some(s3) = S3Server::start() else {
        return;
    };
    let server = server_over(&s3, &format!("s3://{}", s3.bucket()));
    let metrics = http::get(&server.url("/metrics"))
        .expect("an answer")
        .text();
    let counted = "unhex_s3_requests_total{operation=\"list_objects\",outcome=\"ok\"}";
    assert!(metrics.contains(counted), "{metrics}");
    drop(s3);
    let ready = http::get(&server.url("/readyz")).expect("an answer");
    assert_eq!(ready.status, 503, "{}", ready.text());
    assert!(ready.text().contains("bucket"), "{}", ready.text());
    let alive = http::get(&server.url("/healthz")).expect("an answer");
    assert_eq!(alive.status, 200);
    let unknown = http::get(&server.url("/build-ids/abcd")).expect("an answer");
    assert_eq!(unknown.status, 503, "{}", unknown.text());
}

#[test]
fn a_server_does_not_start_over_a_bucket_that_is_not_there_and_says_why() {
    let Some(s3) = S3Server::shared() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let mut unhex = std::process::Command::new(UNHEX);
    unhex
        .args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--s3",
            "s3://no-such-bucket/x",
        ])
        .envs(s3.environment())
        .current_dir(folder.path());
    let said = run::finish(&mut unhex);
    assert!(!said.status.success());
    assert!(
        said.all().contains("make it or correct --s3"),
        "{}",
        said.all()
    );
}

#[test]
fn uploads_go_into_the_bucket_and_to_the_server_when_that_cannot_be_reached() {
    let Some(s3) = S3Server::shared() else {
        return;
    };
    // Nobody listens on the port of a socket that is bound and no more.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let dead_end = format!("http://{}", closed.local_addr().expect("an address"));
    drop(closed);
    for (direct_endpoint, completed) in [(s3.endpoint().to_owned(), 1), (dead_end, 0)] {
        let bucket = format!("s3://{}/symbols", s3.bucket());
        let home = Home::new().with_environment(s3.environment());
        let arguments = ["--s3", &bucket, "--s3-direct-endpoint", &direct_endpoint];
        let server = Server::start_in(home, UNHEX, &arguments);
        let program = Program::c(TEXT).flags(&["-g", "-O0"]).build();
        let mut upload = std::process::Command::new(UNHEX);
        upload
            .args(["upload", "--server", &server.url(""), "--retries", "1"])
            .arg(program.path());
        let said = run::finish(&mut upload);
        assert!(said.status.success(), "{}", said.all());
        let path = format!("/buildid/{}/debuginfo", program.build_id());
        let found = http::get(&server.url(&path)).expect("an answer");
        assert_eq!((found.status, found.body), (200, program.bytes()));
        let metrics = http::get(&server.url("/metrics")).expect("an answer");
        let count = metrics.text().lines().find_map(|line| {
            let line = line.strip_prefix("unhex_http_requests_total{")?;
            let (labels, count) = line.split_once("} ")?;
            labels
                .contains("\"upload_complete\"")
                .then(|| count.parse::<u64>().ok())?
        });
        assert_eq!(count.unwrap_or(0), completed, "{direct_endpoint}");
    }
}
