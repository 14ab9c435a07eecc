//! An S3 server that throttles, hangs and comes back: what is not durable is not acknowledged, and is taken when it is sent again.

use std::time::Duration;

use futures_util::StreamExt as _;
use unhex_profile_store::objects::{Objects, S3Credentials, S3Options, S3Url};
use unhex_profile_store::table::names::{ObjectName, SEGMENTS};
use unhex_testkit::fault_proxy::{Fault, FaultProxy};
use unhex_testkit::run;
use unhex_testkit::s3_server::S3Server;
use unhex_testkit::server::{Home, Server};

use crate::asked::ask;
use crate::message::{Recipe, now_nanos, protobuf};
use crate::{OTLP, PROGRAM, PROTOBUF, metric, post};

const SLOW_DOWN: &[u8] =
    b"<?xml version=\"1.0\"?><Error><Code>SlowDown</Code><Message>as told</Message></Error>";

fn throttled() -> Fault {
    Fault::answer(503, &[("Content-Type", "application/xml")], SLOW_DOWN)
}

fn store_over(ceph: &S3Server, proxy: &FaultProxy, bucket: &str) -> Server {
    let home = Home::new().with_environment(ceph.environment());
    let (url, endpoint) = (format!("s3://{bucket}/table"), proxy.url());
    let arguments = [
        "--symbols",
        "none",
        "--s3",
        &url,
        "--s3-endpoint",
        &endpoint,
        "--append-seconds-max",
        "5s",
    ];
    Server::start_in(home, PROGRAM, &arguments)
}

#[test]
fn an_s3_server_that_throttles_costs_time_and_no_profile() {
    let Some(ceph) = S3Server::shared() else {
        return;
    };
    let proxy = FaultProxy::before(ceph.endpoint());
    let bucket = ceph.bucket();
    let server = store_over(ceph, &proxy, &bucket);
    let message = |service: &str| {
        protobuf(&Recipe {
            services: vec![service.to_owned()],
            // All samples in one second, so that a stack has one row.
            time_unix_nanos: now_nanos() / 1_000_000_000 * 1_000_000_000,
            ..Recipe::default()
        })
    };
    // A few times: nobody notices.
    proxy.fail_next([throttled(), throttled(), Fault::Reset]);
    let answer = post(&server, OTLP, &[PROTOBUF], &message("a"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    // All the time: not durable, not acknowledged, come again. The writing goes on, and is taken up by who does.
    proxy.fail(throttled());
    let (throttled_long, lost) = (message("b"), message("c"));
    let refused = |body: &[u8]| {
        let answer = post(&server, OTLP, &[PROTOBUF], body);
        assert_eq!(answer.status, 503, "{}", answer.text());
        assert_eq!(answer.header("retry-after"), Some("5"));
    };
    refused(&throttled_long);
    proxy.fail(Fault::None);
    assert_taken(&server, &throttled_long);
    // Done, and the answer is lost: put again under the same name.
    proxy.fail_where(1_000, Fault::LoseAnswer, |seen| {
        seen.method == "PUT" && seen.path.contains("/seg/")
    });
    refused(&lost);
    proxy.fail_where(0, Fault::None, |_| false);
    assert_taken(&server, &lost);
    let unavailable = "unhex_store_messages_total{outcome=\"unavailable\",protocol=\"otlp_http\"}";
    assert!(metric(&server, unavailable) >= 2.0);
    // What a replica that starts anew sees.
    drop(server);
    let server = store_over(ceph, &proxy, &bucket);
    for body in [&throttled_long, &lost] {
        assert_taken(&server, body);
    }
    let resent = "unhex_store_messages_total{outcome=\"resent\",protocol=\"otlp_http\"}";
    assert!((metric(&server, resent) - 2.0).abs() < f64::EPSILON);
    // Of each message a row for each of its ten stacks.
    assert_eq!(rows_in(ceph, &bucket), 30);
}

#[test]
fn a_store_that_gives_no_files_is_no_damage_and_no_mistake() {
    let Some(ceph) = S3Server::shared() else {
        return;
    };
    let proxy = FaultProxy::before(ceph.endpoint());
    let bucket = ceph.bucket();
    let body = protobuf(&Recipe::default());
    let server = store_over(ceph, &proxy, &bucket);
    assert_taken(&server, &body);
    // Of rows, and of what they stand for: each by a server that has read nothing yet.
    for folder in ["/seg/", "/dic/"] {
        let server = store_over(ceph, &proxy, &bucket);
        proxy.fail_where(1_000, throttled(), move |seen| {
            seen.method == "GET" && seen.path.contains(folder)
        });
        let answer = ask(&server, "/query/top");
        assert_eq!(answer.status, 503, "{folder}: {}", answer.text());
        assert!(answer.text().contains("urn:unhex:problem:unavailable"));
        assert_eq!(answer.header("retry-after"), Some("5"));
        proxy.fail_where(0, Fault::None, |_| false);
        let answer = ask(&server, "/query/top");
        assert_eq!(answer.status, 200, "{folder}: {}", answer.text());
    }
}

/// The rows of all segments, by their names.
fn rows_in(ceph: &S3Server, bucket: &str) -> u64 {
    let url: S3Url = format!("s3://{bucket}/table").parse().expect("a URL");
    let options = S3Options {
        endpoint: Some(ceph.endpoint().to_owned()),
        credentials: Some(S3Credentials {
            access_key: S3Server::ACCESS_KEY.to_owned(),
            secret_key: S3Server::SECRET_KEY.to_owned(),
        }),
        ..S3Options::new(url)
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let objects = Objects::bucket(&options).await.expect("a bucket");
        let mut listed = objects.list(SEGMENTS, None);
        let mut rows = 0;
        while let Some(object) = listed.next().await {
            match object.expect("a name").key.parse().expect("a segment") {
                ObjectName::Segment(segment) => rows += segment.rows,
                other => panic!("{other}"),
            }
        }
        rows
    })
}

/// As exporters do: what is not acknowledged is sent again.
fn assert_taken(server: &Server, body: &[u8]) {
    run::poll("a message to be taken", Duration::from_mins(1), || {
        let answer = post(server, OTLP, &[PROTOBUF], body);
        (answer.status == 200).then_some(())
    });
}
