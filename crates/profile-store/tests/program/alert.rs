//! The whole way of the alert, with the real symbol server, Prometheus and Alertmanager: profiles go into the store, whoever runs a release without its
//! symbols is told, and an upload ends it.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use unhex_pprof::{Binary, Builder, Extent, Frame, NewSample, Profile, ValueType, packed, pprof};
use unhex_testkit::alerting::{Running, WebhookReceiver};
use unhex_testkit::fixture::{Fixture, Program};
use unhex_testkit::http::{self, Request};
use unhex_testkit::server::{Home, Server};
use unhex_testkit::{repository, run, tools};

use crate::PROGRAM;

/// Some seconds on an idle machine.
const DEADLINE: Duration = Duration::from_mins(3);

/// Short intervals, so that the test is.
const SYMBOL_SERVER: &[&str] = &[
    "--unknown-grace",
    "2s",
    "--ledger-write-seconds",
    "1s",
    "--ledger-check-seconds",
    "1s",
];

/// Nanoseconds of CPU time that a sample stands for: 19 a second.
const PERIOD: u64 = 52_631_578;

/// A module of a profile, and its samples.
struct Module<'m> {
    build_id: &'m str,
    name: &'m str,
    samples: usize,
}

/// A request as the OpenTelemetry eBPF profiler sends it: timestamps and no values, one frame a stack.
fn otlp(service: &str, version: &str, modules: &[Module<'_>]) -> String {
    let mut strings = ["", "cpu", "nanoseconds", "process.executable.build_id.gnu"]
        .map(str::to_owned)
        .to_vec();
    let (mut mappings, mut attributes, mut locations) =
        (vec![json!({})], vec![json!({})], vec![json!({})]);
    let (mut stacks, mut samples) = (vec![json!({})], Vec::new());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = u64::try_from(now.expect("a clock").as_nanos()).expect("64 bits");
    for (module, number) in modules.iter().zip(1..) {
        strings.push(module.name.to_owned());
        attributes.push(json!({"keyStrindex": 3, "value": {"stringValue": module.build_id}}));
        mappings.push(json!({
            "memoryStart": "4096", "memoryLimit": "8192", "fileOffset": "4096",
            "filenameStrindex": strings.len() - 1, "attributeIndices": [number],
        }));
        locations.push(json!({"mappingIndex": number, "address": "4409"}));
        stacks.push(json!({"locationIndices": [number]}));
        let times = (0..module.samples as u64).map(|sample| (now + sample).to_string());
        samples
            .push(json!({"stackIndex": number, "timestampsUnixNano": times.collect::<Vec<_>>()}));
    }
    let text = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
    json!({
        "resourceProfiles": [{
            "resource": {"attributes": [
                text("service.name", service),
                text("service.version", version),
                text("deployment.environment.name", "prod"),
            ]},
            "scopeProfiles": [{"profiles": [{
                "sampleType": {"typeStrindex": 1, "unitStrindex": 2},
                "periodType": {"typeStrindex": 1, "unitStrindex": 2},
                "period": PERIOD.to_string(),
                "timeUnixNano": now.to_string(),
                "durationNano": "1000000000",
                "samples": samples,
            }]}],
        }],
        "dictionary": {
            "stringTable": strings, "mappingTable": mappings, "attributeTable": attributes,
            "locationTable": locations, "stackTable": stacks,
        },
    })
    .to_string()
}

/// The same in Go's format, of one module.
fn pprof_of(module: &Module<'_>) -> Vec<u8> {
    let mut builder = Builder::default();
    let cpu = ValueType {
        name: builder.string("cpu"),
        unit: builder.string("nanoseconds"),
    };
    builder.profile(Profile {
        value_types: vec![cpu],
        ..Profile::default()
    });
    let file_name = builder.string(module.name.to_owned());
    let id_text = builder.string(module.build_id.to_owned());
    let extent = Extent {
        start: 0x55_5555_0000,
        limit: 0x55_5556_0000,
        file_offset: 0,
    };
    let binary = builder.binary(Binary {
        file_name,
        id_text,
        extent,
        ..Binary::default()
    });
    let frame = Frame {
        binary: Some(binary),
        address: extent.start + 0x1139,
        ..Frame::default()
    };
    let frame = builder.frame(frame, &[]);
    let stack = builder.stack(&[frame]);
    let nanos = PERIOD * module.samples as u64;
    let values = [i64::try_from(nanos).expect("64 bits")];
    builder.sample(NewSample {
        stack,
        values: &values,
        ..NewSample::default()
    });
    let model = builder.finish();
    packed(&pprof::encode(&model, &model.profiles()[0]).expect("a profile"))
}

fn prometheus_yml(servers: [&Server; 2], alertmanager: &Running) -> String {
    let rules = repository::root().join("deploy/prometheus/alerts.yml");
    let targets = servers.map(|server| server.url("").replace("http://", ""));
    json!({
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [rules],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager.address()]}]}]},
        "scrape_configs": [{"job_name": "unhex", "static_configs": [{"targets": targets}]}],
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

