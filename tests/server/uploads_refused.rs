//! Uploads that are refused, and in which words.

use std::io::Write as _;

use reqwest::{Client, StatusCode};
use serde_json::json;
use unhex_testkit::fixture::{Fixture, Program};

use crate::calls::{CODE, answer, bytes, get, program, put, state};
use crate::server::TestServer;

/// Other code that claims the same build ID.
fn impostor(build_id: &str) -> Fixture {
    Program::c("int main(void) { return 7; } int other(void) { return 8; }")
        .flags(&["-O1", "-g"])
        .build_id(build_id)
        .build()
}

#[tokio::test]
async fn other_code_under_a_known_build_id_is_refused_with_the_difference() {
    let server = TestServer::start().await;
    let program = program();
    let id = program.build_id();
    answer(put(
        &server,
        &format!("/buildid/{id}/debuginfo"),
        bytes(program.debug_only()),
    ))
    .await;
    let other = impostor(&id);
    for kind in ["debuginfo", "executable"] {
        let (status, problem) = answer(put(
            &server,
            &format!("/buildid/{id}/{kind}"),
            other.bytes(),
        ))
        .await;
        assert_eq!(status, 409, "{problem}");
        assert!(
            !problem["difference"].as_str().unwrap().is_empty(),
            "{problem}"
        );
        assert!(
            problem["detail"].as_str().unwrap().contains(&id),
            "{problem}"
        );
    }
    assert_eq!(
        get(&server, &format!("/buildid/{id}/executable")).await.0,
        404
    );
    let state = state(&server, &id).await;
    assert_eq!(state["artifacts"].as_array().unwrap().len(), 1);
    assert_eq!(state["refusals"].as_array().unwrap().len(), 1, "{state}");
    let refusal = state["refusals"][0].as_str().unwrap();
    assert!(refusal.contains("127.0.0.1"), "{refusal}");
}

#[tokio::test]
async fn the_files_own_build_id_has_to_be_the_one_of_the_path() {
    let server = TestServer::start().await;
    let program = program();
    let id = program.build_id();
    let (status, problem) =
        answer(put(&server, "/buildid/abcdef/debuginfo", program.bytes())).await;
    assert_eq!(status, 422, "{problem}");
    let detail = problem["detail"].as_str().unwrap();
    assert!(
        detail.contains(&id) && detail.contains("abcdef"),
        "{detail}"
    );
    assert_eq!(
        (&problem["found"], &problem["expected"]),
        (&json!(id), &json!("abcdef"))
    );

    let nameless = Program::c(CODE).flags(&["-g"]).without_build_id().build();
    let (status, problem) =
        answer(put(&server, "/buildid/abcdef/debuginfo", nameless.bytes())).await;
    assert_eq!(
        (status, &problem["found"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("none"))
    );
}

#[tokio::test]
async fn files_of_no_use_are_refused_and_told_what_they_are() {
    let server = TestServer::start().await;
    let program = program();
    let id = program.build_id();
    let whole = program.bytes();
    for (body, words) in [
        (Vec::new(), "empty"),
        (vec![0; 100_000], "zero"),
        (
            b"<!DOCTYPE html><html><title>Sign in</title></html>".to_vec(),
            "HTML",
        ),
        (b"Not found\n".to_vec(), "text"),
        (vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3], "gzip"),
        (b"!<arch>\ndebian-binary   ".to_vec(), "ar archive"),
        (whole[..whole.len() / 2].to_vec(), "truncated"),
        (whole[..40].to_vec(), "truncated"),
    ] {
        for request in [
            put(&server, &format!("/buildid/{id}/debuginfo"), body.clone()),
            Client::new()
                .post(server.url("/artifacts"))
                .body(body.clone()),
        ] {
            let (status, problem) = answer(request).await;
            assert_eq!(status, 422, "{words}: {problem}");
            let detail = problem["detail"].as_str().unwrap().to_lowercase();
            assert!(detail.contains(&words.to_lowercase()), "{words}: {detail}");
        }
    }
    assert_eq!(
        get(&server, &format!("/build-ids/{id}")).await.0,
        404,
        "nothing was kept"
    );
}

