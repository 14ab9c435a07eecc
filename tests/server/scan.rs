//! Folders that are scanned: their files are served from where they lie, as what they are now.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use unhex::artifacts::{ArtifactKind, InPlace as _, LocateError};
use unhex::config::Config;
use unhex::scan::{Scan, ScanParts};
use unhex_api::quality::Origin;
use unhex_api::symbolize::ModuleStatus;
use unhex_testkit::fixture::Program;

use crate::calls;
use crate::server::{DEADLINE, RawAnswer, TestServer};
use crate::stored::{PROGRAM, path, shown, store};
use crate::symbolize::symbolize;

/// A folder without links in its path, as the server names it.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub fn path(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap()
    }

    /// Copies a file into it, under a name.
    pub fn put(&self, name: &str, from: impl AsRef<Path>) -> PathBuf {
        let to = self.path().join(name);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        // A copy would have other times than one that is written.
        fs::write(&to, fs::read(from).unwrap()).unwrap();
        to
    }

    /// With the program in two files.
    pub fn with_program() -> Self {
        let folder = Self::new();
        folder.put("bin/prog", PROGRAM.stripped());
        folder.put("debug/prog.debug", PROGRAM.debug_only());
        folder
    }
}

/// Changes a configuration so that these paths are scanned, once.
pub fn scan<'a>(paths: impl IntoIterator<Item = &'a Path>) -> impl FnOnce(&mut Config) {
    let paths = paths.into_iter().map(Path::to_owned).collect();
    move |config| {
        config.scan.paths = paths;
        config.scan.every = Duration::ZERO;
        config.scan.groom_every = Duration::ZERO;
        config.scan.threads = 2;
    }
}

/// A server that has scanned a folder.
pub async fn over(folder: &Folder) -> TestServer {
    over_with(folder, |_config| ()).await
}

/// The same, with a changed configuration.
pub async fn over_with(folder: &Folder, change: impl FnOnce(&mut Config)) -> TestServer {
    let server = TestServer::start_with(|config| {
        scan([&*folder.path()])(config);
        change(config);
    })
    .await;
    wait_for(&server, "thread_work_total{role=\"traverse\"} 1").await;
    server
}

