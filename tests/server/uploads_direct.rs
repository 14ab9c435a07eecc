//! Uploads that go into the bucket past the server: by presigned URLs, read back and verified.

use std::time::Duration;

use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use unhex::artifacts::ContentHash;
use unhex::config::S3Config;
use unhex_testkit::fault_proxy::{Fault, FaultProxy, Seen};
use unhex_testkit::s3_server::S3Server;

use crate::artifacts_backends::bucket_config;
use crate::calls::{answer, bytes, get, program, state};
use crate::queues::{begin_upload, until_counted};
use crate::server::{DEADLINE, TestServer};

/// Two servers over one empty bucket; `None` when what that needs is missing.
async fn replicas() -> Option<(S3Config, TestServer, TestServer)> {
    let s3 = S3Server::shared()?;
    let config = bucket_config(&s3.bucket(), s3.endpoint());
    let one = server_over(&config).await;
    let other = server_over(&config).await;
    Some((config, one, other))
}

async fn server_over(config: &S3Config) -> TestServer {
    TestServer::start_with(|settings| settings.s3 = Some(config.clone())).await
}

fn question(id: &str, file: &[u8]) -> Value {
    json!({
        "build_id": id, "kind": "debuginfo", "size_bytes": file.len(), "file_name": "a/program",
        "sha256": ContentHash::of(file).to_string(),
    })
}

/// A file that is needed: where it goes, and the path that completes it.
async fn needed(server: &TestServer, question: &Value) -> (String, String) {
    let (status, plan) = answer(Client::new().post(server.url("/uploads")).json(question)).await;
    assert_eq!(
        (status, &plan["decision"]),
        (StatusCode::OK, &json!("needed")),
        "{plan}"
    );
    let upload_id = plan["upload_id"].as_str().unwrap();
    let url = plan["url"].as_str().unwrap().to_owned();
    (url, format!("/uploads/{upload_id}/complete"))
}

async fn complete(server: &TestServer, path: &str) -> (StatusCode, Value) {
    answer(Client::new().post(server.url(path))).await
}

async fn put_to_bucket(url: &str, body: Vec<u8>, encoding: Option<&str>) {
    let length = body.len();
    let mut request = Client::new().put(url).body(body);
    request = request.header("content-length", length);
    if let Some(encoding) = encoding {
        request = request.header("content-encoding", encoding);
    }
    let stored = request.send().await.unwrap();
    assert_eq!(stored.status(), 200, "{}", stored.text().await.unwrap());
}

#[tokio::test]
async fn a_file_that_was_put_into_the_bucket_is_taken_in_by_any_server() {
    let Some((_, one, other)) = replicas().await else {
        return;
    };
    let program = program();
    let (id, file) = (program.build_id(), program.bytes());
    let (url, path) = needed(&one, &question(&id, &file)).await;
    assert!(url.contains("X-Amz-Signature="), "{url}");
    let (status, problem) = complete(&other, &path).await;
    assert_eq!(status, 409, "{problem}");

    put_to_bucket(&url, file.clone(), None).await;
    assert_eq!(
        get(&one, &format!("/buildid/{id}/debuginfo")).await.0,
        404,
        "nothing is known of it before it was verified"
    );
    let (status, said) = complete(&other, &path).await;
    assert_eq!(status, StatusCode::OK, "{said}");
    assert_eq!(
        (&said["build_id"], &said["changed"]),
        (&json!(id), &json!(true))
    );
    assert_eq!(
        get(&other, &format!("/buildid/{id}/debuginfo")).await,
        (StatusCode::OK, file.clone())
    );
    assert_eq!(
        state(&other, &id).await["artifacts"][0]["file_name"],
        "program"
    );

    // Whoever missed the answer asks again, and whoever asks first hears that it is there.
    let (status, said) = complete(&one, &path).await;
    assert_eq!(
        (status, &said["build_id"]),
        (StatusCode::OK, &json!(id)),
        "{said}"
    );
    let again = Client::new().post(one.url("/uploads"));
    let (_, plan) = answer(again.json(&question(&id, &file))).await;
    assert_eq!(plan["decision"], "not_needed", "{plan}");
}

#[tokio::test]
async fn the_coding_of_the_put_is_undone() {
    let Some((_, server, _)) = replicas().await else {
        return;
    };
    let program = program();
    let (id, file) = (program.build_id(), bytes(program.debug_only()));
    let (url, path) = needed(&server, &question(&id, &file)).await;
    put_to_bucket(&url, zstd::encode_all(&*file, 3).unwrap(), Some("zstd")).await;
    let (status, said) = complete(&server, &path).await;
    assert_eq!(status, StatusCode::OK, "{said}");
    let got = get(&server, &format!("/buildid/{id}/debuginfo")).await;
    assert_eq!(got, (StatusCode::OK, file));
}

