//! What an upstream server has is served, stored and remembered as its origin says; what it has not, too.

use std::time::Duration;

use serde_json::json;
use unhex::artifacts::ArtifactKind;
use unhex::config::Config;
use unhex_api::quality::Origin;
use unhex_api::symbolize::{ModuleAnswer, ModuleStatus};
use unhex_testkit::fault_proxy::{Fault, FaultProxy};

use crate::calls;
use crate::server::{RawAnswer, TestServer};
use crate::stored::{PROGRAM, get_with, path, store};
use crate::symbolize::symbolize;

/// A source path with characters that URLs escape, and its text.
pub const SOURCE: (&str, &str) = ("/fixture/p++r$#o^^g.c", "int strange;");
/// How it is asked for.
pub const SOURCE_ESCAPED: &str = "/fixture/p%2B%2Br%24%23o%5E%5Eg.c";

/// An upstream server that has the program: its files apart, and one source.
pub fn upstream() -> FaultProxy {
    FaultProxy::serving([
        (path("debuginfo"), calls::bytes(PROGRAM.debug_only())),
        (path("executable"), calls::bytes(PROGRAM.stripped())),
        (
            path(&format!("source{SOURCE_ESCAPED}")),
            SOURCE.1.as_bytes().to_vec(),
        ),
    ])
}

/// Changes a configuration so that these servers are asked, with deadlines that a test can wait for
/// and without a rest, which would hide what comes after a failure.
pub fn ask(upstreams: &[&FaultProxy]) -> impl FnOnce(&mut Config) {
    let servers: Vec<_> = upstreams
        .iter()
        .map(|upstream| upstream.url().parse().unwrap())
        .collect();
    move |config| {
        config.upstream.servers = servers;
        config.limits.upstream_first_byte_seconds_max = Duration::from_secs(2);
        config.limits.upstream_seconds_max = Duration::from_secs(20);
        // What has no end reaches these at once.
        config.limits.upload_bytes_max = 8 << 20;
        config.limits.sources_file_bytes_max = 1 << 20;
        config.limits.upstream_failures_max = 10_000;
        // Twice the silence, and a little.
        config.limits.hold_deadline = Duration::from_secs(5);
    }
}

/// A header of a request that came through a proxy: who gets no answer is told so, not reset.
pub const VIA: &str = "Via: 1.1 test";

/// A server of nothing of its own, behind these.
pub async fn behind(upstreams: &[&FaultProxy]) -> TestServer {
    TestServer::start_with(ask(upstreams)).await
}

/// What `/symbolize` says of the program.
pub async fn module(server: &TestServer) -> ModuleAnswer {
    let body = json!({
        "modules": [{"build_id": PROGRAM.build_id(), "addresses": ["0x1"]}],
        "wait_seconds": 20,
    });
    symbolize(server, &body).await.modules.remove(0)
}

async fn get(server: &TestServer, what: &str) -> RawAnswer {
    get_with(server, &path(what), VIA).await
}

