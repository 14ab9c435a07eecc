//! The debuginfod protocol as clients see it, over raw sockets: a client library would normalise
//! the paths.

use crate::server::TestServer;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_a_short_plain_404_that_nobody_may_keep() {
    let server = TestServer::start().await;
    for path in [
        "/buildid/ab01/debuginfo",
        "/buildid/ab01/executable",
        "/buildid/ab01/section/.text",
        "/buildid/ab01/source/usr/include/stdio.h",
        "/buildid/ab01/source/",
        "/buildid/AB01/debuginfo",
        "//buildid/ab01/debuginfo",
        "/%62uildid/ab01/debuginfo",
    ] {
        let answer = server.get_raw(path).await;
        assert_eq!(answer.status, 404, "{path}");
        assert_eq!(answer.text(), "not found", "{path}");
        assert_eq!(answer.header("content-type"), Some("text/plain"), "{path}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
        assert_eq!(answer.header("content-length"), Some("9"), "{path}");
        assert_eq!(answer.header("x-debuginfod-size"), None, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_request_is_the_clients_fault_never_the_servers() {
    let server = TestServer::start().await;
    for path in [
        "/buildid",
        "/buildid/",
        "/buildid/ab01",
        "/buildid/ab01/",
        "/buildid/ab01/bogus",
        "/buildid/abc/debuginfo",
        "/buildid/xyz/debuginfo",
        "/buildid//debuginfo",
        "/buildid/ab01/source",
        "/buildid/ab01/section",
        "/buildid/ab01/section/",
        "/buildid/ab01/source/%00",
        "/buildid/ab01/source/a%00b",
        "/buildid/ab01/source/%ff",
        "/buildid/ab01/source/%",
        "/buildid/ab01/source/%4",
        "/buildid/ab01/source/%zz",
        "/buildid/%00/debuginfo",
        "/buildid/ab01/debuginfo?id_kind=nonsense",
    ] {
        let answer = server.get_raw(path).await;
        assert_eq!(answer.status, 400, "{path}: {}", answer.text());
        assert_eq!(answer.header("content-type"), Some("text/plain"), "{path}");
    }
    let metrics = server.get_raw("/metrics").await;
    let invalid = r#"unhex_debuginfod_requests_total{result="refused",type="invalid"} 19"#;
    assert!(metrics.text().contains(invalid), "{}", metrics.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn raw_bytes_that_are_no_url_are_refused() {
    let server = TestServer::start().await;
    for path in ["/buildid/ab01/section/a b", "/buildid/ab01/source/a\u{1}b"] {
        assert_eq!(server.get_raw(path).await.status, 400, "{path:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_methods_are_405_in_plain_text_with_those_that_there_are() {
    let server = TestServer::start().await;
    for method in ["OPTIONS", "DELETE", "POST", "PATCH"] {
        let answer = server
            .raw(&format!(
                "{method} /buildid/ab01/debuginfo HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\n\
                 Connection: close\r\n\r\n"
            ))
            .await;
        assert_eq!(answer.status, 405, "{method}");
        assert!(
            answer.header("allow").unwrap().starts_with("GET,HEAD"),
            "{method}"
        );
        assert_eq!(
            answer.header("content-type"),
            Some("text/plain"),
            "{method}"
        );
    }
}