/// Waits until the metrics have a line.
pub async fn wait_for(server: &TestServer, line: &str) {
    let waiting = async {
        while !metrics(server).await.lines().any(|found| found == line) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(DEADLINE, waiting).await;
    assert!(waited.is_ok(), "{line}\n{}", metrics(server).await);
}

/// Scans anew and waits for the end of it.
pub async fn rescan(server: &TestServer, rounds: u32) {
    server.app.scan.as_ref().unwrap().rescan();
    wait_for(
        server,
        &format!("thread_work_total{{role=\"traverse\"}} {rounds}"),
    )
    .await;
}

pub async fn metrics(server: &TestServer) -> String {
    server.get_raw("/metrics").await.text().to_owned()
}

pub async fn get(server: &TestServer, what: &str) -> RawAnswer {
    server.get_raw(&path(what)).await
}

/// What `/symbolize` says of the program.
async fn module(server: &TestServer) -> unhex_api::symbolize::ModuleAnswer {
    let body = json!({
        "modules": [{"build_id": PROGRAM.build_id(), "addresses": ["0x1"]}],
        "wait_seconds": 20,
    });
    symbolize(server, &body).await.modules.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_served_from_where_they_lie_and_nothing_is_stored() {
    let folder = Folder::with_program();
    let server = over(&folder).await;
    for (what, file) in [
        ("debuginfo", PROGRAM.debug_only()),
        ("executable", PROGRAM.stripped()),
    ] {
        let answer = get(&server, what).await;
        assert_eq!(answer.status, 200, "{what}");
        assert!(answer.body == calls::bytes(file), "{what}");
    }
    let answer = get(&server, "debuginfo").await;
    let file = folder.path().join("debug/prog.debug");
    assert_eq!(answer.header("x-debuginfod-file"), file.to_str());
    let modified = fs::metadata(&file).unwrap().modified().unwrap();
    let modified = httpdate::fmt_http_date(modified);
    assert_eq!(answer.header("last-modified"), Some(modified.as_str()));
    assert_eq!(answer.header("x-debuginfod-archive"), None);
    for section in [".debug_info", ".text"] {
        let answer = get(&server, &format!("section/{section}")).await;
        assert!(answer.status == 200 && !answer.body.is_empty(), "{section}");
    }
    assert_eq!(get(&server, "section/.nonsense").await.status, 404);
    assert!(!server.data().join("builds").join("01").exists());
    assert!(metrics(&server).await.contains("unhex_scan_build_ids 1\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_section_has_the_bytes_and_the_name_of_its_file() {
    let folder = Folder::with_program();
    let server = over(&folder).await;
    let uploaded = TestServer::start().await;
    let id = PROGRAM.build_id();
    store(
        &uploaded,
        &id,
        ArtifactKind::Debuginfo,
        calls::bytes(PROGRAM.debug_only()),
    )
    .await;
    store(
        &uploaded,
        &id,
        ArtifactKind::Executable,
        calls::bytes(PROGRAM.stripped()),
    )
    .await;
    for section in [".debug_info", ".text", ".debug_line"] {
        let what = format!("section/{section}");
        let (here, there) = (get(&server, &what).await, get(&uploaded, &what).await);
        assert!(here.body == there.body && here.status == 200, "{section}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_changed_is_never_served_as_what_it_was() {
    let folder = Folder::with_program();
    let server = over(&folder).await;
    let other = Program::c("int other(void) { return 7; } int main(void) { return other(); }")
        .flags(&["-g"])
        .build();
    folder.put("debug/prog.debug", other.debug_only());
    assert_eq!(get(&server, "debuginfo").await.status, 404);
    let new = format!("/buildid/{}/debuginfo", other.build_id());
    let found = server.get_raw(&new).await;
    assert!(found.status == 200 && found.body == calls::bytes(other.debug_only()));
    // The same length and time, and other bytes.
    let file = folder.path().join("bin/prog");
    let modified = fs::metadata(&file).unwrap().modified().unwrap();
    let mut bytes = fs::read(&file).unwrap();
    let id = [0x01_u8, 0x23, 0x45, 0x67, 0x89];
    let at = bytes.windows(5).position(|window| window == id).unwrap();
    bytes[at] = 0xff;
    fs::write(&file, bytes).unwrap();
    fs::File::options()
        .write(true)
        .open(&file)
        .unwrap()
        .set_modified(modified)
        .unwrap();
    assert_eq!(get(&server, "executable").await.status, 404);
    fs::remove_file(&file).unwrap();
    assert_eq!(get(&server, "executable").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_and_goes_is_found_and_forgotten_by_the_next_scan() {
    let folder = Folder::new();
    let server = over(&folder).await;
    assert_eq!(get(&server, "executable").await.status, 404);
    let file = folder.put("late", PROGRAM.stripped());
    rescan(&server, 2).await;
    assert_eq!(get(&server, "executable").await.status, 200);
    fs::remove_file(file).unwrap();
    server.app.scan.as_ref().unwrap().groom();
    wait_for(&server, "groomed_total{decision=\"stale\"} 1").await;
    assert_eq!(get(&server, "executable").await.status, 404);
    wait_for(&server, "unhex_scan_build_ids 0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn links_are_followed_only_when_asked_for_and_pipes_never() {
    let outside = Folder::with_program();
    let folder = Folder::new();
    symlink(outside.path(), folder.path().join("out")).unwrap();
    symlink(outside.path().join("bin/prog"), folder.path().join("link")).unwrap();
    symlink(folder.path(), folder.path().join("loop")).unwrap();
    symlink("nowhere", folder.path().join("dangling")).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(folder.path().join("pipe"))
        .status();
    assert!(made.unwrap().success());
    let server = over(&folder).await;
    assert_eq!(get(&server, "executable").await.status, 404);
    let following = over_with(&folder, |config| config.scan.follow_links = true).await;
    for what in ["executable", "debuginfo"] {
        assert_eq!(get(&following, what).await.status, 200, "{what}");
    }
    // A file that became a link after the scan leads nowhere.
    let folder = Folder::with_program();
    let server = over(&folder).await;
    let file = folder.path().join("bin/prog");
    fs::rename(&file, folder.path().join("elsewhere")).unwrap();
    symlink(folder.path().join("elsewhere"), &file).unwrap();
    assert_eq!(get(&server, "executable").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn patterns_and_kinds_say_what_is_looked_at() {
    let folder = Folder::with_program();
    let only = |include: Option<&str>, exclude: Option<&str>| {
        let parse = |text: &str| text.parse().unwrap();
        let (include, exclude) = (include.map(parse), exclude.map(parse));
        move |config: &mut Config| {
            config.scan.include = include;
            config.scan.exclude = exclude;
        }
    };
    let server = over_with(&folder, only(Some("/bin/"), None)).await;
    assert_eq!(get(&server, "executable").await.status, 200);
    assert_eq!(get(&server, "debuginfo").await.status, 404);
    let server = over_with(&folder, only(Some("prog"), Some(r"/bin/prog$"))).await;
    assert_eq!(get(&server, "executable").await.status, 404);
    assert_eq!(get(&server, "debuginfo").await.status, 200);
    let server = over_with(&folder, |config| config.scan.kinds.clear()).await;
    assert_eq!(get(&server, "debuginfo").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn quality_decides_then_an_upload_stands_before_a_scanned_file() {
    let folder = Folder::with_program();
    let server = over(&folder).await;
    let id = PROGRAM.build_id();
    let poor = PROGRAM.objcopy("poor.debug", &["--only-keep-debug", "--strip-debug"]);
    store(&server, &id, ArtifactKind::Debuginfo, calls::bytes(poor)).await;
    let answer = get(&server, "debuginfo").await;
    assert!(
        answer.body == calls::bytes(PROGRAM.debug_only()),
        "{}",
        shown(&answer)
    );
    let full = calls::bytes(PROGRAM.debug_only());
    store(&server, &id, ArtifactKind::Debuginfo, full.clone()).await;
    let answer = get(&server, "debuginfo").await;
    assert!(answer.body == full);
    let name = answer.header("x-debuginfod-file").unwrap();
    assert!(!name.starts_with('/'), "of the store: {name}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scanned_binary_is_symbolized_and_never_counts_as_unknown() {
    let folder = Folder::with_program();
    let server = over(&folder).await;
    let body = json!({"modules": [{"build_id": PROGRAM.build_id(), "weight": 1}]});
    let request = reqwest::Client::new()
        .post(server.url("/observe"))
        .json(&body);
    let (status, observed): (_, Value) = calls::answer(request).await;
    assert_eq!(status, 200, "{observed}");
    assert_eq!(observed["modules"][0]["status"], "found", "{observed}");
    let module = module(&server).await;
    assert_eq!(module.status, ModuleStatus::Found, "{module:?}");
    assert_eq!(module.origin, Some(Origin::Scanned));
    let indexes = fs::read_dir(server.data().join("scan/indexes")).unwrap();
    assert_eq!(indexes.count(), 1);
    assert_eq!(get(&server, "debuginfo").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_looks_at_nothing_again_that_did_not_change() {
    let folder = Folder::with_program();
    fs::write(folder.path().join("text"), "no ELF file").unwrap();
    let old = std::time::SystemTime::now() - Duration::from_mins(1);
    let text = fs::File::options()
        .write(true)
        .open(folder.path().join("text"));
    text.unwrap().set_modified(old).unwrap();
    let server = over(&folder).await;
    wait_for(&server, "scanned_files_total{source=\"file\"} 3").await;
    let data = server.stop().await;
    folder.put("new", PROGRAM.path());
    let paths = [&*folder.path()];
    let server = TestServer::start_in(data, scan(paths)).await;
    // Known before it is scanned again.
    assert_eq!(get(&server, "executable").await.status, 200);
    wait_for(&server, "thread_work_total{role=\"traverse\"} 1").await;
    wait_for(&server, "scanned_files_total{source=\"file\"} 1").await;
    let data = server.stop().await;
    let kept = data.path().join("scan/files.zst");
    let mut bytes = fs::read(&kept).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(&kept, bytes).unwrap();
    let server = TestServer::start_in(data, scan(paths)).await;
    wait_for(&server, "thread_work_total{role=\"traverse\"} 1").await;
    wait_for(&server, "scanned_files_total{source=\"file\"} 4").await;
    assert_eq!(get(&server, "executable").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_is_not_there_is_counted_and_others_are_scanned() {
    let folder = Folder::with_program();
    let server =
        TestServer::start_with(scan([&*folder.path(), Path::new("/nowhere/at/all")])).await;
    wait_for(&server, "unhex_scan_errors_total 1").await;
    wait_for(&server, "thread_work_total{role=\"traverse\"} 1").await;
    assert_eq!(get(&server, "debuginfo").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_own_folder_is_never_scanned() {
    let folder = Folder::new();
    let data = TempDir::new_in(folder.path()).unwrap();
    let id = PROGRAM.build_id();
    let server = TestServer::start_in(data, scan([&*folder.path()])).await;
    store(&server, &id, ArtifactKind::Debuginfo, PROGRAM.bytes()).await;
    rescan(&server, 2).await;
    assert!(metrics(&server).await.contains("unhex_scan_build_ids 0\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_finds_scanned_files_by_their_paths() {
    let folder = Folder::with_program();
    let server = over(&folder).await;
    let file = folder.path().join("debug/prog.debug");
    let query = |key: &str, value: &str| format!("/metadata?key={key}&value={value}");
    let expected = json!({
        "results": [{
            "type": "debuginfo", "buildid": PROGRAM.build_id(), "file": file.to_str().unwrap(),
        }],
        "complete": true,
    });
    let glob = format!("{}/*.debug", folder.path().join("debug").display());
    for query in [query("file", file.to_str().unwrap()), query("glob", &glob)] {
        let answer = server.get_raw(&query).await;
        let found: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(found, expected, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn before_the_first_scan_is_over_nothing_is_definitely_absent() {
    let (folder, data) = (Folder::with_program(), TempDir::new().unwrap());
    let config = Config::default();
    let mut scanned = unhex::config::ScanConfig::default();
    scanned.paths.push(folder.path());
    let metrics = unhex::metrics::Metrics::new();
    let limits = unhex::conversion::ConversionLimits::from(&config.limits);
    let program = PathBuf::from(env!("CARGO_BIN_EXE_unhex"));
    let meter = metrics.queue(unhex::metrics::QueueClass::Conversion);
    let converter = unhex::conversion::Converter::new(program, limits, meter);
    let scan = Scan::open(ScanParts {
        config: scanned,
        data: data.path(),
        staging: data.path(),
        converter: Arc::new(converter),
        limits: &config.limits,
        clock: unhex::artifacts::Clock::system(),
        metrics: &metrics,
        tasks: tokio_util::task::TaskTracker::new(),
        stopping: tokio_util::sync::CancellationToken::new(),
    })
    .unwrap();
    let id: unhex_build_id::BuildId = "abcd".parse().unwrap();
    let kind = ArtifactKind::Debuginfo;
    for _ in 0..2 {
        let unknown = scan.locate(&id, kind).await;
        assert!(
            matches!(unknown, Err(LocateError::InPlace { .. })),
            "{unknown:?}"
        );
        assert!(scan.index(&id).await.is_err() && scan.quality(&id).is_err());
    }
    scan.run();
    let known = async {
        while scan.locate(&id, kind).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(DEADLINE, known).await.unwrap();
    assert!(scan.locate(&id, kind).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_scanned_folders_there_is_nothing_of_them() {
    let server = TestServer::start().await;
    let text = metrics(&server).await;
    for name in ["unhex_scan", "thread_work", "groom", "ready 1"] {
        assert!(!text.contains(name), "{name}");
    }
    assert!(!server.data().join("scan").exists());
}