/// The answer without its body, for which nobody is held.
async fn at_once(server: &TestServer, what: &str) -> RawAnswer {
    let path = path(what);
    let head = format!("HEAD {path} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
    server.raw(&head).await
}

fn asked(upstream: &FaultProxy) -> Vec<String> {
    let seen = upstream.seen();
    seen.into_iter().map(|request| request.path).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_is_fetched_once_and_then_served_from_here() {
    let upstream = upstream();
    let server = behind(&[&upstream]).await;
    for round in ["fetched", "stored"] {
        for (what, bytes) in [
            ("debuginfo", calls::bytes(PROGRAM.debug_only())),
            ("executable", calls::bytes(PROGRAM.stripped())),
            (
                &format!("source{SOURCE_ESCAPED}"),
                SOURCE.1.as_bytes().to_vec(),
            ),
        ] {
            let answer = get(&server, what).await;
            assert_eq!(answer.status, 200, "{round} {what}");
            assert!(answer.body == bytes, "{round} {what}");
        }
        for section in [".debug_info", ".text"] {
            let answer = get(&server, &format!("section/{section}")).await;
            assert!(answer.status == 200 && !answer.body.is_empty(), "{section}");
        }
    }
    assert_eq!(upstream.requests(), 3, "{:?}", asked(&upstream));
    let agent = format!("unhex/{}", env!("CARGO_PKG_VERSION"));
    for seen in upstream.seen() {
        assert_eq!(seen.header("user-agent"), Some(agent.as_str()));
        assert_eq!(seen.header("x-forwarded-for"), Some("127.0.0.1"));
        assert_eq!(seen.header("accept-encoding"), Some("gzip, zstd"));
    }
    let state = calls::state(&server, &PROGRAM.build_id()).await;
    let origins = state["artifacts"].as_array().unwrap();
    assert_eq!(origins.len(), 2, "{state}");
    for artifact in origins {
        assert_eq!(artifact["origin"], "upstream");
        let from = artifact["from"].as_str().unwrap();
        assert!(from.starts_with(&upstream.url()), "{from}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_build_id_is_fetched_and_symbolized() {
    let upstream = upstream();
    let server = behind(&[&upstream]).await;
    let module = module(&server).await;
    assert_eq!(module.status, ModuleStatus::Found, "{module:?}");
    assert_eq!(module.origin, Some(Origin::Upstream));
    let mut paths = asked(&upstream);
    paths.sort();
    assert_eq!(paths, [path("debuginfo"), path("executable")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_upstream_has_is_remembered_and_an_upload_counts_at_once() {
    let (first, second) = (
        FaultProxy::serving::<&str>([]),
        FaultProxy::serving::<&str>([]),
    );
    second.fail(Fault::status(410));
    let server = behind(&[&first, &second]).await;
    for _ in 0..3 {
        for what in ["debuginfo", "executable", "source/fixture/main.c"] {
            let answer = get(&server, what).await;
            assert_eq!((answer.status, answer.text()), (404, "not found"), "{what}");
        }
        assert_eq!(module(&server).await.status, ModuleStatus::UnknownBuildId);
    }
    assert_eq!((first.requests(), second.requests()), (3, 3));
    let id = PROGRAM.build_id();
    store(&server, &id, ArtifactKind::Debuginfo, PROGRAM.bytes()).await;
    assert_eq!(get(&server, "debuginfo").await.status, 200);
    assert_eq!(module(&server).await.status, ModuleStatus::Found);
    assert_eq!((first.requests(), second.requests()), (3, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_upstream_that_cannot_say_keeps_the_answer_open() {
    let (absent, failing) = (FaultProxy::serving::<&str>([]), upstream());
    failing.fail(Fault::status(500));
    let server = behind(&[&absent, &failing]).await;
    let answer = at_once(&server, "debuginfo").await;
    assert_eq!(answer.status, 503);
    assert_eq!(answer.header("retry-after"), Some("5"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    failing.fail(Fault::None);
    assert_eq!(get(&server, "debuginfo").await.status, 200);
    assert_eq!(absent.requests(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_upstream_in_order_delivers_and_one_that_hangs_is_overtaken() {
    let (first, second) = (upstream(), upstream());
    let server = TestServer::start_with(|config| {
        ask(&[&first, &second])(config);
        config.limits.upstream_first_byte_seconds_max = Duration::from_mins(1);
        config.limits.upstream_seconds_max = Duration::from_mins(1);
    })
    .await;
    let answer = get(&server, "debuginfo").await;
    assert_eq!(answer.status, 200);
    let state = calls::state(&server, &PROGRAM.build_id()).await;
    let from = state["artifacts"][0]["from"].to_string();
    assert!(from.contains(&first.url()), "{from}");
    first.fail(Fault::Hang);
    let answer = get(&server, "executable").await;
    assert_eq!(answer.status, 200);
    assert_eq!(first.requests(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_decoded_and_bombs_are_not() {
    let upstream = upstream();
    let server = TestServer::start_with(|config| {
        ask(&[&upstream])(config);
        config.limits.upload_bytes_max = 1 << 20;
    })
    .await;
    let bomb = zstd::encode_all(vec![0; 8 << 20].as_slice(), 3).unwrap();
    let headers = [("Content-Encoding", "zstd")];
    upstream.fail(Fault::answer(200, &headers, &bomb));
    assert_eq!(get(&server, "debuginfo").await.status, 503);
    let whole = zstd::encode_all(PROGRAM.bytes().as_slice(), 3).unwrap();
    let cut = &whole[..whole.len() / 2];
    upstream.fail(Fault::answer(200, &headers, cut));
    assert_eq!(get(&server, "debuginfo").await.status, 503);
    upstream.fail(Fault::answer(200, &[("Content-Encoding", "br")], &whole));
    assert_eq!(get(&server, "debuginfo").await.status, 503);
    upstream.fail(Fault::answer(200, &headers, &whole));
    let answer = get(&server, "debuginfo").await;
    assert!(answer.status == 200 && answer.body == PROGRAM.bytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn go_and_hash_ids_are_never_sent_upstream() {
    let upstream = upstream();
    let server = behind(&[&upstream]).await;
    let go = "abc%2Fdef%2Fghi%2Fjkl";
    let hash = "0123456789abcdef0123456789abcdef";
    for question in [
        format!("/buildid/{go}/debuginfo?id_kind=go"),
        format!("/buildid/{hash}/debuginfo?id_kind=htlhash"),
        // What an internal ID looks like: the hex of "unhex/go-buildid" and 16 bytes.
        format!("/buildid/756e6865782f676f2d6275696c646964{hash}/debuginfo"),
        "/buildid/zz/debuginfo".to_owned(),
    ] {
        let status = server.get_raw(&question).await.status;
        assert!(matches!(status, 400 | 404), "{question}: {status}");
    }
    let body = json!({"modules": [
        {"build_id": "abc/def/ghi/jkl", "id_kind": "go", "addresses": ["0x1"]},
        {"build_id": hash, "id_kind": "htlhash", "addresses": ["0x1"]},
    ]});
    for module in symbolize(&server, &body).await.modules {
        assert_eq!(module.status, ModuleStatus::UnknownBuildId);
    }
    assert!(asked(&upstream).is_empty(), "{:?}", asked(&upstream));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_came_through_eight_servers_is_not_passed_on() {
    let upstream = upstream();
    let server = behind(&[&upstream]).await;
    let asked_through = async |entries: usize| {
        let header = format!("X-Forwarded-For: {}", vec!["192.0.2.1"; entries].join(", "));
        get_with(&server, &path("debuginfo"), &header).await
    };
    assert_eq!(asked_through(8).await.status, 404);
    assert_eq!(upstream.requests(), 0);
    assert_eq!(asked_through(7).await.status, 200);
    let seen = upstream.seen();
    let forwarded_for = seen[0].header("x-forwarded-for").unwrap();
    assert_eq!(forwarded_for.split(", ").count(), 8);
    assert!(forwarded_for.ends_with(", 127.0.0.1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_ask_each_other_come_to_an_end() {
    let (a, b) = ring().await;
    let answer = get(&a, "debuginfo").await;
    assert_eq!((answer.status, answer.text()), (404, "not found"));
    assert_eq!(module(&b).await.status, ModuleStatus::UnknownBuildId);
}

/// Two servers that are each other's upstream.
async fn ring() -> (TestServer, TestServer) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = port.local_addr().unwrap();
    drop(port);
    let upstream = |url: String| {
        move |config: &mut Config| {
            ask(&[])(config);
            config.upstream.servers = vec![url.parse().unwrap()];
        }
    };
    let first = TestServer::start_with(upstream(format!("http://{address}"))).await;
    let url = first.url("");
    let second = TestServer::start_with(|config| {
        upstream(url)(config);
        config.listen = address;
    })
    .await;
    (first, second)
}

#[tokio::test(flavor = "multi_thread")]
async fn many_questions_for_one_file_are_one_fetch_which_outlives_the_first_client() {
    let upstream = upstream();
    let server = behind(&[&upstream]).await;
    upstream.fail_next([Fault::HangInBody]);
    let asking: Vec<_> = (0..8)
        .map(|_| {
            let url = server.url(&path("debuginfo"));
            let asking = reqwest::Client::new().get(url).header("Via", "1.1 test");
            tokio::spawn(async move { asking.send().await.map(|answer| answer.status()) })
        })
        .collect();
    while upstream.requests() == 0 {
        tokio::task::yield_now().await;
    }
    asking[0].abort();
    for one in asking.into_iter().skip(1) {
        assert_eq!(one.await.unwrap().unwrap(), 200);
    }
    // They were held while the first one failed, and then asked together once more.
    assert_eq!(upstream.requests(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_unknown_build_ids_wait_together_for_an_upstream_that_hangs() {
    let upstream = upstream();
    upstream.fail(Fault::Hang);
    let server = behind(&[&upstream]).await;
    let modules: Vec<_> = (0..30)
        .map(|number| json!({"build_id": format!("{number:040x}"), "addresses": ["0x1"]}))
        .collect();
    let asking = tokio::spawn(async move {
        let body = json!({"modules": modules, "wait_seconds": 20});
        let answer = symbolize(&server, &body).await;
        (server, answer)
    });
    // All are asked for at once, not one after the other.
    let mut most = 0;
    while !asking.is_finished() {
        most = most.max(upstream.open_connections());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (_server, answer) = asking.await.unwrap();
    for module in answer.modules {
        assert_eq!(module.status, ModuleStatus::Unavailable, "{module:?}");
    }
    assert_eq!((most, upstream.requests()), (60, 60));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_keeps_failing_is_left_alone_and_tried_again() {
    let upstream = upstream();
    upstream.fail(Fault::html());
    let server = TestServer::start_with(|config| {
        ask(&[&upstream])(config);
        config.limits.upstream_failures_max = 2;
        config.limits.upstream_rest_seconds_max = Duration::from_millis(300);
    })
    .await;
    for _ in 0..5 {
        assert_eq!(at_once(&server, "debuginfo").await.status, 503);
    }
    assert!(upstream.requests() < 5, "{}", upstream.requests());
    let metrics = get_metrics(&server).await;
    let resting = format!(
        "unhex_upstream_resting{{upstream=\"{}\"}}",
        upstream.url().trim_start_matches("http://")
    );
    assert!(metrics.contains(&resting), "{metrics}");
    upstream.fail(Fault::None);
    let deadline = tokio::time::Instant::now() + crate::server::DEADLINE;
    while get(&server, "debuginfo").await.status != 200 {
        assert!(tokio::time::Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(get_metrics(&server).await.contains(&format!("{resting} 0")));
}

async fn get_metrics(server: &TestServer) -> String {
    server.get_raw("/metrics").await.text().to_owned()
}
