//! From a busy host to names: agent, store and symbol server as they are run.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use unhex_testkit::alerting::Running;
use unhex_testkit::server::{Home, Server};
use unhex_testkit::{http, repository, run, tools};

use crate::PROGRAM;
use crate::agent::{Agent, DEADLINE, busy, may_sample, spinner};

const PYTHON: &str = "/usr/bin/python3";
const SNAKE: &str = "while True: pass";
/// The symbol server notices at once what has no symbols.
const SYMBOL_SERVER: [&str; 6] = [
    "--unknown-grace",
    "2s",
    "--ledger-write-seconds",
    "1s",
    "--ledger-check-seconds",
    "1s",
];

fn prometheus_yml(symbols: &Server) -> String {
    let rules = repository::root().join("deploy/prometheus/alerts.yml");
    let target = symbols.url("").replace("http://", "");
    json!({
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [rules],
        "scrape_configs": [{"job_name": "unhex", "static_configs": [{"targets": [target]}]}],
    })
    .to_string()
}

/// Whether the alert on missing symbols fires for a service.
fn fires(prometheus: &Running, service: &str) -> Option<()> {
    let answer = http::get(&prometheus.url("/api/v1/alerts"))?;
    let answer: Value = serde_json::from_slice(&answer.body).ok()?;
    let mut alerts = answer["data"]["alerts"].as_array()?.iter();
    let is_it = |alert: &&Value| {
        let labels = &alert["labels"];
        alert["state"] == "firing"
            && labels["alertname"] == "ProfileWithUnknownBuildId"
            && labels["service"] == service
    };
    alerts.find(is_it).map(drop)
}

fn answered(server: &Server, path: &str) -> Value {
    let answer = http::get(&server.url(path)).expect("an answer");
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    serde_json::from_str(&answer.text()).expect("JSON")
}

/// The names of the functions with the most CPU time of a service.
fn functions(store: &Server, service: &str) -> Vec<String> {
    let top = answered(
        store,
        &format!("/query/top?query=%7Bservice%3D%22{service}%22%7D"),
    );
    let functions = top["functions"].as_array().expect("a list").iter();
    let names = functions.map(|function| function["function"].as_str().unwrap_or_default());
    names.map(str::to_owned).collect()
}

/// What share of a service's CPU time has a frame with an outcome, and what is said of it.
fn share(store: &Server, service: &str, outcome: &str) -> (f64, String) {
    let query = format!("/query/coverage?query=%7Bservice%3D%22{service}%22%7D");
    let coverage = answered(store, &query);
    let mut rows = coverage["rows"].as_array().expect("a list").iter();
    let row = rows.find(|row| row["outcome"] == outcome);
    let share = row
        .and_then(|row| row["share"].as_f64())
        .unwrap_or_default();
    let detail = row
        .and_then(|row| row["detail"].as_str())
        .unwrap_or_default();
    (share, detail.to_owned())
}

/// Whoever profiles come to.
struct Servers {
    symbols: Server,
    store: Server,
    prometheus: Running,
}

impl Servers {
    fn start() -> Option<Self> {
        let prometheus = tools::PROMETHEUS.find()?;
        let symbols = run::program_beside(PROGRAM, "unhex");
        let symbols = Server::start_in(Home::new(), symbols, &SYMBOL_SERVER);
        let prometheus = Running::prometheus(&prometheus, &prometheus_yml(&symbols));
        let store = run::program_beside(PROGRAM, "unhex-store");
        let store = Server::start_in(Home::new(), store, &["--symbols", &symbols.url("")]);
        Some(Self {
            symbols,
            store,
            prometheus,
        })
    }
}

/// Whether the symbol server lists a build ID as one without symbols.
fn is_unknown(symbols: &Server, build_id: &str) -> bool {
    let listed = format!("/build-ids?status=unknown&build_id={build_id}");
    let listed = answered(symbols, &listed);
    let listed = listed["build_ids"].as_array();
    listed.is_some_and(|listed| !listed.is_empty())
}

