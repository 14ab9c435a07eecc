//! `unhex upload`: to a real server, again, refused, without one.

use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use unhex_testkit::fixture::Program;
use unhex_testkit::{http, run, tools};

use crate::command::{BUILD_ID, Workplace, code, program, program_with_sources};

#[test]
fn a_dry_run_asks_nobody() {
    let workplace = Workplace::alone();
    workplace.put("app", program().path());
    workplace.put("stripped", program().stripped());
    let finished = workplace.unhex(&["upload", "--dry-run", "app", "stripped"]);
    insta::assert_snapshot!(finished.text(), @r"
    would upload   c11c11c11c11c11c11c11c11c11c11c11c11c11c  executable+debuginfo  app
    would upload   c11c11c11c11c11c11c11c11c11c11c11c11c11c  executable  stripped
    2 would be uploaded
    ");
    assert_eq!(code(&finished), 0);
}

#[test]
fn a_binary_without_build_id_fails_with_the_flag_that_mends_it() {
    let workplace = Workplace::alone();
    let program = Program::c("int main(void) { return 0; }")
        .without_build_id()
        .build();
    workplace.put("app", program.path());
    let finished = workplace.unhex(&["upload", "--dry-run", "app"]);
    insta::assert_snapshot!(finished.text(), @r"
    no build ID    app: it has no build ID; link it with: -Wl,--build-id=sha1
    0 uploaded (0 B sent), 0 already there, 1 without build ID
    ");
    assert_eq!(code(&finished), 1);
}

#[test]
fn without_a_server_nothing_is_tried_for_long() {
    let workplace = Workplace::alone();
    workplace.put("app", program().path());
    let finished = workplace.unhex(&["upload", "--retries", "1", "app"]);
    assert_eq!(code(&finished), 2);
    assert_eq!(finished.text(), "");
    assert!(
        finished
            .stderr
            .contains("no answer from http://127.0.0.1:1 after 2 attempts"),
        "{}",
        finished.stderr
    );
}

#[test]
fn a_program_is_uploaded_once_and_served_byte_for_byte() {
    let workplace = Workplace::with_server();
    let program = program();
    workplace.put("app", program.path());
    let (status, first) = workplace.json(&["upload", "app"]);
    assert_eq!(status, 0, "{first:#}");
    let file = &first["files"][0];
    assert_eq!(file["status"], "uploaded", "{first:#}");
    assert_eq!(file["build_id"], BUILD_ID);
    assert_eq!(file["kinds"], json!(["executable", "debuginfo"]));
    assert_eq!(file["quality"], "dwarf_inlines");
    assert_eq!(file["index"], "ready");
    assert_eq!(first["summary"]["sent_bytes"], program.bytes().len());
    let url = workplace
        .server()
        .url(&format!("/buildid/{BUILD_ID}/debuginfo"));
    assert_eq!(http::get(&url).unwrap().body, program.bytes());

    let (status, second) = workplace.json(&["upload", "app"]);
    assert_eq!(status, 0, "{second:#}");
    assert_eq!(second["files"][0]["status"], "already_there", "{second:#}");
    assert_eq!(second["summary"]["sent_bytes"], 0);
}

#[test]
fn split_files_of_a_folder_come_together() {
    let workplace = Workplace::with_server();
    workplace.put("bin/app", program().stripped());
    workplace.put("debug/app.debug", program().debug_only());
    workplace.put("copy/app.debug", program().debug_only());
    workplace.put("notes.txt", file!());
    let finished = workplace.unhex(&["upload", "--compress", "zstd", "--jobs", "1", "."]);
    assert_eq!(code(&finished), 0, "{}", finished.all());
    let (_, state) = workplace.json(&["status", BUILD_ID]);
    assert_eq!(state["quality"], "dwarf_inlines", "{state:#}");
    assert_eq!(state["artifacts"].as_array().unwrap().len(), 2, "{state:#}");
    assert!(
        finished.text().contains("2 uploaded ("),
        "{}",
        finished.text()
    );
    assert!(
        finished.text().ends_with("0 already there, 1 skipped\n"),
        "{}",
        finished.text()
    );
}

#[test]
fn sources_are_served_by_the_names_of_the_debug_information() {
    let workplace = Workplace::with_server();
    let program = program_with_sources();
    workplace.put("app", program.path());
    let (status, answer) = workplace.json(&["upload", "--with-sources", "app"]);
    assert_eq!(status, 0, "{answer:#}");
    let bundle = &answer["files"][1];
    assert_eq!(bundle["status"], "uploaded", "{answer:#}");
    assert_eq!(bundle["kinds"], json!(["sources"]));
    let source = program.sources().join("part two.c").canonicalize().unwrap();
    let path = source.to_str().unwrap().replace(' ', "%20");
    let url = workplace
        .server()
        .url(&format!("/buildid/{}/source{path}", program.build_id()));
    assert_eq!(http::get(&url).unwrap().body, fs::read(&source).unwrap());

    let (_, again) = workplace.json(&["upload", "--with-sources", "app"]);
    assert_eq!(again["files"][1]["status"], "already_there", "{again:#}");
}

#[test]
fn sources_can_be_mapped_and_bounded_to_a_folder() {
    let workplace = Workplace::with_server();
    workplace.put("app", program().path());
    workplace.put("moved/main.c", file!());
    let map = format!("/fixture={}/moved", workplace.path().display());
    let arguments = ["upload", "--with-sources", "--source-map", &map, "app"];
    let (status, answer) = workplace.json(&arguments);
    assert_eq!(status, 0, "{answer:#}");
    assert!(
        answer["files"][1]["detail"]
            .as_str()
            .unwrap()
            .starts_with("1 source file"),
        "{answer:#}"
    );
    let url = workplace
        .server()
        .url(&format!("/buildid/{BUILD_ID}/source/fixture/main.c"));
    assert_eq!(http::get(&url).unwrap().body, fs::read(file!()).unwrap());

    let elsewhere = workplace
        .path()
        .join("app")
        .parent()
        .unwrap()
        .join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let bounded = [
        &arguments[..],
        &["--source-root", elsewhere.to_str().unwrap()],
    ]
    .concat();
    let (_, answer) = workplace.json(&bounded);
    assert_eq!(answer["files"][1]["status"], "skipped", "{answer:#}");
    let detail = answer["files"][1]["detail"].as_str().unwrap();
    assert!(detail.contains("1 outside the --source-root"), "{detail}");
}

#[test]
fn other_code_under_a_known_build_id_is_refused_and_the_rest_is_stored() {
    let workplace = Workplace::with_server();
    workplace.put("app", program().path());
    assert_eq!(code(&workplace.unhex(&["upload", "app"])), 0);
    let other = Program::c("int f(int n) { return n * n; } int main(void) { return f(3); }")
        .flags(&["-g"])
        .build_id(BUILD_ID)
        .build();
    workplace.put("d/other", other.path());
    workplace.put("d/third", program_with_sources().path());
    let (status, answer) = workplace.json(&["upload", "d"]);
    assert_eq!(status, 1, "{answer:#}");
    assert_eq!(answer["files"][0]["status"], "refused", "{answer:#}");
    let detail = answer["files"][0]["detail"].as_str().unwrap();
    assert!(detail.starts_with("refused (409): "), "{detail}");
    assert_eq!(answer["files"][1]["status"], "uploaded", "{answer:#}");
    assert_eq!(answer["summary"]["refused"], 1);
}

#[test]
fn a_write_token_is_needed_where_the_server_has_one() {
    let token = tempfile::NamedTempFile::new().unwrap();
    fs::write(token.path(), "s3cret-s3cret-s3cret\n").unwrap();
    let path = token.path().to_str().unwrap();
    let workplace = Workplace::with_server_of(&["--write-token-file", path]);
    workplace.put("app", program().path());
    let finished = workplace.unhex(&["upload", "app"]);
    assert_eq!(code(&finished), 2, "{}", finished.all());
    assert!(
        finished.stderr.contains("--token-file"),
        "{}",
        finished.stderr
    );
    assert_eq!(
        code(&workplace.unhex(&["upload", "--token-file", path, "app"])),
        0
    );
}

#[test]
fn a_server_that_stops_midway_is_said() {
    let workplace = Workplace::with_server();
    workplace.put("app", program().path());
    let id = workplace.server().id().to_string();
    run::succeed(Command::new("kill").args(["-KILL", &id]));
    let finished = workplace.unhex(&["upload", "--retries", "0", "app"]);
    assert_eq!(code(&finished), 2, "{}", finished.all());
    assert!(
        finished.stderr.contains("is it running"),
        "{}",
        finished.stderr
    );
}

#[test]
fn a_signal_ends_an_upload_and_nothing_unpacked_stays() {
    let workplace = Workplace::alone();
    let temporary = workplace.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    let app = workplace.put("app", program().path());
    run::succeed(
        Command::new("tar")
            .arg("-C")
            .arg(workplace.path())
            .arg("-cf")
            .arg(workplace.path().join("a.tar"))
            .arg("app"),
    );
    fs::remove_file(app).unwrap();
    let mut command = workplace.command(&["upload", "--retries", "1000", "a.tar"]);
    let mut child = command.env("TMPDIR", &temporary).spawn().unwrap();
    let is_unpacked = || (fs::read_dir(&temporary).unwrap().count() > 0).then_some(());
    run::poll(
        "the member to be unpacked",
        Duration::from_secs(30),
        is_unpacked,
    );
    run::succeed(Command::new("kill").args(["-TERM", &child.id().to_string()]));
    let status = run::wait(&mut child, Duration::from_secs(30)).expect("it ends");
    assert_eq!(status.code(), Some(143));
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
}

#[test]
fn packed_split_dwarf_goes_with_its_program() {
    let (Some(clang), Some(dwp)) = (tools::CLANG.find(), tools::LLVM_DWP.find()) else {
        return;
    };
    let workplace = Workplace::with_server();
    let folder = workplace.path();
    fs::write(
        folder.join("m.c"),
        "int f(int n) { return n + 1; }\nint main(void) { return f(2); }\n",
    )
    .unwrap();
    let flags = [
        "-g",
        "-gsplit-dwarf",
        "-Wl,--build-id=0xd3bd3bd3b0",
        "m.c",
        "-o",
        "app",
    ];
    run::succeed(Command::new(clang).args(flags).current_dir(folder));
    run::succeed(
        Command::new(dwp)
            .args(["-e", "app", "-o", "app.dwp"])
            .current_dir(folder),
    );
    let (status, answer) = workplace.json(&["upload", "app"]);
    assert_eq!(status, 0, "{answer:#}");
    let mut kinds: Vec<_> = answer["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["kinds"].to_string())
        .collect();
    kinds.sort();
    assert_eq!(
        kinds,
        [r#"["dwp"]"#, r#"["executable","debuginfo"]"#],
        "{answer:#}"
    );

    fs::remove_file(folder.join("app")).unwrap();
    let finished = workplace.unhex(&["upload", "app.dwp"]);
    assert_eq!(code(&finished), 1, "{}", finished.all());
    assert!(
        finished
            .text()
            .contains("packed split DWARF without its program beside it"),
        "{}",
        finished.all()
    );
}
