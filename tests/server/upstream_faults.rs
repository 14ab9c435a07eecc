//! Every fault of an upstream server against every way in which a client can ask: nothing false is
//! said, nothing damaged is stored, and the next question is answered as if nothing had been.

use futures_util::{StreamExt as _, stream};
use unhex_api::symbolize::ModuleStatus;
use unhex_testkit::fault_proxy::{Fault, FaultProxy};
use unhex_testkit::fixture::Program;

use crate::calls;
use crate::server::{RawAnswer, TestServer};
use crate::stored::{PROGRAM, path};
use crate::upstream::{SOURCE, SOURCE_ESCAPED, VIA, behind, module, upstream};

/// Faults that are tried at the same time: most of the time is waiting.
const FAULTS_AT_ONCE: usize = 6;

/// Faults after which nobody knows whether the file exists.
fn faults(elsewhere: &FaultProxy, upstream: &FaultProxy) -> Vec<(&'static str, Fault)> {
    let other = Program::c("int main(void) { return 7; }")
        .flags(&["-g"])
        .build();
    let within = |path: &str| format!("{}{path}", upstream.url());
    let named = elsewhere.url().replace("127.0.0.1", "localhost");
    vec![
        ("hang before the head", Fault::Hang),
        ("hang in the body", Fault::HangInBody),
        ("reset", Fault::Reset),
        ("reset in the body", Fault::ResetInBody),
        ("close", Fault::Close),
        ("truncation", Fault::Truncate),
        ("truncation of chunks", Fault::TruncateChunked),
        ("wrong length", Fault::WrongLength),
        ("endless body", Fault::Endless),
        ("500", Fault::status(500)),
        ("503", Fault::status(503)),
        ("429", Fault::status(429)),
        ("403", Fault::status(403)),
        ("204", Fault::status(204)),
        ("300", Fault::status(300)),
        ("page of HTML", Fault::html()),
        (
            "page of HTML that claims to be octets",
            Fault::answer(200, &[], b"<html></html>"),
        ),
        ("empty body", Fault::answer(200, &[], b"")),
        ("other build ID", Fault::answer(200, &[], &other.bytes())),
        ("redirect without a target", Fault::answer(302, &[], b"")),
        (
            "redirect to a private address",
            Fault::redirect(&format!("{}/", elsewhere.url())),
        ),
        (
            "redirect to a name of a private address",
            Fault::redirect(&format!("{named}/")),
        ),
        (
            "redirect to link-local metadata",
            Fault::redirect("http://169.254.169.254/latest/meta-data"),
        ),
        ("redirect to a file", Fault::redirect("file:///etc/passwd")),
        ("redirect loop", Fault::redirect(&within("/again"))),
    ]
}

/// A source can be any text: only a server that contradicts itself can be caught lying.
fn can_be_a_source(fault: &str) -> bool {
    [
        "page of HTML that claims to be octets",
        "empty body",
        "other build ID",
    ]
    .contains(&fault)
}

async fn ask(server: &TestServer, method: &str, what: &str) -> RawAnswer {
    let path = path(what);
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: test\r\n{VIA}\r\nConnection: close\r\n\r\n");
    server.raw(&request).await
}