#[tokio::test]
async fn what_was_not_offered_is_refused_and_what_was_can_still_be_sent() {
    let Some((_, server, _)) = replicas().await else {
        return;
    };
    let program = program();
    let (id, file) = (program.build_id(), program.bytes());
    let (url, path) = needed(&server, &question(&id, &file)).await;
    let wrong = [
        (Vec::new(), None, 422, "SHA-256"),
        (file[..file.len() / 2].to_vec(), None, 422, "SHA-256"),
        (file.clone(), Some("zstd"), 400, "Content-Encoding"),
        (file.clone(), Some("br"), 400, "neither gzip nor zstd"),
    ];
    for (body, encoding, expected, words) in wrong {
        put_to_bucket(&url, body, encoding).await;
        let (status, problem) = complete(&server, &path).await;
        assert_eq!(status, expected, "{problem}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(words), "{detail}");
        assert_eq!(
            get(&server, &format!("/buildid/{id}/debuginfo")).await.0,
            404
        );
    }
    put_to_bucket(&url, file.clone(), None).await;
    let (status, said) = complete(&server, &path).await;
    assert_eq!(status, StatusCode::OK, "{said}");

    // A file of another build ID is what was offered, and is refused all the same.
    let (url, path) = needed(&server, &question("abcd", &file)).await;
    put_to_bucket(&url, file, None).await;
    let (status, problem) = complete(&server, &path).await;
    assert_eq!(status, 422, "{problem}");
    assert_eq!(problem["found"], json!(id), "{problem}");
}

#[tokio::test]
async fn an_upload_that_the_server_does_not_bear_is_not_read() {
    let Some(s3) = S3Server::shared() else {
        return;
    };
    let config = bucket_config(&s3.bucket(), s3.endpoint());
    let server = TestServer::start_with(|settings| {
        settings.s3 = Some(config);
        settings.limits.upload_bytes_max = 1 << 20;
    });
    let server = server.await;
    let (url, path) = needed(&server, &question("abcd", b"small")).await;
    put_to_bucket(&url, vec![7; 2 << 20], None).await;
    let (status, problem) = complete(&server, &path).await;
    assert_eq!(status, 413, "{problem}");
    // Nor what becomes too large only when it is unpacked.
    let bomb = zstd::encode_all(&*vec![0; 64 << 20], 3).unwrap();
    put_to_bucket(&url, bomb, Some("zstd")).await;
    let (status, problem) = complete(&server, &path).await;
    assert_eq!(status, 413, "{problem}");
}

#[tokio::test]
async fn whoever_cannot_reach_the_bucket_brings_the_file_to_the_server() {
    let Some((config, server, _)) = replicas().await else {
        return;
    };
    let file = program().bytes();
    let mut asked = question("abcd", &file);
    asked["direct"] = json!(false);
    let (url, _) = needed(&server, &asked).await;
    assert_eq!(url, "/buildid/abcd/debuginfo");
    let silent = S3Config {
        direct_uploads: Some(false),
        ..config
    };
    let server = server_over(&silent).await;
    let (url, _) = needed(&server, &question("abcd", &file)).await;
    assert_eq!(url, "/buildid/abcd/debuginfo");
}

/// A server that bears one upload at a time, whose own requests to the bucket pass a proxy; `None`
/// when what that needs is missing.
async fn of_one_upload() -> Option<(FaultProxy, TestServer)> {
    let s3 = S3Server::shared()?;
    let proxy = FaultProxy::before(s3.endpoint());
    let mut config = bucket_config(&s3.bucket(), &proxy.url());
    config.direct_endpoint = Some(s3.endpoint().to_owned());
    config.patience.answer = Duration::from_secs(4);
    let server = TestServer::start_with(|settings| {
        settings.s3 = Some(config);
        settings.limits.uploads_max = 1;
        settings.limits.upload_queue_seconds_max = Duration::from_millis(200);
    });
    Some((proxy, server.await))
}

/// Whether a request is the first of those that read back what was put.
fn looks_at(seen: &Seen) -> bool {
    seen.method == "GET" && seen.header("range") == Some("bytes=0-0")
}

fn reads_back(seen: &Seen) -> bool {
    let is_ranged = seen.header("range").is_some() && !looks_at(seen);
    is_ranged && seen.path.contains("/uploads/")
}

fn count(proxy: &FaultProxy, wanted: fn(&Seen) -> bool) -> usize {
    proxy.seen().iter().filter(|seen| wanted(seen)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_read_back_is_read_once_for_all_who_ask_and_goes_on_when_they_leave() {
    let Some((proxy, server)) = of_one_upload().await else {
        return;
    };
    let program = program();
    let (id, file) = (program.build_id(), program.bytes());
    let (url, path) = needed(&server, &question(&id, &file)).await;
    put_to_bucket(&url, file, None).await;
    proxy.fail_where(1, Fault::Hang, reads_back);
    let asking = Client::new().post(server.url(&path)).send();
    let first = tokio::spawn(asking);
    let end = tokio::time::Instant::now() + DEADLINE;
    while count(&proxy, reads_back) == 0 {
        assert!(tokio::time::Instant::now() < end, "nothing is read back");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    until_counted(&server, r#"unhex_queue_used_ratio{class="upload"} 1"#).await;
    first.abort();
    let (status, said) = complete(&server, &path).await;
    assert_eq!(status, StatusCode::OK, "{said}");
    assert_eq!(said["changed"], json!(true), "the same work: {said}");
    assert_eq!(count(&proxy, looks_at), 1, "it began once");
    let (status, said) = complete(&server, &path).await;
    assert_eq!((status, &said["build_id"]), (StatusCode::OK, &json!(id)));
    assert_eq!(count(&proxy, looks_at), 1, "it is known by now");
    until_counted(&server, r#"unhex_queue_used_ratio{class="upload"} 0"#).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_put_into_the_bucket_takes_its_turn_among_the_uploads() {
    let Some((proxy, server)) = of_one_upload().await else {
        return;
    };
    let program = program();
    let (id, file) = (program.build_id(), program.bytes());
    let (url, path) = needed(&server, &question(&id, &file)).await;
    put_to_bucket(&url, file, None).await;
    let other = begin_upload(&server, "").await;
    until_counted(&server, r#"unhex_queue_used_ratio{class="upload"} 1"#).await;
    let (status, problem) = complete(&server, &path).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{problem}");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("uploads_max"), "{detail}");
    assert_eq!(count(&proxy, looks_at), 0, "nothing is read before");
    drop(other);
    until_counted(&server, r#"unhex_queue_used_ratio{class="upload"} 0"#).await;
    let (status, said) = complete(&server, &path).await;
    assert_eq!(status, StatusCode::OK, "{said}");
}
