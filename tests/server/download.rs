//! What a debuginfod client gets of files that are there: bytes, headers, ranges, conditions.

use unhex::artifacts::ArtifactKind;

use crate::server::TestServer;
use crate::stored::{LARGE, PROGRAM, get_with, path, shown, store, with_program};

#[tokio::test(flavor = "multi_thread")]
async fn files_come_whole_with_the_headers_of_the_protocol() {
    let server = with_program().await;
    let debuginfo = server.get_raw(&path("debuginfo")).await;
    assert!(debuginfo.body == std::fs::read(PROGRAM.debug_only()).unwrap());
    insta::assert_snapshot!(shown(&debuginfo), @"
    200
    last-modified: [DATE]
    etag: [66 characters]
    cache-control: max-age=3600
    accept-ranges: bytes
    x-debuginfod-size: [SIZE]
    x-debuginfod-file: prog.debuginfo
    content-type: application/octet-stream
    content-length: [SIZE]
    connection: close
    ");
    let executable = server.get_raw(&path("executable/whatever?x=y")).await;
    assert!(executable.body == std::fs::read(PROGRAM.stripped()).unwrap());
    assert_eq!(
        executable.header("x-debuginfod-file"),
        Some("prog.executable")
    );
    let upper = path("debuginfo")
        .to_uppercase()
        .replace("/BUILDID", "/buildid");
    let upper = upper.replace("/DEBUGINFO", "/debuginfo");
    assert!(server.get_raw(&upper).await.body == debuginfo.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn head_has_the_headers_of_get_and_no_body() {
    let server = with_program().await;
    let get = server.get_raw(&path("debuginfo")).await;
    let head = format!(
        "HEAD {} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n",
        path("debuginfo")
    );
    let head = server.raw(&head).await;
    assert_eq!(shown(&head), shown(&get));
    assert!(head.body.is_empty());
    assert_eq!(head.header("content-length"), get.header("content-length"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_equals_the_slice() {
    let server = with_program().await;
    let whole = std::fs::read(PROGRAM.debug_only()).unwrap();
    let last = whole.len() - 1;
    for (range, slice) in [
        ("0-0".to_owned(), 0..1),
        ("7-4096".to_owned(), 7..4097),
        ("-5".to_owned(), whole.len() - 5..whole.len()),
        (format!("{last}-"), last..whole.len()),
    ] {
        let answer = get_with(
            &server,
            &path("debuginfo"),
            &format!("Range: bytes={range}"),
        )
        .await;
        assert_eq!(answer.status, 206, "{range}");
        assert!(answer.body == whole[slice.clone()], "{range}");
        let expected = format!("bytes {}-{}/{}", slice.start, slice.end - 1, whole.len());
        assert_eq!(answer.header("content-range"), Some(expected.as_str()));
    }
    let beyond = format!("Range: bytes={}-", whole.len());
    assert_eq!(
        get_with(&server, &path("debuginfo"), &beyond).await.status,
        416
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_has_the_file_is_told_so() {
    let server = with_program().await;
    let whole = server.get_raw(&path("debuginfo")).await;
    let tag = whole.header("etag").unwrap();
    let date = whole.header("last-modified").unwrap();
    for header in [
        format!("If-None-Match: {tag}"),
        format!("If-Modified-Since: {date}"),
    ] {
        let answer = get_with(&server, &path("debuginfo"), &header).await;
        assert_eq!(answer.status, 304, "{header}");
        insta::allow_duplicates! { insta::assert_snapshot!(shown(&answer), @"
        304
        last-modified: [DATE]
        etag: [66 characters]
        cache-control: max-age=3600
        accept-ranges: bytes
        x-debuginfod-size: [SIZE]
        x-debuginfod-file: prog.debuginfo
        connection: close
        "); }
        assert!(answer.body.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_has_a_part_is_told_so_too() {
    let server = with_program().await;
    for part in ["executable", "section/.text", "source/fixture/main.c"] {
        let part = path(part);
        let whole = server.get_raw(&part).await;
        let tag = whole.header("etag").unwrap();
        let date = whole.header("last-modified").unwrap();
        let ask = async |header: String| get_with(&server, &part, &header).await;
        assert_eq!(
            ask(format!("If-None-Match: {tag}")).await.status,
            304,
            "{part}"
        );
        assert_eq!(
            ask(format!("If-Modified-Since: {date}")).await.status,
            304,
            "{part}"
        );
        for header in [
            "If-None-Match: \"other\"".to_owned(),
            "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT".to_owned(),
        ] {
            let answer = ask(header).await;
            assert!(answer.status == 200 && answer.body == whole.body, "{part}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_above_the_clients_limit_is_406_before_any_body() {
    let server = with_program().await;
    for rest in [
        "debuginfo",
        "executable",
        "section/.debug_info",
        "source/fixture/main.c",
    ] {
        let answer = get_with(&server, &path(rest), "X-DEBUGINFOD-MAXSIZE: 1").await;
        assert_eq!(answer.status, 406, "{rest}");
        assert_eq!(answer.text(), "File too large, max size=1");
        assert_eq!(answer.header("content-type"), Some("text/plain"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_gets_the_same_bytes() {
    let server = with_program().await;
    let client = reqwest::Client::builder()
        .http2_prior_knowledge()
        .build()
        .unwrap();
    let answer = client
        .get(server.url(&path("debuginfo")))
        .send()
        .await
        .unwrap();
    assert_eq!(answer.version(), reqwest::Version::HTTP_2);
    assert!(answer.bytes().await.unwrap() == std::fs::read(PROGRAM.debug_only()).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn other_identities_of_a_file_lead_to_its_build() {
    let server = with_program().await;
    let executable = std::fs::read(PROGRAM.stripped()).unwrap();
    let hash = unhex_build_id::FileHash::of(&executable);
    let by_hash = |rest: &str| format!("/buildid/{hash}/{rest}?id_kind=htlhash");
    assert!(server.get_raw(&by_hash("executable")).await.body == executable);
    let debuginfo = server.get_raw(&by_hash("debuginfo")).await;
    assert!(debuginfo.body == std::fs::read(PROGRAM.debug_only()).unwrap());
    let as_gnu = server.get_raw(&format!("/buildid/{hash}/executable")).await;
    assert_eq!(as_gnu.status, 404);
    let short = server
        .get_raw("/buildid/ab/executable?id_kind=htlhash")
        .await;
    assert_eq!(short.status, 400, "{}", short.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_file_is_the_same_in_pieces_of_any_size_over_either_version_of_http() {
    let server = TestServer::start().await;
    let (id, right) = (LARGE.build_id(), LARGE.bytes());
    store(&server, &id, ArtifactKind::Executable, LARGE.bytes()).await;
    let url = server.url(&format!("/buildid/{id}/executable"));
    let one = reqwest::Client::builder().http1_only().build().unwrap();
    let two = reqwest::Client::builder().http2_prior_knowledge();
    for client in [one, two.build().unwrap()] {
        // Several on one connection, each of another length.
        for range in [
            0..3_000_000,
            7..40_007,
            right.len() - 600_001..right.len(),
            3..4,
        ] {
            let header = format!("bytes={}-{}", range.start, range.end - 1);
            let answer = client.get(&url).header("range", header).send();
            let got = answer.await.unwrap().bytes().await.unwrap();
            assert!(got == right[range.clone()], "{range:?}: {}", got.len());
        }
    }
}
