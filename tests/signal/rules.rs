//! What stands in deploy/prometheus, by the tools that will read it, and `/metrics` by promtool.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;
use unhex_testkit::server::Server;
use unhex_testkit::tools::Tool;
use unhex_testkit::{http, repository, run, tools};

/// Runs a tool on a file of the folder, where it has to succeed; nothing when it is not installed.
fn succeed(tool: Tool, arguments: &[&str]) {
    let Some(program) = tool.find() else { return };
    let folder: PathBuf = repository::root().join("deploy/prometheus");
    run::succeed(Command::new(program).args(arguments).current_dir(folder));
}

#[test]
fn the_rules_are_sound_and_fire_exactly_when_they_should() {
    succeed(
        tools::PROMTOOL,
        &["check", "rules", "alerts.yml", "store.yml"],
    );
    let tests = ["alerts_test.yml", "store_test.yml"];
    succeed(tools::PROMTOOL, &["test", "rules", tests[0], tests[1]]);
}

#[test]
fn the_examples_of_configurations_are_sound() {
    succeed(tools::PROMTOOL, &["check", "config", "prometheus.yml"]);
    succeed(tools::AMTOOL, &["check-config", "alertmanager.yml"]);
}

#[test]
fn the_runbook_has_the_sections_that_alerts_lead_to() {
    let root = repository::root();
    let rules = ["alerts.yml", "store.yml"]
        .map(|file| std::fs::read_to_string(root.join("deploy/prometheus").join(file)).unwrap())
        .concat();
    let runbook = std::fs::read_to_string(root.join("docs/runbook.md")).unwrap();
    let alerts = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    let alerts: Vec<&str> = alerts.collect();
    assert_eq!(
        alerts,
        [
            "ProfileWithUnknownBuildId",
            "MissingSymbolRate",
            "ProfilesNotStored",
            "StoreNotCompacted",
            "StoreHourDamaged",
            "StoreNotesLost",
            "StacksEndEarly",
        ]
    );
    for alert in alerts {
        assert!(runbook.contains(&format!("\n## {alert}\n")), "{alert}");
        let anchor = format!("runbook.md#{}\n", alert.to_lowercase());
        assert!(rules.contains(&anchor), "{anchor}");
    }
}

#[test]
fn the_exposition_is_clean_and_has_no_build_id() {
    let server = Server::start(Path::new(env!("CARGO_BIN_EXE_unhex")));
    let request = json!({
        "labels": {"service": "check\"out\n", "version": "2.4"},
        "modules": [{"build_id": "feedface00112233", "name": "checkout", "addresses": [1]}],
    });
    http::post_json(&server.url("/symbolize"), &request.to_string()).unwrap();
    let text = http::get(&server.url("/metrics")).unwrap().text();
    assert!(text.contains("unhex_unknown_build_ids{"), "{text}");
    assert!(!text.contains("feedface"), "{text}");
    let Some(promtool) = tools::PROMTOOL.find() else {
        return;
    };
    let mut check = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    check
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let said = check.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.status.success() && words.is_empty(), "{words}{text}");
}
