//! The HTTP client against a server that is busy, lies, hangs or goes away.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that meets the unexpected has failed"
)]

mod scripted_server;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use scripted_server::{Step, answer, serve};
use unhex_api::artifacts::{ArtifactKind, UploadPlan, UploadQuestion};
use unhex_api::client::{
    BodyProgress, Client, ClientError, ClientOptions, Encoding, FileBody, Place, ProgressFn,
    RetryPolicy, Token,
};
use unhex_api::observe::ObserveRequest;

const UPLOADED: &str =
    r#"{"build_id":"ab","kinds":["debuginfo"],"quality":"symtab","changed":true,"index":"ready"}"#;

fn client(url: &str) -> Client {
    let options = ClientOptions {
        server: url.to_owned(),
        token: Some(Token::new("s3cret").unwrap()),
        retries: RetryPolicy {
            attempts_max: 3,
            wait_first: Duration::from_millis(10),
            wait_max: Duration::from_millis(20),
        },
        stall_timeout: Duration::from_millis(700),
        ..ClientOptions::default()
    };
    Client::new(options).unwrap()
}

fn question() -> UploadQuestion {
    UploadQuestion {
        build_id: "ab".to_owned(),
        kind: ArtifactKind::Debuginfo,
        sha256: "00".repeat(32),
        size_bytes: 3,
        file_name: None,
        direct: true,
    }
}

fn place() -> Place {
    Place {
        url: "/buildid/ab/debuginfo".to_owned(),
        complete: None,
        file_name: Some("prögram.debug".to_owned()),
    }
}

fn file_of(bytes: &[u8], encoding: Encoding) -> (tempfile::TempDir, FileBody) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, bytes).unwrap();
    let body = FileBody {
        path,
        size_bytes: bytes.len() as u64,
        encoding,
    };
    (folder, body)
}

fn quiet() -> ProgressFn {
    Arc::new(|_| {})
}

#[tokio::test]
async fn a_busy_server_is_asked_again() {
    let plan = r#"{"decision":"needed","upload_id":"1","url":"/x","complete":false}"#;
    let busy = || answer("503 Service Unavailable", "retry-after: 0\r\n", "");
    let steps = vec![busy(), Step::HangUp, answer("200 OK", "", plan)];
    let (url, requests) = serve(steps);
    let plan = client(&url).ask(&question()).await.unwrap();
    assert!(matches!(plan, UploadPlan::Needed { .. }), "{plan:?}");
    let all: Vec<_> = requests.iter().collect();
    assert_eq!(all.len(), 3);
    assert!(
        all.iter()
            .all(|request| request.head.starts_with("POST /uploads HTTP/1.1"))
    );
    assert_eq!(all[0].header("authorization"), Some("Bearer s3cret"));
    assert_eq!(all[0].body, all[2].body);
}

#[tokio::test]
async fn an_answer_beyond_the_limit_is_not_taken() {
    let nothing = r#"{"modules":[]}"#;
    let request: ObserveRequest = serde_json::from_str(nothing).unwrap();
    let limited = |url: &str, answer_bytes_max| {
        Client::new(ClientOptions {
            server: url.to_owned(),
            answer_bytes_max,
            ..ClientOptions::default()
        })
        .unwrap()
    };
    let (url, _requests) = serve(vec![answer("200 OK", "", nothing)]);
    let whole = limited(&url, nothing.len());
    whole.observe(&request).await.unwrap();
    let (url, _requests) = serve(vec![answer("200 OK", "", nothing)]);
    let short = limited(&url, nothing.len() - 1);
    let error = short.observe(&request).await.unwrap_err();
    assert!(error.to_string().contains("more than 13 bytes"), "{error}");
}

