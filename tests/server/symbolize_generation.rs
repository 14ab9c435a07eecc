//! The generation of an answer of `POST /symbolize`: it changes exactly when names could.

use serde_json::{Value, json};
use unhex::artifacts::ArtifactKind;
use unhex_api::symbolize::{COMPACT_MEDIA_TYPE, CompactAnswer};
use unhex_testkit::fixture::Program;

use crate::server::TestServer;
use crate::stored::{PROGRAM, store};
use crate::symbolize::symbolize;

fn module(addresses: &Value) -> Value {
    json!({"modules": [{"build_id": PROGRAM.build_id(), "addresses": addresses}],
        "observe": false, "wait_seconds": 30})
}

async fn generation(server: &TestServer, addresses: &Value) -> Option<String> {
    let answer = symbolize(server, &module(addresses)).await;
    answer.modules[0].generation.clone()
}

async fn stored(server: &TestServer, kind: ArtifactKind, path: std::path::PathBuf) {
    let bytes = std::fs::read(path).unwrap();
    store(server, &PROGRAM.build_id(), kind, bytes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_better_file_changes_the_generation_and_nothing_else_does() {
    let server = TestServer::start().await;
    let none = json!([]);
    assert_eq!(generation(&server, &none).await, None);
    let symbols = PROGRAM.objcopy("symtab", &["--strip-debug"]);
    stored(&server, ArtifactKind::Debuginfo, symbols).await;
    let symtab = generation(&server, &none).await.unwrap();
    assert_eq!(symtab.len(), 16, "{symtab}");
    assert_eq!(
        generation(&server, &json!(["0x1139", 1])).await.unwrap(),
        symtab
    );

    stored(&server, ArtifactKind::Debuginfo, PROGRAM.debug_only()).await;
    let dwarf = generation(&server, &none).await.unwrap();
    assert_ne!(dwarf, symtab);
    let worse = PROGRAM.objcopy("symtab", &["--strip-debug"]);
    stored(&server, ArtifactKind::Debuginfo, worse).await;
    assert_eq!(generation(&server, &none).await.unwrap(), dwarf);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_executable_that_places_file_offsets_changes_the_generation() {
    let server = TestServer::start().await;
    stored(&server, ArtifactKind::Debuginfo, PROGRAM.debug_only()).await;
    let before = generation(&server, &json!([])).await.unwrap();
    stored(&server, ArtifactKind::Executable, PROGRAM.stripped()).await;
    let after = generation(&server, &json!([])).await.unwrap();
    assert_ne!(after, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_have_the_same_files_say_the_same_generation() {
    let mut said = Vec::new();
    for _ in 0..2 {
        let server = TestServer::start().await;
        stored(&server, ArtifactKind::Debuginfo, PROGRAM.debug_only()).await;
        said.push(generation(&server, &json!([])).await.unwrap());
    }
    assert_eq!(said[0], said[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_compact_form_has_the_generation_too() {
    let server = TestServer::start().await;
    let other = Program::c("int main(void) { return 7; }").build();
    store(
        &server,
        &other.build_id(),
        ArtifactKind::Executable,
        other.bytes(),
    )
    .await;
    let body = json!({"modules": [
        {"build_id": other.build_id(), "addresses": []},
        {"build_id": "ab01", "addresses": []},
    ], "wait_seconds": 30});
    let long = symbolize(&server, &body).await;
    let request = reqwest::Client::new()
        .post(server.url("/symbolize"))
        .header("accept", COMPACT_MEDIA_TYPE)
        .body(body.to_string());
    let compact: CompactAnswer = request.send().await.unwrap().json().await.unwrap();
    assert!(compact.modules[0].generation.is_some());
    assert_eq!(compact.modules[1].generation, None);
    assert_eq!(compact.expand().unwrap(), long);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_is_not_to_be_observed_counts_nowhere() {
    let server = TestServer::start().await;
    generation(&server, &json!([])).await;
    let metrics = reqwest::get(server.url("/metrics")).await.unwrap();
    let metrics = metrics.text().await.unwrap();
    let counted = metrics.lines().filter(|line| {
        line.starts_with("unhex_profiles_total{") || line.starts_with("unhex_frames_total{")
    });
    assert_eq!(counted.collect::<Vec<_>>(), Vec::<&str>::new());
}
