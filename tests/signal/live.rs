//! The whole way, with the real Prometheus and Alertmanager: a profile without symbols, a webhook, an upload, a webhook.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use unhex_testkit::alerting::{Running, WebhookReceiver};
use unhex_testkit::fixture::Program;
use unhex_testkit::server::{Home, Server};
use unhex_testkit::{http, repository, run, tools};

const PROGRAM: &str = env!("CARGO_BIN_EXE_unhex");

/// Some seconds on an idle machine.
const DEADLINE: Duration = Duration::from_mins(3);

/// Short intervals, so that the test is.
const SERVE: &[&str] = &[
    "--unknown-grace",
    "2s",
    "--ledger-write-seconds",
    "1s",
    "--ledger-check-seconds",
    "1s",
];

fn prometheus_yml(server: &Server, alertmanager: &Running) -> String {
    let rules = repository::root().join("deploy/prometheus/alerts.yml");
    let target = server.url("").replace("http://", "");
    json!({
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [rules],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager.address()]}]}]},
        "scrape_configs": [{"job_name": "unhex", "static_configs": [{"targets": [target]}]}],
    })
    .to_string()
}

fn alertmanager_yml(receiver: &WebhookReceiver) -> String {
    json!({
        "route": {
            "receiver": "test",
            "group_by": ["alertname", "service", "version", "deployment"],
            "group_wait": "0s",
            "group_interval": "1s",
            "repeat_interval": "1h",
        },
        "receivers": [{
            "name": "test",
            "webhook_configs": [{"url": receiver.url(), "send_resolved": true}],
        }],
    })
    .to_string()
}

/// The alerts of that status in all webhooks so far.
fn alerts(receiver: &WebhookReceiver, status: &str) -> Vec<Value> {
    let bodies = receiver.bodies();
    let documents = bodies
        .iter()
        .map(|body| serde_json::from_str::<Value>(body).unwrap());
    documents
        .flat_map(|document| document["alerts"].as_array().cloned().unwrap_or_default())
        .filter(|alert| alert["status"] == status)
        .collect()
}

fn status(server: &Server, arguments: &[&str]) -> run::Finished {
    run::finish(
        Command::new(PROGRAM)
            .arg("status")
            .args(arguments)
            .args(["--server", &server.url("")]),
    )
}

fn gauge(server: &Server) -> Option<String> {
    let metrics = http::get(&server.url("/metrics"))?.text();
    let labels = r#"{deployment="prod",service="checkout",version="2.4"} "#;
    metrics.lines().find_map(|line| {
        let value = line
            .strip_prefix("unhex_unknown_build_ids")?
            .strip_prefix(labels)?;
        Some(value.to_owned())
    })
}

/// The alert names service, version and deployment.
fn check_firing(firing: &Value) {
    let labels = &firing["labels"];
    for (name, value) in [
        ("alertname", "ProfileWithUnknownBuildId"),
        ("service", "checkout"),
        ("version", "2.4"),
        ("deployment", "prod"),
    ] {
        assert_eq!(labels[name], value, "{firing}");
    }
    let summary = firing["annotations"]["summary"].as_str().unwrap();
    assert!(summary.contains("checkout 2.4 in prod"), "{summary}");
}

#[test]
fn a_release_without_symbols_fires_an_alert_that_an_upload_resolves() {
    let (Some(prometheus), Some(alertmanager)) =
        (tools::PROMETHEUS.find(), tools::ALERTMANAGER.find())
    else {
        return;
    };
    let program = Program::c("int main(void) { return 42; }")
        .flags(&["-O1", "-g"])
        .name("checkout")
        .build();
    let build_id = program.build_id();
    let server = Server::start_in(Home::new(), PROGRAM, SERVE);
    let receiver = WebhookReceiver::start();
    let alertmanager = Running::alertmanager(&alertmanager, &alertmanager_yml(&receiver));
    let prometheus = Running::prometheus(&prometheus, &prometheus_yml(&server, &alertmanager));

    let request = json!({
        "labels": {"service": "checkout", "version": "2.4", "deployment": "prod"},
        "modules": [{"build_id": build_id, "name": "checkout", "addresses": ["0x1139"]}],
    });
    let answer = http::post_json(&server.url("/symbolize"), &request.to_string()).unwrap();
    assert!(
        answer.text().contains("unknown_build_id"),
        "{}",
        answer.text()
    );

    let firing = run::poll("a webhook that the alert fires", DEADLINE, || {
        alerts(&receiver, "firing").into_iter().next()
    });
    check_firing(&firing);

    // What the alert says to ask.
    let listed = status(&server, &["--unknown", "--service", "checkout"]);
    let said = listed.text();
    assert_eq!(listed.status.code(), Some(1), "{}", listed.all());
    assert!(
        said.contains(&build_id) && said.contains("100.0 %"),
        "{said}"
    );
    let one = status(&server, &["--json", &build_id]).text();
    let one: Value = serde_json::from_str(&one).unwrap();
    assert_eq!(one["unknown"]["mended_by"], json!(["debuginfo"]), "{one}");

    // A restart changes nothing, kill -9 neither once the ledger is written: at the same address the
    // gauge is the same from the first scrape, and no webhook says that anything ended.
    let listen = server.url("").replace("http://", "");
    let segments = server.home().data().join("signal/ledger");
    run::poll("the ledger to be written", DEADLINE, || {
        std::fs::read_dir(&segments).ok()?.next().map(drop)
    });
    let home = server.kill();
    let server = Server::start_at(&listen, home, PROGRAM, SERVE);
    assert_eq!(gauge(&server).as_deref(), Some("1"));
    run::poll("Prometheus to have scraped it anew", DEADLINE, || {
        let query = "/api/v1/query?query=unhex_uptime_seconds%20%3E%202";
        let answer = http::get(&prometheus.url(query))?.text();
        answer.contains("\"value\"").then_some(())
    });
    assert_eq!(alerts(&receiver, "resolved"), Vec::<Value>::new());
    assert_eq!(alerts(&receiver, "firing").len(), 1);

    run::succeed(
        Command::new(PROGRAM)
            .args(["upload", "--server", &server.url("")])
            .arg(program.path()),
    );
    let resolved = run::poll("a webhook that the alert is resolved", DEADLINE, || {
        alerts(&receiver, "resolved").into_iter().next()
    });
    assert_eq!(resolved["labels"], firing["labels"]);
    let listed = status(&server, &["--unknown"]);
    assert_eq!(listed.status.code(), Some(0), "{}", listed.all());
    assert_eq!(gauge(&server).as_deref(), Some("0"));
}