#[tokio::test]
async fn a_mistake_of_the_server_is_asked_again_but_never_counted_twice() {
    let failed = || answer("500 Internal Server Error", "", "");
    let nothing = || answer("200 OK", "", r#"{"modules":[]}"#);
    let request = |profile_id: Option<&str>| ObserveRequest {
        profile_id: profile_id.map(str::to_owned),
        ..serde_json::from_str(r#"{"modules":[]}"#).unwrap()
    };
    let (url, requests) = serve(vec![failed(), nothing()]);
    client(&url).observe(&request(Some("p1"))).await.unwrap();
    assert_eq!(requests.iter().count(), 2);
    let (url, _requests) = serve(vec![failed(), nothing()]);
    let error = client(&url).observe(&request(None)).await.unwrap_err();
    assert!(
        matches!(error, ClientError::Busy { status: 500, .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_server_that_stays_busy_is_given_up_with_its_words() {
    let busy = || {
        answer(
            "503 Service Unavailable",
            "",
            r#"{"title":"x","detail":"disk full"}"#,
        )
    };
    let (url, _requests) = serve(vec![busy(), busy(), busy()]);
    let error = client(&url).ask(&question()).await.unwrap_err();
    let words = "the server is not able to do it now (503, attempts: 3): disk full";
    assert_eq!(error.to_string(), words);
}

#[tokio::test]
async fn a_refusal_is_not_repeated_and_says_why() {
    let refusal = r#"{"type":"about:blank","title":"Conflict","status":409,"detail":"other code"}"#;
    let (url, _requests) = serve(vec![answer("409 Conflict", "", refusal)]);
    let error = client(&url).ask(&question()).await.unwrap_err();
    assert!(matches!(error, ClientError::Refused { .. }), "{error:?}");
    assert_eq!(error.to_string(), "refused (409): other code");
}

#[tokio::test]
async fn a_missing_token_is_explained() {
    let (url, _requests) = serve(vec![answer("401 Unauthorized", "", "no token\n")]);
    let error = client(&url).ask(&question()).await.unwrap_err().to_string();
    assert!(
        error.contains("no token; give its write token by --token-file"),
        "{error}"
    );
}

#[tokio::test]
async fn nobody_at_the_address_is_said_with_the_address() {
    let (url, _requests) = serve(Vec::new());
    let error = client(&url).ask(&question()).await.unwrap_err();
    let ClientError::Unreachable {
        server, attempts, ..
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!((server, attempts), (&url, &3));
    assert!(error.to_string().contains("is it running"), "{error}");
}

#[tokio::test]
async fn another_kind_of_server_is_told_from_ours() {
    let page = answer(
        "200 OK",
        "content-type: text/html\r\n",
        "<html>hello</html>",
    );
    let moved = answer("301 Moved Permanently", "location: https://other/\r\n", "");
    let (url, _requests) = serve(vec![page, moved]);
    let error = client(&url).ask(&question()).await.unwrap_err().to_string();
    assert!(
        error.contains("something else than an Unhex server"),
        "{error}"
    );
    let error = client(&url).ask(&question()).await.unwrap_err().to_string();
    assert!(
        error.contains("301 Moved Permanently to https://other/; give that address"),
        "{error}"
    );
}

#[tokio::test]
async fn what_is_unknown_is_none_and_no_error() {
    let problem = "content-type: application/problem+json\r\n";
    let ours = answer("404 Not Found", problem, "{}");
    let proxy = || answer("404 Not Found", "content-type: text/html\r\n", "<html>");
    let (url, _requests) = serve(vec![ours, proxy(), proxy()]);
    assert_eq!(client(&url).build_id_state("ab").await.unwrap(), None);
    let error = client(&url).build_id_state("ab").await.unwrap_err();
    assert!(matches!(error, ClientError::Answer { .. }), "{error}");
    let error = client(&url).ask(&question()).await.unwrap_err();
    assert!(matches!(error, ClientError::Answer { .. }), "{error}");
}

#[tokio::test]
async fn an_upload_is_sent_again_from_its_start() {
    let bytes: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let (_folder, body) = file_of(&bytes, Encoding::Identity);
    let steps = vec![
        answer("502 Bad Gateway", "", ""),
        answer("201 Created", "", UPLOADED),
    ];
    let (url, requests) = serve(steps);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let progress: ProgressFn = {
        let seen = seen.clone();
        Arc::new(move |progress| seen.lock().unwrap().push(progress))
    };
    let sent = client(&url).send(&place(), &body, &progress).await.unwrap();
    assert!(sent.answer.changed);
    assert_eq!(sent.wire_bytes, 8_000_000);
    let all: Vec<_> = requests.iter().collect();
    assert!(all.iter().all(|request| request.body == bytes));
    assert_eq!(all[1].header("content-length"), Some("4000000"));
    assert_eq!(all[1].header("x-file-name"), Some("pr%C3%B6gram.debug"));
    let seen = seen.lock().unwrap();
    let starts = seen
        .iter()
        .filter(|progress| **progress == BodyProgress::Started)
        .count();
    let taken: u64 = seen
        .iter()
        .map(|progress| match progress {
            BodyProgress::Started => 0,
            BodyProgress::Taken(bytes) => *bytes,
        })
        .sum();
    assert_eq!((starts, taken), (2, 8_000_000));
}

#[tokio::test]
async fn an_upload_is_compressed_on_its_way() {
    let bytes = b"the same words again and again; ".repeat(10_000);
    let (_folder, body) = file_of(&bytes, Encoding::Zstd);
    let (url, requests) = serve(vec![answer("200 OK", "", UPLOADED)]);
    let sent = client(&url).send(&place(), &body, &quiet()).await.unwrap();
    let request = requests.recv().unwrap();
    assert_eq!(request.header("content-encoding"), Some("zstd"));
    assert_eq!(zstd::decode_all(&request.body[..]).unwrap(), bytes);
    assert_eq!(sent.wire_bytes, request.body.len() as u64);
    assert!(sent.wire_bytes < 10_000, "{}", sent.wire_bytes);
}

#[tokio::test]
async fn an_upload_that_stands_still_is_given_up() {
    let (_folder, body) = file_of(&vec![0; 32 << 20], Encoding::Identity);
    let (url, _requests) = serve(vec![Step::Stall, Step::Stall, Step::Stall]);
    let error = client(&url)
        .send(&place(), &body, &quiet())
        .await
        .unwrap_err();
    assert!(
        matches!(error, ClientError::Stalled { attempts: 3, .. }),
        "{error}"
    );
}

#[tokio::test]
async fn a_file_that_is_gone_is_named_and_nothing_is_repeated() {
    let (folder, body) = file_of(b"abc", Encoding::Identity);
    drop(folder);
    let (url, _requests) = serve(Vec::new());
    let error = client(&url)
        .send(&place(), &body, &quiet())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("file: No such file"), "{error}");
}