#[tokio::test]
async fn broken_encodings_and_wrong_paths_are_told_apart_from_wrong_files() {
    let server = TestServer::start().await;
    let program = program();
    let path = format!("/buildid/{}/debuginfo", program.build_id());
    let coded = zstd::encode_all(&*program.bytes(), 3).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&program.bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    for (body, coding) in [
        (coded[..coded.len() - 9].to_vec(), "zstd"),
        (program.bytes(), "zstd"),
        (gzip[..gzip.len() - 9].to_vec(), "gzip"),
        (program.bytes(), "gzip"),
    ] {
        let (status, problem) =
            answer(put(&server, &path, body).header("content-encoding", coding)).await;
        assert_eq!(status, 400, "{coding}: {problem}");
    }
    let (status, _) =
        answer(put(&server, &path, program.bytes()).header("content-encoding", "br")).await;
    assert_eq!(status, 415);
    for path in [
        "/buildid/abc/debuginfo",
        "/buildid/xy/debuginfo",
        "/buildid/abcd/section",
    ] {
        let (status, problem) = answer(put(&server, path, program.bytes())).await;
        assert_eq!(status, 400, "{path}: {problem}");
        assert_eq!(problem["status"], 400);
    }
}

#[tokio::test]
async fn a_declared_size_beyond_the_limit_is_answered_before_the_body() {
    let server = TestServer::start_with(|config| config.limits.upload_bytes_max = 10_000).await;
    // No byte of the body is ever sent.
    let answer = server
        .raw(
            "PUT /buildid/abcd/debuginfo HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\
             Content-Length: 10001\r\n\r\n",
        )
        .await;
    assert_eq!(answer.status, 413, "{}", answer.text());
    assert!(answer.text().contains("10000"), "{}", answer.text());
}

#[tokio::test]
async fn the_limit_counts_decoded_bytes_and_bombs_are_cut_off() {
    let server = TestServer::start_with(|config| config.limits.upload_bytes_max = 1 << 20).await;
    let bomb = zstd::encode_all(std::io::repeat(0).take_bytes(200 << 20), 3).unwrap();
    assert!(bomb.len() < 1 << 20);
    for (body, coding) in [(bomb, "zstd"), (vec![7; (1 << 20) + 1], "identity")] {
        let pieces: Vec<Result<Vec<u8>, std::io::Error>> =
            body.chunks(1000).map(|piece| Ok(piece.to_vec())).collect();
        let chunked = reqwest::Body::wrap_stream(futures_util::stream::iter(pieces));
        let request = put(&server, "/buildid/abcd/debuginfo", Vec::new())
            .body(chunked)
            .header("content-encoding", coding);
        let (status, problem) = answer(request).await;
        assert_eq!(status, 413, "{coding}: {problem}");
    }
    let staging = server.data().join("staging");
    let left: usize = std::fs::read_dir(staging)
        .unwrap()
        .map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap().count())
        .sum();
    assert_eq!(left, 0, "refused uploads leave no files");
}

/// The first bytes of an endless reader.
trait TakeBytes: std::io::Read + Sized {
    fn take_bytes(self, bytes: u64) -> std::io::Take<Self> {
        std::io::Read::take(self, bytes)
    }
}

impl TakeBytes for std::io::Repeat {}

#[tokio::test]
async fn writes_need_the_token_where_there_is_one() {
    let token = unhex::config::WriteToken::new("s3cret").unwrap();
    let server = TestServer::start_with(|config| config.write_token = Some(token)).await;
    let program = program();
    let path = format!("/buildid/{}/debuginfo", program.build_id());
    let (status, _) = answer(put(&server, &path, program.bytes())).await;
    assert_eq!(status, 401);
    let request = put(&server, &path, program.bytes()).basic_auth("ci", Some("s3cret"));
    assert_eq!(answer(request).await.0, 201);
    let delete = Client::new().delete(server.url(&format!("/build-ids/{}", program.build_id())));
    assert_eq!(delete.send().await.unwrap().status(), 401);
    let state = state(&server, &program.build_id()).await;
    assert_eq!(state["artifacts"][0]["who"], "ci");
}
