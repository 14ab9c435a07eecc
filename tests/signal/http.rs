//! `POST /symbolize` and `POST /observe` as profiles that arrive, and what `/metrics` says of them.

use serde_json::{Value, json};

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