/// The alert of a service in the webhooks so far, in that status.
fn alert_of(receiver: &WebhookReceiver, status: &str, service: &str) -> Option<Value> {
    let bodies = receiver.bodies().into_iter();
    let documents = bodies.map(|body| serde_json::from_str::<Value>(&body).expect("JSON"));
    let mut alerts =
        documents.flat_map(|document| document["alerts"].as_array().cloned().unwrap_or_default());
    alerts.find(|alert| {
        let labels = &alert["labels"];
        alert["status"] == status
            && labels["alertname"] == "ProfileWithUnknownBuildId"
            && labels["service"] == service
    })
}

fn gauge(server: &Server, service: &str, version: &str) -> Option<String> {
    let metrics = http::get(&server.url("/metrics"))?.text();
    let labels = format!(
        "unhex_unknown_build_ids{{deployment=\"prod\",service=\"{service}\",version=\"{version}\"}} "
    );
    let mut lines = metrics.lines();
    lines.find_map(|line| line.strip_prefix(labels.as_str()).map(str::to_owned))
}

/// A program with its debug information, of which nobody has heard.
fn program(name: &str) -> Fixture {
    let source = format!("int {name}(void) {{ return 42; }} int main(void) {{ return {name}(); }}");
    Program::c(&source).flags(&["-O0", "-g"]).name(name).build()
}

fn upload(symbols: &Server, program: &Fixture) {
    let mut command = Command::new(run::program_beside(PROGRAM, "unhex"));
    command.args(["upload", "--server", &symbols.url("")]);
    run::succeed(command.arg(program.path()));
}

fn push(store: &Server) -> impl Fn(&str, &str, &[u8]) {
    let url = store.url("");
    move |path, media_type, body| {
        let answer = http::send(&Request {
            method: "POST",
            url: &format!("{url}{path}"),
            headers: &[("Content-Type", media_type)],
            body,
        });
        let answer = answer.expect("an answer");
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

#[test]
fn profiles_in_the_store_fire_the_alert_by_cpu_share_and_an_upload_resolves_it() {
    let (Some(prometheus), Some(alertmanager)) =
        (tools::PROMETHEUS.find(), tools::ALERTMANAGER.find())
    else {
        return;
    };
    let [checkout, mail] = ["checkout", "mail"].map(program);
    let symbols = Server::start_in(
        Home::new(),
        run::program_beside(PROGRAM, "unhex"),
        SYMBOL_SERVER,
    );
    let store = Server::start_in(Home::new(), PROGRAM, &["--symbols", &symbols.url("")]);
    let receiver = WebhookReceiver::start();
    let alertmanager = Running::alertmanager(&alertmanager, &alertmanager_yml(&receiver));
    let configuration = prometheus_yml([&symbols, &store], &alertmanager);
    let _prometheus = Running::prometheus(&prometheus, &configuration);
    upload(&symbols, &mail);

    let module = |build_id, name, samples| Module {
        build_id,
        name,
        samples,
    };
    let (of_checkout, of_mail) = (checkout.build_id(), mail.build_id());
    let rare = "0123456789abcdef0123456789abcdef01234567";
    let payment = "89abcdef0123456789abcdef0123456789abcdef";
    let push = push(&store);
    let json = "application/json";
    // Half a percent of each is in a library that nobody knows.
    let body = otlp(
        "checkout",
        "2.4",
        &[
            module(&of_checkout, "checkout", 995),
            module(rare, "librare.so", 5),
        ],
    );
    push("/v1development/profiles", json, body.as_bytes());
    let body = otlp(
        "mail",
        "7",
        &[module(&of_mail, "mail", 995), module(rare, "librare.so", 5)],
    );
    push("/v1development/profiles", json, body.as_bytes());
    let body = pprof_of(&module(payment, "payment", 100));
    let path = "/profiles?service=payment&version=1.0&deployment=prod";
    push(path, "application/octet-stream", &body);

    let firing = run::poll("webhooks that both alerts fire", DEADLINE, || {
        let of = |service| alert_of(&receiver, "firing", service);
        Some([of("checkout")?, of("payment")?])
    });
    assert_eq!(firing[0]["labels"]["version"], "2.4", "{firing:?}");
    assert_eq!(firing[1]["labels"]["version"], "1.0", "{firing:?}");
    let summary = firing[0]["annotations"]["summary"]
        .as_str()
        .expect("a text");
    assert!(summary.contains("checkout 2.4 in prod"), "{summary}");
    // What has half a percent of the CPU time counts for nobody.
    assert_eq!(gauge(&symbols, "checkout", "2.4").as_deref(), Some("1"));
    assert_eq!(gauge(&symbols, "payment", "1.0").as_deref(), Some("1"));
    assert_eq!(gauge(&symbols, "mail", "7").as_deref(), Some("0"));

    upload(&symbols, &checkout);
    run::poll("a webhook that the alert is resolved", DEADLINE, || {
        alert_of(&receiver, "resolved", "checkout")
    });
    assert_eq!(alert_of(&receiver, "resolved", "payment"), None);
    assert_eq!(alert_of(&receiver, "firing", "mail"), None);
    assert_eq!(gauge(&symbols, "checkout", "2.4").as_deref(), Some("0"));
}
