//! Banner, health, readiness, metrics, and what stands around every route.

use std::time::Duration;

use crate::server::TestServer;
use crate::stored::get_with;

#[tokio::test(flavor = "multi_thread")]
async fn the_root_says_what_answers() {
    let server = TestServer::start().await;
    let answer = server.get_raw("/").await;
    assert_eq!(answer.status, 200);
    assert!(answer.text().starts_with("unhex "), "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("text/plain"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_a_usable_disk_is_healthy_and_ready() {
    let server = TestServer::start_with(|config| config.limits.free_disk_bytes_min = 0).await;
    assert_eq!(server.get_raw("/healthz").await.status, 200);
    let ready = server.get_raw("/readyz").await;
    assert_eq!(ready.status, 200, "{}", ready.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_not_ready_but_healthy() {
    let full = TestServer::start_with(|config| config.limits.free_disk_bytes_min = u64::MAX).await;
    let answer = full.get_raw("/readyz").await;
    assert_eq!(answer.status, 503);
    assert!(
        answer.text().contains("--free-disk-bytes-min"),
        "{}",
        answer.text()
    );
    assert_eq!(
        answer.header("content-type"),
        Some("application/problem+json")
    );
    assert_eq!(full.get_raw("/healthz").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_counted_by_route_and_class() {
    let server = TestServer::start().await;
    server.get_raw("/healthz").await;
    server.get_raw("/no/such/path").await;
    let metrics = server.get_raw("/metrics").await;
    let text = metrics.text();
    for line in [
        r#"unhex_http_requests_total{route="healthz",status="2xx"} 1"#,
        r#"unhex_http_requests_total{route="unmatched",status="4xx"} 1"#,
        "unhex_http_requests_running 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
    assert!(!text.contains("no/such/path"));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_method_is_405_with_those_that_there_are() {
    let server = TestServer::start().await;
    let answer = server
        .raw("POST /healthz HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        .await;
    assert_eq!(answer.status, 405);
    assert_eq!(answer.header("allow"), Some("GET,HEAD"));
    assert_eq!(
        answer.header("content-type"),
        Some("application/problem+json")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_over_http_1_1_names_its_host_once() {
    let server = TestServer::start().await;
    for (head, status) in [
        ("HTTP/1.1\r\n", 400),
        ("HTTP/1.1\r\nHost: a\r\nHost: b\r\n", 400),
        ("HTTP/1.1\r\nHost: a\r\n", 404),
        ("HTTP/1.1\r\nHost:\r\n", 404),
        ("HTTP/1.0\r\n", 404),
    ] {
        for (path, kind) in [
            ("/buildid/ab01/debuginfo", "text/plain"),
            ("/build-ids/ab01", "application/problem+json"),
        ] {
            let request = format!("GET {path} {head}Connection: close\r\n\r\n");
            let answer = server.raw(&request).await;
            assert_eq!(answer.status, status, "{request}");
            assert_eq!(answer.header("content-type"), Some(kind), "{request}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_with_prior_knowledge_is_answered_on_the_same_port() {
    let server = TestServer::start().await;
    let client = reqwest::Client::builder()
        .http2_prior_knowledge()
        .build()
        .unwrap();
    let answer = client.get(server.url("/healthz")).send().await.unwrap();
    assert_eq!(answer.version(), reqwest::Version::HTTP_2);
    assert_eq!(answer.text().await.unwrap(), "ok\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_server_lets_go_of_its_port() {
    let server = TestServer::start().await;
    let address = server.address;
    server.stop().await;
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_server_is_not_ready() {
    let server = TestServer::start().await;
    server.app.background.stopping.cancel();
    assert_eq!(server.get_raw("/readyz").await.status, 503);
    assert_eq!(server.get_raw("/healthz").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_question_for_readiness_leaves_nothing_behind() {
    let server = TestServer::start_with(|config| config.limits.free_disk_bytes_min = 0).await;
    let names = || {
        let folder = std::fs::read_dir(server.data()).unwrap();
        let mut names: Vec<_> = folder.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    assert_eq!(server.get_raw("/readyz").await.status, 200);
    assert_eq!(names(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_data_folder_is_gone_knows_nothing_and_is_not_ready() {
    let server = TestServer::start_with(|config| {
        config.limits.free_disk_bytes_min = 0;
        config.limits.hold_deadline = Duration::from_secs(1);
    })
    .await;
    let away = server.data().with_extension("away");
    std::fs::rename(server.data(), &away).unwrap();
    for folder in ["gone", "empty"] {
        for path in [
            "/buildid/ab01/debuginfo",
            "/buildid/ab01/section/.text",
            "/buildid/ab01/source/a.c",
            "/build-ids/ab01",
            "/build-ids",
            "/metadata?key=file&value=/a",
            "/readyz",
        ] {
            let answer = get_with(&server, path, "Via: 1.1 test").await;
            assert_eq!(answer.status, 503, "{folder} {path}: {}", answer.text());
        }
        if folder == "gone" {
            std::fs::create_dir(server.data()).unwrap();
        }
    }
    std::fs::remove_dir(server.data()).unwrap();
    std::fs::rename(&away, server.data()).unwrap();
    let answer = server.get_raw("/buildid/ab01/debuginfo").await;
    assert_eq!(answer.status, 404);
    assert_eq!(server.get_raw("/readyz").await.status, 200);
}

/// Methods and filled paths of all that openapi.yaml describes.
pub async fn described(server: &TestServer) -> Vec<(String, String)> {
    let text = server.get_raw("/openapi.yaml").await;
    let mut path = "";
    let mut routes = Vec::new();
    for line in text.text().lines() {
        match line.strip_suffix(':') {
            Some(found) if found.starts_with("  /") => path = found.trim(),
            Some(method @ ("    get" | "    put" | "    post" | "    delete")) => {
                let filled = path
                    .replace("{id}", "ab01")
                    .replace("{artifact_type}", "debuginfo")
                    .replace("{kind}", "debuginfo")
                    .replace(['{', '}'], "");
                routes.push((method.trim().to_uppercase(), filled));
            }
            _ => {}
        }
    }
    assert!(routes.len() >= 15, "{routes:?}");
    routes
}

#[tokio::test(flavor = "multi_thread")]
async fn every_described_route_exists_with_its_methods() {
    let server = TestServer::start().await;
    for (method, path) in described(&server).await {
        let answer = server
            .raw(&format!(
                "{method} {path} HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\n\
                 Connection: close\r\n\r\n"
            ))
            .await;
        let said = answer.text();
        assert_ne!(answer.status, 405, "{method} {path}");
        assert!(!said.contains("there is no /"), "{method} {path}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_to_caches_are_counted() {
    let server = TestServer::start().await;
    for _ in 0..3 {
        server.get_raw("/buildid/ab01/debuginfo").await;
    }
    let metrics = server.get_raw("/metrics").await;
    let asked = |result: &str| {
        let name = format!("unhex_cache_requests_total{{cache=\"absent\",result=\"{result}\"}} ");
        let line = metrics
            .text()
            .lines()
            .find_map(|line| line.strip_prefix(&name));
        line.unwrap().parse::<u64>().unwrap()
    };
    let entries = r#"unhex_cache_entries{cache="absent"} 1"#;
    assert!(metrics.text().contains(entries), "{}", metrics.text());
    // On a slow machine what was read may be too old for the next question.
    assert!(asked("miss") >= 1 && asked("miss") + asked("hit") == 3);
}
