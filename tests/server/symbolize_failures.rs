//! `POST /symbolize` when the debug file is there and its index is not: what each end of a conversion says.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use unhex::artifacts::ArtifactKind;
use unhex_api::symbolize::{ModuleAnswer, ModuleStatus};

use crate::server::{DEADLINE, TestServer};
use crate::stored::{PROGRAM, store};
use crate::symbolize::symbolize;

/// A server whose converter is another program, which has a debug file.
async fn server(converter: &str, seconds_max: u64) -> TestServer {
    let program = format!(
        "{}/tests/converters/{converter}",
        env!("CARGO_MANIFEST_DIR")
    );
    let server = TestServer::start_with(|config| {
        config.converter_program = program.into();
        config.limits.conversion_seconds_max = Duration::from_secs(seconds_max);
    })
    .await;
    store(
        &server,
        &PROGRAM.build_id(),
        ArtifactKind::Debuginfo,
        PROGRAM.bytes(),
    )
    .await;
    server
}

async fn module(server: &TestServer, wait_seconds: u64) -> ModuleAnswer {
    let body = json!({
        "modules": [{"build_id": PROGRAM.build_id(), "addresses": ["0x1"]}],
        "wait_seconds": wait_seconds,
    });
    symbolize(server, &body).await.modules.remove(0)
}

#[tokio::test]
async fn a_conversion_that_runs_is_pending_and_says_when_to_ask_again() {
    let server = server("hang.sh", 600).await;
    let module = module(&server, 0).await;
    assert_eq!(module.status, ModuleStatus::Pending, "{module:?}");
    assert_eq!(module.retry_after_seconds, Some(2));
    assert!(module.frames.is_none() && module.reasons.is_none());
    server.stop().await;
}

#[tokio::test]
async fn a_conversion_is_waited_for_and_its_end_is_told() {
    for (converter, seconds_max, status, words) in [
        ("hang.sh", 1, ModuleStatus::Timeout, "limit of 1 s"),
        ("segv.sh", 60, ModuleStatus::Malformed, "died by signal 11"),
        (
            "too-large.sh",
            60,
            ModuleStatus::TooLarge,
            "5 units, more than 4",
        ),
        (
            "unsupported.sh",
            60,
            ModuleStatus::Unsupported,
            "this machine",
        ),
        (
            "absent.sh",
            60,
            ModuleStatus::Unavailable,
            "ask again later",
        ),
    ] {
        let server = server(converter, seconds_max).await;
        let module = module(&server, 30).await;
        assert_eq!(module.status, status, "{converter}: {module:?}");
        let detail = module.detail.unwrap();
        assert!(detail.contains(words), "{converter}: {detail}");
        assert!(module.frames.is_none());
    }
}

#[tokio::test]
async fn one_module_that_fails_leaves_the_others_alone() {
    let server = server("segv.sh", 60).await;
    let id = PROGRAM.build_id();
    let body = json!({"wait_seconds": 30, "modules": [
        {"build_id": id, "addresses": ["0x1"]},
        {"build_id": "ffff", "addresses": ["0x1"]},
        {"build_id": id, "addresses": []},
    ]});
    let answer = symbolize(&server, &body).await;
    let statuses: Vec<_> = answer.modules.iter().map(|module| module.status).collect();
    let expected = [
        ModuleStatus::Malformed,
        ModuleStatus::UnknownBuildId,
        ModuleStatus::Malformed,
    ];
    assert_eq!(statuses, expected);
}

/// A record of a build ID that hangs whoever reads it, until it is dropped.
struct HangingRecord(PathBuf);

impl HangingRecord {
    /// Of `build_id`, under the name of a record that another build has.
    fn new(server: &TestServer, build_id: &str) -> Self {
        let builds = server.data().join("builds");
        let record = |entry: walkdir::Result<walkdir::DirEntry>| {
            let path = entry.unwrap().into_path();
            path.extension()
                .is_some_and(|extension| extension == "json")
                .then_some(path)
        };
        let other = walkdir::WalkDir::new(&builds).into_iter().find_map(record);
        let folder = builds.join(&build_id[..2]).join(build_id).join("rec");
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join(other.unwrap().file_name().unwrap());
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        Self(path)
    }
}

impl Drop for HangingRecord {
    fn drop(&mut self) {
        // Whoever waits for a writer has one now, and its end.
        let writer = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(&self.0);
        std::fs::remove_file(&self.0).unwrap();
        drop(writer.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_hangs_costs_only_what_hangs_in_it() {
    let server = TestServer::start_with(|config| {
        config.limits.symbolize_seconds_max = Duration::from_secs(2);
    })
    .await;
    let (id, bytes) = (PROGRAM.build_id(), PROGRAM.bytes());
    store(&server, &id, ArtifactKind::Debuginfo, bytes).await;
    let hanging = HangingRecord::new(&server, "ab01");
    let sound = json!({"build_id": id, "addresses": ["0x1"]});
    symbolize(&server, &json!({"wait_seconds": 30, "modules": [sound]})).await;
    let body = json!({"wait_seconds": 0, "modules": [
        {"build_id": "ab01", "addresses": ["0x1"]},
        sound,
        {"build_id": "ffff", "addresses": ["0x1"]},
    ]});
    let asking = symbolize(&server, &body);
    let answer = tokio::time::timeout(DEADLINE, asking)
        .await
        .expect("an answer");
    let statuses: Vec<_> = answer.modules.iter().map(|module| module.status).collect();
    let expected = [
        ModuleStatus::Unavailable,
        ModuleStatus::Found,
        ModuleStatus::UnknownBuildId,
    ];
    assert_eq!(statuses, expected);
    assert_eq!(answer.modules[0].retry_after_seconds, Some(2));

    let observing = reqwest::Client::new().post(server.url("/observe"));
    let modules = json!({"modules": [{"build_id": "ab01"}, {"build_id": "ffff"}]});
    let observing = observing.body(modules.to_string()).send();
    let answer = tokio::time::timeout(DEADLINE, observing)
        .await
        .expect("an answer");
    let answer: serde_json::Value = answer.unwrap().json().await.unwrap();
    assert_eq!(answer["modules"][0]["status"], "unavailable", "{answer}");
    assert_eq!(
        answer["modules"][1]["status"], "unknown_build_id",
        "{answer}"
    );
    drop(hanging);
}