/// Runs `check` with each fault, some at a time, each with an upstream server of its own.
async fn with_each(check: impl AsyncFn(&'static str, Fault, FaultProxy)) {
    let elsewhere = FaultProxy::serving([("/", b"secret".to_vec())]);
    let names = faults(&elsewhere, &elsewhere).into_iter();
    let checks = names.enumerate().map(|(number, (name, _))| {
        let upstream = upstream();
        let (_, fault) = faults(&elsewhere, &upstream).swap_remove(number);
        check(name, fault, upstream)
    });
    let checks: Vec<_> = checks.collect();
    stream::iter(checks)
        .buffer_unordered(FAULTS_AT_ONCE)
        .collect::<()>()
        .await;
    assert_eq!(elsewhere.requests(), 0);
}

/// Asks while the fault lasts, and once it is gone.
async fn survives(what: &str, right: &[u8]) {
    with_each(async |name, fault, upstream| {
        if what.starts_with("source") && can_be_a_source(name) {
            return;
        }
        let server = behind(&[&upstream]).await;
        upstream.fail(fault);
        for method in ["HEAD", "GET"] {
            let before = upstream.requests();
            let answer = ask(&server, method, what).await;
            assert_eq!(answer.status, 503, "{method} {what}, {name}");
            assert_eq!(answer.header("cache-control"), Some("no-store"));
            assert!(answer.header("retry-after").is_some());
            let asked = upstream.requests() - before;
            // Held, a client costs few attempts, and each of them few requests.
            let attempts = if method == "GET" { 6 } else { 1 };
            let is_few = (1..=36 * attempts).contains(&asked);
            assert!(is_few, "{asked} times: {what}, {name}");
        }
        let stored = format!("/build-ids/{}", PROGRAM.build_id());
        let stored = server.get_raw(&stored).await;
        assert_eq!(stored.status, 404, "{what}, {name}: {}", stored.text());
        upstream.fail(Fault::None);
        for method in ["GET", "HEAD"] {
            let answer = ask(&server, method, what).await;
            assert_eq!(answer.status, 200, "{method} {what} after {name}");
            let size = right.len().to_string();
            assert_eq!(answer.header("content-length"), Some(size.as_str()));
            let is_right = method == "HEAD" || answer.body == right;
            assert!(is_right, "{what} after {name}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn debuginfo_survives_every_fault() {
    survives("debuginfo", &calls::bytes(PROGRAM.debug_only())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executable_survives_every_fault() {
    survives("executable", &calls::bytes(PROGRAM.stripped())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_survives_every_fault() {
    survives(&format!("source{SOURCE_ESCAPED}"), SOURCE.1.as_bytes()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_section_survives_every_fault() {
    let whole = TestServer::start().await;
    let debuginfo = calls::bytes(PROGRAM.debug_only());
    let put = calls::put(&whole, &path("debuginfo"), debuginfo);
    put.send().await.unwrap();
    let right = whole.get_raw(&path("section/.debug_info")).await;
    assert_eq!(right.status, 200);
    survives("section/.debug_info", &right.body).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn symbolizing_survives_every_fault() {
    with_each(async |name, fault, upstream| {
        let server = behind(&[&upstream]).await;
        upstream.fail(fault);
        let failed = module(&server).await;
        let status = failed.status;
        assert_eq!(status, ModuleStatus::Unavailable, "{name}: {failed:?}");
        upstream.fail(Fault::None);
        let found = module(&server).await;
        assert_eq!(found.status, ModuleStatus::Found, "after {name}: {found:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_passes_by_itself_is_not_noticed() {
    let upstream = upstream();
    for fault in [
        Fault::status(503),
        Fault::Reset,
        Fault::ResetInBody,
        Fault::Close,
        Fault::Truncate,
        Fault::TruncateChunked,
    ] {
        let server = behind(&[&upstream]).await;
        upstream.fail_next([fault.clone()]);
        let answer = ask(&server, "GET", "debuginfo").await;
        assert_eq!(answer.status, 200, "{fault:?}");
        assert!(
            answer.body == calls::bytes(PROGRAM.debug_only()),
            "{fault:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_are_followed_where_they_may_lead() {
    let upstream = upstream();
    let server = behind(&[&upstream]).await;
    let to = path("debuginfo");
    // To the server itself, which the configuration trusts, relative and absolute.
    upstream.fail_next([
        Fault::redirect(&to),
        Fault::redirect(&format!("{}{to}", upstream.url())),
    ]);
    assert_eq!(ask(&server, "GET", "debuginfo").await.status, 200);
    let allowed = TestServer::start_with(|config| {
        crate::upstream::ask(&[&upstream])(config);
        config.upstream.allow_private = true;
    })
    .await;
    let elsewhere = crate::upstream::upstream();
    upstream.fail(Fault::redirect(&format!("{}{to}", elsewhere.url())));
    assert_eq!(ask(&allowed, "GET", "debuginfo").await.status, 200);
    let seen = elsewhere.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].header("x-forwarded-for"), None);
    assert_eq!(seen[0].header("referer"), None);
}
