//! `POST /symbolize` and `POST /observe` as profiles that arrive, and what `/metrics` says of them.

use std::io::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use unhex_testkit::fixture::Program;

use crate::server::TestServer;

async fn post(server: &TestServer, path: &str, body: &Value) -> (u16, Value) {
    let request = reqwest::Client::new().post(server.url(path));
    let response = request.body(body.to_string()).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

async fn metrics(server: &TestServer) -> String {
    server.get_raw("/metrics").await.text().to_owned()
}

fn has_line(text: &str, line: &str) -> bool {
    text.lines().any(|found| found == line)
}

const CHECKOUT: &str = r#"deployment="prod",service="checkout",version="2.4""#;

#[tokio::test(flavor = "multi_thread")]
async fn a_symbolized_profile_is_counted_by_its_labels_and_weights() {
    let server = TestServer::start().await;
    let mut body = json!({
        "labels": {"service": "checkout", "version": "2.4", "deployment": "prod"},
        "modules": [
            {"build_id": "ab01", "addresses": [1, 2], "weights": [40, 2]},
            {"build_id": "cd01", "name": "[vdso]", "addresses": [1]},
            {"build_id": "no hex", "addresses": [1]},
        ],
    });
    assert_eq!(post(&server, "/symbolize", &body).await.0, 200);
    body["observe"] = json!(false);
    assert_eq!(post(&server, "/symbolize", &body).await.0, 200);
    let text = metrics(&server).await;
    let frames = |outcome: &str| {
        format!(
            r#"unhex_frames_total{{deployment="prod",outcome="{outcome}",service="checkout",version="2.4"}}"#
        )
    };
    for line in [
        format!("unhex_profiles_total{{{CHECKOUT}}} 1"),
        format!("unhex_profiles_unknown_build_id_total{{{CHECKOUT}}} 1"),
        format!("unhex_unknown_build_ids{{{CHECKOUT}}} 0"),
        format!("{} 42", frames("unknown_build_id")),
        format!("{} 1", frames("ignored")),
        format!("{} 1", frames("unavailable")),
        "unhex_ledger_build_ids 1".to_owned(),
    ] {
        assert!(has_line(&text, &line), "{line} in {text}");
    }
    assert!(!text.contains("ab01"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_observed_profile_is_counted_and_answered_module_by_module() {
    let server = TestServer::start().await;
    let body = json!({
        "profile_id": "p1",
        "modules": [
            {"build_id": "AB01", "name": "checkout", "weight": 7},
            {"build_id": "xyz"},
            {"build_id": "some/go/id", "id_kind": "go"},
        ],
    });
    let (status, answer) = post(&server, "/observe", &body).await;
    assert_eq!(status, 200, "{answer}");
    insta::assert_json_snapshot!(answer, @r#"
    {
      "modules": [
        {
          "build_id": "ab01",
          "status": "unknown_build_id"
        },
        {
          "build_id": "xyz",
          "detail": "a build ID has only hex digits, this one has 'x'",
          "status": "malformed"
        },
        {
          "build_id": "some/go/id",
          "status": "unknown_build_id"
        }
      ]
    }
    "#);
    post(&server, "/observe", &body).await;
    let text = metrics(&server).await;
    let labels = r#"deployment="unlabelled",service="unlabelled",version="unlabelled""#;
    for line in [
        format!("unhex_profiles_total{{{labels}}} 1"),
        format!("unhex_profiles_unknown_build_id_total{{{labels}}} 1"),
    ] {
        assert!(has_line(&text, &line), "{line} in {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_observed_profile_may_be_compressed_within_the_limit_of_what_is_in_it() {
    let server = TestServer::start_with(|config| config.limits.json_body_bytes_max = 1_000).await;
    let post = async |path: &str, encoding: &str, body: Vec<u8>| {
        let request = reqwest::Client::new().post(server.url(path)).body(body);
        let answer = request.header("content-encoding", encoding).send().await;
        answer.unwrap().status().as_u16()
    };
    let gzip = |body: &str| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(body.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = |body: &str| zstd::encode_all(body.as_bytes(), 1).unwrap();
    let profile = r#"{"modules": [{"build_id": "ab01"}]}"#;
    let question = format!(
        r#"{{"build_id": "ab01", "kind": "debuginfo", "sha256": "{}", "size_bytes": 3}}"#,
        "00".repeat(32)
    );
    for (path, body) in [("/observe", profile), ("/uploads", question.as_str())] {
        assert_eq!(post(path, "gzip", gzip(body)).await, 200, "{path}");
        assert_eq!(post(path, "zstd", zstd(body)).await, 200, "{path}");
        assert_eq!(post(path, "br", body.into()).await, 415, "{path}");
        assert_eq!(post(path, "gzip", body.into()).await, 400, "{path}");
        let bomb = format!("{body}{}", " ".repeat(1_000));
        assert_eq!(post(path, "gzip", gzip(&bomb)).await, 413, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_an_observed_profile_is_said() {
    let server = TestServer::start_with(|config| config.limits.symbolize_modules_max = 1).await;
    let module = json!({"build_id": "ab01"});
    for (body, status, words) in [
        (json!({}), 400, "missing field `modules`"),
        (
            json!({"modules": [], "lables": {}}),
            400,
            "unknown field `lables`",
        ),
        (
            json!({"modules": [module, module]}),
            413,
            "symbolize_modules_max, 1",
        ),
    ] {
        let (found, problem) = post(&server, "/observe", &body).await;
        assert_eq!(found, status, "{problem}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(words), "{detail}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_that_would_break_a_line_are_cleaned() {
    let server = TestServer::start().await;
    let body = json!({"labels": {"service": "a\n\"b\\"}, "modules": []});
    post(&server, "/observe", &body).await;
    let text = metrics(&server).await;
    assert!(text.contains(r#"service="a\"b\\""#), "{text}");
}

async fn get(server: &TestServer, path: &str) -> (u16, Value) {
    let response = reqwest::get(server.url(path)).await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

/// Sends a profile of a service with one unknown build ID.
async fn arrive(server: &TestServer, service: &str, build_id: &str) {
    let body = json!({
        "labels": {"service": service, "version": "2.4", "deployment": "prod"},
        "modules": [{"build_id": build_id, "name": "lib.so", "weight": 3}],
    });
    assert_eq!(post(server, "/observe", &body).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_unknown_build_ids_says_whose_they_are_and_what_would_mend_them() {
    let server = TestServer::start().await;
    arrive(&server, "checkout", "ab01").await;
    let (status, mut list) = get(&server, "/build-ids?status=unknown").await;
    assert_eq!(status, 200, "{list}");
    let one = &mut list["build_ids"][0];
    for time in ["first_seen", "last_seen"] {
        assert!(one[time].as_str().unwrap().ends_with('Z'), "{one}");
        one[time] = json!("a time");
        one["seen_by"][0][time] = json!("a time");
    }
    let expected = json!({"build_ids": [{
        "build_id": "ab01",
        "id_kind": "gnu",
        "name": "lib.so",
        "status": "unknown_build_id",
        "detail": "nothing is stored of it: upload the debug file of lib.so, or lib.so unstripped, with `unhex upload PATH`",
        "mended_by": ["debuginfo"],
        "alerting": false,
        "first_seen": "a time",
        "last_seen": "a time",
        "profiles": 1,
        "addresses": 0,
        "weight": 3,
        "seen_by": [{
            "service": "checkout",
            "version": "2.4",
            "deployment": "prod",
            "first_seen": "a time",
            "last_seen": "a time",
            "profiles": 1,
            "share": 1.0,
            "alerting": false,
        }],
    }]});
    assert_eq!(list, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_is_filtered_and_paged_without_gap() {
    let server = TestServer::start().await;
    for id in ["ab01", "ab02", "ab03", "ab04", "ab05"] {
        arrive(&server, if id == "ab03" { "cart" } else { "checkout" }, id).await;
    }
    let mut seen = Vec::new();
    let mut after = String::new();
    loop {
        let path = format!("/build-ids?status=unknown&service=checkout&limit=2{after}");
        let (_, page) = get(&server, &path).await;
        for one in page["build_ids"].as_array().unwrap() {
            seen.push(one["build_id"].as_str().unwrap().to_owned());
        }
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen, ["ab01", "ab02", "ab04", "ab05"]);
    let (_, none) = get(&server, "/build-ids?status=unknown&version=9").await;
    assert_eq!(none, json!({"build_ids": []}));
    for (query, words) in [
        ("service=checkout", "service needs status=unknown"),
        ("status=known", "unknown variant `known`"),
        (
            "status=ignored&service=checkout",
            "service needs status=unknown",
        ),
        ("status=ignored&limit=1001", "limit has to be"),
        ("status=unknown&limit=0", "limit has to be"),
        ("status=unknown&build_id=xyz", "hex digits"),
        ("status=unknown&after=elf:ab", "no kind of identity"),
    ] {
        let (status, problem) = get(&server, &format!("/build-ids?{query}")).await;
        assert_eq!(status, 400, "{problem}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(words), "{detail}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ignoring_a_build_id_needs_the_token_and_a_reason() {
    let token = unhex::config::WriteToken::new("s3cret").unwrap();
    let server = TestServer::start_with(|config| config.write_token = Some(token)).await;
    arrive(&server, "checkout", "ab01").await;
    let url = server.url("/build-ids/ab01/ignored");
    let client = reqwest::Client::new();
    let put = |reason: &str| {
        let body = json!({"reason": reason}).to_string();
        client
            .put(&url)
            .body(body)
            .basic_auth("ada", Some("s3cret"))
    };
    let bare = client
        .put(&url)
        .body(r#"{"reason":"x"}"#)
        .send()
        .await
        .unwrap();
    assert_eq!(bare.status(), 401);
    assert_eq!(put(" ").send().await.unwrap().status(), 400);
    let answer = put("no symbols from the vendor").send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let (_, list) = get(&server, "/build-ids?status=unknown").await;
    assert_eq!(list, json!({"build_ids": []}));
    let (_, one) = get(&server, "/build-ids?status=unknown&build_id=AB01").await;
    let ignored = &one["build_ids"][0]["ignored"];
    assert_eq!(ignored["reason"], "no symbols from the vendor", "{one}");
    assert_eq!(ignored["who"], "ada");
    let (_, list) = get(&server, "/build-ids?status=ignored&limit=1").await;
    let one = &list["build_ids"][0];
    assert_eq!(
        (&one["build_id"], &one["name"]),
        (&json!("ab01"), &json!("lib.so")),
        "{list}"
    );
    assert_eq!(
        one["ignored"]["reason"], "no symbols from the vendor",
        "{list}"
    );
    assert_eq!(one["ignored"]["who"], "ada", "{list}");
    assert!(
        one["ignored"]["at"].as_str().unwrap().ends_with('Z'),
        "{list}"
    );
    let rest = format!(
        "/build-ids?status=ignored&after={}",
        list["next"].as_str().unwrap()
    );
    assert_eq!(get(&server, &rest).await.1, json!({"build_ids": []}));
    let delete = || client.delete(&url).bearer_auth("s3cret").send();
    assert_eq!(delete().await.unwrap().status(), 204);
    assert_eq!(delete().await.unwrap().status(), 404);
    let (_, list) = get(&server, "/build-ids?status=unknown").await;
    assert_eq!(list["build_ids"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_to_one_replica_empties_the_list_of_another() {
    let intervals = |config: &mut unhex::config::Config| {
        config.signal.write_every = Duration::from_millis(100);
        config.signal.check_every = Duration::from_millis(100);
    };
    let one = TestServer::start_with(intervals).await;
    let folder = one.data().to_owned();
    let other = TestServer::start_in(TempDir::new().unwrap(), |config| {
        intervals(config);
        config.data = folder;
    })
    .await;
    let program = Program::c("int main(void) { return 7; }")
        .flags(&["-g"])
        .build();
    let build_id = program.build_id();
    arrive(&one, "checkout", &build_id).await;
    let is_listed = async |server: &TestServer| {
        let (_, list) = get(server, "/build-ids?status=unknown").await;
        list.to_string().contains(&build_id)
    };
    until("the other replica to know", async || {
        is_listed(&other).await
    })
    .await;
    let url = other.url(&format!("/buildid/{build_id}/debuginfo"));
    let upload = reqwest::Client::new()
        .put(url)
        .body(std::fs::read(program.path()).unwrap());
    assert!(upload.send().await.unwrap().status().is_success());
    until("the first replica to have seen it", async || {
        !is_listed(&one).await
    })
    .await;
    until("the second replica too", async || !is_listed(&other).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_mends_what_came_under_another_identity() {
    let server = TestServer::start_with(|config| {
        config.signal.write_every = Duration::from_millis(100);
        config.signal.check_every = Duration::from_millis(100);
    })
    .await;
    let program = Program::c("int main(void) { return 8; }")
        .flags(&["-g"])
        .build();
    let bytes = std::fs::read(program.path()).unwrap();
    let hash = unhex_build_id::FileHash::of(&bytes).to_string();
    let body = json!({"modules": [{"build_id": hash, "id_kind": "htlhash", "name": "main"}]});
    assert_eq!(post(&server, "/observe", &body).await.0, 200);
    let is_listed = async || {
        let (_, list) = get(&server, "/build-ids?status=unknown").await;
        list.to_string().contains(&hash)
    };
    assert!(is_listed().await);
    let url = server.url(&format!("/buildid/{}/executable", program.build_id()));
    let upload = reqwest::Client::new().put(url).body(bytes).send();
    assert!(upload.await.unwrap().status().is_success());
    until("it to be mended", async || !is_listed().await).await;
}

/// Asks again and again until the answer is yes.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let end = tokio::time::Instant::now() + Duration::from_mins(1);
    while !is_so().await {
        assert!(
            tokio::time::Instant::now() < end,
            "waited in vain for {what}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