#[test]
fn a_stripped_program_has_addresses_until_its_symbols_come_and_an_interpreter_is_told_apart() {
    if !may_sample() {
        return;
    }
    if !Path::new(PYTHON).exists() {
        tools::skip("an interpreter needs /usr/bin/python3, Debian package python3");
        return;
    }
    let Some(Servers {
        symbols,
        store,
        prometheus,
    }) = Servers::start()
    else {
        return;
    };
    let spinner = spinner("the whole way");
    let stripped = spinner.stripped();
    let _spinner = busy(&stripped, &[], "checkout");
    let _snake = busy(Path::new(PYTHON), &["-c", SNAKE], "snake");
    let url = store.url("");
    let how = ["--batch-seconds", "2", "--samples-per-second", "49"];
    let arguments: Vec<&str> = ["--store", &url].into_iter().chain(how).collect();
    let Some(agent) = Agent::start(&arguments) else {
        return;
    };
    let file = stripped.file_name().expect("a name");
    let address = format!("{}+0x", file.to_string_lossy());
    run::poll("addresses of the stripped program", DEADLINE, || {
        let found = functions(&store, "checkout");
        found
            .iter()
            .any(|name| name.starts_with(&address))
            .then_some(())
    });
    // In the first seconds tables are read, and stacks end early.
    run::poll("shares of what is missing", DEADLINE, || {
        let (of_snake, runtime) = share(&store, "snake", "missing_unwinder");
        let (of_spinner, _) = share(&store, "checkout", "unknown_build_id");
        (of_snake > 0.9 && runtime == "python" && of_spinner > 0.9).then_some(())
    });
    let (of_checkout, _) = share(&store, "checkout", "missing_unwinder");
    assert!(of_checkout < 0.01, "{of_checkout}");

    run::poll("the alert on missing symbols", DEADLINE, || {
        fires(&prometheus, "checkout")
    });
    let is_unknown = || is_unknown(&symbols, &spinner.build_id());
    assert!(is_unknown());

    let upload = symbols.url(&format!("/buildid/{}/debuginfo", spinner.build_id()));
    let uploaded = http::put(&upload, &run::read(spinner.path())).expect("an answer");
    assert!((200..300).contains(&uploaded.status), "{}", uploaded.text());
    run::poll("names after the upload", DEADLINE, || {
        let found = functions(&store, "checkout");
        let is_named = |name: &str| found.iter().any(|found| found == name);
        (is_named("leaf") && is_named("middle") && is_named("outer") && is_named("main"))
            .then_some(())
    });
    run::poll("the end of what the alert is about", DEADLINE, || {
        (!is_unknown()).then_some(())
    });
    let labels = "/query/labels?label=version&query=%7Bservice%3D%22checkout%22%7D";
    let labels = answered(&store, labels);
    let versions = labels["values"].as_array().expect("a list");
    assert!(versions.contains(&Value::from("1.2")), "{labels}");

    let root = agent.metric("unhex_agent_samples_total{stop=\"root\"}");
    assert!(root > 0.0, "{}", agent.log());
    assert!(agent.metric("unhex_agent_batches_total{outcome=\"delivered\"}") > 0.0);
    let status = agent.stop();
    assert!(status.success(), "{status}");
}

#[test]
fn symbols_that_lie_on_the_host_are_sent_to_a_server_that_lacks_them() {
    if !may_sample() {
        return;
    }
    let symbols = Server::start(run::program_beside(PROGRAM, "unhex"));
    let spinner = spinner("upload");
    let _busy = busy(spinner.path(), &[], "checkout");
    // Nobody takes the profiles, which is no reason to send no symbols.
    let url = symbols.url("");
    let arguments = [
        "--store",
        "http://127.0.0.1:1",
        "--batch-seconds",
        "2",
        "--upload-to",
        &url,
        "--upload-bytes-per-second",
        "1000000000",
    ];
    let Some(agent) = Agent::start(&arguments) else {
        return;
    };
    let path = format!("/build-ids/{}", spinner.build_id());
    let state = run::poll("the upload", DEADLINE, || {
        let answer = http::get(&symbols.url(&path)).expect("an answer");
        (answer.status == 200 && answer.text().contains("dwarf_inlines")).then(|| answer.text())
    });
    assert!(state.contains("upload"), "{state}");
    let sent = "unhex_agent_uploads_total{outcome=\"sent\"}";
    run::poll("the count", DEADLINE, || {
        (agent.metric(sent) >= 1.0).then_some(())
    });
    assert!(agent.stop().success());
}

/// The perf of Debian 12 ends with a smashed stack when somebody else's event asks for build IDs.
#[test]
fn others_record_beside_it_undisturbed() {
    if !may_sample() {
        return;
    }
    let (Some(perf), Some(agent)) = (
        tools::PERF.find(),
        Agent::start(&["--store", "http://127.0.0.1:1"]),
    ) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let mut record = Command::new(perf);
    record
        .current_dir(folder.path())
        .args(["record", "-q", "-e", "cpu-clock"]);
    run::succeed(record.args([
        "-o",
        "perf.data",
        "--",
        "/bin/sh",
        "-c",
        "/bin/ls; /bin/true",
    ]));
    assert!(agent.stop().success());
}
